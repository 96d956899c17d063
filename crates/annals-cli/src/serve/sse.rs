//! Server-sent events: how they are asked for, written, and gone on with.

use std::fmt::Display;
use std::str::FromStr;

use annals::{Error, Result};
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;

use super::problem::Answer;
use super::request::header;

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A comment, to keep what is between us from closing a silent connection.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// Whether the caller wants server-sent events.
pub(super) fn are_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains(EVENT_STREAM))
}

/// The id of the event that the caller received last, where it goes on.
pub(super) fn last_id<T: FromStr<Err = Error>>(headers: &HeaderMap) -> Answer<Option<T>> {
    let text = header(headers, &LAST_EVENT_ID)?;
    Ok(text.map(str::parse).transpose()?)
}

/// One event: where to go on behind it, and its line.
pub(super) fn frame(id: impl Display, line: impl Display) -> Bytes {
    format!("id: {id}\ndata: {line}\n\n").into()
}

/// Frames as they come.
pub(super) fn answer(frames: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Response {
    let headers = [(CONTENT_TYPE, EVENT_STREAM), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(frames)).into_response()
}
