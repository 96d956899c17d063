//! `annals state`: get, put and delete durable state, the current value of an id.

use std::process::ExitCode;

use annals::state::{NewState, Revision};
use annals::{Codec, Payload, PersistenceId, Result};
use clap::Subcommand;
use serde::Serialize;

use super::{Context, Purpose};
use crate::args::Offered;
use crate::columns::Rows;
use crate::output::{ABSENT, print_line};
use crate::{payload, wire};

/// Get, put or delete durable state.
#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Print the current value and its revision
    Get {
        /// The persistence id
        persistence_id: PersistenceId,
        /// Print a row for people with the value on lines of its own, indented, after the codec (unless
        /// it is json)
        #[arg(long, conflicts_with = "json")]
        pretty: bool,
    },
    /// Write a value as a revision, if the one before it is stored; 1 is the first
    Put {
        /// The persistence id
        persistence_id: PersistenceId,
        /// The value, as --codec says [default: standard input]
        value: Option<String>,
        /// The revision it becomes
        #[arg(long, value_name = "N")]
        revision: Revision,
        /// The tag to find it by
        #[arg(long, value_name = "T", default_value = "")]
        tag: String,
        /// The codec of the value: json, a JSON value; text, unchanged; long, int, boolean, a JSON
        /// number or boolean; bytes, cbor, protobuf, akka:N, or other:NAME for a codec of your own,
        /// base64
        #[arg(
            long,
            value_name = "C",
            default_value = "json",
            value_parser = Offered::new(payload::CODECS, wire::parse_codec),
            hide_possible_values = true
        )]
        codec: Codec,
        /// The manifest: the name of its type
        #[arg(long, value_name = "M", default_value = "")]
        manifest: String,
    },
    /// Delete the value; the deletion takes a revision too, which is printed. Exits with 1 if there is no value and no
    /// --revision
    Delete {
        /// The persistence id
        persistence_id: PersistenceId,
        /// The revision the deletion becomes [default: the next]
        #[arg(long, value_name = "N")]
        revision: Option<Revision>,
    },
}

impl State {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Get {
                persistence_id,
                pretty,
            } => get(context, &persistence_id, pretty).await,
            Self::Put {
                persistence_id,
                value,
                revision,
                tag,
                codec,
                manifest,
            } => {
                let value = payload::given_or_piped(value, "the value")?;
                let bytes = payload::from_typed(&codec, &value, "the value")?;
                let value = Payload::new(codec, bytes).manifest(manifest);
                let value = NewState::from(value).tag(tag);
                put(context, &persistence_id, revision, value).await
            }
            Self::Delete {
                persistence_id,
                revision,
            } => delete(context, &persistence_id, revision).await,
        }
    }
}

async fn get(context: &Context, id: &PersistenceId, is_pretty: bool) -> Result<ExitCode> {
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
    let (output, name) = match is_pretty {
        true => (context.output.for_people(), ""),
        false => (context.output, "VALUE"),
    };
    let mut rows = Rows::new(output, ["REVISION", "TIME", "TAG", name]);
    let json = |value: &Payload| wire::line(&wire::State::new(&state, value));
    let pretty = is_pretty.then(|| payload::to_pretty_text(&value.codec, &value.bytes));
    rows.print(&[value], json, |value| {
        let (revision, time) = (state.revision, payload::time_text(state.time_ms));
        let text = match is_pretty {
            true => String::new(),
            false => payload::to_text(&value.codec, &value.bytes),
        };
        [revision.to_string(), time, state.tag.clone(), text]
    })?;
    pretty.map_or(Ok(()), |text| print_line(&text))?;
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
    let object = wire::Revision::new(id, revision);
    context.output.line(&object, &format!("{id} {revision}"))?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

/// A value that was deleted.
#[derive(Serialize)]
struct DeletedValue<'a> {
    #[serde(flatten)]
    deleted: wire::Deleted<'a>,
    /// The revision of the deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
}

async fn delete(
    context: &Context,
    id: &PersistenceId,
    revision: Option<Revision>,
) -> Result<ExitCode> {
    let (states, store) = context.states(Purpose::Change).await?;
    if !states.delete(id, revision).await? {
        eprintln!("annals: there is no value to delete. id=`{id}`");
        context.print_cost(&store)?;
        return Ok(ExitCode::from(ABSENT));
    }
    let revision = match revision {
        Some(revision) => Some(revision),
        // Unless it has a value again.
        None => {
            let last = states.last(id).await?.filter(|last| last.value.is_none());
            last.map(|last| last.revision)
        }
    };
    let at = revision.map_or_else(String::new, |revision| format!(" at revision {revision}"));
    let object = DeletedValue {
        deleted: wire::Deleted::new(id),
        revision,
    };
    let text = format!("the value of {id} is deleted{at}");
    context.output.line(&object, &text)?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}
