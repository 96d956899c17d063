//! Durable state: the current value of an entity, without its history.
//!
//! Guarantees: only a writer that knows the current revision replaces a value. A revision is never
//! reused, not even after a deletion.

mod changes;

pub use changes::StateStream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::IdStream;
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify, confirm_check};
use crate::{Error, Payload, PersistenceId, Result};

/// The revision of a value: the number of its writes so far, deletions included.
///
/// ```
/// use annals::state::Revision;
/// use annals::{Codec, Payload};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let states = annals.states()?;
/// let id = "Cart|42".parse()?;
/// let last: Revision = states.revision(&id).await?;
/// assert_eq!(last, 0); // no writes yet
/// states.upsert(&id, last + 1, Payload::new(Codec::Text, "open")).await?;
/// states.delete(&id, None).await?;
/// assert_eq!(states.revision(&id).await?, 2);
/// # Ok(())
/// # }
/// ```
pub type Revision = u64;

/// The current value of an entity.
///
/// ```
/// use annals::state::State;
/// use annals::{Codec, Payload};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let states = annals.states()?;
/// let id = "Cart|42".parse()?;
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// let state: State = states.get(&id).await?.expect("it was written");
/// assert_eq!(state.value.expect("it was not deleted").bytes, "open");
///
/// states.delete(&id, None).await?;
/// let deleted = states.last(&id).await?.expect("a deletion has a revision");
/// assert_eq!((deleted.revision, deleted.value), (2, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// The entity.
    pub persistence_id: PersistenceId,
    /// The revision.
    pub revision: Revision,
    /// When it was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// A tag to find it by; may be empty.
    pub tag: String,
    /// The value; `None` if it was deleted.
    pub value: Option<Payload>,
}

impl State {
    /// A deleted value, for layouts. Set the value and the tag if it is not deleted.
    pub fn new(persistence_id: PersistenceId, revision: Revision, time_ms: u64) -> Self {
        Self {
            persistence_id,
            revision,
            time_ms,
            tag: String::new(),
            value: None,
        }
    }
}

/// A value to write.
///
/// ```
/// use annals::state::NewState;
/// use annals::{Codec, Payload};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let states = annals.states()?;
/// let id = "Cart|42".parse()?;
/// let open = NewState::from(Payload::new(Codec::Text, "open")).tag("carts");
/// states.upsert(&id, 1, open).await?;
/// assert_eq!(states.get(&id).await?.expect("it was written").tag, "carts");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewState {
    /// The value.
    pub value: Payload,
    /// A tag to find it by; may be empty.
    pub tag: String,
}

impl NewState {
    /// Sets the tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }
}

impl From<Payload> for NewState {
    fn from(value: Payload) -> Self {
        Self {
            value,
            tag: String::new(),
        }
    }
}

const OTHER_REVISION: &str =
    "the value has another revision; reload it and write the next revision";

/// The error of a write of durable state.
///
/// ```
/// use annals::state::StateError;
/// use annals::{Codec, Payload};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let states = annals.states()?;
/// let id = "Cart|42".parse()?;
/// states.upsert(&id, 1, Payload::new(Codec::Text, "mine")).await?;
/// match states.upsert(&id, 1, Payload::new(Codec::Text, "yours")).await {
///     Err(StateError::Conflict { found, .. }) => assert_eq!(found, 1),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another writer was first: reload, decide again.
    #[error(
        "{OTHER_REVISION}. id=`{id}`, revision=`{revision}`, found=`{found}`, next=`{}`",
        found.saturating_add(1)
    )]
    Conflict {
        /// The entity.
        id: PersistenceId,
        /// The revision of the write.
        revision: Revision,
        /// The current revision; 0 for none.
        found: Revision,
    },
    /// The store failed; the error's kind says whether the write may have succeeded.
    #[error(transparent)]
    Store(#[from] Error),
}

