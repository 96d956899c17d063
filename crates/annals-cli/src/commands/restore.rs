//! `annals restore`: put a backup in place as a store.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::embedded::RestorePoint;
use annals::feed::Position;
use annals::{Annals, Error, Result};
use serde_json::json;

use super::Context;
use super::backup::written_at;
use crate::args::whole_number;
use crate::output::counted;
use crate::payload::{parse_time, time_text};

/// Restore a backup into the folder of the embedded store (--data), which must be missing or empty
///
/// Every file is checked before anything is put in place. With a position or a time, the store ends
/// after the last whole group of changes up to it; it lacks the snapshots of that point that were deleted
/// later, and entities recover from their events.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The folder of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Up to this position, as `annals backup` or `annals feed` prints it
    #[arg(long, value_name = "P", conflicts_with = "to_time", value_parser = parse_position)]
    to_position: Option<RestorePoint>,
    /// Up to what was written by this time: milliseconds since 1970, or like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "T", value_parser = parse_time)]
    to_time: Option<u64>,
}

/// A position as a backup prints it, or as the feed does.
fn parse_position(text: &str) -> Result<RestorePoint> {
    if !text.contains('.') {
        return whole_number(text, u64::MAX).map(RestorePoint::Position);
    }
    let position: Position = text.parse()?;
    let place = match position.lanes() {
        [lane] => lane.place,
        _ => {
            return Err(
                Error::invalid("the feed of an embedded store has one lane").fact("position", text)
            );
        }
    };
    Ok(RestorePoint::Fed {
        generation: position.generation(),
        place,
    })
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let data = context.folder("restore")?;
        let point = match (self.to_position, self.to_time) {
            (Some(point), _) => point,
            (None, Some(time_ms)) => RestorePoint::Time(time_ms),
            (None, None) => RestorePoint::End,
        };
        let layout = context.settings.layout();
        let restored = Annals::restore(&self.from, &data, point, &layout).await;
        let restored = restored.map_err(with_times)?;
        let position = restored.position;
        let object = json!({
            "position": position,
            "time": restored.time_ms,
            "files": restored.files,
            "bytes": restored.bytes,
            "snapshots_left_out": restored.snapshots_left_out,
        });
        let left_out = match restored.snapshots_left_out {
            0 => String::new(),
            1 => "; left out 1 snapshot that was deleted later: it is rebuilt".to_owned(),
            n => format!("; left out {n} snapshots that were deleted later: they are rebuilt"),
        };
        let text = format!(
            "restored {} up to position {position}{}; {} checked{left_out}",
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
