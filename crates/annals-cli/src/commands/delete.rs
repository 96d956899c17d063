//! `annals delete`: delete events up to a sequence number, or every trace of an id.

use std::process::ExitCode;

use annals::embedded::Embedded;
use annals::snapshot::Criteria;
use annals::{Annals, Error, ErrorKind, PersistenceId, Result, SequenceNumber};
use futures::StreamExt;

use super::Context;
use crate::open::Access;
use crate::output::{self, ABSENT, counted};
use crate::{progress, wire};

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
    /// All snapshots, events and tombstones: numbering restarts at 1. Only while nobody uses the id
    #[arg(long)]
    purge: bool,
    /// Purge without a question, which is asked only at a terminal
    #[arg(long, requires = "purge")]
    yes: bool,
    /// Return when nothing that was deleted is left in the files of the embedded store, which takes a
    /// while in a large one; otherwise this happens in the background while a process has it open. Not
    /// with --server
    #[arg(long)]
    erase: bool,
}

/// Whether a person wants the purge.
enum Answer {
    Yes,
    No,
    /// There is nothing to purge.
    NotAsked,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if self.erase && !context.is_alone() {
            return Err(Error::invalid(
                "--erase is for the embedded store on this machine; leave it out. a server erases by itself, after a minute without deletions or within an hour or two",
            ));
        }
        let store = context.existing_store(Access::Write).await?;
        let annals = Annals::open(&store, &context.settings.layout()).await?;
        // Opening is not part of the cost.
        store.take_counts();
        let is_found = match self.to {
            Some(to) => self.delete_to(context, &annals, to).await?,
            None => match self.answer(context, &annals).await? {
                Answer::Yes => self.purge(context, &annals).await?,
                Answer::No => {
                    eprintln!("nothing purged");
                    return Ok(ExitCode::SUCCESS);
                }
                Answer::NotAsked => false,
            },
        };
        if !is_found {
            let id = &self.persistence_id;
            eprintln!("annals: there are no events to delete. id=`{id}`");
        }
        context.print_cost(&store)?;
        if self.erase {
            drop((annals, store));
            erase(context).await?;
        }
        Ok(match is_found {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(ABSENT),
        })
    }

    /// Deletes events; returns whether there were any.
    async fn delete_to(
        &self,
        context: &Context,
        annals: &Annals,
        to: SequenceNumber,
    ) -> Result<bool> {
        let id = &self.persistence_id;
        let Some(deleted) = annals.journal().delete_to(id, to).await? else {
            return Ok(false);
        };
        let end = if deleted < to { ", its last event" } else { "" };
        let text = format!("{id} is deleted up to {deleted}{end}");
        let object = wire::DeletedTo::new(id, deleted);
        context.output.line(&object, &text)?;
        Ok(true)
    }

    /// Removes everything; returns whether there was anything.
    async fn purge(&self, context: &Context, annals: &Annals) -> Result<bool> {
        let id = &self.persistence_id;
        let purged = annals.purge(id).await?;
        if purged.is_empty() {
            return Ok(false);
        }
        let snapshots = match purged.snapshots {
            0 => String::new(),
            count => format!(" with {}", counted(count, "snapshot")),
        };
        let text = format!("{id} is purged{snapshots}; its numbering restarts at 1");
        let object = wire::Purged::new(id, purged.snapshots);
        context.output.line(&object, &text)?;
        Ok(true)
    }

    /// Asks a person, and reads the snapshots to count them; a script means it.
    async fn answer(&self, context: &Context, annals: &Annals) -> Result<Answer> {
        if self.yes || !output::can_ask() {
            return Ok(Answer::Yes);
        }
        let (id, location) = (&self.persistence_id, context.location());
        // After an error there may be something: the purge finds it, or reports the error.
        let mut is_empty = matches!(annals.journal().highest(id).await, Ok(None));
        let (mut found, mut count) = (annals.snapshots().find(id, Criteria::ALL), 0);
        while let Some(snapshot) = found.next().await {
            is_empty = false;
            // One that does not decode is deleted, too. Another error is the last item.
            let is_corrupt = |error: Error| error.kind() == ErrorKind::Corrupt;
            count += u64::from(snapshot.err().is_none_or(is_corrupt));
        }
        if is_empty {
            return Ok(Answer::NotAsked);
        }
        let all = match count {
            0 => "every event".to_owned(),
            count => format!("every event and {}", counted(count, "snapshot")),
        };
        let is_confirmed = output::ask(&format!(
            "remove {all} of {id} {location} for good, and restart its numbering at 1?"
        ))?;
        Ok(match is_confirmed {
            true => Answer::Yes,
            false => Answer::No,
        })
    }
}

/// Erases everything that was deleted from the files of the store.
async fn erase(context: &Context) -> Result<()> {
    let settings = &context.settings;
    let bar = progress::counter("erasing");
    let items = Embedded::open(&settings.data, &settings.embedded)?;
    let erased = items.erase_now().await;
    bar.finish_and_clear();
    erased
}
