//! `annals delete`: delete events up to a sequence number, or every trace of an id.

use std::process::ExitCode;

use annals::{PersistenceId, Result, SequenceNumber};

use super::{Context, Purpose};
use crate::output::{self, ABSENT};
use crate::wire;

/// Delete the events of an id for good: up to a sequence number, and the numbers are never used again;
/// or, with --purge, every trace of the id
///
/// Prints the last sequence number that is deleted: the last event's, if --to is beyond it. Exits with 1
/// if the id has no events.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["to", "purge"]))]
pub(crate) struct Delete {
    /// The persistence id
    persistence_id: PersistenceId,
    /// Up to this sequence number, or to the last event if that is lower. Exits with 1 if the id has no
    /// events
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
        let mut is_found = true;
        match self.to {
            Some(to) => match journal.delete_to(id, to).await? {
                None => is_found = false,
                Some(deleted) => {
                    let end = if deleted < to { ", its last event" } else { "" };
                    let text = format!("{id} is deleted up to {deleted}{end}");
                    let object = wire::DeletedTo::new(id, deleted);
                    context.output.line(&object, &text)?;
                }
            },
            None if !self.is_confirmed(context)? => eprintln!("nothing purged"),
            None => {
                is_found = journal.purge(id).await?;
                if is_found {
                    let text = format!("{id} is purged; its numbering restarts at 1");
                    context.output.line(&wire::Purged::new(id), &text)?;
                }
            }
        }
        if !is_found {
            eprintln!("annals: there are no events to delete. id=`{id}`");
        }
        context.print_cost(&store)?;
        Ok(match is_found {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(ABSENT),
        })
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
