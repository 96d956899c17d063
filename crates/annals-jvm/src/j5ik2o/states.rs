//! Durable state on the `j5ik2o` layout: one item for each id, as the plugin stores it, and the
//! tombstone of its last deletion, which the plugin does not see.
//!
//! Guarantees: a value is replaced only by a writer that knows its revision, and a revision is never
//! reused, not even after a deletion. This holds as long as the plugin does not write the same ids:
//! it replaces without a condition and deletes without a tombstone.
//!
//! Every write is decided by one conditional put under the id's key, of a value or of a value that
//! is flagged as deleted (`closed`). The previous revision must be stored. A deletion then raises the
//! tombstone to its revision, and deletes the item if it is unchanged. So if the key is free, the
//! tombstone has the last revision (`T` below).
//!
//! A free key does not show that a value was deleted, so a first write that stalled before a deletion
//! could succeed after it, and a stalled upsert could follow. So a first write begins
//! ([`Stored::Begun`]) with an item that is not a value yet and matches no writer's condition; the
//! tombstone is read while it is stored; and then the value replaces it:
//!
//! ```text
//! first write of r          meanwhile
//! put begun, key free       a stalled first write begins, finds a later tombstone, removes its item
//! get tombstone: r - 1?     a stalled deletion resumes: its item is gone or replaced, so by T the
//!                           tombstone is stored already, and it raises nothing
//! put value over begun      another first write may use the begun item, after reading the
//!                           tombstone itself; one of the two puts fails
//! ```
//!
//! A deletion that stalls before its tombstone is stored is finished by the next read, and one that
//! resumes after a later write deletes nothing, since the item has changed.
//! The key settings must be the plugin's; `verify` and the table hints report values under other
//! keys. A value that the plugin wrote after a deletion of ours is not taken as deleted, though its
//! revisions restart at 1.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

use super::keys::{Keys, Resolvers};
use super::resolvers::{PersistenceIdBased, WholeId};
use super::separator::Separator;
use super::tables::state_table;
use super::value::{self, Stored, Values};
use crate::settings::{AnyLayout, TableNameKind};
use annals::IdStream;
use annals::items::{Condition, Item, Key, Scan, TableSpec, Value, WriteError};
use annals::state::{Revision, State, StateError, StateLayout};
use annals::store::Store;
use annals::verify::{Finding, FindingStream};
use annals::{Error, ErrorKind, PersistenceId, Result, Token};

/// The number of attempts to write while others write the same id.
const TRIES_MAX: usize = 16;

/// Durable state of the `j5ik2o` layout.
///
/// ```
/// use annals::layout::Layout;
/// use annals::memory::Memory;
/// use annals_jvm::{AnyLayout, LayoutName};
/// use annals::{Annals, Codec, Payload};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let settings = AnyLayout { layout: LayoutName::J5ik2o, ..AnyLayout::default() };
/// let annals = Annals::create(Arc::new(Memory::new()), &settings).await?;
/// let (states, id) = (annals.states()?, "Cart-42".parse()?);
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// assert_eq!(states.revision(&id).await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct J5ik2oStates {
    store: Store,
    settings: Arc<AnyLayout>,
    pub(super) table: Arc<TableSpec>,
    keys: Keys,
    separator: Separator,
    pub(super) values: Values,
}

/// The keys of an id's value and tombstone.
pub(super) struct Location {
    id: PersistenceId,
    pub(super) table: Arc<TableSpec>,
    pub(super) key: Key,
    pub(super) tombstone: Key,
}

/// A write: the item that decides it, and its token.
struct Draft {
    revision: Revision,
    /// The revision that must be stored.
    before: Revision,
    item: Item,
    writer: Value,
}

/// How a put ended.
enum Put {
    Stored,
    /// The condition did not hold; what is stored.
    Conflict(Option<Item>),
}