/// An error of the store as [`Error`] prints itself: `main` prints it if it returns one.
impl fmt::Debug for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict {
                id,
                revision,
                found,
            } => f
                .debug_struct("Conflict")
                .field("id", id)
                .field("revision", revision)
                .field("found", found)
                .finish(),
            Self::Store(error) => write!(f, "{error:?}"),
        }
    }
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => error,
            StateError::Conflict {
                id,
                revision,
                found,
            } => Error::conflict(OTHER_REVISION)
                .fact("id", id)
                .fact("revision", revision)
                .fact("found", found)
                .fact("next", found.saturating_add(1)),
        }
    }
}

/// How a layout stores durable state as items.
///
/// ```
/// use annals::state::{State, StateError, StateLayout, States};
/// use annals::memory::Memory;
/// use annals::store::Store;
/// use annals::{Codec, Payload, PersistenceId, Result};
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Debug, Default)]
/// struct InMemory(Mutex<HashMap<PersistenceId, State>>);
///
/// #[async_trait::async_trait]
/// impl StateLayout for InMemory {
///     async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
///         Ok(self.0.lock().unwrap().get(id).cloned())
///     }
///
///     async fn put(&self, state: State) -> Result<(), StateError> {
///         let (id, revision) = (state.persistence_id.clone(), state.revision);
///         let mut states = self.0.lock().unwrap();
///         let found = states.get(&id).map_or(0, |state| state.revision);
///         if found + 1 != revision {
///             return Err(StateError::Conflict { id, revision, found });
///         }
///         states.insert(id, state);
///         Ok(())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let states = States::new(Arc::new(InMemory::default()), &Store::new(Memory::new()));
/// let id = "Cart|42".parse()?;
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// assert!(states.upsert(&id, 3, Payload::new(Codec::Text, "lost")).await.is_err());
/// # Ok(())
/// # }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not store the durable state of a layout",
    label = "`annals::state::StateLayout` is not implemented for `{Self}`",
    note = "it is one part of an implementation of `annals::layout::Layout`"
)]
pub trait StateLayout: fmt::Debug + Send + Sync + 'static {
    /// Gets the state, deleted or not.
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>>;

    /// Writes the state, if the current revision is the one before it.
    async fn put(&self, state: State) -> Result<(), StateError>;

    /// Writes a copy of a state, if `before` is the current revision; 0 for none. A layout that
    /// cannot skip revisions refuses.
    async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        if before.checked_add(1) == Some(state.revision) {
            return self.put(state).await;
        }
        let error = Error::invalid("this layout cannot skip revisions; copy without state");
        let error = error.fact("id", state.persistence_id);
        Err(error.fact("revision", state.revision).into())
    }

    /// Lists the ids that ever had a value and begin with `prefix`, each once. A layout that cannot
    /// list them refuses.
    fn ids(&self, prefix: &str) -> IdStream {
        let refusal = Error::invalid("this layout cannot list values; name their ids");
        let refusal = refusal.fact("prefix", prefix);
        IdStream::failed(refusal)
    }

    /// Finds orphaned chunks of large values, and deletes them with [`Verify::Repair`]. For layouts
    /// without chunks there are none.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }

    /// Checks the value of one id, or all values and stray items, without changes. A layout without
    /// checks finds nothing.
    fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        let _ = id;
        FindingStream::empty()
    }
}

/// The store of durable state.
///
/// ```
/// use annals::layout::AnnalsLayout;
/// use annals::memory::Memory;
/// use annals::state::States;
/// use annals::{Annals, Codec, Payload, PersistenceId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let states: &States = annals.states()?;
///
/// let id: PersistenceId = "Cart|42".parse()?;
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// assert!(states.upsert(&id, 1, Payload::new(Codec::Text, "lost")).await.is_err());
/// assert_eq!(states.get(&id).await?.map(|state| state.revision), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct States {
    layout: Arc<dyn StateLayout>,
    store: Store,
}

/// Attempts of a deletion without a revision while other writers keep writing.
const DELETE_ATTEMPTS_MAX: usize = 16;

impl States {
    /// Durable state on a layout; called by [`Layout::states`](crate::layout::Layout::states).
    pub fn new(layout: Arc<dyn StateLayout>, store: &Store) -> Self {
        Self {
            layout,
            store: store.clone(),
        }
    }

