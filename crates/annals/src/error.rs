//! The one public error, its four kinds and its facts.
//!
//! Guarantees: every failure has exactly one [`ErrorKind`], the cause chain is kept, and facts are
//! data: nobody has to search a message for them. No type of AWS, fjall or the command line is in a
//! signature.

use std::borrow::Cow;
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
/// fn is_retryable(error: &Error) -> bool {
///     match error.kind() {
///         ErrorKind::Conflict => true,    // after a reload
///         ErrorKind::Unavailable => true, // later
///         _ => false,
///     }
/// }
///
/// assert!(is_retryable(&Error::unavailable("the store does not answer")));
/// assert!(!is_retryable(&Error::invalid("an append has at least one event")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another writer was first: reload, decide again, retry.
    Conflict,
    /// Throttled, timed out or unreachable: make the same call later.
    ///
    /// Stores retry within a deadline before they return this. A write that ends so *may have
    /// succeeded*: a caller that retries it must be able to recognise its own success.
    Unavailable,
    /// The call, a setting or the table is wrong: fix it. Nothing was written.
    Invalid,
    /// Stored bytes do not parse: stop, an operator must look.
    Corrupt,
}

/// Why an operation failed.
///
/// The message is one line in lower case that says what to do. [`facts`](Self::facts) name what the
/// error is about and are printed after the message; [`source`](StdError::source) is the cause,
/// whose text the message does not repeat.
///
/// ```
/// use annals::{Error, ErrorKind};
///
/// let error = Error::invalid("table name is too short").fact("name", "x");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.fact_value("name"), Some("x"));
/// assert_eq!(error.to_string(), "table name is too short. name=`x`");
/// ```
///
/// `Debug` is for people, because `fn main() -> annals::Result<()>` prints it: the kind, the message, the
/// facts and the causes.
///
/// ```
/// use annals::Error;
///
/// let error = Error::unavailable("cannot write; free space").fact("table", "notes");
/// let error = error.because("the disk is full");
/// let printed = "Unavailable: cannot write; free space. table=`notes`\n\nCaused by:\n    the disk is full";
/// assert_eq!(format!("{error:?}"), printed);
/// ```
///
/// Cloning is cheap: one failure may have many callers.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    facts: Vec<Fact>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A name and its value.
type Fact = (Cow<'static, str>, String);

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

/// What to do about damaged data of an id.
const DAMAGED: &str =
    "run `annals verify` for this id to see all that is damaged, and restore that from a backup";

impl Error {
    /// An error of the given kind. Facts are added by [`fact`](Self::fact), not written into the
    /// message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            facts: Vec::new(),
            source: None,
        }))
    }

    /// Another writer was first.
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

    /// Attaches the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::from(source.into()));
        self
    }

    /// Adds a fact, unless there is one of that name: the first one is closest to the failure.
    ///
    /// ```
    /// use annals::Error;
    ///
    /// let error = Error::unavailable("the disk is full").fact("table", "notes");
    /// let error = error.fact("key", "a").fact("table", "others");
    /// assert_eq!(error.to_string(), "the disk is full. table=`notes`, key=`a`");
    /// ```
    #[must_use]
    pub fn fact(mut self, name: impl Into<Cow<'static, str>>, value: impl fmt::Display) -> Self {
        let name = name.into();
        if self.fact_value(&name).is_none() {
            let facts = &mut Arc::make_mut(&mut self.0).facts;
            facts.push((name, value.to_string()));
        }
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without the facts.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Adds the operation and the persistence id, and what to do about damaged data.
    #[must_use]
    pub(crate) fn during(self, operation: &'static str, id: &impl fmt::Display) -> Self {
        let error = match self.kind() {
            ErrorKind::Corrupt => self.advise(DAMAGED),
            _ => self,
        };
        error.fact("operation", operation).fact("id", id)
    }

    /// Adds what to do after the message, unless the message says it: after a semicolon.
    #[must_use]
    pub(crate) fn advise(mut self, advice: &str) -> Self {
        if !self.message().contains(';') {
            let message = &mut Arc::make_mut(&mut self.0).message;
            message.push_str("; ");
            message.push_str(advice);
        }
        self
    }

    /// The facts by name, in the order they are printed in.
    ///
    /// ```
    /// use annals::Error;
    ///
    /// let error = Error::invalid("no such index")
    ///     .fact("table", "notes")
    ///     .fact("index", "by-name");
    /// assert_eq!(error.message(), "no such index");
    /// let facts: Vec<_> = error.facts().collect();
    /// assert_eq!(facts, [("table", "notes"), ("index", "by-name")]);
    /// ```
    pub fn facts(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let facts = self.0.facts.iter();
        facts.map(|(name, value)| (&**name, value.as_str()))
    }

    /// The value of a fact.
    pub fn fact_value(&self, name: &str) -> Option<&str> {
        let mut facts = self.facts();
        facts.find_map(|(other, value)| (other == name).then_some(value))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (n, (name, value)) in self.facts().enumerate() {
            let joint = if n == 0 { ". " } else { ", " };
            write!(f, "{joint}{name}=`{value}`")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        let causes: Vec<_> =
            std::iter::successors(self.source(), |&cause| cause.source()).collect();
        if !causes.is_empty() {
            f.write_str("\n\nCaused by:")?;
        }
        for (n, cause) in causes.iter().enumerate() {
            // The number of a cause helps only among several.
            match causes.len() {
                1 => write!(f, "\n    {cause}")?,
                _ => write!(f, "\n    {n}: {cause}")?,
            }
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_printed_after_the_message() {
        let error = Error::invalid("run `annals tables create`").fact("newest known", 2);
        assert_eq!(error.message(), "run `annals tables create`");
        assert_eq!(
            error.to_string(),
            "run `annals tables create`. newest known=`2`"
        );
    }

    #[test]
    fn a_fact_is_added_once() {
        let error = Error::invalid("wrong").fact("table", "notes");
        let error = error.fact("table", "others").fact("key", 1).fact("key", 2);
        assert_eq!(error.fact_value("table"), Some("notes"));
        assert_eq!(error.to_string(), "wrong. table=`notes`, key=`1`");
        assert_eq!(error.fact_value("index"), None);
    }

    #[test]
    fn debug_reads_like_the_message_with_the_kind_and_the_causes() {
        let error = Error::invalid("wrong").fact("table", "notes");
        assert_eq!(format!("{error:?}"), "Invalid: wrong. table=`notes`");
        let inner = Error::unavailable("no connection").because("connection refused");
        let error = Error::unavailable("cannot reach DynamoDB").because(inner);
        let want = "Unavailable: cannot reach DynamoDB\n\nCaused by:\n    0: no connection\n    1: connection refused";
        assert_eq!(format!("{error:?}"), want);
    }

    #[test]
    fn advice_is_added_unless_there_is_some() {
        let error = Error::corrupt("an event is damaged").fact("number", 2);
        let advised = error.advise("restore a backup");
        let want = "an event is damaged; restore a backup. number=`2`";
        assert_eq!(advised.to_string(), want);
        assert_eq!(advised.advise("or two").to_string(), want);
    }

    #[test]
    fn text_is_not_searched_for_facts() {
        let message = "wrong. table=`others`";
        let error = Error::invalid(message).fact("text", "x`, key=`y");
        let error = error.fact("table", "notes").fact("key", "k");
        assert_eq!(error.fact_value("table"), Some("notes"));
        assert_eq!(error.fact_value("key"), Some("k"));
    }
}
