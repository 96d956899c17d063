//! `annals backup`: copy the embedded store while it is in use.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::embedded;
use annals::{Error, Result};
use serde_json::json;

use super::Context;
use crate::open;
use crate::output::counted;
use crate::payload::time_text;
use crate::settings::StoreKind;

/// Back up the embedded store into a folder, also while another process has the store open
///
/// The next backup into the same folder copies only what is new. A backup that is killed leaves the one
/// before complete.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The folder of the backup, best on another disk; created if it is missing
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Read also the files again that were copied earlier, and replace damaged ones
    #[arg(long)]
    verify: bool,
}

impl Backup {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let data = context.folder("backup")?;
        open::refuse_no_store(&data)?;
        let work = move || embedded::backup(&data, &self.to, self.verify);
        let report = run_blocking(work).await?;
        let (position, copied, reused) =
            (report.position, report.files_copied, report.files_reused);
        let object = json!({
            "position": position,
            "time": report.time_ms,
            "restorable_from": report.restorable_from,
            "files_copied": copied,
            "files_reused": reused,
            "bytes_copied": report.bytes_copied,
            "bytes": report.bytes,
        });
        let earliest = match report.restorable_from {
            0 => String::new(),
            from => format!(
                ". points from position {from} on can be restored; earlier ones if only snapshots were erased since"
            ),
        };
        let text = format!(
            "backed up to position {position}{}: {} copied ({} bytes), {reused} already there{earliest}",
            written_at(report.time_ms),
            counted(copied, "file"),
            report.bytes_copied,
        );
        context.output.line(&object, &text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The time of the last change, for people.
pub(super) fn written_at(time_ms: Option<u64>) -> String {
    let text = time_ms.map(|time_ms| format!(", written at {}", time_text(time_ms)));
    text.unwrap_or_default()
}

/// Runs work that blocks on files.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::unavailable("the command was cancelled").because(e))?
}

impl Context {
    /// The folder of the embedded store, for a command that works on its files.
    pub(super) fn folder(&self, command: &str) -> Result<PathBuf> {
        match self.settings.store {
            StoreKind::Embedded => Ok(self.settings.data.clone()),
            StoreKind::DynamoDb => Err(Error::invalid(format!(
                "`annals {command}` needs the folder of an embedded store; on DynamoDB use its own backups, or `annals export`"
            ))),
        }
    }
}
