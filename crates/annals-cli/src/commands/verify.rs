//! `annals verify`: check events, snapshots and values, and find leftovers of large writes.

use std::process::ExitCode;

use annals::verify::{Finding, Remedy, Verify as How};
use annals::{ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;

use super::{Context, Purpose};
use crate::findings::Sources;
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
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (how, purpose) = match self.repair {
            true => (How::Repair, Purpose::Change),
            false => (How::Check, Purpose::Read),
        };
        let (journal, store) = context.journal(purpose).await?;
        let id = self.persistence_id.as_ref();
        let snapshots = context.snapshots_in(&store).await?;
        let states = context.states_in(&store).await?;
        let mut tally = Tally::default();
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
