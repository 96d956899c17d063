//! `annals verify`: check events, snapshots and values, and find leftovers of large writes.

use std::path::Path;
use std::process::ExitCode;

use annals::embedded::Embedded;
use annals::verify::{Finding, Remedy, Verify as How};
use annals::{Error, ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;

use super::Context;
use crate::findings::Sources;
use crate::open::{self, Access};
use crate::output::{ABSENT, Output, exit_code};
use crate::{progress, wire};

/// Check every event, snapshot and value of an id, or of all, and print a line for each finding
///
/// Exits with 0 if nothing is wrong or everything was repaired, with 1 if nothing is stored under the
/// id, with 5 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// The persistence id; its events, snapshots and value are checked [default: all, with items that
    /// belong to none and leftovers of large writes that were cut off]
    persistence_id: Option<PersistenceId>,
    /// Repair what is safe to repair, and print why the rest is left
    #[arg(long)]
    repair: bool,
    /// Check every byte of the embedded store's files instead: the log, the index, and that they fit
    /// each other. Changes nothing; not while a process has the store open
    #[arg(long, conflicts_with_all = ["persistence_id", "repair"])]
    deep: bool,
}

/// Counts of findings.
#[derive(Debug, Default)]
struct Tally {
    found: u64,
    repairable: u64,
    repaired: u64,
}

impl Tally {
    fn print(&mut self, output: Output, findings: Vec<Finding>) -> Result<()> {
        for finding in findings {
            self.found += 1;
            self.repairable += u64::from(finding.remedy == Remedy::Repairable);
            self.repaired += u64::from(finding.remedy == Remedy::Repaired);
            print(output, &finding)?;
        }
        Ok(())
    }

    /// A damaged index: opening the store for a repair has made it again.
    fn print_index(&mut self, output: Output, damage: &Error, is_repair: bool) -> Result<()> {
        self.found += 1;
        self.repairable += u64::from(!is_repair);
        self.repaired += u64::from(is_repair);
        let remedy = match is_repair {
            true => "repaired",
            false => "repairable",
        };
        print_file(output, damage, Some(remedy))
    }

    /// A summary for people.
    fn summary(&self) -> String {
        let left = self.found - self.repairable - self.repaired;
        match (self.found, self.repairable) {
            (0, _) => "nothing is wrong".to_owned(),
            (found, 0) => format!("{found} found: {} repaired, {left} left", self.repaired),
            (found, repairable) => {
                format!("{found} found: {repairable} can be repaired (--repair), {left} are left")
            }
        }
    }
}

impl Verify {
    /// Why it cannot use the store of a server.
    pub(crate) fn needs_own_store(&self) -> Option<&'static str> {
        self.deep.then_some(
            "--deep reads the files of a store that nobody has open; stop the server, or restore a backup with `annals restore DIR --data copy` and check that",
        )
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if self.deep {
            return deep(context).await;
        }
        let (how, access) = match self.repair {
            true => (How::Repair, Access::Write),
            false => (How::Check, Access::Read),
        };
        let (journal, store, damage) = context.checked_journal(access).await?;
        let id = self.persistence_id.as_ref();
        let snapshots = context.snapshots_in(&store).await?;
        let states = context.states_in(&store).await?;
        let mut tally = Tally::default();
        if let Some(damage) = damage {
            tally.print_index(context.output, &damage, self.repair)?;
        }
        let bar = progress::counter("checked");
        let sources = Sources {
            journal,
            snapshots,
            states,
        };
        let mut found = sources.clone().findings(id, how);
        while let Some(findings) = found.try_next().await? {
            bar.inc(1);
            bar.suspend(|| tally.print(context.output, findings))?;
        }
        bar.finish_and_clear();
        // Damaged data would be an error here, but then there are findings.
        if let Some(id) = id.filter(|_| tally.found == 0)
            && !sources.has(id).await?
        {
            eprintln!("annals: nothing is stored under this id. id=`{id}`");
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        }
        context.output.note(&tally.summary());
        context.print_cost(&store)?;
        Ok(match tally.found == tally.repaired {
            true => ExitCode::SUCCESS,
            false => exit_code(ErrorKind::Corrupt),
        })
    }
}

/// Checks the files of the embedded store.
async fn deep(context: &Context) -> Result<ExitCode> {
    if !context.is_alone() {
        return Err(Error::invalid(
            "--deep reads the files of the embedded store; leave it out",
        ));
    }
    let folder = context.settings.data.clone();
    open::refuse_no_store(&folder)?;
    let bar = progress::bytes("checked", size_of(&folder));
    let shown = bar.clone();
    let checking =
        tokio::task::spawn_blocking(move || Embedded::check_files(&folder, &mut |n| shown.inc(n)));
    let checked = checking.await.map_err(|stopped| {
        Error::unavailable("the check was aborted; repeat it").because(stopped)
    })?;
    bar.finish_and_clear();
    let checked = checked?;
    for finding in &checked.findings {
        print_file(context.output, finding, None)?;
    }
    let (found, frames, tables) = (checked.findings.len(), checked.frames, checked.tables);
    let read = format!("{frames} frames of the log and {tables} files of the index");
    context.output.note(&match found {
        0 => format!("nothing is wrong with {read}"),
        _ => format!("{found} found in {read}"),
    });
    Ok(match found {
        0 => ExitCode::SUCCESS,
        _ => exit_code(ErrorKind::Corrupt),
    })
}

/// Bytes of the files in a folder, as far as they can be seen: for the progress bar.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[derive(serde::Serialize)]
struct FileFinding<'a> {
    of: &'a str,
    problem: &'a str,
    detail: String,
    /// `None`: whatever is wrong, it is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
}

/// Prints a finding about a file of the embedded store.
fn print_file(output: Output, damage: &Error, remedy: Option<&str>) -> Result<()> {
    let object = FileFinding {
        of: "file",
        problem: "unreadable",
        detail: damage.to_string(),
        remedy,
    };
    let remedy = remedy.map_or_else(String::new, |remedy| format!("  [{remedy}]"));
    output.line(&object, &format!("-  file  unreadable  {damage}{remedy}"))
}

fn print(output: Output, finding: &Finding) -> Result<()> {
    let object = wire::Finding::new(finding);
    let (of, problem) = (finding.kind.name(), finding.problem.name());
    let whose = finding.persistence_id.as_ref();
    let whose = whose.map_or_else(|| "-".to_owned(), ToString::to_string);
    let numbers = finding.numbers;
    let numbers = numbers.map_or_else(String::new, |(from, to)| format!(" {from}-{to}"));
    let (remedy, why) = (object.remedy, object.why);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let detail = &finding.detail;
    let text = format!("{whose}{numbers}  {of}  {problem}  {detail}  [{remedy}{why}]");
    output.line(&object, &text)
}
