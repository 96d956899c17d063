//! Responses: JSON, JSON lines in bounded memory, and the body they share.
//!
//! Promises: an error before the first line is a response of its own; one after it breaks the
//! connection, so that nobody takes a part for the whole.

use annals::SequenceNumber;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};
use serde::Serialize;
use tracing::{Instrument, Span};

use super::problem::Answer;
use crate::wire;

/// The media type of JSON lines.
pub(super) const LINES: &str = "application/x-ndjson";
/// About how many bytes are sent at once.
const FRAME_BYTES: usize = 64 * 1024;

/// A body: bytes, or a stream of them.
pub(super) type Body =
    Either<Full<Bytes>, StreamBody<BoxStream<'static, annals::Result<Frame<Bytes>>>>>;
pub(super) type Response = hyper::Response<Body>;

/// Bytes of a media type.
pub(super) fn bytes(media: &'static str, bytes: impl Into<Bytes>) -> Response {
    of_body(media, Either::Left(Full::new(bytes.into())))
}

/// A stream of a media type.
pub(super) fn streamed(
    media: &'static str,
    bytes: impl Stream<Item = annals::Result<Bytes>> + Send + 'static,
) -> Response {
    let frames = bytes.map_ok(Frame::data).boxed();
    of_body(media, Either::Right(StreamBody::new(frames)))
}

fn of_body(media: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let media = HeaderValue::from_static(media);
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Response {
    bytes("application/json", wire::line(value))
}

/// A value as JSON, with the sequence number or revision as its entity tag.
pub(super) fn tagged(tag: impl Into<Tag>, value: &impl Serialize) -> Response {
    with_tag(tag, json(value))
}

/// The response with an entity tag.
pub(super) fn with_tag(tag: impl Into<Tag>, mut response: Response) -> Response {
    // Digits in quotes are always a header.
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", tag.into().0)) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The number in an entity tag.
pub(super) struct Tag(u64);

impl From<SequenceNumber> for Tag {
    fn from(number: SequenceNumber) -> Self {
        Self(number.get())
    }
}

impl From<u64> for Tag {
    fn from(revision: u64) -> Self {
        Self(revision)
    }
}

/// The lines as they come, or the error before the first one; `None` without a line.
pub(super) async fn some_lines(
    mut lines: impl Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
) -> Answer<Option<Response>> {
    let Some(first) = lines.try_next().await? else {
        return Ok(None);
    };
    Ok(Some(lines_at_once(stream::iter([Ok(first)]).chain(lines))))
}

/// The lines as they come, or the error before the first one.
pub(super) async fn lines(
    lines: impl Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
) -> Answer {
    Ok(some_lines(lines).await?.unwrap_or_else(no_lines))
}

/// The lines as they come, of which the first may take long.
pub(super) fn lines_at_once(
    lines: impl Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
) -> Response {
    streamed(LINES, frames(lines))
}

/// A response without a line.
pub(super) fn no_lines() -> Response {
    bytes(LINES, Bytes::new())
}

/// Lines that are available already go together.
fn frames<S>(lines: S) -> impl Stream<Item = annals::Result<Bytes>> + Send
where
    S: Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
{
    // The store is read in the request's span, also after the request is answered.
    let span = Span::current();
    let next = |lines: Option<S>| async {
        let Some(mut lines) = lines else {
            return Ok(None);
        };
        let Some(first) = lines.try_next().await.inspect_err(report_broken)? else {
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
                    report_broken(&error);
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

fn report_broken(error: &annals::Error) {
    tracing::warn!(%error, "a response breaks off");
}
