//! Calls and responses as handlers see them: ids, parameters, headers and bodies as types; JSON, and
//! JSON lines in bounded memory.
//!
//! Promises: a part of a request that is not understood is refused and named, never ignored. An error
//! before the first line is a response of its own; one after it breaks the connection, so that a
//! client never takes a part for the whole.

use std::borrow::Cow;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use annals::{PersistenceId, SequenceNumber, SystemClock};
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use tracing::Span;

use super::admission::Limits;
use super::app::App;
use super::problem::{Answer, Kind, Problem};
use crate::{payload, wire};

/// A request on its way to a handler.
pub(super) struct Call {
    pub(super) app: App,
    pub(super) parts: Parts,
    pub(super) body: Incoming,
}

impl Call {
    /// The persistence id in the path.
    pub(super) fn id(&self) -> Answer<PersistenceId> {
        Ok(self.segment(2)?.parse()?)
    }

    /// The persistence id and the sequence number in the path.
    pub(super) fn position(&self) -> Answer<(PersistenceId, SequenceNumber)> {
        let number = number(&self.segment(3)?, "sequence_number")?;
        Ok((self.id()?, number))
    }

    /// One segment of the path, `/0/1/2/3`, decoded.
    pub(super) fn segment(&self, at: usize) -> Answer<Cow<'_, str>> {
        let segments = self.parts.uri.path().split('/');
        let segment = { segments }.nth(at + 1).unwrap_or_default();
        let text = percent_decode_str(segment).decode_utf8();
        text.map_err(|_| Problem::invalid("the path is not percent-encoded UTF-8"))
    }

    /// The query parameters, of which these are known.
    pub(super) fn params(&self, known: &[&str]) -> Answer<Params<'_>> {
        Params::new(&self.parts.uri, known)
    }

    /// That there are no query parameters.
    pub(super) fn no_params(&self) -> Answer<()> {
        self.params(&[]).map(drop)
    }

    /// Reads the whole body, which is JSON.
    pub(super) async fn read_json(self) -> Answer<(App, Parts, Bytes)> {
        let (app, parts, (_, body)) = self.read(&["application/json"]).await?;
        Ok((app, parts, body))
    }

    /// Reads the whole body of one of these media types; and which.
    pub(super) async fn read<'a>(
        self,
        media: &[&'a str],
    ) -> Answer<(App, Parts, (&'a str, Bytes))> {
        let Self { app, parts, body } = self;
        let headers = &parts.headers;
        let Some(media) = media.iter().find(|media| is_media(headers, media)) else {
            let media = media.join(" or ");
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Kind::Invalid,
                format!("the body is JSON: send `Content-Type: {media}`"),
            ));
        };
        let body = whole_body(headers, body, app.limits()).await?;
        Ok((app, parts, (media, body)))
    }
}

/// Digits and nothing else: `+1` and ` 1` are refused. At most the last sequence number.
fn number<T: FromStr>(text: &str, name: &str) -> Answer<T> {
    let number = Some(text)
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|text| {
            text.parse()
                .is_ok_and(|it: u64| it <= SequenceNumber::LAST.get())
        })
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let value: String = text.chars().take(60).collect();
        Problem::invalid(format!(
            "a parameter is not a number or out of range. {name}=`{value}`"
        ))
    })
}

/// The query parameters, each once, all of them known.
pub(super) struct Params<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Params<'a> {
    fn new(uri: &'a Uri, known: &[&str]) -> Answer<Self> {
        let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let pairs: Vec<_> = pairs.collect();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&&**name) {
                let name: String = name.chars().take(60).collect();
                return Err(Problem::invalid(format!(
                    "unknown parameter; this path takes: {}. parameter=`{name}`",
                    known.join(", ")
                )));
            }
            if pairs.iter().skip(at + 1).any(|(other, _)| other == name) {
                return Err(Problem::invalid(format!(
                    "a parameter is given twice. parameter=`{name}`"
                )));
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(known, _)| known == name);
        pair.map(|(_, value)| &**value)
    }

    pub(super) fn parsed<T: FromStr<Err = annals::Error>>(&self, name: &str) -> Answer<Option<T>> {
        Ok(self.text(name).map(str::parse).transpose()?)
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let text = self.text(name);
        text.map(|text| number(text, name)).transpose()
    }

    /// A switch, off if left out.
    pub(super) fn is_on(&self, name: &str) -> Answer<bool> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid(format!("{name} is true or false"))),
        }
    }

    pub(super) fn time(&self, name: &str) -> Answer<Option<u64>> {
        let time = self.text(name).map(payload::parse_time);
        Ok(time.transpose()?)
    }
}

/// The value of a header that may be given once.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Answer<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(format!(
                "a header is given twice. header=`{name}`"
            )));
        }
    };
    let text = value
        .ok_or_else(|| Problem::invalid(format!("a header is not ASCII text. header=`{name}`")))?;
    Ok(Some(text))
}

/// The number in an entity tag, `"7"`; the quotes may be left out.
pub(super) fn tag_number(headers: &HeaderMap, name: &HeaderName) -> Answer<Option<u64>> {
    let Some(text) = header(headers, name)? else {
        return Ok(None);
    };
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let tag = number(inner.unwrap_or(text), name.as_str());
    tag.map(Some).map_err(|_| {
        Problem::invalid(format!(
            "send one entity tag, a number in quotes like \"7\". header=`{name}`"
        ))
    })
}

