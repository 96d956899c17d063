//! `annals delete`: events up to a number, whose numbers stay taken; or every trace of an id.

use std::process::ExitCode;

use annals::{PersistenceId, Result, SequenceNumber};

use super::{Context, Purpose};
use crate::shown;

/// Delete the events of an id for good: those up to a number, whose numbers are never used again; or,
/// with --purge, every trace of the id.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["to", "purge"]))]
pub(crate) struct Delete {
    /// Whose events
    persistence_id: PersistenceId,
    /// Up to this number
    #[arg(long, value_name = "N")]
    to: Option<SequenceNumber>,
    /// All events, marks, and that there ever were any: numbers begin anew. Only while nobody uses
    /// the id. Its snapshots stay: delete them too, they are of events that are no more
    #[arg(long)]
    purge: bool,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let id = &self.persistence_id;
        let (object, text) = match self.to {
            Some(to) => {
                journal.delete_to(id, to).await?;
                (
                    shown::deleted_to(id, to),
                    format!("{id} is deleted up to {to}"),
                )
            }
            None => {
                journal.purge(id).await?;
                (
                    shown::purged(id),
                    format!("{id} is purged; its numbers begin anew"),
                )
            }
        };
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
