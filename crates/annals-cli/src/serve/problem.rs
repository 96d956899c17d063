//! Errors over HTTP: a status, and `application/problem+json` with the kind.
//!
//! Promises: every error of a request that could be parsed has this shape. hyper itself answers what
//! is not HTTP, with a status, no body, and closes the connection: a request line or header that does
//! not parse or contradictory lengths (400), more than 100 headers or a head larger than its buffer
//! (431); a head that takes too long is closed without an answer. One kind, one status: conflict 409,
//! unavailable 503 with `Retry-After`, invalid 400, corrupt 500, absent 404; where HTTP has a status
//! for a wrong call (405, 413, 415, …), that is used and the kind stays invalid.
//! Never: shows a caller the causes of a failure that is not theirs; those go to the traces alone.

use std::error::Error as _;
use std::fmt::Display;

use annals::{Error, ErrorKind};
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

use super::http::{self, Response};
use crate::wire;

/// The media type of every error.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";
/// After how many seconds a caller may try again.
const RETRY_SECONDS: &str = "1";

/// What a caller should do about an error. Travels with the response, for the metrics.
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

    /// The kind of a library's error.
    pub(super) fn new(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Unavailable => Self::Unavailable,
            // A kind that is new to this binary is treated like the worst.
            _ => Self::Corrupt,
        }
    }
}

/// An error on its way to a caller.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    status: StatusCode,
    kind: Kind,
    body: wire::Problem,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What handlers return.
pub(super) type Answer<T = Response> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, kind: Kind, detail: impl Into<String>) -> Self {
        let body = wire::Problem {
            type_: format!("urn:annals:problem:{}", kind.name()),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            kind: kind.name(),
            detail: detail.into(),
            ..wire::Problem::default()
        };
        Self(Box::new(Inner {
            status,
            kind,
            body,
            headers: Vec::new(),
        }))
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

    /// To be tried again soon.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        let busy = Self::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Unavailable, detail);
        busy.header(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS))
    }

    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        let refused = Self::new(StatusCode::UNAUTHORIZED, Kind::Unauthorized, detail);
        let scheme = HeaderValue::from_static("Bearer realm=\"annals\"");
        refused.header(WWW_AUTHENTICATE, scheme)
    }

    /// With further members.
    pub(crate) fn with(mut self, add: impl FnOnce(&mut wire::Problem)) -> Self {
        add(&mut self.0.body);
        self
    }

    /// With a fact more, at the end of the detail, too.
    pub(crate) fn fact(self, name: &str, value: impl Display) -> Self {
        let value = value.to_string();
        self.with(|it| {
            let gap = if it.detail.ends_with('`') { ", " } else { ". " };
            it.detail.push_str(&format!("{gap}{name}=`{value}`"));
            it.facts.insert(name.to_owned(), value.into());
        })
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The body of the response.
    pub(super) fn body(&self) -> String {
        wire::line(&self.0.body)
    }

    /// The same, as a value.
    pub(crate) fn wire(&self) -> &wire::Problem {
        &self.0.body
    }

    pub(super) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The kind of the library's error.
    pub(crate) fn error_kind(&self) -> ErrorKind {
        match self.0.kind {
            Kind::Conflict => ErrorKind::Conflict,
            Kind::Unavailable => ErrorKind::Unavailable,
            Kind::Corrupt => ErrorKind::Corrupt,
            Kind::Invalid | Kind::Absent | Kind::Unauthorized => ErrorKind::Invalid,
        }
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = http::bytes(PROBLEM_JSON, self.body());
        *response.status_mut() = self.0.status;
        response.headers_mut().extend(self.0.headers);
        response.extensions_mut().insert(self.0.kind);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (causes, detail) = (causes(&error), error.to_string());
        let facts = error.facts();
        let facts = facts.map(|(name, value)| (name.to_owned(), value.into()));
        let facts = facts.collect();
        let problem = match Kind::new(&error) {
            Kind::Conflict => Self::conflict(detail),
            Kind::Invalid => Self::invalid(detail).with(|it| it.causes = causes),
            Kind::Unavailable => {
                tracing::warn!(%detail, ?causes, "the store is unavailable");
                Self::unavailable(detail)
            }
            _ => {
                tracing::error!(%detail, ?causes, "stored bytes do not parse");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Kind::Corrupt, detail)
            }
        };
        problem.with(|it| it.facts = facts)
    }
}

fn causes(error: &Error) -> Vec<String> {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_status_and_says_when_to_retry() {
        for (error, status, kind) in [
            (Error::conflict("c"), 409, Kind::Conflict),
            (Error::unavailable("u"), 503, Kind::Unavailable),
            (Error::invalid("i"), 400, Kind::Invalid),
            (Error::corrupt("c"), 500, Kind::Corrupt),
        ] {
            let response = Problem::from(error).into_response();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.extensions().get(), Some(&kind));
            let says_when = response.headers().contains_key(RETRY_AFTER);
            assert_eq!(says_when, kind == Kind::Unavailable);
        }
    }

    #[test]
    fn callers_see_the_causes_of_their_own_mistakes_alone() {
        let caused = |error: Error| Problem::from(error.because("the cause")).body();
        assert!(caused(Error::invalid("i")).contains("the cause"));
        assert!(!caused(Error::unavailable("u")).contains("the cause"));
        assert!(!caused(Error::corrupt("c")).contains("the cause"));
    }
}
