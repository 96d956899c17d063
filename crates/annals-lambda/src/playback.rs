//! The playback: writes a time span to a stream, over as many invocations as it takes.
//!
//! Guarantees: a response with `"more":true` is the event that continues after the last event written
//! and the last empty slot. At most one request is sent to the stream after the time limit.

use std::future::Future;
use std::pin::Pin;

use annals::log::{Log, LogPosition, Playback, Time};
use annals::{Error, Result};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Function, Target};

/// The default start: this long before now.
const DEFAULT_AGE_MS: u64 = 15 * 60 * 1_000;

/// The event of a playback.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    /// Epoch milliseconds or RFC 3339; default: the slot of 15 minutes ago.
    start: Option<Json>,
    /// The same; default: now.
    end: Option<Json>,
    /// Only events after this position.
    after: Option<String>,
    /// Part of a response; ignored.
    #[serde(rename = "more")]
    _more: Option<bool>,
    #[serde(rename = "played")]
    _played: Option<u64>,
}

/// Parses a time given as a string or a number.
fn time_of(json: &Json) -> Result<Time> {
    match json {
        Json::String(text) => text.parse(),
        other => other.to_string().parse(),
    }
}

/// Slots per chunk of a playback; a cut invocation resumes at its last chunk. Each chunk is twice as
/// long as the one before: without an index every slot is read, with one empty years pass quickly.
const CHUNK_SLOTS: u64 = 100;

/// The span to play.
struct SpanToPlay {
    start: Time,
    end: Time,
    after: Option<LogPosition>,
}

impl SpanToPlay {
    fn parse(log: &Log, event: Json) -> Result<Self> {
        let malformed = || {
            Error::invalid("the playback expects an object with start, end and after, all optional")
        };
        // Serde would accept an array as the members in order.
        if !event.is_object() {
            return Err(malformed());
        }
        let request = serde_json::from_value(event);
        let request: Request = request.map_err(|cause| malformed().because(cause))?;
        let now = log.now();
        let start = match &request.start {
            Some(start) => time_of(start)?,
            None => {
                let back = Time::from_ms(now.ms().saturating_sub(DEFAULT_AGE_MS))?;
                log.slot(back).start()
            }
        };
        let end = request.end.as_ref().map_or(Ok(now), time_of)?;
        let after = request.after.map(|place| place.parse()).transpose()?;
        Ok(Self { start, end, after })
    }

    /// Where to start reading.
    fn first_time(&self) -> Time {
        let after = self.after.as_ref().map_or(self.start, |place| place.time);
        match self.start < self.end {
            true => after.clamp(self.start, self.end),
            false => self.start,
        }
    }
}

/// The progress of an invocation.
struct Progress {
    /// Everything before this time is in the stream.
    time: Time,
    after: Option<LogPosition>,
    played: u64,
    is_cut: bool,
}

pub(super) async fn handle(
    function: &Function,
    event: Json,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Json> {
    let span = SpanToPlay::parse(&function.log, event)?;
    let (start, end) = (span.start, span.end);
    let progress = play(function, span, Box::pin(stop)).await?;
    let start = match progress.is_cut {
        true => progress.time,
        false => start,
    };
    Ok(json!({
        "start": start.to_string(),
        "end": end.to_string(),
        "after": progress.after.map(|place| place.to_string()),
        "played": progress.played,
        "more": progress.is_cut,
    }))
}

/// Plays in chunks, so that a cut invocation reports its progress even through empty slots.
async fn play(
    function: &Function,
    span: SpanToPlay,
    mut stop: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Result<Progress> {
    let Some(Target { kinesis, stream }) = &function.target else {
        return Err(Error::invalid(
            "a playback needs a target stream; set ANNALS_PLAYBACK_STREAM",
        ));
    };
    let log = &function.log;
    let mut chunk_ms = log.time_unit_ms().saturating_mul(CHUNK_SLOTS);
    let mut progress = Progress {
        time: span.first_time(),
        after: span.after,
        played: 0,
        is_cut: false,
    };
    loop {
        let to = Time::from_ms(progress.time.ms().saturating_add(chunk_ms));
        let to = to.unwrap_or(span.end).min(span.end);
        let mut playback = Playback::since(progress.time).until(to);
        playback.after = progress.after.clone();
        let events = log.playback(playback);
        let played = kinesis.play_until(stream, events, stop.as_mut()).await;
        progress.played += played.events;
        progress.after = played.last.or(progress.after);
        progress.is_cut = played.is_cut;
        let (events, resent, after) = (progress.played, played.resent, &progress.after);
        tracing::info!(events, resent, ?after, "played back");
        if let Some(error) = played.failure {
            return Err(error);
        }
        if progress.is_cut || to >= span.end {
            return Ok(progress);
        }
        progress.time = to;
        chunk_ms = chunk_ms.saturating_mul(2);
    }
}
