//! `annals state`: the current value of an id, without history.

use std::process::ExitCode;

use annals::state::{NewState, Revision};
use annals::{Codec, Payload, PersistenceId, Result};
use clap::Subcommand;

use super::{Context, Purpose};
use crate::output::ABSENT;
use crate::{payload, shown};

/// What to do with durable state.
#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Print the current value and its revision
    Get {
        /// Whose value
        persistence_id: PersistenceId,
    },
    /// Write a value as a revision, if the one before it is there: 1 where nothing is
    Put {
        /// Whose value
        persistence_id: PersistenceId,
        /// The value, a JSON value [default: what is on standard input]
        value: Option<String>,
        /// The revision it becomes
        #[arg(long, value_name = "N")]
        revision: Revision,
        /// What to find it by
        #[arg(long, value_name = "T", default_value = "")]
        tag: String,
    },
    /// Delete the value; the deletion takes a revision too
    Delete {
        /// Whose value
        persistence_id: PersistenceId,
        /// The revision the deletion becomes [default: the next]
        #[arg(long, value_name = "N")]
        revision: Option<Revision>,
    },
}

impl State {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Get { persistence_id } => get(context, &persistence_id).await,
            Self::Put {
                persistence_id,
                value,
                revision,
                tag,
            } => {
                let value = payload::given_or_piped(value, "the value")?;
                let value = NewState::from(Payload::new(Codec::Json, value)).tag(tag);
                put(context, &persistence_id, revision, value).await
            }
            Self::Delete {
                persistence_id,
                revision,
            } => delete(context, &persistence_id, revision).await,
        }
    }
}

async fn get(context: &Context, id: &PersistenceId) -> Result<ExitCode> {
    let (states, store) = context.states(Purpose::Read).await?;
    let last = states.last(id).await?;
    let deleted = last.as_ref().map(|last| last.revision);
    let Some((state, value)) = last.and_then(|state| Some((state.clone(), state.value?))) else {
        match deleted {
            Some(n) => eprintln!(
                "annals: there is no value: deleted at revision {n}; the next is {}. id=`{id}`",
                n.saturating_add(1)
            ),
            None => eprintln!("annals: there is no value. id=`{id}`"),
        }
        context.print_cost(&store)?;
        return Ok(ExitCode::from(ABSENT));
    };
    let object = shown::state(&state, &value);
    let (revision, time) = (state.revision, payload::time_text(state.time_ms));
    let text = payload::to_text(&value.codec, &value.bytes);
    context.output.line(
        &object,
        &format!("{revision:>8}  {time}  {:<16}  {text}", state.tag),
    )?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

async fn put(
    context: &Context,
    id: &PersistenceId,
    revision: Revision,
    value: NewState,
) -> Result<ExitCode> {
    let (states, store) = context.states(Purpose::Write).await?;
    states.upsert(id, revision, value).await?;
    let object = shown::revision(id, revision);
    context.output.line(&object, &format!("{id} {revision}"))?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

async fn delete(
    context: &Context,
    id: &PersistenceId,
    revision: Option<Revision>,
) -> Result<ExitCode> {
    let (states, store) = context.states(Purpose::Read).await?;
    states.delete(id, revision).await?;
    let object = shown::deleted(id);
    context
        .output
        .line(&object, &format!("the value of {id} is deleted"))?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}
