//! `annals append --bulk`: an append for each line of JSON.
//!
//! Guarantees: prints a result for each line, in the same order; a line that fails stops no other. An
//! input that cannot be read to its end fails after the results of the lines before. Memory is
//! bounded, whatever the input.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annals::journal::{BulkAppend, in_order};
use annals::{Error, ErrorKind, Result};
use futures::stream::{self, Stream, StreamExt};
use indicatif::ProgressBar;
use tokio::io::AsyncRead;

use super::{Context, Purpose};
use crate::bulk::{self, LineNumbers, Outcome};
use crate::lines::Lines;
use crate::output::exit_code;
use crate::progress;

/// The longest line: as much as a server takes in a body.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why a line is no append.
enum NoAppend {
    Line(Error),
    /// Nothing more can be read.
    Input(Error),
}

/// Appends the lines of these files, or of standard input.
pub(super) async fn run(context: &Context, files: &[PathBuf]) -> Result<ExitCode> {
    let mut inputs = VecDeque::new();
    for file in files {
        inputs.push_back(open(file).await?);
    }
    if files.is_empty() {
        inputs.push_back(open(Path::new("-")).await?);
    }
    let (journal, store) = context.journal(Purpose::Write).await?;
    let bar = progress::counter("lines appended");
    let numbers = LineNumbers::default();
    let appends = appends(inputs, numbers.clone());
    let mut results = in_order(appends, move |one: BulkAppend| {
        let journal = journal.clone();
        async move {
            let (id, expected) = (one.persistence_id, one.expected);
            match journal.append(&id, expected, one.append).await {
                Ok(appended) => Outcome::Appended(id, appended),
                Err(error) => Outcome::Refused(bulk::problem(error, expected)),
            }
        }
    });
    let (mut worst, mut ended) = (None, Ok(()));
    while let Some(result) = results.next().await {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(NoAppend::Line(error)) => Outcome::Refused(error.into()),
            Err(NoAppend::Input(error)) => {
                ended = Err(error);
                break;
            }
        };
        let outcome = outcome.at_line(numbers.pop());
        worst = worse(worst, outcome.error_kind());
        bar.suspend(|| context.output.line(&outcome, &outcome.text()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    context.print_cost(&store)?;
    ended?;
    Ok(worst.map_or(ExitCode::SUCCESS, exit_code))
}

type Input = Box<dyn AsyncRead + Send + Unpin>;

async fn open(file: &Path) -> Result<Input> {
    if file == Path::new("-") {
        return Ok(Box::new(tokio::io::stdin()));
    }
    let opened = tokio::fs::File::open(file).await;
    let opened = opened.map_err(|cause| {
        Error::invalid("cannot read the file of appends; nothing was written")
            .fact("file", file.display())
            .because(cause)
    })?;
    Ok(Box::new(opened))
}

/// The appends of all lines, empty ones left out.
fn appends(
    inputs: VecDeque<Input>,
    numbers: LineNumbers,
) -> impl Stream<Item = Result<BulkAppend, NoAppend>> + Send {
    let lines = |input| Lines::within(LINE_BYTES_MAX, input, ProgressBar::hidden());
    let lines = inputs.into_iter().map(lines).collect::<VecDeque<_>>();
    stream::unfold((lines, numbers), |(mut inputs, numbers)| async move {
        loop {
            let input = inputs.front_mut()?;
            let line = match input.next().await {
                Ok(None) => {
                    inputs.pop_front();
                    continue;
                }
                Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Some(line)) => {
                    numbers.push(input.number());
                    bulk::parse(&line).map_err(NoAppend::Line)
                }
                Err(error) => {
                    inputs.clear();
                    Err(NoAppend::Input(error))
                }
            };
            return Some((line, (inputs, numbers)));
        }
    })
}

/// The kind to exit with: corrupt before unavailable, invalid and conflict.
fn worse(one: Option<ErrorKind>, other: Option<ErrorKind>) -> Option<ErrorKind> {
    let weight = |kind: &ErrorKind| match kind {
        ErrorKind::Conflict => 0,
        ErrorKind::Invalid => 1,
        ErrorKind::Unavailable => 2,
        // A kind that is new to this binary is treated like the worst.
        _ => 3,
    };
    one.into_iter().chain(other).max_by_key(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_kind_decides_the_exit_code() {
        let order = [
            ErrorKind::Conflict,
            ErrorKind::Invalid,
            ErrorKind::Unavailable,
            ErrorKind::Corrupt,
        ];
        for pair in order.windows(2) {
            assert_eq!(worse(Some(pair[0]), Some(pair[1])), Some(pair[1]));
            assert_eq!(worse(Some(pair[1]), Some(pair[0])), Some(pair[1]));
        }
        assert_eq!(worse(None, None), None);
        assert_eq!(worse(Some(order[0]), None), Some(order[0]));
    }
}
