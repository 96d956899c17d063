//! `annals append`: append events, all or none.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::journal::{Append as Appending, AppendError, IdempotencyKey, Journal};
use annals::{Codec, Error, NewEvent, Payload, PersistenceId, Result, SequenceNumber};
use annals_jvm::LayoutName;
use serde::Serialize;

use super::{Context, Purpose, append_bulk};
use crate::args::{Offered, whole_number};
use crate::output::print_advice;
use crate::{payload, wire};

/// Append events to the journal of an id, all or none; or many times, with --bulk
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line of --bulk is an object: {\"persistence_id\":\"…\",\"events\":[{\"payload\":…}]}, with
expect, idempotency_key, causation, correlation and snapshot if wanted. An event may also have
codec (as with --codec: one of your own is other:NAME), manifest, tags, metadata and schema.")]
pub(crate) struct Append {
    /// The persistence id; not with --bulk
    #[arg(required_unless_present = "bulk", conflicts_with = "bulk")]
    persistence_id: Option<PersistenceId>,
    /// The events, each as --codec says [default: lines on standard input, empty ones left out]
    #[arg(allow_negative_numbers = true)]
    events: Vec<String>,
    /// The codec of the events: json, a JSON value; text, unchanged; long, int, boolean, a JSON number
    /// or boolean; bytes, cbor, protobuf, akka:N, or other:NAME for a codec of your own, base64
    #[arg(
        long,
        value_name = "C",
        default_value = "json",
        value_parser = Offered::new(payload::CODECS, wire::parse_codec),
        hide_possible_values = true
    )]
    codec: Codec,
    /// Fail unless the last sequence number is N (0: no events yet)
    #[arg(
        long,
        value_name = "N",
        value_parser = |text: &str| whole_number(text, SequenceNumber::LAST.get())
    )]
    expect: Option<u64>,
    /// A key for this append: repeated with the same key, it is stored once
    #[arg(long, value_name = "K")]
    idempotency_key: Option<IdempotencyKey>,
    /// The manifest of the events: the name of their type
    #[arg(long, value_name = "M", default_value = "")]
    manifest: String,
    /// A tag on each event; repeatable
    #[arg(long = "tag", value_name = "T")]
    tags: Vec<String>,
    /// The version of the events' shape
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = |text: &str| whole_number(text, u32::MAX)
    )]
    schema: u32,
    /// Metadata on each event; repeatable
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// The id of what caused the events: a command or an event
    #[arg(long, value_name = "C")]
    causation: Option<String>,
    /// The id of what the events belong to: a request or an order
    #[arg(long, value_name = "C")]
    correlation: Option<String>,
    /// The state after the events, a JSON value, stored with them where that costs nothing; the JSON
    /// line of the last event says whether it was (has_snapshot)
    #[arg(long, value_name = "STATE")]
    snapshot: Option<String>,
    /// Append many times: a JSON line for each append, from these files, or `-` for standard input
    /// [default: standard input]. Prints a result for each line, in the same order; one that fails
    /// stops no other. The exit code is that of the worst: corrupt (5), unavailable (4), invalid (2),
    /// conflict (3)
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..,
        conflicts_with_all = ["codec", "expect", "idempotency_key", "manifest", "tags", "schema",
            "metadata", "causation", "correlation", "snapshot"]
    )]
    bulk: Option<Vec<PathBuf>>,
}

/// An event that was appended.
#[derive(Serialize)]
struct AppendedEvent<'a> {
    #[serde(flatten)]
    position: wire::Position<'a>,
    /// Whether the state was stored with the events: for the last event, with `--snapshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_snapshot: Option<bool>,
}

/// Whether the plugins of the layout find the class of an event by its manifest.
fn is_read_by_manifest(context: &Context, codec: &Codec) -> bool {
    let is_jvm = context.settings.layout != LayoutName::Annals;
    is_jvm && matches!(codec, Codec::Json | Codec::Cbor | Codec::Protobuf)
}

