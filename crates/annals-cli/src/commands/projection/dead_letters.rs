//! `annals projection dead-letters`: events that could not be handled.

use std::process::ExitCode;

use annals::projection::DeadLetter;
use annals::{PersistenceId, Result};

use super::super::{Context, Purpose};
use crate::columns::Rows;
use crate::output::{ABSENT, counted, print_advice};
use crate::wire::{self, DeadLetterAction, DeadLettersRequested};
use crate::{payload, projections};

/// Which dead letters, and what to do with them.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadLetters {
    /// The name of the projection
    name: String,
    /// Ask the programs that run the projection to handle them again, in order, up to the first that
    /// fails
    #[arg(long, conflicts_with = "discard")]
    retry: bool,
    /// Ask the programs that run the projection to give them up: they are never handled. Later events
    /// of the id are handled again
    #[arg(long)]
    discard: bool,
    /// Only those of this id
    #[arg(long, value_name = "PERSISTENCE-ID")]
    id: Option<PersistenceId>,
}

impl DeadLetters {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match (self.retry, self.discard) {
            (true, _) => self.request(context, DeadLetterAction::Retry).await,
            (_, true) => self.request(context, DeadLetterAction::Discard).await,
            (false, false) => self.list(context).await,
        }
    }

    async fn list(&self, context: &Context) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Read).await?;
        let letters = projections::dead_letters(&projections, &self.name, self.id.as_ref()).await?;
        let Some(letters) = letters else {
            return context.no_projection(&self.name, &store);
        };
        let names = [
            "BUILD",
            "SHARE",
            "EVENTS",
            "NUMBERS",
            "SINCE",
            "PERSISTENCE ID",
            "REASON",
        ];
        let json = |it: &DeadLetter| wire::line(&wire::ProjectionDeadLetter::new(it));
        Rows::new(context.output, names).print(&letters, json, row)?;
        let code = match &self.id {
            Some(id) if letters.is_empty() => no_letters(id),
            None if letters.is_empty() => {
                print_advice("there are no dead letters");
                ExitCode::SUCCESS
            }
            _ => ExitCode::SUCCESS,
        };
        context.print_cost(&store)?;
        Ok(code)
    }

    async fn request(&self, context: &Context, action: DeadLetterAction) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Change).await?;
        let id = self.id.as_ref();
        let requested = projections::request(&projections, &self.name, id, action).await?;
        let Some(requested) = requested else {
            return context.no_projection(&self.name, &store);
        };
        let code = match id {
            Some(id) if requested.ids.0 == 0 => no_letters(id),
            _ => {
                context.output.line(&requested, &text(&requested))?;
                ExitCode::SUCCESS
            }
        };
        context.print_cost(&store)?;
        Ok(code)
    }
}

fn no_letters(id: &PersistenceId) -> ExitCode {
    eprintln!("annals: there are no dead letters of this id. id=`{id}`");
    ExitCode::from(ABSENT)
}

fn text(requested: &DeadLettersRequested<'_>) -> String {
    let events = counted(requested.events.0, "dead letter");
    let ids = counted(requested.ids.0, "id");
    let what = match requested.requested {
        _ if requested.ids.0 == 0 => return "there are no dead letters".to_owned(),
        DeadLetterAction::Retry => "retried",
        DeadLetterAction::Discard => "discarded",
    };
    let name = requested.projection;
    format!("{events} of {ids} will be {what} by the programs that run {name}")
}

fn row(letters: &DeadLetter) -> [String; 7] {
    let numbers = match letters.from == letters.to {
        true => letters.from.to_string(),
        false => format!("{}-{}", letters.from, letters.to),
    };
    [
        letters.build.to_string(),
        letters.share.to_string(),
        letters.events.to_string(),
        numbers,
        payload::time_text(letters.since_ms),
        letters.persistence_id.clone(),
        letters.reason.clone(),
    ]
}
