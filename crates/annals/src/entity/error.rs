//! How asking an entity fails, also as an HTTP problem.

use std::fmt;

use serde::Serialize;

use crate::{Error, ErrorKind, PersistenceId};

/// How asking an entity fails.
///
/// ```
/// use annals::Error;
/// use annals::entity::AskError;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("insufficient funds. balance=`{0}`")]
/// struct InsufficientFunds(u64);
///
/// let rejected = AskError::Rejected(InsufficientFunds(6));
/// assert_eq!(rejected.http_status(), 422);
/// assert_eq!(rejected.problem().detail, "insufficient funds. balance=`6`");
///
/// let id = "Account|1".parse()?;
/// let overloaded = AskError::<InsufficientFunds>::Overloaded { id };
/// assert_eq!((overloaded.http_status(), overloaded.is_retryable()), (503, true));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AskError<E> {
    /// The entity rejected the command. Nothing was written.
    #[error(transparent)]
    Rejected(E),
    /// Other writers kept winning. Nothing was written; ask again.
    #[error("other writers changed the entity first; ask again")]
    Conflict,
    /// The entity's mailbox is full, or the region holds too many busy entities. Nothing was written;
    /// ask again later.
    #[error("the entity has too many pending commands; ask again later. id=`{id}`")]
    Overloaded {
        /// The entity.
        id: PersistenceId,
    },
    /// The entity was stopped while the command was queued. Nothing was written; ask again.
    #[error("the entity stopped before it handled the command; ask again")]
    Stopped,
    /// The handler panicked. If it panicked after its events were durable, they stay: check before
    /// asking again.
    #[error("the handler panicked before it replied; check the entity before asking again")]
    Panicked,
    /// An event or a value of the entity cannot be encoded, such as a map in JSON whose keys are not
    /// text: a bug of the application. Nothing was written, and the error's source is the cause.
    #[error(transparent)]
    Encode(Error),
    /// The store failed before the write. Nothing was written; the error's kind says what to do.
    #[error(transparent)]
    Store(#[from] Error),
    /// The store did not confirm a write, which may or may not be durable. Asking again may do it
    /// twice, unless the command has an id (`ask_once`).
    #[error("the write was not confirmed; check the entity before asking again. {0}")]
    InDoubt(#[source] Error),
}

/// An error of the store as [`Error`] prints itself: `main` prints it if it returns one.
impl<E: fmt::Debug> fmt::Debug for AskError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => f.debug_tuple("Rejected").field(rejection).finish(),
            Self::Conflict => f.write_str("Conflict"),
            Self::Overloaded { id } => f.debug_struct("Overloaded").field("id", id).finish(),
            Self::Stopped => f.write_str("Stopped"),
            Self::Panicked => f.write_str("Panicked"),
            Self::Encode(error) | Self::Store(error) => write!(f, "{error:?}"),
            Self::InDoubt(error) => write!(f, "InDoubt: {error:?}"),
        }
    }
}

impl<E> AskError<E> {
    /// Whether the same command can be asked again: nothing was written, and it may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict | Self::Overloaded { .. } | Self::Stopped => true,
            Self::Store(error) => error.kind() == ErrorKind::Unavailable,
            Self::Rejected(_) | Self::Panicked | Self::Encode(_) | Self::InDoubt(_) => false,
        }
    }

    /// The HTTP status of this error: 409 for a conflict, 503 if the entity or the store is
    /// unavailable, 400 for an invalid call, 500 for damage, a panic, or a value that cannot be encoded.
    /// A rejection is 422; choose another status by matching [`Rejected`](Self::Rejected) first.
    pub fn http_status(&self) -> u16 {
        self.kind().1
    }

    /// The kind as problem details name it, and the status.
    fn kind(&self) -> (&'static str, u16) {
        match self {
            Self::Rejected(_) => ("rejected", 422),
            Self::Conflict => ("conflict", 409),
            Self::Overloaded { .. } | Self::Stopped => ("unavailable", 503),
            Self::Panicked | Self::Encode(_) => ("corrupt", 500),
            Self::Store(error) | Self::InDoubt(error) => match error.kind() {
                ErrorKind::Conflict => ("conflict", 409),
                ErrorKind::Unavailable => ("unavailable", 503),
                ErrorKind::Invalid => ("invalid", 400),
                ErrorKind::Corrupt => ("corrupt", 500),
            },
        }
    }
}

