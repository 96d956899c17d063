//! `annals replay`: print the events of an id, in order.

use std::process::ExitCode;

use annals::journal::{EventStream, Journal, Window};
use annals::{Codec, Event, PersistenceId, Result, SequenceNumber};
use futures::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;

use super::{Context, Purpose};
use crate::args::whole_number;
use crate::columns::{self, Columns};
use crate::following::Following;
use crate::output::{ABSENT, Output, print_lines, print_note};
use crate::{payload, progress, wire};

/// The most lines printed at once.
const LINES_AT_ONCE: usize = 1_000;

/// Print the events of an id, one a line
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The persistence id
    persistence_id: PersistenceId,
    /// From this sequence number on
    #[arg(long, value_name = "N", default_value_t = SequenceNumber::FIRST)]
    from: SequenceNumber,
    /// Up to this sequence number
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    to: Option<SequenceNumber>,
    /// At most so many
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "follow",
        value_parser = |text: &str| whole_number(text, u64::MAX)
    )]
    max: Option<u64>,
    /// Then every new event, until interrupted; also while another process writes
    #[arg(long)]
    follow: bool,
    /// Print rows for people with each payload on lines of its own, indented, after the codec (unless
    /// it is json), the tags, the metadata, the causation id and the correlation id
    #[arg(long, conflicts_with = "json")]
    pretty: bool,
}

impl Replay {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let mut printing = Printing {
            printer: Printer::new(context.output, self.pretty),
            bar: progress::counter("events replayed"),
            printed: 0,
            next: Some(self.from),
        };
        let id = &self.persistence_id;
        if self.follow && context.is_alone() {
            return printing.follow_beside(context, id).await;
        }
        let (journal, store) = context.journal(Purpose::Read).await?;
        let window = Window::from(self.from)
            .to(self.to.unwrap_or(SequenceNumber::LAST))
            .limit(self.max.unwrap_or(u64::MAX));
        let events = match self.follow {
            true => journal.follow(id, self.from),
            false => journal.replay(id, window),
        };
        printing.print_all(events).await?;
        printing.bar.finish_and_clear();
        let mut code = ExitCode::SUCCESS;
        // An empty window of an id with events is a result; an id without events is absent.
        if printing.printed == 0 {
            let highest = journal.highest(id).await?;
            let note = match highest {
                None => {
                    code = ExitCode::from(ABSENT);
                    "there are no events; `annals ids` lists the ids that have some".to_owned()
                }
                Some(last) if self.has_none(&journal).await? => {
                    format!("all events up to {last} are deleted")
                }
                Some(last) => {
                    format!("there are no events in this range; the last event is {last}")
                }
            };
            print_note(&format!("annals: {note}. id=`{id}`"));
        }
        context.print_cost(&store)?;
        Ok(code)
    }

    /// Whether the id has no event any more, where this replay has found none.
    async fn has_none(&self, journal: &Journal) -> Result<bool> {
        if (self.from, self.to, self.max) == (SequenceNumber::FIRST, None, None) {
            return Ok(true);
        }
        let first = Window::from(SequenceNumber::FIRST).limit(1);
        let found = journal
            .replay(&self.persistence_id, first)
            .try_next()
            .await?;
        Ok(found.is_none())
    }
}

/// How events are printed.
enum Printer {
    Json,
    Rows {
        columns: Columns<4>,
        is_pretty: bool,
    },
}

impl Printer {
    fn new(output: Output, is_pretty: bool) -> Self {
        if output.is_json() && !is_pretty {
            return Self::Json;
        }
        let names = match is_pretty {
            true => ["NUMBER", "TIME", "TYPE", ""],
            false => ["NUMBER", "TIME", "TYPE", "PAYLOAD"],
        };
        Self::Rows {
            columns: Columns::new(names, output.is_coloured()),
            is_pretty,
        }
    }

    /// The lines of events, each with its end.
    fn lines(&mut self, events: &[Event]) -> Vec<u8> {
        let mut text = Vec::new();
        match self {
            Self::Json => events
                .iter()
                .for_each(|event| wire::push_line(event, &mut text)),
            Self::Rows { columns, is_pretty } => {
                for line in Self::rows(columns, *is_pretty, events) {
                    text.extend_from_slice(line.as_bytes());
                    text.push(b'\n');
                }
            }
        }
        text
    }

    fn rows(columns: &mut Columns<4>, is_pretty: bool, events: &[Event]) -> Vec<String> {
        if !is_pretty {
            let rows: Vec<_> = events
                .iter()
                .map(|it| row(it, payload::to_text(&it.data.codec, &it.data.payload)))
                .collect();
            return columns.lines(&rows);
        }
        let mut lines = Vec::new();
        for event in events {
            lines.extend(columns.lines(&[row(event, String::new())]));
            let data = &event.data;
            lines.extend(details(event));
            lines.push(payload::to_indented_text(&data.codec, &data.payload));
        }
        lines
    }
}

/// The codec of an event unless it is JSON, its tags, its metadata, and what it follows from, if there
/// are any.
fn details(event: &Event) -> Vec<String> {
    let data = &event.data;
    let text_of = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let codec = Some(&data.codec).filter(|codec| **codec != Codec::Json);
    let pairs = data.metadata.iter();
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let details = [
        ("codec", codec.map(ToString::to_string).unwrap_or_default()),
        ("tags", data.tags.join(", ")),
        ("metadata", pairs.join(", ")),
        ("causation id", text_of(event.causation.as_deref())),
        ("correlation id", text_of(event.correlation.as_deref())),
    ];
    let details = details.into_iter().filter(|(_, text)| !text.is_empty());
    // Stored data must not control the terminal.
    let lines = details.map(|(name, text)| format!("    {name}: {}", columns::escaped(&text)));
    lines.collect()
}

fn row(event: &Event, payload: String) -> [String; 4] {
    let time = payload::time_text(event.time_ms);
    let number = event.sequence_number.to_string();
    [number, time, event.data.manifest.clone(), payload]
}

/// The events as they are printed.
struct Printing {
    printer: Printer,
    bar: ProgressBar,
    /// How many were printed.
    printed: u64,
    /// The next one, unless the last possible one was printed.
    next: Option<SequenceNumber>,
}

impl Printing {
    async fn print_all(&mut self, events: EventStream) -> Result<()> {
        let mut chunks = events.ready_chunks(LINES_AT_ONCE);
        while let Some(chunk) = chunks.next().await {
            let mut events = Vec::with_capacity(chunk.len());
            let mut failure = None;
            for event in chunk {
                match event {
                    Ok(event) => events.push(event),
                    Err(error) => failure = Some(error),
                }
            }
            self.printed += events.len() as u64;
            self.bar.inc(events.len() as u64);
            if let Some(last) = events.last() {
                let lines = self.printer.lines(&events);
                self.bar.suspend(|| print_lines(&lines))?;
                self.next = last.sequence_number.next();
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Prints the events of an embedded store, and what its owner appends later.
    async fn follow_beside(mut self, context: &Context, id: &PersistenceId) -> Result<ExitCode> {
        let mut following = Following::new(context.settings.data.clone());
        while let Some(from) = self.next {
            following.wait().await?;
            let outcome = self.replay_beside(context, id, from).await;
            following.read(outcome)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn replay_beside(
        &mut self,
        context: &Context,
        id: &PersistenceId,
        from: SequenceNumber,
    ) -> Result<()> {
        let (journal, _) = context.journal(Purpose::Follow).await?;
        self.print_all(journal.replay(id, Window::from(from))).await
    }
}
