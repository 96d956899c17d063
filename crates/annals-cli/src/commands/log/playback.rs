//! `annals log playback`: a span of time, in order.
//!
//! Promises: events on standard output, in order, as JSON lines; on standard error a line for each
//! slot that has any: `<slot>: <time of its first event> [<count>]`.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals::log::{LogEvent, LogStream, Place, Playback as Plan, Slot, Speed, Time};
use annals::{Clock, Error, Random, Result, SystemClock};
use annals_aws::kinesis::{Kinesis, Played, StreamName};
use futures::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Context, Purpose};
use crate::interrupt::Interrupts;
use crate::output::{print_line, print_note};
use crate::{progress, wire};

/// How many lines are printed at once at the most.
const LINES_AT_ONCE: usize = 1_000;

/// Play a span of time back, in order: JSON lines {"time","event_id","payload"}, and on standard
/// error a line for each slot.
#[derive(Debug, clap::Args)]
pub(crate) struct Playback {
    /// The first time that is played: milliseconds since 1970 or RFC 3339
    #[arg(long, value_name = "T")]
    start: Time,
    /// The first time that is not [default: now, and as much as clocks may differ]
    #[arg(long, value_name = "T")]
    end: Option<Time>,
    /// Only what comes behind this place, where a playback before ended: what it told as `last`
    #[arg(long, value_name = "PLACE")]
    after: Option<Place>,
    /// Where to: stdout, or kinesis:STREAM
    #[arg(long, value_name = "SINK", default_value = "stdout")]
    to: Sink,
    /// How fast: max, or times as fast as it happened
    #[arg(long, value_name = "S", default_value = "max")]
    speed: Speed,
    /// Then every event that comes, as soon as nothing earlier can, until this is ended
    #[arg(long)]
    follow: bool,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sink {
    Stdout,
    Kinesis(StreamName),
}

impl std::str::FromStr for Sink {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "stdout" => Ok(Self::Stdout),
            _ => match text.strip_prefix("kinesis:") {
                Some(stream) => Ok(Self::Kinesis(stream.parse()?)),
                None => Err(Error::invalid(format!(
                    "events go to stdout or to kinesis:STREAM. sink=`{text}`"
                ))),
            },
        }
    }
}

impl Playback {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let mut plan = Plan::since(self.start).at(self.speed);
        plan.end = self.end;
        plan.after = self.after.clone();
        let (log, store) = context.log(Purpose::Read).await?;
        let events = match self.follow {
            true => log.follow(plan),
            false => log.playback(plan),
        };
        let slots = Arc::new(Mutex::new(SlotReport::new(self.span())));
        let passed = slots.clone();
        let events = events.inspect_ok(move |event| reported(&passed).pass(event));
        let interrupts = Interrupts::listen()?;
        let work = async {
            match &self.to {
                Sink::Stdout => print_all(Box::pin(events), &slots).await,
                Sink::Kinesis(stream) => put_all(context, stream, Box::pin(events), &slots).await,
            }
        };
        let played = interrupts.or(work).await;
        reported(&slots).end();
        let code = match played {
            Ok(played) => {
                if played.is_err() && self.to == Sink::Stdout {
                    reported(&slots).tell_last();
                }
                played?;
                ExitCode::SUCCESS
            }
            Err(code) => {
                reported(&slots).tell_last();
                code
            }
        };
        context.print_cost(&store)?;
        Ok(code)
    }

    /// From when to when is played; none where that has no end.
    fn span(&self) -> Option<(Time, Time)> {
        if self.follow {
            return None;
        }
        let now = || Time::from_ms(SystemClock::new().now_ms()).ok();
        Some((self.start, self.end.or_else(now)?))
    }
}

fn reported(slots: &Mutex<SlotReport>) -> MutexGuard<'_, SlotReport> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slot that is being played.
struct SlotReport {
    slot: Option<(Slot, Time, u64)>,
    /// The place up to which everything is printed, or in the stream.
    last: Option<Place>,
    /// How many events have passed.
    events: u64,
    /// The first time of all, where there is a last one: how far it is on the way there is shown.
    start: Option<Time>,
    bar: ProgressBar,
}

impl SlotReport {
    fn new(span: Option<(Time, Time)>) -> Self {
        let bar = match span {
            Some((start, end)) => progress::span(end.ms().saturating_sub(start.ms())),
            None => progress::counter("events played back"),
        };
        Self {
            slot: None,
            last: None,
            events: 0,
            start: span.map(|(start, _)| start),
            bar,
        }
    }

    fn pass(&mut self, event: &LogEvent) {
        self.events += 1;
        if self.start.is_none() {
            self.bar.inc(1);
        }
        match &mut self.slot {
            Some((slot, _, count)) if *slot == event.slot => *count += 1,
            _ => {
                self.tell();
                self.show(event.time);
                self.slot = Some((event.slot, event.time, 1));
            }
        }
    }

    /// Shows how far it is, once a slot.
    fn show(&self, time: Time) {
        if let Some(start) = self.start {
            self.bar.set_message(format!("{} events", self.events));
            self.bar.set_position(time.ms().saturating_sub(start.ms()));
        }
    }

    fn tell(&mut self) {
        if let Some((slot, first, count)) = self.slot.take() {
            let line = format!("{slot}: {first} [{count}]");
            self.bar.suspend(|| print_note(&line));
        }
    }

    /// Tells where to go on, where it ended early.
    fn tell_last(&self) {
        if let Some(last) = &self.last {
            print_note(&format!("annals: go on with --after. last=`{last}`"));
        }
    }

    fn end(&mut self) {
        self.tell();
        self.bar.finish_and_clear();
    }
}

/// Puts events into a stream, and prints how many.
async fn put_all(
    context: &Context,
    stream: &StreamName,
    events: LogStream,
    slots: &Mutex<SlotReport>,
) -> Result<()> {
    let (clock, random) = (Arc::new(SystemClock::new()), Random::from_machine());
    let kinesis = Kinesis::open(&context.settings.aws()).await?;
    let note = |played: &Played| reported(slots).last = played.last.clone();
    let played = kinesis.play(stream, events, note).await;
    let (events, requests, resent) = (played.events, played.requests, played.resent);
    let last = played.last.as_ref().map(ToString::to_string);
    let object = json!({"events": events, "requests": requests, "resent": resent, "last": last});
    let text = format!("{events} events in {requests} requests, {resent} sent again");
    context.output.line(&object, &text)?;
    played.failure.map_or(Ok(()), Err)
}

async fn print_all(events: LogStream, slots: &Mutex<SlotReport>) -> Result<()> {
    let mut chunks = events.ready_chunks(LINES_AT_ONCE);
    while let Some(chunk) = chunks.next().await {
        let (mut lines, mut failure) = (Vec::with_capacity(chunk.len()), None);
        let mut last = None;
        for event in chunk {
            match event {
                Ok(event) => {
                    lines.push(wire::line(&wire::LogEvent::new(&event)));
                    last = Some(event.place());
                }
                Err(error) => failure = Some(error),
            }
        }
        if !lines.is_empty() {
            let bar = reported(slots).bar.clone();
            bar.suspend(|| print_line(&lines.join("\n")))?;
            reported(slots).last = last;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}
