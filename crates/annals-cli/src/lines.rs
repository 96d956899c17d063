//! Lines of an input, one at a time; and lines of items, `{"Item":{…}}`, for a table.
//!
//! Guarantees: every item returned fits the table; the first invalid line ends the stream and is
//! named; memory is bounded, whatever the input.

use annals::items::{Checked, Item, Key, TableSpec, check_item, item_from_json};
use annals::{Error, Result};
use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::{self, Stream};
use indicatif::ProgressBar;
use serde_json::Value as Json;
use tokio::io::AsyncRead;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

/// The longest line, so that an input without line ends cannot fill the memory.
///
/// More than any item of a table needs. An item has at most 409,600 bytes as DynamoDB counts them, and
/// the JSON of one such byte is longest, at 9, for empty strings in a list: `{"S":""},` counts as one.
/// A control character is 6 (`\u0001`), other escaped text 3, bytes in base64 one and a third. That is
/// 3.7 MB, which leaves room for the braces around it.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An item of the input, and its key in the table.
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) item: Item,
}

/// The lines of an input, and the progress in reading them.
pub(crate) struct Lines {
    frames: FramedRead<Box<dyn AsyncRead + Send + Unpin>, AnyDelimiterCodec>,
    bar: ProgressBar,
    /// The number of the last line, from 1.
    number: u64,
    bytes_max: usize,
}

impl Lines {
    /// Lines of items.
    pub(crate) fn new(input: impl AsyncRead + Send + Unpin + 'static, bar: ProgressBar) -> Self {
        Self::within(LINE_BYTES_MAX, input, bar)
    }

    /// Lines of at most so many bytes.
    pub(crate) fn within(
        bytes_max: usize,
        input: impl AsyncRead + Send + Unpin + 'static,
        bar: ProgressBar,
    ) -> Self {
        // Bytes, not text: a line that is not UTF-8 is reported like any other invalid line.
        let codec = AnyDelimiterCodec::new_with_max_length(vec![b'\n'], vec![b'\n'], bytes_max);
        Self {
            frames: FramedRead::new(Box::new(input), codec),
            bar,
            number: 0,
            bytes_max,
        }
    }

    /// Every item, in order; the first line that is not an item of this table ends it with an error.
    pub(crate) fn entries(self, table: &TableSpec) -> impl Stream<Item = Result<Entry>> {
        stream::try_unfold(self, move |mut lines| async move {
            loop {
                let entry = match lines.next().await {
                    Ok(None) => break,
                    Ok(Some(line)) if line.trim_ascii().is_empty() || is_cost(&line) => continue,
                    line => line.and_then(|line| parse(table, &line.unwrap_or_default())),
                };
                let entry = entry.map_err(|cause| lines.invalid(cause))?;
                return Ok(Some((entry, lines)));
            }
            lines.bar.finish_and_clear();
            Ok(None)
        })
    }

    /// The number of the last line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, without its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        self.number += 1;
        let number = self.number;
        let line = self.frames.try_next().await.map_err(|cause| match cause {
            AnyDelimiterCodecError::MaxChunkLengthExceeded => {
                let what = match self.bytes_max {
                    LINE_BYTES_MAX => "line is longer than any item is as JSON",
                    _ => "line is too long",
                };
                Error::invalid(what)
                    .fact("bytes allowed", self.bytes_max)
                    .fact("line", number)
            }
            AnyDelimiterCodecError::Io(cause) => Error::invalid("cannot read the input")
                .fact("line", number)
                .because(cause),
        })?;
        self.bar
            .inc(line.as_ref().map_or(0, |line| line.len() as u64 + 1));
        Ok(line)
    }

    fn invalid(&self, cause: Error) -> Error {
        Error::invalid(
            "line is not an item for this table, {\"Item\":{…}}; fix it and import again, the lines before it are safe",
        )
        .fact("line", self.number)
        .because(cause)
    }
}

/// Whether this is the last line of `annals export --cost`.
fn is_cost(line: &[u8]) -> bool {
    line.starts_with(b"{\"cost\":{\"requests\":")
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
