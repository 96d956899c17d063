//! Durable state: the current value of an entity, without its history.
//!
//! Promises: a value is replaced only by whoever knows its revision; a revision is never used
//! twice, not even after a deletion.

mod changes;

pub use changes::StateStream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;

use crate::IdStream;
use crate::store::Store;
use crate::verify::{self, Finding, FindingStream, Looks, Repairs, Verify};
use crate::{Error, Payload, PersistenceId, Result};

/// The count of an entity's writes: 1 for the first, one more for each, deletions included.
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
/// assert_eq!(last, 0); // nothing was written yet
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
/// let deleted = states.last(&id).await?.expect("deletions are told");
/// assert_eq!((deleted.revision, deleted.value), (2, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whose value.
    pub persistence_id: PersistenceId,
    /// The write it came with.
    pub revision: Revision,
    /// When it was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// What to find it by; may be empty.
    pub tag: String,
    /// The value; none where it was deleted.
    pub value: Option<Payload>,
}

/// A value to be written.
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
pub struct NewState {
    /// The value.
    pub value: Payload,
    /// What to find it by; may be empty.
    pub tag: String,
}

impl NewState {
    /// With this tag.
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

/// How a write of durable state fails.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another revision is there: reload, decide again.
    #[error(
        "another revision is there; get it and decide again: a write or a deletion gives the number it becomes, the one behind what is found. id=`{id}`, revision=`{revision}`, found=`{found}`, next=`{}`",
        found.saturating_add(1)
    )]
    Conflict {
        /// Whose state.
        id: PersistenceId,
        /// The revision that was to be written.
        revision: Revision,
        /// The revision that is there; zero for none.
        found: Revision,
    },
    /// The store failed; the error's kind says whether the write may have landed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => error,
            conflict @ StateError::Conflict { .. } => Error::conflict(conflict.to_string()),
        }
    }
}

/// How durable state becomes items and back: what a layout does for it.
///
/// ```
/// use annals::state::{State, StateError, StateLayout, States};
/// use annals::{Codec, Payload, PersistenceId, Result, SystemClock};
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
/// let states = States::of(Arc::new(InMemory::default()), Arc::new(SystemClock::new()));
/// let id = "Cart|42".parse()?;
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// assert!(states.upsert(&id, 3, Payload::new(Codec::Text, "lost")).await.is_err());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait StateLayout: fmt::Debug + Send + Sync + 'static {
    /// What is there, deleted or not.
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>>;

    /// Writes the state, if the revision before it is there.
    async fn put(&self, state: State) -> Result<(), StateError>;

    /// Writes a state that was written elsewhere, if `before` is the revision that is there; 0 for
    /// none. A layout that cannot leave revisions out refuses.
    async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        if before.checked_add(1) == Some(state.revision) {
            return self.put(state).await;
        }
        let (id, revision) = (state.persistence_id, state.revision);
        let message =
            format!("this layout cannot leave revisions out. id=`{id}`, revision=`{revision}`");
        Err(Error::invalid(message).into())
    }

    /// Every id that ever had a value and begins so, each once. A layout that cannot tell refuses.
    fn ids(&self, prefix: &str) -> IdStream {
        let message = format!("this layout cannot list values; name their ids. prefix=`{prefix}`");
        let refusal = Error::invalid(message);
        Box::pin(futures::stream::once(async { Err(refusal) }))
    }

    /// Finds what large values left behind, and deletes it where that is wanted. A layout whose
    /// values leave nothing has nothing to do.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }

    /// What is wrong with every value of an id, or of all, and with items that are nobody's; nothing
    /// is changed. A layout that does not look finds nothing.
    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let _ = whose;
        Box::pin(futures::stream::empty())
    }
}

/// The values of ids, to be looked at again.
struct Looked(Arc<dyn StateLayout>);

#[async_trait]
impl Looks for Looked {
    async fn look(&self, id: &PersistenceId, _: &Repairs) -> Result<Vec<Finding>> {
        self.0.verify(Some(id)).try_concat().await
    }
}

/// Where durable state is kept.
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

/// How often a deletion without a revision is tried while others keep writing.
const DELETE_TRIES_MAX: usize = 16;

impl States {
    /// On a layout; called by [`Layout::states`](crate::layout::Layout::states).
    pub fn new(layout: Arc<dyn StateLayout>, store: &Store) -> Self {
        Self {
            layout,
            store: store.clone(),
        }
    }

    /// The current value; `None` where there is none, or it was deleted.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let last = self.last(id).await?;
        Ok(last.filter(|state| state.value.is_some()))
    }

    /// What was written last: the current value, or the deletion, which has none. `None` where
    /// nothing was ever written.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn last(&self, id: &PersistenceId) -> Result<Option<State>> {
        self.layout.get(id).await
    }

    /// The last revision, of a deletion too; zero where nothing was ever written.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn revision(&self, id: &PersistenceId) -> Result<Revision> {
        let last = self.last(id).await?;
        Ok(last.map_or(0, |state| state.revision))
    }

    /// Every id that ever had a value, deleted or not, and begins with `prefix`; each once, in no
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

    /// Writes a state that was written elsewhere, with the revision and time it has, if `before` is
    /// the revision that is there; 0 for none.
    pub(crate) async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        self.layout.put_over(state, before).await
    }

    /// Writes the value as this revision, if the one before it is there: 1 where nothing is.
    ///
    /// # Errors
    /// [`StateError::Conflict`] where another revision is there.
    pub async fn upsert(
        &self,
        id: &PersistenceId,
        revision: Revision,
        state: impl Into<NewState>,
    ) -> Result<(), StateError> {
        self.put(id, revision, Some(state.into())).await
    }

    /// Deletes the value, as this revision if one is given, else as the next. The revision is
    /// taken: the next value has a higher one. Deleting what is not there is fine.
    ///
    /// # Errors
    /// [`StateError::Conflict`] where another revision is there.
    pub async fn delete(
        &self,
        id: &PersistenceId,
        revision: Option<Revision>,
    ) -> Result<(), StateError> {
        if let Some(revision) = revision {
            return self.put(id, revision, None).await;
        }
        for tries in 1.. {
            let Some(found) = self.get(id).await? else {
                return Ok(());
            };
            match self.put(id, found.revision.saturating_add(1), None).await {
                Err(StateError::Conflict { .. }) if tries < DELETE_TRIES_MAX => {}
                ended => return ended,
            }
        }
        Ok(())
    }

    /// Finds what large values left behind that were cut off before they were written, replaced or
    /// deleted, if it is older than so long, and deletes it where that is wanted. Reads the whole
    /// table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour: what is that young may still be under way.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }

    /// What is wrong with the value of an id, or with all there are and what is nobody's: a list for
    /// each, empty where nothing is. Reads them all, and changes nothing.
    pub fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let (first, looked) = (self.layout.verify(whose), Looked(self.layout.clone()));
        let clock = self.store.clock().clone();
        verify::all(Arc::new(looked), clock, (first, Verify::Look))
    }

    async fn put(
        &self,
        id: &PersistenceId,
        revision: Revision,
        new: Option<NewState>,
    ) -> Result<(), StateError> {
        if revision == 0 {
            let message = format!("revisions count from 1. id=`{id}`, revision=`0`");
            return Err(Error::invalid(message).into());
        }
        let (value, tag) = new.map_or((None, String::new()), |new| (Some(new.value), new.tag));
        let state = State {
            persistence_id: id.clone(),
            revision,
            time_ms: self.store.clock().now_ms(),
            tag,
            value,
        };
        self.layout.put(state).await
    }
}
