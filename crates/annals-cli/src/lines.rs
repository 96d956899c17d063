//! Lines of an input, one at a time; and lines of items, `{"Item":{…}}`, for a table.
//!
//! Promises: every item returned fits the table; the first wrong line ends the stream and is named;
//! memory is bounded, whatever the input.

use annals::items::{Checked, Item, Key, TableSpec, check_item, item_from_json};
use annals::{Error, Result};
use futures::stream::{self, Stream};
use indicatif::ProgressBar;
use serde_json::Value as Json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The most bytes of a line, so that an input without line ends cannot fill the memory.
///
/// More than any item needs that a table takes. It has 409,600 bytes as DynamoDB counts them, and
/// the JSON of one such byte is longest, at 9, for empty texts in a list: `{"S":""},` counts as
/// one. A control character is 6 (`\u0001`), other escaped text 3, bytes in base64 one and a
/// third. That is 3.7 MB, which leaves room for the braces around it.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// An item of the input, and the key it has in the table.
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) item: Item,
}

/// The lines, and the progress in reading them.
pub(crate) struct Lines {
    input: Box<dyn AsyncBufRead + Send + Unpin>,
    bar: ProgressBar,
    /// The number of the last line, from 1.
    number: u64,
}

impl Lines {
    pub(crate) fn new(input: impl AsyncBufRead + Send + Unpin + 'static, bar: ProgressBar) -> Self {
        Self {
            input: Box::new(input),
            bar,
            number: 0,
        }
    }

    /// Every item, in order; the first line that is not an item of this table ends it with an error.
    pub(crate) fn entries(self, table: &TableSpec) -> impl Stream<Item = Result<Entry>> {
        stream::try_unfold(self, move |mut lines| async move {
            while let Some(line) = lines.read().await? {
                // Blank lines as well: endless blanks would be read for ever.
                let checked = lines.check(&line);
                checked.map_err(|cause| lines.wrong(cause))?;
                if !line.trim_ascii().is_empty() {
                    let entry = parse(table, &line);
                    let entry = entry.map_err(|cause| lines.wrong(cause))?;
                    return Ok(Some((entry, lines)));
                }
            }
            lines.bar.finish_and_clear();
            Ok(None)
        })
    }

    /// The number of the last line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line with its end, as bytes.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let line = self.read().await?;
        line.as_deref().map_or(Ok(()), |line| self.check(line))?;
        Ok(line)
    }

    /// The same; of a line that is too long only the beginning.
    async fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.number += 1;
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX + 1);
        let read = bounded.read_until(b'\n', &mut line).await;
        let bytes = read.map_err(|cause| {
            let message = format!("cannot read the input. line=`{}`", self.number);
            Error::invalid(message).because(cause)
        })?;
        self.bar.inc(bytes as u64);
        Ok((bytes > 0).then_some(line))
    }

    /// Refuses a line that is too long for an item.
    fn check(&self, line: &[u8]) -> Result<()> {
        if line.len() as u64 <= LINE_BYTES_MAX {
            return Ok(());
        }
        let number = self.number;
        Err(Error::invalid(format!(
            "line is longer than any item is as JSON. bytes allowed=`{LINE_BYTES_MAX}`, line=`{number}`"
        )))
    }

    fn wrong(&self, cause: Error) -> Error {
        let message = format!(
            "line is not an item for this table, {{\"Item\":{{…}}}}; fix it and import again, the lines before it are safe. line=`{}`",
            self.number
        );
        Error::invalid(message).because(cause)
    }
}

fn parse(table: &TableSpec, line: &[u8]) -> Result<Entry> {
    let text = str::from_utf8(line).map_err(|cause| {
        Error::invalid("line is not UTF-8; the input must be JSON lines in UTF-8").because(cause)
    })?;
    let json: Json = serde_json::from_str(text)
        .map_err(|cause| Error::invalid("line is not JSON").because(cause))?;
    let item = json.get("Item");
    let item = item_from_json(item.ok_or_else(|| Error::invalid("line has no \"Item\""))?)?;
    let Checked { key, .. } = check_item(table, &item)?;
    Ok(Entry { key, item })
}
