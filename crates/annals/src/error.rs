//! The one public error, and the four kinds that say what a caller does next.
//!
//! Promises: every failure in the system has exactly one [`ErrorKind`]; the cause chain is kept.
//! Never: carries a type of AWS, fjall or the command line in its signature.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What a caller should do about an [`Error`].
///
/// Absence is not an error (it is `None`), and a bug of ours is an `assert!`, not a kind.
///
/// ```
/// use annals::{Error, ErrorKind};
///
/// fn is_worth_repeating(error: &Error) -> bool {
///     match error.kind() {
///         ErrorKind::Conflict => true,    // after a reload
///         ErrorKind::Unavailable => true, // later
///         _ => false,
///     }
/// }
///
/// assert!(is_worth_repeating(&Error::unavailable("the store does not answer")));
/// assert!(!is_worth_repeating(&Error::invalid("an append has at least one event")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Someone wrote first: reload, decide again, try again.
    Conflict,
    /// Throttled, timed out or unreachable: make the same call later.
    ///
    /// Stores retry inside, within a deadline, before they answer this. A write that ends so
    /// *may have landed*: whoever repeats it must be able to recognise its own success.
    Unavailable,
    /// The call, a setting or the table is wrong: fix it. Nothing was written.
    Invalid,
    /// Stored bytes do not parse: stop, an operator looks.
    Corrupt,
}

/// Why an operation failed.
///
/// Messages are one line in lower case with the facts last; [`source`](StdError::source) leads to
/// the cause, whose text the message does not repeat.
///
/// ```
/// use annals::{Error, ErrorKind};
///
/// let error = Error::invalid("table name is too short. name=`x`");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.to_string(), "table name is too short. name=`x`");
/// ```
///
/// Cloning is cheap: one failure may have many callers to tell.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The result of nearly everything here.
///
/// ```
/// use annals::PersistenceId;
///
/// fn cart(number: u64) -> annals::Result<PersistenceId> {
///     format!("Cart|{number}").parse()
/// }
///
/// assert_eq!(cart(42)?.as_str(), "Cart|42");
/// # Ok::<(), annals::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// Someone wrote first.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// The store cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The call, a setting or the table is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Stored bytes do not parse.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::from(source.into()));
        self
    }

    /// The same error with one more fact at the end, unless it tells that one already.
    ///
    /// ```
    /// use annals::Error;
    ///
    /// let error = Error::unavailable("the disk is full").fact("table", "notes");
    /// let error = error.fact("key", "a").fact("table", "others");
    /// assert_eq!(error.to_string(), "the disk is full. table=`notes`, key=`a`");
    /// ```
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl fmt::Display) -> Self {
        if !self.0.message.contains(&format!(" {name}=`")) {
            let message = &mut Arc::make_mut(&mut self.0).message;
            // Facts come last, so a message that ends in one has some.
            let joint = if message.ends_with('`') { ", " } else { ". " };
            message.push_str(&format!("{joint}{name}=`{value}`"));
        }
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind);
        debug.field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