/// Limited in bytes and time. By hand rather than by a layer: each limit has a status and a message
/// of its own.
async fn whole_body(headers: &HeaderMap, body: Incoming, limits: &Limits) -> Answer<Bytes> {
    let limit = limits.body_bytes;
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Invalid,
            format!("the body is too large. bytes allowed=`{limit}`"),
        )
    };
    let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    let length = length.and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let collected = SystemClock::within(limits.body_time, Limited::new(body, limit).collect());
    match collected.await {
        Some(Ok(body)) => Ok(body.to_bytes()),
        Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Some(Err(_)) => Err(Problem::invalid("the body ends too early")),
        None => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            Kind::Invalid,
            "the body takes too long to arrive; nothing was written",
        )),
    }
}

fn is_media(headers: &HeaderMap, media: &str) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = given.and_then(|given| given.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media))
}

/// The body as a wire type.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|cause| {
        let detail = "the body is not the JSON that this path takes; nothing was written";
        Problem::invalid(detail).with(|it| it.causes = vec![cause.to_string()])
    })
}

/// The media type of JSON lines.
pub(super) const LINES: &str = "application/x-ndjson";
/// The media type of a sequence of CBOR values (RFC 8742).
pub(super) const CBOR_SEQUENCE: &str = "application/cbor-seq";
/// About how many bytes are sent at once.
const FRAME_BYTES: usize = 128 * 1024;

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
    // For people who use curl.
    bytes("application/json", wire::line(value) + "\n")
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

/// Records of a media type: JSON lines or a sequence of CBOR.
pub(super) struct Records<T> {
    pub(super) media: &'static str,
    /// Appends a record, with the end of its line.
    pub(super) push: fn(&T, &mut Vec<u8>),
}

impl<T: 'static> Records<T> {
    /// The records as they come, or the error before the first one; `None` without a record.
    pub(super) async fn response(
        &self,
        mut records: impl Stream<Item = annals::Result<T>> + Send + Unpin + 'static,
    ) -> Answer<Option<Response>> {
        let Some(first) = records.try_next().await? else {
            return Ok(None);
        };
        let mut frames = Frames::new(records, self.push);
        (self.push)(&first, &mut frames.frame);
        let Some(Some(frame)) = frames.next().now_or_never() else {
            return Ok(Some(streamed(self.media, frames)));
        };
        let frame = frame?;
        // Mostly that is everything, which is sent with its length.
        Ok(Some(match frames.records {
            None => bytes(self.media, frame),
            Some(_) => streamed(self.media, stream::iter([Ok(frame)]).chain(frames)),
        }))
    }

    /// A response without a record.
    pub(super) fn none(&self) -> Response {
        bytes(self.media, Bytes::new())
    }
}

const LINES_AS_THEY_ARE: Records<String> = Records {
    media: LINES,
    push: push_line,
};

fn push_line(line: &String, out: &mut Vec<u8>) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// The lines as they come, or the error before the first one.
pub(super) async fn lines(
    lines: impl Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
) -> Answer {
    let response = LINES_AS_THEY_ARE.response(lines).await?;
    Ok(response.unwrap_or_else(|| LINES_AS_THEY_ARE.none()))
}

/// The lines as they come, of which the first may take long.
pub(super) fn lines_at_once(
    lines: impl Stream<Item = annals::Result<String>> + Send + Unpin + 'static,
) -> Response {
    streamed(LINES, Frames::new(lines, push_line))
}

/// Records that are available already go together.
struct Frames<S, T> {
    /// `None` after the last record.
    records: Option<S>,
    push: fn(&T, &mut Vec<u8>),
    /// What is not sent yet.
    frame: Vec<u8>,
    /// The store is read in the request's span, also after the request is answered.
    span: Span,
}

impl<S, T> Frames<S, T> {
    fn new(records: S, push: fn(&T, &mut Vec<u8>)) -> Self {
        Self {
            records: Some(records),
            push,
            frame: Vec::new(),
            span: Span::current(),
        }
    }

    /// What is to be sent, if there is anything.
    fn take(&mut self) -> Option<annals::Result<Bytes>> {
        // After a full frame another one is likely.
        let next = match self.frame.len() >= FRAME_BYTES {
            true => Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 16),
            false => Vec::new(),
        };
        let frame = std::mem::replace(&mut self.frame, next);
        (!frame.is_empty()).then(|| Ok(frame.into()))
    }
}

impl<S, T> Stream for Frames<S, T>
where
    S: Stream<Item = annals::Result<T>> + Unpin,
{
    type Item = annals::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let entered = this.span.enter();
        while this.frame.len() < FRAME_BYTES {
            let Some(records) = &mut this.records else {
                break;
            };
            match records.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(record))) => (this.push)(&record, &mut this.frame),
                Poll::Ready(Some(Err(error))) => {
                    tracing::warn!(%error, "a response breaks off");
                    this.records = None;
                    this.frame.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => this.records = None,
                Poll::Pending if this.frame.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        drop(entered);
        Poll::Ready(this.take())
    }
}

/// Whether the client accepts a media type by name.
pub(super) fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next();
        let is_it = name.is_some_and(|name| name.eq_ignore_ascii_case(media));
        is_it && !parts.any(is_zero)
    })
}

/// Whether a parameter is a weight of zero: `q=0`, `q=0.000`.
fn is_zero(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let is_weight = name.trim().eq_ignore_ascii_case("q");
    is_weight && value.trim().parse() == Ok(0.0_f32)
}
