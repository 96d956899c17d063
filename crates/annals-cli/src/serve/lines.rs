//! Answers of many lines, streamed as they come: JSON lines, in bounded memory.
//!
//! Promises: what fails before the first line is an answer of its own; what fails behind it breaks
//! the connection, so that nobody takes a part for the whole.

use annals::Result;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use futures::{FutureExt, TryStreamExt};

use tracing::{Instrument, Span};

use super::problem::Answer;

/// The media type of JSON lines.
pub(super) const LINES: &str = "application/x-ndjson";
/// How many bytes are sent at once, about.
const FRAME_BYTES: usize = 64 * 1024;

/// The lines as they come, or what went wrong before there was one; `None` where there is none.
pub(super) async fn answer(
    mut lines: impl Stream<Item = Result<String>> + Send + Unpin + 'static,
) -> Answer<Option<Response>> {
    let Some(first) = lines.try_next().await? else {
        return Ok(None);
    };
    let lines = stream::iter([Ok(first)]).chain(lines);
    Ok(Some(of_body(Body::from_stream(frames(lines)))))
}

/// The lines as they come, of which the first may be long in coming.
pub(super) fn at_once(
    lines: impl Stream<Item = Result<String>> + Send + Unpin + 'static,
) -> Response {
    of_body(Body::from_stream(frames(lines)))
}

/// An answer without a line.
pub(super) fn none() -> Response {
    of_body(Body::empty())
}

fn of_body(body: Body) -> Response {
    ([(CONTENT_TYPE, LINES)], body).into_response()
}

/// The lines that are there already go together.
fn frames<S>(lines: S) -> impl Stream<Item = Result<Bytes>> + Send
where
    S: Stream<Item = Result<String>> + Send + Unpin + 'static,
{
    // What is read for the lines is read for the request, also when that has been answered.
    let span = Span::current();
    let next = |lines: Option<S>| async {
        let Some(mut lines) = lines else {
            return Ok(None);
        };
        let Some(first) = lines.try_next().await.inspect_err(told)? else {
            return Ok(None);
        };
        let mut frame = first.into_bytes();
        frame.push(b'\n');
        while frame.len() < FRAME_BYTES {
            match lines.try_next().now_or_never() {
                Some(Ok(Some(line))) => {
                    frame.extend_from_slice(line.as_bytes());
                    frame.push(b'\n');
                }
                Some(Ok(None)) => return Ok(Some((Bytes::from(frame), None))),
                Some(Err(error)) => {
                    told(&error);
                    return Err(error);
                }
                None => break,
            }
        }
        Ok(Some((Bytes::from(frame), Some(lines))))
    };
    stream::try_unfold(Some(lines), move |lines| {
        next(lines).instrument(span.clone())
    })
}

fn told(error: &annals::Error) {
    tracing::warn!(%error, "an answer breaks off");
}
