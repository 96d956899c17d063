//! `annals replay`: print the events of an id, in order.

use std::process::ExitCode;

use annals::journal::{EventStream, Window};
use annals::{Event, PersistenceId, Result, SequenceNumber};
use futures::StreamExt;

use super::{Context, Purpose};
use crate::columns::Columns;
use crate::output::{ABSENT, Output, print_line};
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
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    max: Option<u64>,
    /// Then every new event, until interrupted. With --server or --dynamodb: an embedded store is open
    /// in one process at a time, so nobody can append to it meanwhile
    #[arg(long)]
    follow: bool,
    /// Print rows for people with each payload on lines of its own, indented
    #[arg(long, conflicts_with = "json")]
    pretty: bool,
}

impl Replay {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if self.follow && context.is_alone() {
            eprintln!(
                "annals: an embedded store is open in one process at a time, so nobody can append while this follows; use --server with a running `annals serve`"
            );
        }
        let (journal, store) = context.journal(Purpose::Read).await?;
        let id = &self.persistence_id;
        let window = Window::from(self.from)
            .to(self.to.unwrap_or(SequenceNumber::LAST))
            .limit(self.max.unwrap_or(u64::MAX));
        let events = match self.follow {
            true => journal.follow(id, self.from),
            false => journal.replay(id, window),
        };
        let printer = Printer::new(context.output, self.pretty);
        let printed = print_all(printer, events).await?;
        // An empty window of an id with events is a result; an id without events is absent.
        if printed == 0 && journal.highest(id).await?.is_none() {
            eprintln!(
                "annals: there are no events; `annals ids` lists the ids that have some. id=`{id}`"
            );
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
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

    fn lines(&mut self, events: &[Event]) -> Vec<String> {
        let (columns, is_pretty) = match self {
            Self::Json => {
                let lines = events.iter();
                return lines
                    .map(|it| wire::line(&wire::StoredEvent::new(it)))
                    .collect();
            }
            Self::Rows { columns, is_pretty } => (columns, *is_pretty),
        };
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
            lines.push(payload::to_indented_text(&data.codec, &data.payload));
        }
        lines
    }
}

fn row(event: &Event, payload: String) -> [String; 4] {
    let time = payload::time_text(event.time_ms);
    let number = event.sequence_number.to_string();
    [number, time, event.data.manifest.clone(), payload]
}

async fn print_all(mut printer: Printer, events: EventStream) -> Result<u64> {
    let bar = progress::counter("events replayed");
    let mut printed = 0;
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
        printed += events.len() as u64;
        bar.inc(events.len() as u64);
        if !events.is_empty() {
            let lines = printer.lines(&events);
            bar.suspend(|| print_line(&lines.join("\n")))?;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    bar.finish_and_clear();
    Ok(printed)
}
