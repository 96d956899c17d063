//! `annals verify`: check events, snapshots and values, and find leftovers of large writes.

use std::path::Path;
use std::process::ExitCode;

use annals::embedded::Embedded;
use annals::verify::{Finding, Remedy, Verify as How};
use annals::{Error, ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;

use super::Context;
use crate::columns::Rows;
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

/// Findings as they are printed, and their counts.
struct Tally {
    rows: Rows<6>,
    found: u64,
    repairable: u64,
    repaired: u64,
}

impl Tally {
    fn new(output: Output) -> Self {
        Self {
            rows: rows(output),
            found: 0,
            repairable: 0,
            repaired: 0,
        }
    }

    fn print(&mut self, findings: &[Finding]) -> Result<()> {
        for finding in findings {
            self.found += 1;
            self.repairable += u64::from(finding.remedy == Remedy::Repairable);
            self.repaired += u64::from(finding.remedy == Remedy::Repaired);
        }
        let json = |finding: &Finding| wire::line(&wire::Finding::new(finding));
        self.rows.print(findings, json, row)
    }

    /// A damaged index: opening the store for a repair has made it again.
    fn print_index(&mut self, damage: &Error, is_repair: bool) -> Result<()> {
        self.found += 1;
        self.repairable += u64::from(!is_repair);
        self.repaired += u64::from(is_repair);
        let remedy = match is_repair {
            true => "repaired",
            false => "repairable",
        };
        print_file(&mut self.rows, damage, Some(remedy))
    }

    /// A summary for people.
    fn summary(&self) -> String {
        let left = self.found - self.repairable - self.repaired;
        match (self.found, self.repairable) {
            (0, _) => "nothing is wrong".to_owned(),
            (found, 0) => format!("{found} found: {} repaired, {left} left", self.repaired),
            (found, repairable) => format!(
                "{found} found: {repairable} can be repaired with `{}`, {left} are left",
                repair_command(std::env::args())
            ),
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
        let mut tally = Tally::new(context.output);
        if let Some(damage) = damage {
            tally.print_index(&damage, self.repair)?;
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
            bar.suspend(|| tally.print(&findings))?;
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
    let mut rows = rows(context.output);
    for finding in &checked.findings {
        print_file(&mut rows, finding, None)?;
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
fn print_file(rows: &mut Rows<6>, damage: &Error, remedy: Option<&str>) -> Result<()> {
    let object = FileFinding {
        of: "file",
        problem: "unreadable",
        detail: damage.to_string(),
        remedy,
    };
    rows.print(&[object], wire::line, |object| {
        let remedy = remedy.unwrap_or_default();
        let cells = ["-", "file", "unreadable", "", remedy, &object.detail];
        cells.map(str::to_owned)
    })
}

fn rows(output: Output) -> Rows<6> {
    let names = [
        "PERSISTENCE ID",
        "OF",
        "PROBLEM",
        "NUMBERS",
        "REMEDY",
        "DETAIL",
    ];
    Rows::new(output, names)
}

fn row(finding: &Finding) -> [String; 6] {
    let object = wire::Finding::new(finding);
    let whose = finding.persistence_id.as_ref();
    let whose = whose.map_or_else(|| "-".to_owned(), ToString::to_string);
    let numbers = match finding.numbers {
        Some((from, to)) if from == to => from.to_string(),
        Some((from, to)) => format!("{from}-{to}"),
        None => String::new(),
    };
    let why = object.why.map(|why| match finding.numbers {
        Some((from, _)) => with_command(why, &whose, from.get()),
        None => why.to_owned(),
    });
    let why = why.map_or_else(String::new, |why| format!("; left: {why}"));
    [
        whose,
        finding.kind.name().to_owned(),
        finding.problem.name().to_owned(),
        numbers,
        object.remedy.to_owned(),
        format!("{}{why}", finding.detail),
    ]
}

/// The reason with the whole command that deletes a snapshot.
fn with_command(why: &str, id: &str, from: u64) -> String {
    let command = format!("annals snapshot delete {} --min-seq {from}", quoted(id));
    why.replace("annals snapshot delete", &command)
}

/// An argument as a shell reads it.
fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@,+".contains(c);
    match arg.chars().all(is_plain) && !arg.is_empty() {
        true => arg.to_owned(),
        false => format!("'{}'", arg.replace('\'', r"'\''")),
    }
}

/// The command line that repairs what this one has found.
fn repair_command(args: impl Iterator<Item = String>) -> String {
    let args: Vec<String> = args.skip(1).map(|arg| quoted(&arg)).collect();
    format!("annals {} --repair", args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repair_has_the_options_of_the_check() {
        let args = ["/usr/bin/annals", "verify", "Cart|1", "--data", "my data"];
        let command = repair_command(args.into_iter().map(str::to_owned));
        assert_eq!(command, "annals verify 'Cart|1' --data 'my data' --repair");
    }
}
