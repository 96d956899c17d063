//! The playback as Lambda calls it: with a span of time, and again with its own answer.
//!
//! Promises: an answer with `"more":true` is the event that goes on where this call stopped.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::log::{Place, Playback, Slot, Time};
use annals::{Error, Result};
use futures::StreamExt;
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

pub(super) async fn handle(
    function: &Function,
    event: Json,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Json> {
    let Some((kinesis, stream)) = &function.sink else {
        return Err(Error::invalid(
            "a playback has a stream to go to; set ANNALS_PLAYBACK_STREAM",
        ));
    };
    let wrong =
        || Error::invalid("a playback is invoked with start, end and after, each of them optional");
    // A list would be taken for the members in their order.
    if !event.is_object() {
        return Err(wrong());
    }
    let request = serde_json::from_value(event);
    let request: Request = request.map_err(|cause| wrong().because(cause))?;
    let log = &function.log;
    let now = log.now();
    let start = match &request.start {
        Some(start) => time_of(start)?,
        None => {
            let back = Time::from_ms(now.ms().saturating_sub(BACK_MS))?;
            Slot::of(back, log.time_unit()).start()
        }
    };
    let end = request.end.as_ref().map_or(Ok(now), time_of)?;
    let mut playback = Playback::since(start).until(end);
    if let Some(place) = &request.after {
        playback = playback.after(place.parse()?);
    }
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = is_cut.clone();
    let stop = async move {
        stop.await;
        cut.store(true, Ordering::Relaxed);
    };
    let events = Box::pin(log.playback(playback).take_until(Box::pin(stop)));
    let played = kinesis.play(stream, events, |_| ()).await;
    let after: Option<Place> = played.last;
    let after = after.map(|place| place.to_string()).or(request.after);
    tracing::info!(
        played = played.events,
        resent = played.resent,
        ?after,
        "played back"
    );
    if let Some(error) = played.failure {
        return Err(error);
    }
    Ok(json!({
        "start": start.to_string(),
        "end": end.to_string(),
        "after": after,
        "played": played.events,
        "more": is_cut.load(Ordering::Relaxed),
    }))
}
