//! `annals delete`: delete events up to a sequence number, or every trace of an id.

use std::process::ExitCode;

use annals::{PersistenceId, Result, SequenceNumber};

use super::{Context, Purpose};
use crate::{output, wire};

/// Delete the events of an id for good: up to a sequence number, and the numbers are never used again;
/// or, with --purge, every trace of the id
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["to", "purge"]))]
pub(crate) struct Delete {
    /// The persistence id
    persistence_id: PersistenceId,
    /// Up to this sequence number
    #[arg(long, value_name = "N")]
    to: Option<SequenceNumber>,
    /// All events and tombstones: numbering restarts at 1. Only while nobody uses the id. Its
    /// snapshots stay: delete them too, their events are gone
    #[arg(long)]
    purge: bool,
    /// Purge without a question, which is asked only at a terminal
    #[arg(long, requires = "purge")]
    yes: bool,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let id = &self.persistence_id;
        match self.to {
            Some(to) => {
                journal.delete_to(id, to).await?;
                let object = wire::DeletedTo::new(id, to);
                let text = format!("{id} is deleted up to {to}");
                context.output.line(&object, &text)?;
            }
            None if !self.is_confirmed(context)? => eprintln!("nothing purged"),
            None => {
                journal.purge(id).await?;
                let text = format!("{id} is purged; its numbering restarts at 1");
                context.output.line(&wire::Purged::new(id), &text)?;
            }
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Asks a person; a script means it.
    fn is_confirmed(&self, context: &Context) -> Result<bool> {
        if self.yes || !output::can_ask() {
            return Ok(true);
        }
        let (id, location) = (&self.persistence_id, context.location());
        output::ask(&format!(
            "remove every event of {id} {location} for good, and restart its numbering at 1?"
        ))
    }
}
