//! Appends: their parameters, results and errors.

use std::fmt;

use super::idempotency::{IdempotencyKey, KeyUse, MARK};
use super::{Journal, Stamped, annotate};
use crate::{Error, Event, NewEvent, Payload, PersistenceId, Result, SequenceNumber, Token};

/// The maximum length of a causation or correlation id, so that they always fit an item.
pub(crate) const CAUSE_BYTES_MAX: usize = 1_024;

/// The event that a writer expects to be last.
///
/// ```
/// use annals::journal::{AppendError, Expected};
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// let event = || NewEvent::new(Codec::Text, "something");
/// let first = journal.append(&id, Expected::Empty, event()).await?;
/// journal.append(&id, Expected::Last(first.last), event()).await?;
///
/// // A writer that knows only the first event gets a conflict.
/// let late = journal.append(&id, Expected::Last(first.last), event()).await;
/// assert!(matches!(late, Err(AppendError::Conflict(_))));
/// assert_eq!(journal.append(&id, Expected::Any, event()).await?.last.get(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No event: the id has never had one.
    Empty,
    /// The event with this sequence number.
    Last(SequenceNumber),
    /// Anything: append after the last event.
    Any,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("0"),
            Self::Last(number) => write!(f, "{number}"),
            Self::Any => f.write_str("any"),
        }
    }
}

/// Events to be appended together.
///
/// ```
/// use annals::journal::Append;
/// use annals::{Codec, NewEvent, Payload};
///
/// let event = |name: &str| NewEvent::new(Codec::Json, "{}").manifest(name);
/// let append = Append::of([event("Opened"), event("Greeted")])
///     .causation("request-7")
///     .snapshot(Payload::new(Codec::Json, r#"{"is_open":true}"#));
/// assert_eq!(append.events.len(), 2);
///
/// // One event alone is an append as well.
/// assert_eq!(Append::from(event("Closed")).events.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Append {
    /// The events, at least one.
    pub events: Vec<NewEvent>,
    /// Distinguishes this append from every other; random by default.
    pub token: Option<Token>,
    /// The caller's name for this append, instead of a token.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What caused it.
    pub causation: Option<String>,
    /// What it belongs to.
    pub correlation: Option<String>,
    /// The state after these events, stored with them if that costs nothing.
    pub snapshot: Option<Payload>,
}

impl Append {
    /// An append of these events.
    pub fn of(events: impl Into<Vec<NewEvent>>) -> Self {
        Self {
            events: events.into(),
            ..Self::default()
        }
    }

    /// Sets the token, by which a repeated append is recognised.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Sets the idempotency key. An append that is repeated with it, by any process, is acknowledged
    /// and not appended again, even if its events were deleted since.
    ///
    /// With an expected sequence number this holds for ever. With [`Expected::Any`] it holds while
    /// the append is among the last 128 sequence numbers (if deleted on the `akka` layout: the last
    /// 32). The same key with other content or another expectation is a conflict if it was used
    /// among those 128, or the 16 before the expected number. The last event gets the metadata
    /// `annals-idempotency`. A keyed append costs one more read, or two with [`Expected::Any`].
    #[must_use]
    pub fn idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// Sets what caused it, such as the id of a request.
    #[must_use]
    pub fn causation(mut self, id: impl Into<String>) -> Self {
        self.causation = Some(id.into());
        self
    }

    /// Sets what it belongs to, such as the id of a business process.
    #[must_use]
    pub fn correlation(mut self, id: impl Into<String>) -> Self {
        self.correlation = Some(id.into());
        self
    }

    /// With the state that the events lead to. It rides along where the store has room that is
    /// paid for anyway ([`Appended::has_snapshot`]), is found by [`Journal::last_snapshot`] while
    /// no later append is there, and is deleted with the events.
    ///
    /// [`Journal::last_snapshot`]: super::Journal::last_snapshot
    #[must_use]
    pub fn snapshot(mut self, state: Payload) -> Self {
        self.snapshot = Some(state);
        self
    }

    /// Rejects events that already have the metadata of a keyed append.
    fn check_unmarked(&self, id: &PersistenceId) -> Result<()> {
        let mut events = self.events.iter();
        match events.any(|event| event.metadata.contains_key(MARK)) {
            true => Err(Error::invalid(format!(
                "the metadata `{MARK}` is written by annals; leave it out, or set Append::idempotency_key"
            ))
            .fact("id", id)),
            false => Ok(()),
        }
    }

    fn check(&self, id: &PersistenceId) -> Result<()> {
        if self.events.is_empty() {
            return Err(Error::invalid("an append has at least one event").fact("id", id));
        }
        if self
            .events
            .iter()
            .flat_map(|event| &event.tags)
            .any(String::is_empty)
        {
            return Err(Error::invalid("a tag is not empty").fact("id", id));
        }
        let ids = [&self.causation, &self.correlation];
        let longest = ids.into_iter().flatten().map(String::len).max();
        if longest.is_some_and(|bytes| bytes > CAUSE_BYTES_MAX) {
            return Err(Error::invalid(format!(
                "a causation or correlation id has at most {CAUSE_BYTES_MAX} bytes"
            ))
            .fact("id", id));
        }
        Ok(())
    }
}

impl From<NewEvent> for Append {
    fn from(event: NewEvent) -> Self {
        Self::of(vec![event])
    }
}

