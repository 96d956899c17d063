//! `annals verify`: what is wrong with a journal, and what large writes have left behind.

use std::process::ExitCode;
use std::time::Duration;

use annals::verify::{Finding, Remedy, Verify as How};
use annals::{ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;

use super::{Context, Purpose};
use crate::output::{Output, exit_code};
use crate::{progress, shown};

/// Large writes may be under way for as long.
const ORPHAN_AGE: Duration = Duration::from_secs(60 * 60);

/// Look at every event of an id, or of all, and print what is wrong: a line for each finding.
///
/// Exits with 0 where nothing is wrong or all of it was repaired, with 5 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Whose events [default: everybody's, and what large appends, snapshots and values left behind
    /// that were cut off]
    persistence_id: Option<PersistenceId>,
    /// Repair what is safe to repair
    #[arg(long)]
    repair: bool,
}

impl Verify {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let how = match self.repair {
            true => How::Repair,
            false => How::Look,
        };
        let (journal, store) = context.journal(Purpose::Read).await?;
        let mut is_well = true;
        let mut tell = |findings: Vec<Finding>| -> Result<()> {
            for finding in findings {
                is_well &= finding.remedy == Remedy::Repaired;
                print(context.output, &finding)?;
            }
            Ok(())
        };
        match &self.persistence_id {
            Some(id) => tell(journal.verify(id, how).await?)?,
            None => {
                let bar = progress::counter("ids verified");
                let mut ids = journal.persistence_ids("");
                while let Some(id) = ids.try_next().await? {
                    let findings = journal.verify(&id, how).await?;
                    bar.inc(1);
                    bar.suspend(|| tell(findings))?;
                }
                bar.finish_and_clear();
                tell(journal.orphans(ORPHAN_AGE, how).await?)?;
                if let Some(snapshots) = context.snapshots_in(&store).await? {
                    tell(snapshots.orphans(ORPHAN_AGE, how).await?)?;
                }
                if let Some(states) = context.states_in(&store).await? {
                    tell(states.orphans(ORPHAN_AGE, how).await?)?;
                }
            }
        }
        context.print_cost(&store)?;
        Ok(match is_well {
            true => ExitCode::SUCCESS,
            false => exit_code(ErrorKind::Corrupt),
        })
    }
}

fn print(output: Output, finding: &Finding) -> Result<()> {
    let (remedy, why) = shown::remedy(finding);
    let (id, problem, (from, to)) = (
        &finding.persistence_id,
        finding.problem.name(),
        finding.numbers,
    );
    let object = shown::finding(finding);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let text = format!(
        "{id} {from}-{to}  {problem}  {}  [{remedy}{why}]",
        finding.detail
    );
    output.line(&object, &text)
}
