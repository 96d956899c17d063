//! `annals log playback`: plays back a span of time, in order.
//!
//! Guarantees: standard output has the events, in order, as JSON lines, or as rows at a terminal.
//! Standard error has a line per slot with events: `<slot>: <time of its first event> [<count>]`, or
//! `slot <slot>: <count> events, first <time>` at a terminal, after the slot's rows.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals::log::{LogEvent, LogPosition, Playback as Plan, Slot, Speed, Time};
use annals::{Clock, Error, Result, SystemClock};
use annals_aws::kinesis::{Kinesis, Played, StreamName};
use futures::{Stream, StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use serde_json::json;

use super::super::{Context, Purpose};
use crate::args::Offered;
use crate::columns::Columns;
use crate::interrupt::Interrupts;
use crate::open::Access;
use crate::output::{Output, counted, print_advice, print_line, print_note};
use crate::payload::parse_log_time;
use crate::{progress, wire};

/// The most lines that are printed at once.
const LINES_AT_ONCE: usize = 1_000;

/// Play back a span of time, in order: JSON lines {"time","event_id","payload"}, or rows at a terminal,
/// and on standard error a line per slot.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Standard error has a line for each slot of time with events, SLOT: FIRST [COUNT], after the last of
them. SLOT is the start of the slot, FIRST the time of the first event played from it, and COUNT how
many were played. At a terminal the line has labels. Use 2>/dev/null to hide these lines.")]
pub(crate) struct Playback {
    /// The first time to play: milliseconds since 1970, or like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "T", value_parser = parse_log_time)]
    start: Time,
    /// The first time not to play [default: now plus the allowed clock skew]
    #[arg(long, value_name = "T", value_parser = parse_log_time)]
    end: Option<Time>,
    /// Only events after this position, to resume: the `last` of an earlier playback
    #[arg(long, value_name = "POSITION")]
    after: Option<LogPosition>,
    /// The target: stdout, or kinesis:STREAM
    #[arg(
        long,
        value_name = "SINK",
        default_value = "stdout",
        value_parser = Offered::new(&["stdout", "kinesis:"], str::parse::<Sink>),
        hide_possible_values = true
    )]
    to: Sink,
    /// The speed: max, or a multiple of real time
    #[arg(
        long,
        value_name = "S",
        default_value = "max",
        value_parser = Offered::new(&["max", "1", "60"], str::parse::<Speed>),
        hide_possible_values = true
    )]
    speed: Speed,
    /// Then play new events, each as soon as no earlier one can arrive, until stopped
    #[arg(long)]
    follow: bool,
}

/// The target of a playback.
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
                None => Err(
                    Error::invalid("a playback goes to stdout or to kinesis:STREAM")
                        .fact("sink", text),
                ),
            },
        }
    }
}

impl Playback {
    pub(crate) fn uses_kinesis(&self) -> bool {
        matches!(self.to, Sink::Kinesis(_))
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let mut plan = Plan::since(self.start).at(self.speed);
        plan.end = self.end;
        plan.after = self.after.clone();
        let (log, store) = match self.follow {
            // Beside the owner it would never see a new event.
            true => context.log(Purpose::Change).await?,
            false => context.log_or_empty(Access::Read).await?,
        };
        let events = match self.follow {
            true => log.follow(plan),
            false => log.playback(plan),
        };
        let slots = Arc::new(Mutex::new(SlotReport::new(self.span(), context.output)));
        let counted = slots.clone();
        let events = events.inspect_ok(move |event| reported(&counted).count(event));
        let interrupts = Interrupts::listen()?;
        let work = async {
            match &self.to {
                Sink::Stdout => print_all(context.output, events, &slots).await,
                Sink::Kinesis(stream) => put_all(context, stream, events, &slots).await,
            }
        };
        let played = interrupts.or(work).await;
        reported(&slots).end();
        if matches!(played, Ok(Ok(()))) && reported(&slots).events == 0 {
            print_advice(
                "the log has no events of this span; `annals log pump --journal` copies those of the journal, `annals log sweep` then sorts them into slots",
            );
        }
        let code = match played {
            Ok(played) => {
                if played.is_err() && self.to == Sink::Stdout {
                    reported(&slots).print_last();
                }
                played?;
                ExitCode::SUCCESS
            }
            Err(code) => {
                reported(&slots).print_last();
                code
            }
        };
        context.print_cost(&store)?;
        Ok(code)
    }