impl From<Vec<NewEvent>> for Append {
    fn from(events: Vec<NewEvent>) -> Self {
        Self::of(events)
    }
}

/// The sequence numbers and the time of an append.
///
/// ```
/// use annals::journal::{Append, Expected};
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let event = NewEvent::new(Codec::Text, "something");
/// let three = Append::of(vec![event; 3]);
/// let appended = annals.journal().append(&"Cart|42".parse()?, Expected::Empty, three).await?;
/// assert_eq!((appended.first.get(), appended.last.get()), (1, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The sequence number of its first event.
    pub first: SequenceNumber,
    /// The sequence number of its last event.
    pub last: SequenceNumber,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Whether the snapshot was stored with the events.
    pub has_snapshot: bool,
}

impl Appended {
    /// An append without a snapshot, for layouts.
    pub fn new(first: SequenceNumber, last: SequenceNumber, time_ms: u64) -> Self {
        Self {
            first,
            last,
            time_ms,
            has_snapshot: false,
        }
    }
}

/// Another writer was first.
///
/// See [`AppendError`] for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The persistence id.
    pub id: PersistenceId,
    /// The event that the writer expected to be last.
    pub expected: Expected,
    /// Events appended since, as far as known. If not empty, the first one follows the expected
    /// event.
    pub found: Vec<Event>,
}

impl Conflict {
    /// A conflict with the events that were found, for layouts.
    pub fn new(id: PersistenceId, expected: Expected, found: Vec<Event>) -> Self {
        Self {
            id,
            expected,
            found,
        }
    }
}

const NOT_LAST: &str = "the expected event is not the last one; replay and decide again";

/// How an append fails.
///
/// ```
/// use annals::journal::{AppendError, Expected};
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "mine")).await?;
/// match journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "yours")).await {
///     Err(AppendError::Conflict(conflict)) => {
///         assert_eq!(conflict.expected, Expected::Empty);
///         assert_eq!(conflict.found[0].data.payload, "mine");
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The expected event is not the last one: reload and decide again.
    #[error("{NOT_LAST}. id=`{}`, expected=`{}`", .0.id, .0.expected)]
    Conflict(Box<Conflict>),
    /// The store failed. With `Unavailable`, the append may be stored.
    #[error(transparent)]
    Store(#[from] Error),
}

/// An error of the store as [`Error`] prints itself: `main` prints it if it returns one.
impl fmt::Debug for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => f.debug_tuple("Conflict").field(conflict).finish(),
            Self::Store(error) => write!(f, "{error:?}"),
        }
    }
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Store(error) => error,
            AppendError::Conflict(conflict) => {
                let error = Error::conflict(NOT_LAST)
                    .fact("id", conflict.id)
                    .fact("expected", conflict.expected);
                match conflict.found.last() {
                    Some(event) => error.fact("found", event.sequence_number),
                    None => error,
                }
            }
        }
    }
}

impl From<Appended> for crate::snapshot::SnapshotPosition {
    fn from(appended: Appended) -> Self {
        Self {
            number: appended.last,
            anchor: Some(appended.first),
        }
    }
}

impl Journal {
    /// Appends events atomically, if the expected event is the last one.
    ///
    /// An append that fails with `Unavailable` may be stored. To find out, repeat it with the same
    /// [`Append::token`] or [`Append::idempotency_key`]: if it is stored it is acknowledged and not
    /// appended again. With a token and [`Expected::Any`], only the same `Journal` recognises it;
    /// other processes need an idempotency key. On the `akka` layout, an append is recognised until
    /// it and the 32 events after it, or all events, are deleted; then it is a conflict.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] if another event is last.
    pub async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        append: impl Into<Append>,
    ) -> Result<Appended, AppendError> {
        let mut append: Append = append.into();
        append.check(id)?;
        append.check_unmarked(id)?;
        let key = append.idempotency_key.take();
        let used = key.map(|key| KeyUse::new((id, &key), expected, &append));
        let given = append.token.or_else(|| used.map(KeyUse::token));
        if let Some(used) = used {
            if append.token.is_some() {
                return Err(AppendError::Store(
                    Error::invalid(
                        "an append has a token or an idempotency key; leave one of them out",
                    )
                    .fact("id", id),
                ));
            }
            used.mark(&mut append);
        }
        let stamped = Stamped {
            token: given.unwrap_or_else(|| self.token()),
            time_ms: self.store.clock().now_ms(),
            append,
        };
        // Boxed to keep the future of a plain append small.
        match (used, given) {
            (Some(used), _) => Box::pin(self.append_keyed(id, expected, (stamped, used))).await,
            (None, Some(_)) if expected == Expected::Any => {
                Box::pin(self.append_repeatable(id, stamped)).await
            }
            _ => self.append_stamped(id, expected, stamped).await,
        }
    }

    /// As [`append`](Self::append), with a given time and token.
    pub(crate) async fn append_stamped(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        stamped.append.check(id)?;
        let appended = self.layout.append(id, expected, stamped).await;
        appended.map_err(|error| match error {
            AppendError::Store(error) => annotate("append", id)(error).into(),
            conflict @ AppendError::Conflict(_) => conflict,
        })
    }

    /// Draws a random token for an append.
    pub fn token(&self) -> Token {
        Token::draw(self.store.random())
    }
}
