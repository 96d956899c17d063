//! `annals replay`: print the events of an id, in order.

use std::process::ExitCode;

use crate::settings::StoreKind;
use annals::journal::{EventStream, Window};
use annals::{Event, PersistenceId, Result, SequenceNumber};
use futures::StreamExt;

use super::{Context, Purpose};
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
    /// Then every new event, until interrupted. For DynamoDB: an embedded store is open in one process
    /// at a time, so nobody can append to it meanwhile
    #[arg(long)]
    follow: bool,
}

impl Replay {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if self.follow && context.settings.store == StoreKind::Embedded {
            eprintln!(
                "annals: an embedded store is open in one process at a time, so nobody can append while this follows; follow in the process that appends (Journal::follow), or use --dynamodb"
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
        let printed = print_all(context.output, events).await?;
        // An empty window of an id with events is a result; an id without events is absent.
        if printed == 0 && journal.highest(id).await?.is_none() {
            eprintln!("annals: there are no events. id=`{id}`");
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn print_all(output: Output, events: EventStream) -> Result<u64> {
    let bar = progress::counter("events replayed");
    let mut printed = 0;
    let mut chunks = events.ready_chunks(LINES_AT_ONCE);
    while let Some(chunk) = chunks.next().await {
        let mut lines = Vec::with_capacity(chunk.len());
        let mut failure = None;
        for event in chunk {
            match event {
                Ok(event) => lines.push(line_of(output, &event)),
                Err(error) => failure = Some(error),
            }
        }
        printed += lines.len() as u64;
        bar.inc(lines.len() as u64);
        if !lines.is_empty() {
            bar.suspend(|| print_line(&lines.join("\n")))?;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    bar.finish_and_clear();
    Ok(printed)
}

fn line_of(output: Output, event: &Event) -> String {
    if output.is_json() {
        return wire::line(&wire::StoredEvent::new(event));
    }
    let stored = &event.data;
    let (number, time) = (event.sequence_number, payload::time_text(event.time_ms));
    let text = payload::to_text(&stored.codec, &stored.payload);
    format!("{number:>8}  {time}  {:<16}  {text}", stored.manifest)
}
