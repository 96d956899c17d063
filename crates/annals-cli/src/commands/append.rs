//! `annals append`: events, all or none.

use std::process::ExitCode;

use annals::journal::{Append as Appending, Expected};
use annals::{Codec, Error, NewEvent, Payload, PersistenceId, Result, SequenceNumber};
use serde_json::json;

use super::{Context, Purpose};
use crate::payload;

/// Append events to the journal of an id, in one go: all of them, or none.
#[derive(Debug, clap::Args)]
pub(crate) struct Append {
    /// Whose events
    persistence_id: PersistenceId,
    /// The events, each as --codec has it [default: lines on standard input, empty ones left out]
    #[arg(allow_negative_numbers = true)]
    events: Vec<String>,
    /// What the events are, and how they are typed: json, a JSON value; text, as it is; long, int,
    /// boolean, a JSON number or boolean; any other name, as bytes, cbor, protobuf or akka:N, base64
    #[arg(long, value_name = "C", default_value = "json")]
    codec: Codec,
    /// Append only behind the event of this number; 0: only where there is none yet
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// The name that says what the events are
    #[arg(long, value_name = "M", default_value = "")]
    manifest: String,
    /// A tag on each of the events; may be said again
    #[arg(long = "tag", value_name = "T")]
    tags: Vec<String>,
    /// The number of the shape that the events have
    #[arg(long, value_name = "N", default_value_t = 0)]
    schema: u32,
    /// A name and a value on each of the events; may be said again
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// What caused the events: the id of a command or an event, say
    #[arg(long, value_name = "C")]
    causation: Option<String>,
    /// What the events belong to: the id of a request or an order, say
    #[arg(long, value_name = "C")]
    correlation: Option<String>,
    /// The state the events lead to, a JSON value: kept beside them where that costs nothing
    #[arg(long, value_name = "STATE")]
    snapshot: Option<String>,
}

impl Append {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let expected = self.expected()?;
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
        let append = Appending {
            causation: self.causation.clone(),
            correlation: self.correlation.clone(),
            snapshot: self.snapshot()?,
            ..Appending::of(events)
        };
        let (journal, store) = context.journal(Purpose::Write).await?;
        let id = &self.persistence_id;
        let appended = journal.append(id, expected, append).await?;
        if self.snapshot.is_some() && !appended.has_snapshot {
            eprintln!(
                "annals: the state has no room beside the events; save it with `annals snapshot save`. id=`{id}`"
            );
        }
        for number in appended.first.get()..=appended.last.get() {
            let object = json!({"persistence_id": id.as_str(), "sequence_number": number});
            context.output.line(&object, &format!("{id} {number}"))?;
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }

    fn expected(&self) -> Result<Expected> {
        match self.expect {
            None => Ok(Expected::Any),
            Some(0) => Ok(Expected::Empty),
            Some(number) => match SequenceNumber::new(number) {
                Some(number) => Ok(Expected::Last(number)),
                None => Err(Error::invalid(format!(
                    "no event has such a number. expect=`{number}`"
                ))),
            },
        }
    }

    fn snapshot(&self) -> Result<Option<Payload>> {
        let text = self.snapshot.as_deref();
        let text = text.map(|text| payload::check_json(text, "the state"));
        let text = text.transpose()?;
        Ok(text.map(|text| Payload::new(Codec::Json, text.to_owned())))
    }

    fn event(&self, text: &str, place: usize) -> Result<NewEvent> {
        let bytes = payload::from_typed(&self.codec, text, format_args!("event {place}"))?;
        let event = NewEvent::new(self.codec.clone(), bytes).manifest(&self.manifest);
        Ok(NewEvent {
            schema: self.schema,
            tags: self.tags.clone(),
            metadata: self.metadata.iter().cloned().collect(),
            ..event
        })
    }
}

/// A name and a value, which may hold further `=`.
fn pair(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=');
    let (name, value) =
        pair.ok_or_else(|| Error::invalid(format!("metadata is KEY=VALUE. metadata=`{text}`")))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn read_lines() -> Result<Vec<String>> {
    let text = payload::piped("no events; say them behind the id, or pipe lines in")?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(str::to_owned).collect())
}
