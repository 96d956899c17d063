//! `annals restore`: put a backup in place as a store.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::embedded::{self, RestorePoint};
use annals::{Error, Result};
use serde_json::json;

use super::Context;
use super::backup::{run_blocking, written_at};
use crate::args::whole_number;
use crate::output::counted;
use crate::payload::{parse_time, time_text};

/// Restore a backup into the folder of the embedded store (--data), which must be missing or empty
///
/// Every file is checked before anything is put in place. With a position or a time, the store ends
/// after the last whole group of changes up to it.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The folder of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Up to this position, as `annals backup` prints it
    #[arg(
        long,
        value_name = "P",
        conflicts_with = "to_time",
        value_parser = |text: &str| whole_number(text, u64::MAX)
    )]
    to_position: Option<u64>,
    /// Up to what was written by this time: milliseconds since 1970, or like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "T", value_parser = parse_time)]
    to_time: Option<u64>,
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let data = context.folder("restore")?;
        let point = match (self.to_position, self.to_time) {
            (Some(position), _) => RestorePoint::Position(position),
            (None, Some(time_ms)) => RestorePoint::Time(time_ms),
            (None, None) => RestorePoint::End,
        };
        let from = self.from;
        let restored = run_blocking(move || embedded::restore(&from, &data, point)).await;
        let restored = restored.map_err(with_times)?;
        let position = restored.position;
        let object = json!({
            "position": position,
            "time": restored.time_ms,
            "files": restored.files,
            "bytes": restored.bytes,
        });
        let text = format!(
            "restored {} up to position {position}{}; {} checked",
            context.location(),
            written_at(restored.time_ms),
            counted(restored.files, "file"),
        );
        context.output.line(&object, &text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The error with the time of the backup as people write it.
fn with_times(error: Error) -> Error {
    const TAKEN: &str = "taken at";
    // Only the error about a point outside the backup has it, and that has no cause.
    let Some(taken) = error.fact_value(TAKEN).and_then(|taken| taken.parse().ok()) else {
        return error;
    };
    let shown = Error::new(error.kind(), error.message());
    error
        .facts()
        .fold(shown, |shown, (name, value)| match name {
            TAKEN => shown.fact(TAKEN, time_text(taken)),
            _ => shown.fact(name.to_owned(), value),
        })
}
