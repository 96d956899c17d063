//! How asking an entity fails.

use crate::{Error, ErrorKind};

/// How asking an entity fails.
///
/// ```
/// use annals::Error;
/// use annals::entity::AskError;
///
/// fn status(error: &AskError<std::fmt::Error>) -> u16 {
///     match error {
///         AskError::Rejected(_) => 422,
///         error if error.is_retryable() => 503,
///         _ => 500,
///     }
/// }
///
/// assert_eq!(status(&AskError::Rejected(std::fmt::Error)), 422);
/// assert_eq!(status(&AskError::Overloaded), 503);
/// assert_eq!(status(&Error::corrupt("no event").into()), 500);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError<E> {
    /// The entity refused. Nothing was written.
    #[error(transparent)]
    Rejected(E),
    /// Others kept being faster. Nothing was written; ask again.
    #[error("other writers keep being faster; ask again")]
    Conflict,
    /// The entity has as many commands waiting as it takes, or the region as many entities. Nothing
    /// was written; ask again later.
    #[error("too much is waiting; ask again later")]
    Overloaded,
    /// The handler panicked, or the entity was stopped while the command waited. Where it panicked
    /// after its events were durable they stay.
    #[error("the entity stopped before it answered")]
    Stopped,
    /// The store failed. Its kind says what to do; `Unavailable`: the events may be durable or not.
    #[error(transparent)]
    Store(#[from] Error),
}

impl<E> AskError<E> {
    /// Whether the same command may be asked again as it is.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict | Self::Overloaded => true,
            Self::Store(error) => error.kind() == ErrorKind::Unavailable,
            Self::Rejected(_) | Self::Stopped => false,
        }
    }
}