impl J5ik2oStates {
    pub(crate) fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_state;
        if section.shard_count == 0 {
            return Err(Error::invalid("set shard-count to 1 or more"));
        }
        let partition = PersistenceIdBased {
            separator: Separator::for_state(&section.persistence_id_separator)?,
            shards: section.shard_count,
        };
        let resolvers = Resolvers {
            partition: Arc::new(partition),
            sort: Arc::new(WholeId),
        };
        Self::open_with(store, settings, resolvers)
    }

    /// With your own resolvers, which get sequence number 0: a value has none.
    /// [`States::new`](annals::state::States::new) makes durable state of it.
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other.
    pub fn open_with(store: &Store, settings: &AnyLayout, resolvers: Resolvers) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_state;
        let table = super::tables(settings)?.state;
        let table = table.ok_or_else(|| Error::invalid("this layout has no durable state"))?;
        Ok(Self {
            store: store.clone(),
            settings: Arc::new(settings.clone()),
            table: Arc::new(table),
            keys: Keys::new(resolvers, false),
            separator: Separator::for_state(&section.persistence_id_separator)?,
            values: Values::new(section),
        })
    }

    pub(super) fn location(&self, id: &PersistenceId) -> Result<Location> {
        let key = self.keys.key(id, 0)?;
        Ok(Location {
            id: id.clone(),
            table: self.table_of(id)?,
            tombstone: value::tombstone_key(&key),
            key,
        })
    }

    fn table_of(&self, id: &PersistenceId) -> Result<Arc<TableSpec>> {
        let resolver = self
            .settings
            .j5ik2o
            .dynamo_db_state
            .table_name_resolver_class_name;
        let prefix = match resolver {
            TableNameKind::Config => None,
            TableNameKind::Prefix => self.separator.prefix(id)?,
        };
        let Some(prefix) = prefix else {
            return Ok(self.table.clone());
        };
        let name = prefix.parse().map_err(|cause| {
            Error::invalid(
                "the prefix of the id is not a valid table name; choose another id or table-name-resolver-class-name",
            )
            .fact("id", id)
            .fact("prefix", prefix)
            .because(cause)
        })?;
        Ok(Arc::new(state_table(name, &self.settings)?))
    }

    fn draft(&self, item: Item, (revision, before): (Revision, Revision)) -> Draft {
        let token = Token::draw(self.store.random());
        Draft {
            revision,
            before,
            item: self.values.signed(item, token),
            writer: value::signature(token),
        }
    }

    async fn read(&self, location: &Location, keys: Vec<Key>) -> Result<Vec<Option<Item>>> {
        Ok(self.store.get(&location.table, keys).await?.items)
    }

    async fn one(&self, location: &Location, key: &Key) -> Result<Option<Item>> {
        let mut found = self.read(location, vec![key.clone()]).await?;
        Ok(found.pop().flatten())
    }

    fn stored(&self, location: &Location, item: &Option<Item>) -> Result<Option<Stored>> {
        let stored = item.as_ref();
        let stored = stored.map(|item| self.values.stored(&location.id, item));
        stored
            .transpose()
            .map_err(|cause| unreadable(location, cause))
    }

    /// The revision of the last deletion that was finished; zero for none.
    async fn deleted_revision(&self, location: &Location) -> Result<Revision> {
        let tombstone = self.one(location, &location.tombstone).await?;
        let revision = tombstone.map(|item| self.values.deleted_revision(&item));
        let revision = revision.transpose();
        let revision = revision.map_err(|cause| unreadable(location, cause))?;
        Ok(revision.unwrap_or(0))
    }

    async fn put_if(&self, location: &Location, item: Item, condition: Condition) -> Result<Put> {
        match self.store.put(&location.table, item, condition).await {
            Ok(_) => Ok(Put::Stored),
            Err(WriteError::Refused { existing, .. }) => {
                Ok(Put::Conflict(existing.map(|item| *item)))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Deletes the item of a write, if it is still there.
    async fn remove(&self, location: &Location, writer: &Value) -> Result<()> {
        let key = location.key.clone();
        let deleted = self
            .store
            .delete(&location.table, key, value::by(writer.clone()));
        match deleted.await {
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Makes a write over `found`.
    async fn write(
        &self,
        location: &Location,
        draft: &Draft,
        mut found: Option<Item>,
    ) -> Result<(), StateError> {
        let before = draft.before;
        for _ in 0..TRIES_MAX {
            let ended = match self.stored(location, &found)? {
                // Our own write, whose response was lost.
                Some(Stored::Written {
                    writer: Some(writer),
                    ..
                }) if writer == draft.writer => return Ok(()),
                Some(Stored::Written { revision, .. }) if revision == before => {
                    let item = draft.item.clone();
                    self.put_if(location, item, self.values.at(before)).await?
                }
                Some(Stored::Written { revision, .. }) => {
                    return Err(conflict(location, draft, revision));
                }
                Some(Stored::Begun(writer)) => self.create(location, draft, Some(writer)).await?,
                None => self.create(location, draft, None).await?,
            };
            match ended {
                Put::Stored => return Ok(()),
                Put::Conflict(item) => found = item,
            }
        }
        let id = &location.id;
        let error = Error::unavailable("other writers keep writing this id; get it and try again");
        Err(error.fact("id", id).into())
    }

    /// Makes a write if there is no value: begins it, reads the tombstone, and puts the value. Also
    /// uses an item that another writer has begun.
    async fn create(
        &self,
        location: &Location,
        draft: &Draft,
        begun_by: Option<Value>,
    ) -> Result<Put, StateError> {
        if let Some(writer) = begun_by {
            self.check_tombstone(location, draft).await?;
            let item = draft.item.clone();
            return Ok(self.put_if(location, item, value::by(writer)).await?);
        }
        if draft.before > 0 {
            // So that the plugin does not see a write that fails anyway.
            self.check_tombstone(location, draft).await?;
        }
        let begun = self.values.begun(&draft.item, draft.revision);
        let begun = self.draft(begun, (draft.revision, draft.before));
        let ended = self.put_if(location, begun.item, Condition::Absent).await?;
        if let Put::Conflict(found) = ended {
            let ours = Some(Stored::Begun(begun.writer.clone()));
            if self.stored(location, &found)? != ours {
                return Ok(Put::Conflict(found));
            }
        }
        if let Err(refused) = self.check_tombstone(location, draft).await {
            self.remove(location, &begun.writer).await?;
            return Err(refused);
        }
        let item = draft.item.clone();
        Ok(self.put_if(location, item, value::by(begun.writer)).await?)
    }

    async fn check_tombstone(&self, location: &Location, draft: &Draft) -> Result<(), StateError> {
        match self.deleted_revision(location).await? {
            revision if revision == draft.before => Ok(()),
            revision => Err(conflict(location, draft, revision)),
        }
    }

    async fn upsert(
        &self,
        location: &Location,
        state: &State,
        before: Revision,
    ) -> Result<(), StateError> {
        let item = location.table.key().item_of(&location.key);
        let item = self.values.item_of(item, state)?;
        let draft = self.draft(item, (state.revision, before));
        if before == 0 {
            return self.write(location, &draft, None).await;
        }
        let condition = self.values.at(before);
        match self.put_if(location, draft.item.clone(), condition).await? {
            Put::Stored => Ok(()),
            Put::Conflict(found) => self.write(location, &draft, found).await,
        }
    }

    async fn delete(
        &self,
        location: &Location,
        state: &State,
        before: Revision,
    ) -> Result<(), StateError> {
        let keys = vec![location.key.clone(), location.tombstone.clone()];
        let mut found = self.read(location, keys).await?;
        let (tombstone, item) = (found.pop().flatten(), found.pop().flatten());
        let is_written = matches!(self.stored(location, &item)?, Some(Stored::Written { .. }));
        let value = item.clone().filter(|_| is_written);
        let bare = location.table.key().item_of(&location.key);
        let deleted = self.values.deleted(bare, value, state)?;
        let draft = self.draft(deleted, (state.revision, before));
        self.write(location, &draft, item).await?;
        let known = tombstone.map(|item| self.values.deleted_revision(&item));
        let (known, of) = (known.transpose()?, (state.revision, state.time_ms));
        Ok(self.finish(location, of, (&draft.writer, known)).await?)
    }

    /// Finishes a deletion: raises the tombstone, unless it has this revision already, and deletes
    /// the item.
    async fn finish(
        &self,
        location: &Location,
        of: (Revision, u64),
        (writer, mut known): (&Value, Option<Revision>),
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let condition = match known {
                None => Condition::Absent,
                Some(known) if known >= of.0 => return self.remove(location, writer).await,
                Some(known) => value::tombstone_at(known),
            };
            let key = location.table.key().item_of(&location.tombstone);
            let tombstone = self.values.tombstone(key, of);
            known = match self.put_if(location, tombstone, condition).await? {
                Put::Stored => Some(of.0),
                Put::Conflict(found) => {
                    let found = found.map(|item| self.values.deleted_revision(&item));
                    found.transpose()?
                }
            };
        }
        let id = &location.id;
        Err(
            Error::unavailable("other writers keep deleting this id; delete it again")
                .fact("id", id),
        )
    }

    /// As [`finish`](Self::finish), for an unfinished deletion found by a read. Without write access
    /// only warns.
    async fn finish_found(&self, location: &Location, state: &State, writer: &Value) -> Result<()> {
        let of = (state.revision, state.time_ms);
        match self.finish(location, of, (writer, None)).await {
            Err(error) if error.kind() == ErrorKind::Invalid => {
                tracing::warn!(id = %location.id, %error, "a deletion was interrupted, and this process has no permission to finish it");
                Ok(())
            }
            ended => ended,
        }
    }
}

#[async_trait]
impl StateLayout for J5ik2oStates {
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let location = self.location(id)?;
        let item = self.one(&location, &location.key).await?;
        match (self.stored(&location, &item)?, item) {
            (
                Some(Stored::Written {
                    revision,
                    is_deleted,
                    writer,
                }),
                Some(item),
            ) => {
                let state = self.values.state_in(id, &item, (revision, is_deleted));
                let state = state.map_err(|cause| unreadable(&location, cause))?;
                if let Some(writer) = writer.filter(|_| is_deleted) {
                    self.finish_found(&location, &state, &writer).await?;
                }
                Ok(Some(state))
            }
            _ => {
                let tombstone = self.one(&location, &location.tombstone).await?;
                let state = tombstone.map(|item| self.values.deleted_state(id, &item));
                state
                    .transpose()
                    .map_err(|cause| unreadable(&location, cause))
            }
        }
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let states = self.clone();
        let Some(id) = whose else {
            let all = self.store.scan_all(&self.table, Scan::whole());
            return FindingStream::new(all.map(move |item| states.check(&item?)));
        };
        let id = id.clone();
        FindingStream::new(stream::once(async move {
            let location = states.location(&id)?;
            let keys = vec![location.key.clone(), location.tombstone.clone()];
            let found = states.read(&location, keys).await?.into_iter().flatten();
            let checked = found.map(|item| states.check(&item));
            let checked: Vec<Vec<Finding>> = checked.collect::<Result<_>>()?;
            Ok(checked.concat())
        }))
    }

    async fn put(&self, state: State) -> Result<(), StateError> {
        let before = state.revision - 1;
        self.put_over(state, before).await
    }

    async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        let location = self.location(&state.persistence_id)?;
        match &state.value {
            Some(_) => self.upsert(&location, &state, before).await,
            None => self.delete(&location, &state, before).await,
        }
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let section = &self.settings.j5ik2o.dynamo_db_state;
        if section.table_name_resolver_class_name == TableNameKind::Prefix {
            let message = "values are in a table for each prefix of an id; pass the ids";
            return IdStream::failed(Error::invalid(message));
        }
        let (states, prefix) = (self.clone(), prefix.to_owned());
        let mut seen: HashSet<PersistenceId> = HashSet::new();
        let items = self.store.scan_all(&self.table, Scan::whole());
        let mut listed = move |item: &Item| {
            let id = states.id_in(item)?;
            let Some(id) = id.filter(|id| id.as_str().starts_with(&prefix)) else {
                return Ok(None);
            };
            // If it were listed, it could not be read.
            states.check_location(&id, item)?;
            Ok(Some(id).filter(|id| seen.insert(id.clone())))
        };
        IdStream::new(items.try_filter_map(move |item| std::future::ready(listed(&item))))
    }
}

fn conflict(location: &Location, draft: &Draft, found: Revision) -> StateError {
    StateError::Conflict {
        id: location.id.clone(),
        revision: draft.revision,
        found,
    }
}

fn unreadable(location: &Location, cause: Error) -> Error {
    Error::new(cause.kind(), "a stored value cannot be read")
        .fact("id", &location.id)
        .because(cause)
}
