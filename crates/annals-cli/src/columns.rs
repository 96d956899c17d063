//! Results as JSON lines, or for people as rows: aligned columns under a header.
//!
//! Guarantees: a row is one line, whatever its cells contain. Control characters are escaped, so
//! stored data cannot control the terminal.

use std::fmt::Write as _;

use annals::Result;
use anstyle::{AnsiColor, Style};
use futures::stream::{Stream, TryReadyChunksError};
use futures::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use unicode_width::UnicodeWidthStr;

use crate::output::{Output, print_line};

const HEADER: Style = Style::new().bold();
/// For numbers and times.
const QUIET: Style = Style::new().dimmed();
/// For the column before the content: the name or id of a row.
const NAME: Style = AnsiColor::Cyan.on_default();
const GAP: &str = "  ";
/// The most results held in memory to align their columns.
const ROWS_AT_ONCE: usize = 1_000;

/// How results of one kind are printed.
pub(crate) struct Rows<const N: usize> {
    output: Output,
    columns: Columns<N>,
    /// Hidden unless there is one.
    bar: ProgressBar,
}

impl<const N: usize> Rows<N> {
    /// Rows under these names, or JSON lines.
    pub(crate) fn new(output: Output, names: [&'static str; N]) -> Self {
        Self {
            output,
            columns: Columns::new(names, output.is_coloured()),
            bar: ProgressBar::hidden(),
        }
    }

    /// With a progress bar that counts the results.
    pub(crate) fn with_progress(self, bar: ProgressBar) -> Self {
        Self { bar, ..self }
    }

    /// With the name of each row in the first column.
    pub(crate) fn name_first(mut self) -> Self {
        self.columns.is_name_first = true;
        self
    }

    /// Makes the columns wide enough for these cells.
    pub(crate) fn widen<'a>(&mut self, rows: impl Iterator<Item = [&'a str; N]>) {
        rows.for_each(|row| self.columns.widen(&row));
    }

    /// Prints some results. Their columns are aligned with each other and with all printed before.
    pub(crate) fn print<T>(
        &mut self,
        results: &[T],
        json: impl Fn(&T) -> String,
        row: impl Fn(&T) -> [String; N],
    ) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        let lines = match self.output.is_json() {
            true => results.iter().map(json).collect(),
            false => self
                .columns
                .lines(&results.iter().map(row).collect::<Vec<_>>()),
        };
        print_line(&lines.join("\n"))
    }

    /// Prints the results of a stream as they arrive, and clears the progress bar at the end. Returns
    /// their number.
    pub(crate) async fn print_all<T>(
        &mut self,
        results: impl Stream<Item = Result<T>> + Unpin,
        json: impl Fn(&T) -> String,
        row: impl Fn(&T) -> [String; N],
    ) -> Result<u64> {
        let mut chunks = results.try_ready_chunks(ROWS_AT_ONCE);
        let mut printed = 0;
        while let Some(chunk) = chunks.next().await {
            let (results, failure) = match chunk {
                Ok(results) => (results, None),
                Err(TryReadyChunksError(results, failure)) => (results, Some(failure)),
            };
            let bar = self.bar.clone();
            printed += results.len() as u64;
            bar.inc(results.len() as u64);
            bar.suspend(|| self.print(&results, &json, &row))?;
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        self.bar.finish_and_clear();
        Ok(printed)
    }
}

