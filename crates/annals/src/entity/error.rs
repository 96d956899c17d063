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
    /// The entity was stopped while the command waited. Nothing was written; ask again.
    #[error("the entity stopped before its turn came; ask again")]
    Stopped,
    /// The handler panicked. Where it did so after its events were durable they stay: do not ask
    /// again without looking.
    #[error("the handler panicked before it answered")]
    Panicked,
    /// The store failed before it was asked to write. Nothing was written; the error's kind says
    /// what to do.
    #[error(transparent)]
    Store(#[from] Error),
    /// The store did not answer a write: what was decided may be durable or not. Whoever asks again
    /// may do it twice, unless the command has an id (`ask_once`).
    #[error("nobody knows whether it was written; look before asking again. {0}")]
    InDoubt(#[source] Error),
}

impl<E> AskError<E> {
    /// Whether the same command may be asked again as it is: nothing was written, and it may do
    /// better later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict | Self::Overloaded | Self::Stopped => true,
            Self::Store(error) => error.kind() == ErrorKind::Unavailable,
            Self::Rejected(_) | Self::Panicked | Self::InDoubt(_) => false,
        }
    }
}