impl Append {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match (&self.bulk, &self.persistence_id) {
            (Some(files), _) => append_bulk::run(context, files).await,
            (None, Some(id)) => self.append(context, id).await,
            // The parser refuses it first.
            (None, None) => Err(Error::invalid("name a persistence id, or use --bulk")),
        }
    }

    async fn append(&self, context: &Context, id: &PersistenceId) -> Result<ExitCode> {
        let expected = wire::expected(self.expect)?;
        let texts = if self.events.is_empty() {
            read_lines()?
        } else {
            self.events.clone()
        };
        let events = texts
            .iter()
            .zip(1..)
            .map(|(text, place)| self.event(text, place));
        let events = events.collect::<Result<Vec<_>>>()?;
        let mut append = Appending::of(events);
        append.causation = self.causation.clone();
        append.correlation = self.correlation.clone();
        append.snapshot = self.snapshot()?;
        append.idempotency_key = self.idempotency_key.clone();
        let (journal, store) = context.journal(Purpose::Write).await?;
        if self.manifest.is_empty() && is_read_by_manifest(context, &self.codec) {
            print_advice(&format!(
                "without --manifest, the name of a class, the JVM cannot read these events and does not recover the entity. id=`{id}`, codec=`{}`",
                self.codec
            ));
        }
        if !id.as_str().contains('|') {
            print_advice(&format!(
                "ids of entities are TYPE|ID, such as 'Cart|1'; this one has no |, so the feed has it in no category. id=`{id}`"
            ));
        }
        let appended = match journal.append(id, expected, append).await {
            Ok(appended) => appended,
            Err(error) => return Err(with_last(&journal, id, error).await),
        };
        if self.snapshot.is_some() && !appended.has_snapshot {
            eprintln!(
                "annals: the state does not fit with the events; save it with `annals snapshot save`. id=`{id}`"
            );
        }
        for number in appended.first.get()..=appended.last.get() {
            let number = SequenceNumber::new(number).unwrap_or(appended.last);
            let object = AppendedEvent {
                position: wire::Position::new(id, number),
                has_snapshot: Some(appended.has_snapshot)
                    .filter(|_| self.snapshot.is_some() && number == appended.last),
            };
            context.output.line(&object, &format!("{id} {number}"))?;
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }

    fn snapshot(&self) -> Result<Option<Payload>> {
        let text = self.snapshot.as_deref();
        let text = text.map(|text| wire::check_json(text, "the state"));
        let text = text.transpose()?;
        Ok(text.map(|text| Payload::new(Codec::Json, text.to_owned())))
    }

    fn event(&self, text: &str, place: usize) -> Result<NewEvent> {
        let bytes = payload::from_typed(&self.codec, text, format_args!("event {place}"))?;
        let mut event = NewEvent::new(self.codec.clone(), bytes)
            .manifest(&self.manifest)
            .schema(self.schema);
        event.tags = self.tags.clone();
        event.metadata = self.metadata.iter().cloned().collect();
        Ok(event)
    }
}

/// The error; a conflict with the last sequence number, if it can be read, instead of the events that the
/// conflict found: these are the next ones, not necessarily all.
async fn with_last(journal: &Journal, id: &PersistenceId, error: AppendError) -> Error {
    let AppendError::Conflict(conflict) = &error else {
        return error.into();
    };
    let expected = conflict.expected;
    match journal.highest(id).await {
        Ok(Some(last)) => Error::conflict(
            "the expected event is not the last one, and nothing was appended; see the new events with `annals replay`, then append with --expect and the last number",
        )
        .fact("id", id)
        .fact("expected", expected)
        .fact("last", last),
        _ => error.into(),
    }
}

/// A name and a value, which may contain `=`.
fn pair(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=');
    let (name, value) =
        pair.ok_or_else(|| Error::invalid("metadata is KEY=VALUE").fact("metadata", text))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn read_lines() -> Result<Vec<String>> {
    let text = payload::piped("no events; give them after the id, or pipe lines in")?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(str::to_owned).collect())
}