/// Aligned columns. They are as wide as the widest cell so far; the last one is not padded.
pub(crate) struct Columns<const N: usize> {
    names: [&'static str; N],
    widths: [usize; N],
    is_coloured: bool,
    is_name_first: bool,
    has_header: bool,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new(names: [&'static str; N], is_coloured: bool) -> Self {
        Self {
            names,
            widths: names.map(str::len),
            is_coloured,
            is_name_first: false,
            has_header: false,
        }
    }

    /// With the name of each row in the first column.
    pub(crate) fn name_first(mut self) -> Self {
        self.is_name_first = true;
        self
    }

    /// The lines of some rows, the first time with the header.
    pub(crate) fn lines(&mut self, rows: &[[String; N]]) -> Vec<String> {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| row.each_ref().map(|cell| escaped(cell)))
            .collect();
        rows.iter().for_each(|row| self.widen(row));
        let mut lines = Vec::with_capacity(rows.len() + 1);
        if !std::mem::replace(&mut self.has_header, true) {
            let names = self.names.map(str::to_owned);
            lines.push(self.line(&names, |_| HEADER));
        }
        let is_name_first = self.is_name_first;
        let style = |place| match N - place {
            _ if is_name_first && place == 1 => NAME,
            _ if is_name_first => Style::new(),
            0 => Style::new(),
            1 => NAME,
            _ => QUIET,
        };
        lines.extend(rows.iter().map(|row| self.line(row, style)));
        lines
    }

    fn widen(&mut self, row: &[impl AsRef<str>; N]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(cell.as_ref().width());
        }
    }

    fn line(&self, cells: &[String; N], style: impl Fn(usize) -> Style) -> String {
        let mut line = String::new();
        for (place, (cell, width)) in (1..=N).zip(cells.iter().zip(self.widths)) {
            let is_last = place == N;
            let style = if self.is_coloured {
                style(place)
            } else {
                Style::new()
            };
            // Writing to a string cannot fail.
            let _ = write!(line, "{style}{cell}{style:#}");
            if !is_last {
                // Formatting pads to a number of characters, but some take two cells of a terminal.
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                line.extend([&padding, GAP]);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The text without control characters.
pub(crate) fn escaped(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 3]) -> [String; 3] {
        cells.map(str::to_owned)
    }

    #[test]
    fn columns_are_aligned_under_one_header() {
        let mut columns = Columns::new(["NUMBER", "TYPE", "PAYLOAD"], false);
        let lines = columns.lines(&[row(["1", "ItemAdded", "{}"]), row(["2", "", "{\"a\":1}"])]);
        let want = [
            "NUMBER  TYPE       PAYLOAD",
            "1       ItemAdded  {}",
            "2                  {\"a\":1}",
        ];
        assert_eq!(lines, want);
        let lines = columns.lines(&[row(["3", "Paid", ""])]);
        assert_eq!(lines, ["3       Paid"]);
    }

    #[test]
    fn stored_data_does_not_control_the_terminal() {
        let mut columns = Columns::new(["NUMBER", "TYPE", "PAYLOAD"], false);
        let lines = columns.lines(&[row(["1", "a\u{1b}[2J", "two\nlines é"])]);
        assert_eq!(lines[1], "1       a\\u{1b}[2J  two\\nlines é");
    }

    /// A terminal shows a Chinese character or an emoji in two cells, and a combining accent in none.
    #[test]
    fn wide_characters_keep_the_columns_aligned() {
        let mut columns = Columns::new(["NUMBER", "TYPE", "PAYLOAD"], false);
        let lines = columns.lines(&[
            row(["1", "商品追加", "{}"]),
            row(["2", "🛒e\u{301}", "{}"]),
            row(["3", "Paid", "{}"]),
        ]);
        let want = [
            "NUMBER  TYPE      PAYLOAD",
            "1       商品追加  {}",
            "2       🛒e\u{301}       {}",
            "3       Paid      {}",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn colours_do_not_change_the_widths() {
        let cells = [row(["1", "Paid", "{}"])];
        let plain = Columns::new(["NUMBER", "TYPE", "PAYLOAD"], false).lines(&cells);
        let coloured = Columns::new(["NUMBER", "TYPE", "PAYLOAD"], true).lines(&cells);
        assert!(coloured[0].contains('\u{1b}'), "{coloured:?}");
        let strip = |line: &String| anstream::adapter::strip_str(line).to_string();
        let stripped: Vec<_> = coloured.iter().map(strip).collect();
        assert_eq!(stripped, plain);
    }
}