    /// The span of the progress bar; `None` if the playback has no end.
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

/// The report per slot, and the progress.
struct SlotReport {
    slot: Option<(Slot, Time, u64)>,
    /// Everything up to this position is printed, or in the stream.
    last: Option<LogPosition>,
    /// How many events were played.
    events: u64,
    /// The start of the progress bar, if the playback has an end.
    start: Option<Time>,
    bar: ProgressBar,
    /// Whether the lines are for people.
    is_labelled: bool,
    /// The lines of slots whose events are not printed yet.
    lines: Vec<String>,
}

impl SlotReport {
    fn new(span: Option<(Time, Time)>, output: Output) -> Self {
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
            is_labelled: !output.is_json(),
            lines: Vec::new(),
        }
    }

    fn count(&mut self, event: &LogEvent) {
        self.events += 1;
        if self.start.is_none() {
            self.bar.inc(1);
        }
        match &mut self.slot {
            Some((slot, _, count)) if *slot == event.slot => *count += 1,
            _ => {
                self.end_slot();
                self.move_bar(event.time);
                self.slot = Some((event.slot, event.time, 1));
            }
        }
    }

    /// Moves the progress bar, once a slot.
    fn move_bar(&self, time: Time) {
        if let Some(start) = self.start {
            self.bar.set_message(counted(self.events, "event"));
            self.bar.set_position(time.ms().saturating_sub(start.ms()));
        }
    }

    fn end_slot(&mut self) {
        let Some((slot, first, count)) = self.slot.take() else {
            return;
        };
        self.lines.push(match self.is_labelled {
            true => format!("slot {slot}: {}, first {first}", counted(count, "event")),
            false => format!("{slot}: {first} [{count}]"),
        });
        // Rows come before the line of their slot, so it waits for them.
        if !self.is_labelled {
            self.print_slots();
        }
    }

    /// Prints the lines of the slots that have ended.
    fn print_slots(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if !lines.is_empty() {
            self.bar.suspend(|| print_note(&lines.join("\n")));
        }
    }

    /// Prints where to resume after a playback that ended early.
    fn print_last(&self) {
        if let Some(last) = &self.last {
            print_note(&format!("annals: resume with --after. last=`{last}`"));
        }
    }

    fn end(&mut self) {
        self.end_slot();
        self.print_slots();
        self.bar.finish_and_clear();
    }
}

/// A stream of events.
trait Events: Stream<Item = Result<LogEvent>> + Send + Unpin {}
impl<S: Stream<Item = Result<LogEvent>> + Send + Unpin> Events for S {}

/// Puts events into a Kinesis stream, and prints how many.
async fn put_all(
    context: &Context,
    stream: &StreamName,
    events: impl Events,
    slots: &Mutex<SlotReport>,
) -> Result<()> {
    let kinesis = Kinesis::open(&context.settings.aws()).await?;
    let note = |played: &Played| {
        let mut report = reported(slots);
        report.last = played.last.clone();
        report.print_slots();
    };
    let played = kinesis.play(stream, events, note).await;
    let (events, requests, resent) = (played.events, played.requests, played.resent);
    let last = played.last.as_ref().map(ToString::to_string);
    let object = json!({"events": events, "requests": requests, "resent": resent, "last": last});
    let text = format!(
        "{} in {}, {resent} resent",
        counted(events, "event"),
        counted(requests, "request")
    );
    context.output.line(&object, &text)?;
    played.failure.map_or(Ok(()), Err)
}

async fn print_all(output: Output, events: impl Events, slots: &Mutex<SlotReport>) -> Result<()> {
    let mut columns = Columns::new(["TIME", "EVENT ID", "PAYLOAD"], output.is_coloured());
    let mut chunks = events.ready_chunks(LINES_AT_ONCE);
    while let Some(chunk) = chunks.next().await {
        let (mut events, mut failure) = (Vec::with_capacity(chunk.len()), None);
        for event in chunk {
            match event {
                Ok(event) => events.push(event),
                Err(error) => failure = Some(error),
            }
        }
        let shown = events.iter().map(wire::LogEvent::new);
        let lines: Vec<String> = match output.is_json() {
            true => shown.map(|event| wire::line(&event)).collect(),
            false => {
                let rows = events.iter().zip(shown).map(|(event, shown)| {
                    let (id, payload) = (event.event_id.as_str(), shown.payload_text());
                    [event.time.to_string(), id.to_owned(), payload.to_owned()]
                });
                columns.lines(&rows.collect::<Vec<_>>())
            }
        };
        let last = events.last().map(LogEvent::position);
        if last.is_some() {
            let bar = reported(slots).bar.clone();
            bar.suspend(|| print_line(&lines.join("\n")))?;
            let mut report = reported(slots);
            report.last = last;
            report.print_slots();
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}
