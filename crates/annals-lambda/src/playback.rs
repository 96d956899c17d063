//! The playback as Lambda calls it: with a span of time, and again with its own answer.
//!
//! Promises: an answer with `"more":true` is the event that goes on where this call stopped, behind
//! what it has put into the stream and what it has found empty. At most one request is made to the
//! stream once the time is over.

use std::future::Future;
use std::pin::Pin;

use annals::log::{Log, LogPosition, Playback, Time};
use annals::{Error, Result};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::Function;

/// How far back a playback begins where it is not told.
const BACK_MS: u64 = 15 * 60 * 1_000;

/// What a playback is invoked with.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    /// Epoch milliseconds or RFC 3339; left out: the slot of a quarter of an hour ago.
    start: Option<Json>,
    /// The same; left out: now.
    end: Option<Json>,
    /// Only what comes behind this place.
    after: Option<String>,
    /// What an answer says too.
    #[serde(rename = "more")]
    _more: Option<bool>,
    #[serde(rename = "played")]
    _played: Option<u64>,
}

/// A time as text or as a number.
fn time_of(json: &Json) -> Result<Time> {
    match json {
        Json::String(text) => text.parse(),
        other => other.to_string().parse(),
    }
}

/// How many slots are read through before a call says that it has come so far. The next stretch of
/// a call is twice as long, and so on: a table without an index is asked slot by slot, and one with
/// it is soon through with years in which nothing happened.
const STRETCH_SLOTS: u64 = 100;

/// What is to be played in this call.
struct Wanted {
    start: Time,
    end: Time,
    after: Option<LogPosition>,
}

impl Wanted {
    fn of(log: &Log, event: Json) -> Result<Self> {
        let wrong = || {
            Error::invalid("a playback is invoked with start, end and after, each of them optional")
        };
        // A list would be taken for the members in their order.
        if !event.is_object() {
            return Err(wrong());
        }
        let request = serde_json::from_value(event);
        let request: Request = request.map_err(|cause| wrong().because(cause))?;
        let now = log.now();
        let start = match &request.start {
            Some(start) => time_of(start)?,
            None => {
                let back = Time::from_ms(now.ms().saturating_sub(BACK_MS))?;
                log.slot(back).start()
            }
        };
        let end = request.end.as_ref().map_or(Ok(now), time_of)?;
        let after = request.after.map(|place| place.parse()).transpose()?;
        Ok(Self { start, end, after })
    }

    /// Where reading begins.
    fn begin(&self) -> Time {
        let after = self.after.as_ref().map_or(self.start, |place| place.time);
        match self.start < self.end {
            true => after.clamp(self.start, self.end),
            false => self.start,
        }
    }
}

/// How far a call came.
struct Reached {
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
    let wanted = Wanted::of(&function.log, event)?;
    let (start, end) = (wanted.start, wanted.end);
    let reached = play(function, wanted, Box::pin(stop)).await?;
    let start = match reached.is_cut {
        true => reached.time,
        false => start,
    };
    Ok(json!({
        "start": start.to_string(),
        "end": end.to_string(),
        "after": reached.after.map(|place| place.to_string()),
        "played": reached.played,
        "more": reached.is_cut,
    }))
}

/// Plays stretch by stretch, so that a call that is cut tells how far it came even where nothing
/// happened.
async fn play(
    function: &Function,
    wanted: Wanted,
    mut stop: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Result<Reached> {
    let Some((kinesis, stream)) = &function.sink else {
        return Err(Error::invalid(
            "a playback has a stream to go to; set ANNALS_PLAYBACK_STREAM",
        ));
    };
    let log = &function.log;
    let mut stretch_ms = log.time_unit_ms().saturating_mul(STRETCH_SLOTS);
    let mut reached = Reached {
        time: wanted.begin(),
        after: wanted.after,
        played: 0,
        is_cut: false,
    };
    loop {
        let to = Time::from_ms(reached.time.ms().saturating_add(stretch_ms));
        let to = to.unwrap_or(wanted.end).min(wanted.end);
        let mut playback = Playback::since(reached.time).until(to);
        playback.after = reached.after.clone();
        let events = log.playback(playback);
        let played = kinesis.play_until(stream, events, stop.as_mut()).await;
        reached.played += played.events;
        reached.after = played.last.or(reached.after);
        reached.is_cut = played.is_cut;
        let (events, resent, after) = (reached.played, played.resent, &reached.after);
        tracing::info!(events, resent, ?after, "played back");
        if let Some(error) = played.failure {
            return Err(error);
        }
        if reached.is_cut || to >= wanted.end {
            return Ok(reached);
        }
        reached.time = to;
        stretch_ms = stretch_ms.saturating_mul(2);
    }
}
