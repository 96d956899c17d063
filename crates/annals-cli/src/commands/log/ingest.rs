//! `annals log ingest`: records from JSON lines.
//!
//! Guarantees: a bad line is reported by its number and does not affect the others; a line that is
//! counted as stored reaches its slot. A line that is too long ends the input, after the lines before
//! it are ingested and counted. Memory is bounded, whatever the input.

use std::process::ExitCode;

use annals::log::{Ingested, Log, Record};
use annals::{Error, ErrorKind, Result};
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Context, Purpose};
use crate::lines::Lines;
use crate::output::{exit_code, print_error};
use crate::progress;
use crate::records::record;

/// How many records are ingested at once.
const AT_ONCE: usize = 500;

/// Store records in the buffer: JSON lines on standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line is an object: {\"event_id\":\"…\",\"time\":…,\"payload\":…}. The time is milliseconds since
1970 or RFC 3339 [default: now]; the event id is any text [default: the SHA-256 of the line].
A retried line is recognised if source, id, time and payload are the same.")]
pub(crate) struct Ingest {
    /// The source of the records. Different sources may use the same ids
    #[arg(long, value_name = "S", default_value = "lines")]
    source: String,
}

/// The outcomes of the lines.
#[derive(Default)]
struct Counts {
    stored: usize,
    present: usize,
    refused: usize,
    /// The error to exit with.
    worst: Option<Error>,
}

impl Counts {
    /// Reports a line that is not, or may not be, in the buffer.
    fn refuse(&mut self, line: u64, cause: &Error, bar: &ProgressBar) {
        let kind = cause.kind();
        let error = Error::new(kind, "line was not ingested").fact("line", line);
        let error = error.because(cause.clone());
        bar.suspend(|| print_error(&error));
        self.refused += 1;
        let weight = |kind| match kind {
            ErrorKind::Unavailable => 2,
            ErrorKind::Conflict => 0,
            _ => 1,
        };
        let is_worse = |worst: &Error| weight(worst.kind()) < weight(kind);
        if self.worst.as_ref().is_none_or(is_worse) {
            self.worst = Some(error);
        }
    }
}

impl Ingest {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (log, store) = context.log(Purpose::Write).await?;
        let bar = progress::counter("records ingested");
        let mut lines = Lines::new(tokio::io::stdin(), ProgressBar::hidden());
        let (mut counts, mut batch) = (Counts::default(), Vec::new());
        // The records before a read error are ingested first.
        let ended = loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match record(&line, &self.source, log.now()) {
                Ok(record) => batch.push((lines.number(), record)),
                Err(error) => counts.refuse(lines.number(), &error, &bar),
            }
            if batch.len() == AT_ONCE {
                ingest(&log, &mut batch, &mut counts, &bar).await;
            }
        };
        ingest(&log, &mut batch, &mut counts, &bar).await;
        bar.finish_and_clear();
        let Counts {
            stored,
            present,
            refused,
            worst,
        } = counts;
        let object = json!({"stored": stored, "present": present, "refused": refused});
        let text = format!("{stored} stored, {present} already present, {refused} refused");
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        ended?;
        Ok(worst.map_or(ExitCode::SUCCESS, |error| exit_code(error.kind())))
    }
}

/// Ingests a batch, and empties it.
async fn ingest(log: &Log, batch: &mut Vec<(u64, Record)>, counts: &mut Counts, bar: &ProgressBar) {
    let (numbers, records): (Vec<u64>, Vec<Record>) = batch.drain(..).unzip();
    bar.inc(records.len() as u64);
    let report = log.ingest(records).await;
    for (line, outcome) in numbers.into_iter().zip(&report.outcomes) {
        match outcome {
            Ingested::Stored => counts.stored += 1,
            Ingested::Present => counts.present += 1,
            other => {
                if let Some(error) = other.error() {
                    counts.refuse(line, error, bar);
                }
            }
        }
    }
}
