//! Server-sent events: how they are requested, written, and resumed.
//!
//! Promises: whatever text is in an id, it is one field of one event, and comes back unchanged: it is
//! percent-encoded where it is not plain. A silent stream sends heartbeats.
//! Why no crate: the framing is one line, and tails share each frame as bytes.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use annals::{Clock, Error, Result};
use bytes::Bytes;
use futures::future::{Either, select};
use futures::stream::{self, Stream, TryStreamExt};
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::http::{Response, streamed};
use super::http::{accepts, header};
use super::problem::{Answer, Problem};

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Characters that would end a field, be trimmed from a header, or look encoded.
const NOT_PLAIN: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// A comment, so that no proxy closes a silent connection.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// Whether the client accepts server-sent events by name.
pub(super) fn are_wanted(headers: &HeaderMap) -> bool {
    accepts(headers, EVENT_STREAM)
}

/// The id of the last event that the client received, where it resumes.
pub(super) fn last_id<T: FromStr<Err = Error>>(headers: &HeaderMap) -> Answer<Option<T>> {
    let Some(text) = header(headers, &LAST_EVENT_ID)? else {
        return Ok(None);
    };
    let text = percent_decode_str(text).decode_utf8().map_err(|_| {
        Problem::invalid("Last-Event-ID is not percent-encoded UTF-8; send the id as it came")
    })?;
    Ok(Some(text.parse()?))
}

/// One event: the id to resume after, and its line.
pub(super) fn frame(id: impl Display, line: impl Display) -> Bytes {
    let id = id.to_string();
    let id = utf8_percent_encode(&id, NOT_PLAIN);
    format!("id: {id}\ndata: {line}\n\n").into()
}

/// Frames as they come, after a first heartbeat, and with another whenever none came for so long.
pub(super) fn with_heartbeats<S>(
    frames: S,
    clock: Arc<dyn Clock>,
    every: Duration,
) -> impl Stream<Item = Result<Bytes>> + Send + use<S>
where
    S: Stream<Item = Result<Bytes>> + Send + 'static,
{
    let greeting = stream::iter([Ok(HEARTBEAT)]);
    let beating = stream::try_unfold(Box::pin(frames), move |mut frames| {
        let clock = clock.clone();
        async move {
            let bytes = match select(frames.try_next(), clock.passes(every)).await {
                Either::Left((bytes, _)) => bytes?,
                Either::Right(_) => Some(HEARTBEAT),
            };
            Ok(bytes.map(|bytes| (bytes, frames)))
        }
    });
    stream::StreamExt::chain(greeting, beating)
}

/// Frames as they come.
pub(super) fn response(frames: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Response {
    let mut response = streamed(EVENT_STREAM, frames);
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, never);
    response
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;
    use annals::ManualClock;
    use annals::log::LogPosition;
    use futures::{FutureExt, StreamExt};

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn an_id_comes_back_unchanged_whatever_is_in_it() {
        for id in [
            "plain",
            "a\ndata: forged\n\n",
            "\r",
            "a\0b",
            "ü🦀",
            "100%",
            "%41",
            "a/b/",
            " spaces ",
            "\u{2028}",
        ] {
            let place: LogPosition = format!("1000/{id}").parse().unwrap();
            let frame = frame(&place, "1");
            let text = std::str::from_utf8(&frame).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 3, "{text:?}");
            assert_eq!((lines[1], lines[2]), ("data: 1", ""));
            assert!(text.is_ascii() && !text.contains(['\r', '\0']), "{text:?}");
            let headers = with(LAST_EVENT_ID, lines[0].strip_prefix("id: ").unwrap());
            let back: Option<LogPosition> = last_id(&headers).unwrap();
            assert_eq!(back, Some(place));
        }
        let plain = frame("1000/a|b,c", "1");
        assert_eq!(plain, "id: 1000/a|b,c\ndata: 1\n\n");
    }

    #[test]
    fn an_id_that_is_not_utf8_is_refused() {
        assert!(last_id::<LogPosition>(&with(LAST_EVENT_ID, "1000/%FF")).is_err());
    }

    #[test]
    fn server_sent_events_are_accepted_by_name() {
        for (accept, are) in [
            ("text/event-stream", true),
            ("Text/Event-Stream", true),
            ("application/json, text/event-stream;q=0.5", true),
            ("text/event-stream; charset=utf-8", true),
            ("text/event-stream;q=0", false),
            ("text/event-stream ; Q=0.000", false),
            ("text/event-streams", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(are_wanted(&with(ACCEPT, accept)), are, "{accept}");
        }
        assert!(!are_wanted(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_silent_stream_sends_heartbeats() {
        let clock = Arc::new(ManualClock::at_ms(0));
        let (frames, every) = (stream::pending(), Duration::from_secs(15));
        let mut beating = Box::pin(with_heartbeats(frames, clock.clone(), every));
        assert_eq!(beating.next().await.unwrap().unwrap(), HEARTBEAT);
        for _ in 0..2 {
            assert!(beating.next().now_or_never().is_none());
            clock.advance(every);
            assert_eq!(beating.next().await.unwrap().unwrap(), HEARTBEAT);
        }
    }
}
