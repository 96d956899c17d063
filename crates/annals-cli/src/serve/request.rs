//! What a caller sent, as types: ids, parameters, headers, bodies.
//!
//! Promises: what is not understood is refused and named, never passed over.

use std::borrow::Cow;
use std::str::FromStr;

use annals::{PersistenceId, SequenceNumber, SystemClock};
use axum::body::Body;
use axum::extract::{FromRequestParts, Query};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};

use super::limits::Limits;
use super::problem::{Answer, Kind, Problem};
use crate::payload;

/// Whose: the segment of the path behind what is asked for.
pub(super) struct Id(pub(super) PersistenceId);

impl Id {
    pub(super) fn of(uri: &Uri) -> Answer<Self> {
        Ok(Self(segment(uri, 2)?.parse()?))
    }
}

impl<S: Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Self::of(&parts.uri)
    }
}

/// What it is called: the segment behind `/v1/log/aside`.
pub(super) struct Name(pub(super) String);

impl<S: Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Ok(Self(segment(&parts.uri, 3)?.into_owned()))
    }
}

/// Whose, and a number of theirs.
pub(super) struct Numbered(pub(super) PersistenceId, pub(super) SequenceNumber);

impl<S: Sync> FromRequestParts<S> for Numbered {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let Id(id) = Id::of(&parts.uri)?;
        let number = segment(&parts.uri, 3)?;
        Ok(Self(id, digits(&number, "sequence_number")?))
    }
}

/// One segment of a path, `/0/1/2/3`, as the text that it stands for.
fn segment(uri: &Uri, at: usize) -> Answer<Cow<'_, str>> {
    let segment = uri.path().split('/').nth(at + 1).unwrap_or_default();
    let text = percent_decode_str(segment).decode_utf8();
    text.map_err(|_| unreadable())
}

fn unreadable() -> Problem {
    Problem::invalid("the path is not text in UTF-8, percent-encoded")
}

/// A number as digits and nothing else: `+1` and ` 1` are none. None is larger than the last sequence
/// number.
fn digits<T: FromStr>(text: &str, name: &str) -> Answer<T> {
    let number = Some(text)
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|text| {
            text.parse()
                .is_ok_and(|it: u64| it <= SequenceNumber::LAST.get())
        })
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        Problem::invalid(format!(
            "a parameter is no number that it may be. {name}=`{shown}`"
        ))
    })
}

/// The parameters behind the `?`, each once, all of them known.
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Answer<Self> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(pairs) = pairs.map_err(|_| Problem::invalid("the parameters do not parse"))?;
        for (at, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(60).collect();
                return Err(Problem::invalid(format!(
                    "a parameter is not known here; known are: {}. parameter=`{shown}`",
                    known.join(", ")
                )));
            }
            if pairs.iter().skip(at + 1).any(|(other, _)| other == name) {
                return Err(Problem::invalid(format!(
                    "a parameter is there twice. parameter=`{name}`"
                )));
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(known, _)| known == name);
        pair.map(|(_, value)| value.as_str())
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let text = self.text(name);
        text.map(|text| digits(text, name)).transpose()
    }

    /// Whether something is asked for; it is not where it is left out.
    pub(super) fn is(&self, name: &str) -> Answer<bool> {
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

/// The value of a header that may be there once, as text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Answer<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return match headers.contains_key(name) {
            true => Err(Problem::invalid(format!(
                "a header is there twice. header=`{name}`"
            ))),
            false => Ok(None),
        };
    };
    let text = value
        .to_str()
        .map_err(|_| Problem::invalid(format!("a header is not text in ASCII. header=`{name}`")))?;
    Ok(Some(text))
}

/// The number in an entity tag, `"7"`, such as our own `ETag`s; quotes may be left out.
pub(super) fn tag_number(headers: &HeaderMap, name: &HeaderName) -> Answer<Option<u64>> {
    let Some(text) = header(headers, name)? else {
        return Ok(None);
    };
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let number = digits(inner.unwrap_or(text), name.as_str());
    number.map(Some).map_err(|_| {
        Problem::invalid(format!(
            "one entity tag is wanted, a number in quotes like \"7\". header=`{name}`"
        ))
    })
}

/// The whole body, which is JSON.
pub(super) async fn json_body(headers: &HeaderMap, body: Body, limits: &Limits) -> Answer<Bytes> {
    let (_, body) = media_body(headers, body, &["application/json"], limits).await?;
    Ok(body)
}

/// The whole body, which is of one of these media types; and of which.
pub(super) async fn media_body<'a>(
    headers: &HeaderMap,
    body: Body,
    media: &[&'a str],
    limits: &Limits,
) -> Answer<(&'a str, Bytes)> {
    let Some(media) = media.iter().find(|media| is_of(headers, media)) else {
        let media = media.join(" or ");
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Invalid,
            format!("the body is JSON: send `Content-Type: {media}`"),
        ));
    };
    Ok((media, whole_body(headers, body, limits).await?))
}

async fn whole_body(headers: &HeaderMap, body: Body, limits: &Limits) -> Answer<Bytes> {
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
        Some(Err(_)) => Err(Problem::invalid("the body ends before it should")),
        None => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            Kind::Invalid,
            "the body takes too long to arrive; nothing was written",
        )),
    }
}

fn is_of(headers: &HeaderMap, media: &str) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = given.and_then(|given| given.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media))
}

/// The body as what it has to be.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|cause| {
        let detail = "the body is not the JSON that is wanted here; nothing was written";
        Problem::invalid(detail).with("causes", vec![cause.to_string()])
    })
}

/// A member that may be left out, but is not null.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number, which JSON may have as `7.0` as well.
pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let whole = payload::whole(&number).and_then(|whole| u64::try_from(whole).ok());
    let fitting = whole.and_then(|whole| T::try_from(whole).ok());
    fitting.ok_or_else(|| serde::de::Error::custom(format!("no number that fits: {number}")))
}

/// The same of a member that may be left out.
pub(super) fn whole_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    whole(deserializer).map(Some)
}