    /// Gets the current value; `None` if there is none or it was deleted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let last = self.last(id).await?;
        Ok(last.filter(|state| state.value.is_some()))
    }

    /// Gets the last write: the current value, or a deletion, which has no value. `None` if there was
    /// no write.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn last(&self, id: &PersistenceId) -> Result<Option<State>> {
        let outcome = self.layout.get(id).await;
        outcome.map_err(|error| error.during("get state", id))
    }

    /// The current revision, also of a deletion; 0 if there was no write.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn revision(&self, id: &PersistenceId) -> Result<Revision> {
        let last = self.last(id).await?;
        Ok(last.map_or(0, |state| state.revision))
    }

    /// Lists the ids that ever had a value, deleted or not, and begin with `prefix`; each once, in no
    /// order. Reads the whole table.
    ///
    /// ```
    /// use annals::{Codec, Payload, PersistenceId};
    /// use futures::TryStreamExt;
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// # let states = annals.states()?;
    /// states.upsert(&"Cart|42".parse()?, 1, Payload::new(Codec::Text, "open")).await?;
    /// let carts: Vec<PersistenceId> = states.ids("Cart|").try_collect().await?;
    /// assert_eq!(carts, ["Cart|42".parse()?]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ids(&self, prefix: &str) -> IdStream {
        self.layout.ids(prefix)
    }

    /// Writes a copy of a state, with its revision and time, if `before` is the current revision; 0
    /// for none.
    pub(crate) async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        self.layout.put_over(state, before).await
    }

    /// Writes the value as this revision, if the current revision is the one before it (1: no writes
    /// yet).
    ///
    /// # Errors
    /// [`StateError::Conflict`] if the value has another revision.
    pub async fn upsert(
        &self,
        id: &PersistenceId,
        revision: Revision,
        state: impl Into<NewState>,
    ) -> Result<(), StateError> {
        self.put(id, revision, Some(state.into())).await
    }

    /// Deletes the value as this revision, or as the next one if `None`. The next value has a higher
    /// revision.
    ///
    /// Returns `false` if there is no value and no revision was given: then nothing is written. A
    /// revision is always written, even if there is no value.
    ///
    /// # Errors
    /// [`StateError::Conflict`] if the value has another revision.
    pub async fn delete(
        &self,
        id: &PersistenceId,
        revision: Option<Revision>,
    ) -> Result<bool, StateError> {
        if let Some(revision) = revision {
            self.put(id, revision, None).await?;
            return Ok(true);
        }
        for attempt in 1.. {
            let Some(found) = self.get(id).await? else {
                // There was one at the first attempt. That attempt may have deleted it, and only its
                // response was lost.
                return Ok(attempt > 1);
            };
            match self.put(id, found.revision.saturating_add(1), None).await {
                Err(StateError::Conflict { .. }) if attempt < DELETE_ATTEMPTS_MAX => {}
                ended => return ended.map(|()| true),
            }
        }
        Ok(true)
    }

    /// Finds chunks of large values that an interrupted write or deletion left, if they are older
    /// than `older_than`, and deletes them with [`Verify::Repair`]. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour: younger chunks may belong to a write in flight.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }

    /// Checks the value of one id, or all values and stray items. Reads all of them and changes
    /// nothing.
    pub fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        let (layout, clock) = (self.layout.clone(), self.store.clock().clone());
        confirm_check(move |id| layout.verify(id), clock, id)
    }

    async fn put(
        &self,
        id: &PersistenceId,
        revision: Revision,
        new: Option<NewState>,
    ) -> Result<(), StateError> {
        if revision == 0 {
            let error = Error::invalid("revisions count from 1").fact("id", id);
            return Err(error.fact("revision", revision).into());
        }
        let (value, tag) = new.map_or((None, String::new()), |new| (Some(new.value), new.tag));
        let state = State {
            persistence_id: id.clone(),
            revision,
            time_ms: self.store.clock().now_ms(),
            tag,
            value,
        };
        let operation = match state.value {
            Some(_) => "put state",
            None => "delete state",
        };
        self.layout.put(state).await.map_err(|error| match error {
            StateError::Store(error) => error.during(operation, id).into(),
            conflict @ StateError::Conflict { .. } => conflict,
        })
    }
}