impl<E: fmt::Display> AskError<E> {
    /// This error as problem details (RFC 9457), with the members that `annals serve` uses too.
    ///
    /// With the status 500, the detail is not the message, which is for the developers of the service: log
    /// the error.
    pub fn problem(&self) -> Problem {
        let (kind, status) = self.kind();
        let detail = match status {
            500 => INTERNAL.to_owned(),
            _ => self.to_string(),
        };
        Problem {
            problem_type: format!("urn:annals:problem:{kind}"),
            title: title(status),
            status,
            kind,
            detail,
            retryable: self.is_retryable(),
        }
    }
}

/// The detail of an error that only the service can mend.
const INTERNAL: &str = "the service failed; the request cannot be repeated with success";

/// Problem details (RFC 9457): the JSON body of an HTTP error. Made by [`AskError::problem`].
///
/// ```
/// use annals::entity::{AskError, Problem};
///
/// let problem = AskError::<std::fmt::Error>::Conflict.problem();
/// assert_eq!(problem.status, 409);
/// assert_eq!(
///     serde_json::to_value(&problem)?,
///     serde_json::json!({
///         "type": "urn:annals:problem:conflict",
///         "title": "Conflict",
///         "status": 409,
///         "kind": "conflict",
///         "detail": "other writers changed the entity first; ask again",
///         "retryable": true,
///     })
/// );
/// assert_eq!(Problem::MEDIA_TYPE, "application/problem+json");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// A URI that names the kind of problem.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The text of the HTTP status.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// `conflict`, `unavailable`, `invalid`, `corrupt` or `rejected`.
    pub kind: &'static str,
    /// The error message, without its causes; a neutral text with the status 500.
    pub detail: String,
    /// Whether the same request can be sent again.
    pub retryable: bool,
}

impl Problem {
    /// The media type of problem details.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// The same problem with another HTTP status and its title, for a rejection that has one.
    ///
    /// ```
    /// # use annals::entity::AskError;
    /// let problem = AskError::Rejected(std::fmt::Error).problem().with_status(404);
    /// assert_eq!((problem.status, problem.title), (404, "Not Found"));
    /// ```
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        (self.status, self.title) = (status, title(status));
        self
    }
}

/// The text of the statuses that a rejection may have, and of ours.
fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        410 => "Gone",
        412 => "Precondition Failed",
        422 => "Unprocessable Content",
        423 => "Locked",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_the_status_of_its_kind() {
        type Ask = AskError<std::fmt::Error>;
        let id = "Account|1".parse().unwrap();
        let overloaded = Ask::Overloaded { id };
        for (error, status, kind, is_retryable) in [
            (Ask::Rejected(std::fmt::Error), 422, "rejected", false),
            (Ask::Conflict, 409, "conflict", true),
            (overloaded, 503, "unavailable", true),
            (Ask::Stopped, 503, "unavailable", true),
            (Ask::Panicked, 500, "corrupt", false),
            (Ask::Encode(Error::invalid("e")), 500, "corrupt", false),
            (Error::conflict("c").into(), 409, "conflict", false),
            (Error::unavailable("u").into(), 503, "unavailable", true),
            (Error::invalid("i").into(), 400, "invalid", false),
            (Error::corrupt("c").into(), 500, "corrupt", false),
            (
                Ask::InDoubt(Error::unavailable("u")),
                503,
                "unavailable",
                false,
            ),
        ] {
            let problem = error.problem();
            assert_eq!((error.http_status(), problem.status), (status, status));
            assert_eq!((problem.kind, problem.retryable), (kind, is_retryable));
        }
    }

    #[test]
    fn problems_do_not_show_causes() {
        let error: AskError<std::fmt::Error> =
            Error::unavailable("throttled").because("a secret").into();
        let body = serde_json::to_string(&error.problem()).unwrap();
        assert!(
            body.contains("throttled") && !body.contains("secret"),
            "{body}"
        );
    }

    #[test]
    fn problems_with_the_status_500_show_no_advice_to_developers() {
        let error: AskError<std::fmt::Error> = Error::corrupt("add an adapter").into();
        assert_eq!(error.problem().detail, INTERNAL);
        assert_eq!(error.to_string(), "add an adapter");
    }
}
