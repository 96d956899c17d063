//! What went wrong, as HTTP tells it: a status, and `application/problem+json` with the kind.
//!
//! Promises: every error of a request that could be read has this shape, whoever found it. What is no
//! request by HTTP's own rules hyper answers itself, with a status, no body, and a hang-up: a request
//! line or a header that does not parse, lengths that contradict each other (400), more than 100
//! headers, or a head that does not fit its buffer (431); one that takes too long is hung up on. One
//! kind, one status:
//! conflict 409, unavailable 503 with `Retry-After`, invalid 400, corrupt 500, absent 404; where
//! HTTP has a word of its own for a wrong call (405, 413, 415, …), that is the status and the
//! kind stays invalid.
//! Never: tells a caller what is no business of theirs: the causes of a failure that is not theirs
//! go to the traces alone.

use std::error::Error as _;

use annals::{Error, ErrorKind};
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

/// The media type of every error.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";
/// After how many seconds a caller may try again.
const RETRY_SECONDS: &str = "1";

/// What a caller is to do about it. Travels with the answer, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Conflict,
    Unavailable,
    Invalid,
    Corrupt,
    Absent,
    Unauthorized,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Corrupt => "corrupt",
            Self::Absent => "absent",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// An error on its way to a caller.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    kind: Kind,
    detail: String,
    /// Further members, as JSON.
    more: Vec<(&'static str, String)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What handlers answer.
pub(super) type Answer<T = Response> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
            more: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// The kind under which an error is told.
    pub(super) fn kind_of(error: &Error) -> Kind {
        match error.kind() {
            ErrorKind::Conflict => Kind::Conflict,
            ErrorKind::Invalid => Kind::Invalid,
            ErrorKind::Unavailable => Kind::Unavailable,
            // A kind that is new to this binary is treated like the worst.
            _ => Kind::Corrupt,
        }
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Kind::Invalid, detail)
    }

    pub(super) fn absent(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Kind::Absent, detail)
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Kind::Conflict, detail)
    }

    /// To be tried again, soon.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        let busy = Self::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Unavailable, detail);
        busy.header(RETRY_AFTER, RETRY_SECONDS)
    }

    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        let refused = Self::new(StatusCode::UNAUTHORIZED, Kind::Unauthorized, detail);
        refused.header(WWW_AUTHENTICATE, "Bearer realm=\"annals\"")
    }

    /// With a member of its own.
    pub(super) fn with(self, name: &'static str, value: impl Into<Json>) -> Self {
        self.with_raw(name, value.into().to_string())
    }

    /// The same with JSON that is text already, which a parser might round.
    pub(super) fn with_raw(mut self, name: &'static str, json: String) -> Self {
        self.more.push((name, json));
        self
    }

    fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// The body of the answer.
    pub(super) fn body(&self) -> String {
        let body = json!({
            "type": format!("urn:annals:problem:{}", self.kind.name()),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "kind": self.kind.name(),
            "detail": self.detail,
        });
        let mut text = body.to_string();
        text.pop();
        for (name, json) in &self.more {
            text.push_str(&format!(",\"{name}\":{json}"));
        }
        text.push('}');
        text
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (causes, detail) = (causes(&error), error.to_string());
        match Self::kind_of(&error) {
            Kind::Conflict => Self::conflict(detail),
            Kind::Invalid if causes.is_empty() => Self::invalid(detail),
            Kind::Invalid => Self::invalid(detail).with("causes", causes),
            Kind::Unavailable => {
                tracing::warn!(%detail, ?causes, "the store cannot answer");
                Self::unavailable(detail)
            }
            _ => {
                tracing::error!(%detail, ?causes, "what is stored does not parse");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Kind::Corrupt, detail)
            }
        }
    }
}

fn causes(error: &Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    causes
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.extend(self.headers);
        response.extensions_mut().insert(self.kind);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_status_and_says_when_to_come_again() {
        for (error, status, kind) in [
            (Error::conflict("c"), 409, Kind::Conflict),
            (Error::unavailable("u"), 503, Kind::Unavailable),
            (Error::invalid("i"), 400, Kind::Invalid),
            (Error::corrupt("c"), 500, Kind::Corrupt),
        ] {
            let response = Problem::from(error).into_response();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.extensions().get(), Some(&kind));
            let is_told = response.headers().contains_key(RETRY_AFTER);
            assert_eq!(is_told, kind == Kind::Unavailable);
        }
    }

    #[test]
    fn callers_are_told_the_causes_of_their_own_mistakes_alone() {
        let caused = |error: Error| Problem::from(error.because("the cause")).body();
        assert!(caused(Error::invalid("i")).contains("the cause"));
        assert!(!caused(Error::unavailable("u")).contains("the cause"));
        assert!(!caused(Error::corrupt("c")).contains("the cause"));
    }
}
