//! Durable state on the `j5ik2o` layout: one item for each id, as the plugin has it, and beside it
//! the mark of its deletions, which the plugin does not see.
//!
//! Promises: a value is replaced only by whoever knows its revision; a revision is never used
//! twice, not even after a deletion, as far as the plugin leaves alone what we wrote: it replaces
//! without a condition, and deletes without a trace.
//!
//! Every write is decided by one conditional put under the id's key: of a value (`Written`), or of
//! what is deleted, marked so (`closed`). The revision before it must be there. A deletion then goes
//! on: the mark is raised to its revision, never lowered, and then the item is deleted, if it still
//! is this one. So where the key is free, the mark tells the last revision; `M` below.
//!
//! A free key has no memory, and a first write that was frozen since before a deletion would land on
//! it. Were it a value already, an upsert frozen equally long could follow it. So a first write is
//! begun (`Begun`) as what counts for none of us and meets nobody's condition; the mark is read
//! while it stands; and only over it comes the value:
//!
//! ```text
//! first write of r        meanwhile
//! put begun, key free     frozen before: it begins, finds the mark raised, and takes itself back
//! get mark: r - 1?        a deletion that wakes up now: its item is gone or replaced, so by M the
//!                         mark is raised already, and it raises nothing
//! put value over begun    another first write may have used what is begun, having read the mark
//!                         itself; of the two puts over it one fails
//! ```
//!
//! A deletion frozen before its mark is raised is finished by the next read, and one that wakes up
//! behind a later write deletes nothing, since that is not its item.
//! Trusts: that a table's resolvers and separator are the plugin's; by other ones nothing is found.
//! Never: takes a value for deleted that the plugin wrote behind a deletion of ours, though it
//! counts from 1 again.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

use super::keys::{Keys, Resolvers};
use super::resolvers::{PersistenceIdBased, WholeId};
use super::separator::Separator;
use super::tables::state_table;
use super::value::{self, Standing, Values};
use crate::settings::{AnyLayout, TableNameKind};
use annals::items::{Condition, Item, Items, Key, KeyPart, Scan, TableSpec, Value, WriteError};
use annals::journal::IdStream;
use annals::layout::support::{stray_item, unreadable_at};
use annals::state::{Revision, State, StateError, StateLayout};
use annals::store::Store;
use annals::verify::{Finding, FindingStream, StoredKind};
use annals::{Error, ErrorKind, PersistenceId, Result, Token};

/// How often a write looks again while others write the same id.
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
    table: Arc<TableSpec>,
    keys: Keys,
    separator: Separator,
    values: Values,
}

/// Where an id's value and mark are.
struct Place {
    id: PersistenceId,
    table: Arc<TableSpec>,
    key: Key,
    mark: Key,
}

/// A write: what decides it, and whose it is.
struct Draft {
    revision: Revision,
    /// The revision that must be there.
    before: Revision,
    item: Item,
    writer: Value,
}

/// How a put ended.
enum Put {
    Landed,
    /// Its condition did not hold for this.
    Met(Option<Item>),
}

impl J5ik2oStates {
    pub(crate) fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_state;
        if section.shard_count == 0 {
            return Err(Error::invalid("shard-count is at least 1"));
        }
        let partition = PersistenceIdBased {
            separator: Separator::new(&section.persistence_id_separator)?,
            shards: section.shard_count,
        };
        let resolvers = Resolvers {
            partition: Arc::new(partition),
            sort: Arc::new(WholeId),
        };
        Self::open_with(store, settings, resolvers)
    }

    /// With resolvers of one's own, which are asked for number 0: a value has none.
    /// [`States::of`](annals::state::States::of) makes durable state of it.
    ///
    /// # Errors
    /// `Invalid` where the settings contradict themselves.
    pub fn open_with(store: &Store, settings: &AnyLayout, resolvers: Resolvers) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_state;
        let table = super::tables(settings)?.state;
        let table = table.ok_or_else(|| Error::invalid("this layout has no durable state"))?;
        Ok(Self {
            store: store.clone(),
            settings: Arc::new(settings.clone()),
            table: Arc::new(table),
            keys: Keys::new(resolvers, false),
            separator: Separator::new(&section.persistence_id_separator)?,
            values: Values::new(section),
        })
    }

    fn place(&self, id: &PersistenceId) -> Result<Place> {
        let key = self.keys.key(id, 0)?;
        Ok(Place {
            id: id.clone(),
            table: self.table_of(id)?,
            mark: value::mark_key(&key),
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
            Error::invalid(format!(
                "the prefix of an id names its table, and is no name of one. id=`{id}`, prefix=`{prefix}`"
            ))
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

    async fn read(&self, place: &Place, keys: Vec<Key>) -> Result<Vec<Option<Item>>> {
        Ok(self.store.get(&place.table, keys).await?.items)
    }

    async fn one(&self, place: &Place, key: &Key) -> Result<Option<Item>> {
        let mut found = self.read(place, vec![key.clone()]).await?;
        Ok(found.pop().flatten())
    }

    fn standing(&self, place: &Place, item: &Option<Item>) -> Result<Option<Standing>> {
        let standing = item
            .as_ref()
            .map(|item| self.values.standing(&place.id, item));
        standing.transpose().map_err(|cause| damaged(place, cause))
    }

    /// The revision of the last deletion that was finished; zero for none.
    async fn marked(&self, place: &Place) -> Result<Revision> {
        let mark = self.one(place, &place.mark).await?;
        let marked = mark.map(|mark| self.values.marked_revision(&mark));
        Ok(marked
            .transpose()
            .map_err(|cause| damaged(place, cause))?
            .unwrap_or(0))
    }

    async fn put_if(&self, place: &Place, item: Item, condition: Condition) -> Result<Put> {
        match self.store.put(&place.table, item, condition).await {
            Ok(_) => Ok(Put::Landed),
            Err(WriteError::Refused { existing, .. }) => Ok(Put::Met(existing.map(|item| *item))),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Deletes the item of a write, if it is still there.
    async fn remove(&self, place: &Place, writer: &Value) -> Result<()> {
        let key = place.key.clone();
        let deleted = self
            .store
            .delete(&place.table, key, value::by(writer.clone()));
        match deleted.await {
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Makes a write, which met this under its key.
    async fn take(
        &self,
        place: &Place,
        draft: &Draft,
        mut met: Option<Item>,
    ) -> Result<(), StateError> {
        let before = draft.before;
        for _ in 0..TRIES_MAX {
            let ended = match self.standing(place, &met)? {
                // Our own, whose answer was lost.
                Some(Standing::Written {
                    writer: Some(writer),
                    ..
                }) if writer == draft.writer => return Ok(()),
                Some(Standing::Written { revision, .. }) if revision == before => {
                    let item = draft.item.clone();
                    self.put_if(place, item, self.values.at(before)).await?
                }
                Some(Standing::Written { revision, .. }) => {
                    return Err(conflict(place, draft, revision));
                }
                Some(Standing::Begun(writer)) => self.create(place, draft, Some(writer)).await?,
                None => self.create(place, draft, None).await?,
            };
            match ended {
                Put::Landed => return Ok(()),
                Put::Met(item) => met = item,
            }
        }
        let id = &place.id;
        let message = format!("others write this id all the time; get it and try again. id=`{id}`");
        Err(Error::unavailable(message).into())
    }

    /// Makes a write where nothing counts: begins it, looks at the mark, and makes it count. What
    /// somebody else has begun serves as well.
    async fn create(
        &self,
        place: &Place,
        draft: &Draft,
        begun_by: Option<Value>,
    ) -> Result<Put, StateError> {
        if let Some(writer) = begun_by {
            self.check_mark(place, draft).await?;
            let item = draft.item.clone();
            return Ok(self.put_if(place, item, value::by(writer)).await?);
        }
        if draft.before > 0 {
            // So that the plugin does not see what is refused in any case.
            self.check_mark(place, draft).await?;
        }
        let begun = self.values.begun(&draft.item, draft.revision);
        let begun = self.draft(begun, (draft.revision, draft.before));
        let ended = self.put_if(place, begun.item, Condition::Absent).await?;
        if let Put::Met(met) = ended {
            let ours = Some(Standing::Begun(begun.writer.clone()));
            if self.standing(place, &met)? != ours {
                return Ok(Put::Met(met));
            }
        }
        if let Err(refused) = self.check_mark(place, draft).await {
            self.remove(place, &begun.writer).await?;
            return Err(refused);
        }
        let item = draft.item.clone();
        Ok(self.put_if(place, item, value::by(begun.writer)).await?)
    }

    async fn check_mark(&self, place: &Place, draft: &Draft) -> Result<(), StateError> {
        match self.marked(place).await? {
            marked if marked == draft.before => Ok(()),
            marked => Err(conflict(place, draft, marked)),
        }
    }

    async fn upsert(
        &self,
        place: &Place,
        state: &State,
        before: Revision,
    ) -> Result<(), StateError> {
        let item = place.table.key().item_of(&place.key);
        let item = self.values.item_of(item, state)?;
        let draft = self.draft(item, (state.revision, before));
        if before == 0 {
            return self.take(place, &draft, None).await;
        }
        let condition = self.values.at(before);
        match self.put_if(place, draft.item.clone(), condition).await? {
            Put::Landed => Ok(()),
            Put::Met(met) => self.take(place, &draft, met).await,
        }
    }

    async fn delete(
        &self,
        place: &Place,
        state: &State,
        before: Revision,
    ) -> Result<(), StateError> {
        let keys = vec![place.key.clone(), place.mark.clone()];
        let mut found = self.read(place, keys).await?;
        let (mark, item) = (found.pop().flatten(), found.pop().flatten());
        let is_written = matches!(self.standing(place, &item)?, Some(Standing::Written { .. }));
        let value = item.clone().filter(|_| is_written);
        let bare = place.table.key().item_of(&place.key);
        let closed = self.values.closed(bare, value, state)?;
        let draft = self.draft(closed, (state.revision, before));
        self.take(place, &draft, item).await?;
        let marked = mark
            .map(|mark| self.values.marked_revision(&mark))
            .transpose()?;
        let of = (state.revision, state.time_ms);
        Ok(self.finish(place, of, (&draft.writer, marked)).await?)
    }

    /// Finishes a deletion that counts: raises the mark, which may be this, and deletes the item.
    async fn finish(
        &self,
        place: &Place,
        of: (Revision, u64),
        (writer, mut marked): (&Value, Option<Revision>),
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let condition = match marked {
                None => Condition::Absent,
                Some(marked) if marked >= of.0 => return self.remove(place, writer).await,
                Some(marked) => value::marked_at(marked),
            };
            let mark = self.values.mark(place.table.key().item_of(&place.mark), of);
            match self.put_if(place, mark, condition).await? {
                Put::Landed => marked = Some(of.0),
                Put::Met(met) => {
                    marked = met
                        .map(|mark| self.values.marked_revision(&mark))
                        .transpose()?;
                }
            }
        }
        let id = &place.id;
        Err(Error::unavailable(format!(
            "others delete this id all the time; delete it again. id=`{id}`"
        )))
    }

    /// As [`finish`](Self::finish), for a deletion that was found unfinished. Whoever may only read
    /// gets their answer all the same.
    async fn finish_found(&self, place: &Place, state: &State, writer: &Value) -> Result<()> {
        let of = (state.revision, state.time_ms);
        match self.finish(place, of, (writer, None)).await {
            Err(error) if error.kind() == ErrorKind::Invalid => {
                tracing::warn!(id = %place.id, %error, "a deletion was cut off, and cannot be finished by whoever reads");
                Ok(())
            }
            ended => ended,
        }
    }
}

#[async_trait]
impl StateLayout for J5ik2oStates {
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let place = self.place(id)?;
        let item = self.one(&place, &place.key).await?;
        match (self.standing(&place, &item)?, item) {
            (
                Some(Standing::Written {
                    revision,
                    is_closed,
                    writer,
                }),
                Some(item),
            ) => {
                let state = self.values.state_in(id, &item, (revision, is_closed));
                let state = state.map_err(|cause| damaged(&place, cause))?;
                if let Some(writer) = writer.filter(|_| is_closed) {
                    self.finish_found(&place, &state, &writer).await?;
                }
                Ok(Some(state))
            }
            _ => {
                let mark = self.one(&place, &place.mark).await?;
                let state = mark.map(|mark| self.values.marked(id, &mark));
                state.transpose().map_err(|cause| damaged(&place, cause))
            }
        }
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let states = self.clone();
        let Some(id) = whose else {
            let all = self.store.scan_all(&self.table, Scan::whole());
            return Box::pin(all.map(move |item| states.check(&item?)));
        };
        let id = id.clone();
        Box::pin(stream::once(async move {
            let place = states.place(&id)?;
            let keys = vec![place.key.clone(), place.mark.clone()];
            let found = states.read(&place, keys).await?.into_iter().flatten();
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
        let place = self.place(&state.persistence_id)?;
        match &state.value {
            Some(_) => self.upsert(&place, &state, before).await,
            None => self.delete(&place, &state, before).await,
        }
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let section = &self.settings.j5ik2o.dynamo_db_state;
        if section.table_name_resolver_class_name == TableNameKind::Prefix {
            let message = "values are in a table for each prefix of an id; name their ids";
            return Box::pin(stream::once(async move { Err(Error::invalid(message)) }));
        }
        let (states, prefix) = (self.clone(), prefix.to_owned());
        let mut seen: HashSet<PersistenceId> = HashSet::new();
        let items = self.store.scan_all(&self.table, Scan::whole());
        let ids = items.try_filter_map(move |item| {
            let id = states.whose(&item).map(|id| {
                let id = id.filter(|id| id.as_str().starts_with(&prefix));
                id.filter(|id| seen.insert(id.clone()))
            });
            std::future::ready(id)
        });
        Box::pin(ids)
    }
}

impl J5ik2oStates {
    /// Whose value or mark an item is, where it tells.
    fn whose(&self, item: &Item) -> Result<Option<PersistenceId>> {
        let key = self.table.key_of(item)?;
        // A mark tells its id by its sort key alone, unless somebody's own resolver made that.
        Ok(match (value::is_mark(&key), &key.sort) {
            (true, Some(KeyPart::S(id))) => id.parse().ok(),
            _ => self.values.owner(item),
        })
    }

    /// What is wrong with an item of the table.
    fn check(&self, item: &Item) -> Result<Vec<Finding>> {
        let key = self.table.key_of(item)?;
        let Some(id) = self.whose(item)? else {
            return Ok(vec![stray_item(StoredKind::Value, self.table.name(), &key)]);
        };
        let read = match value::is_mark(&key) {
            true => self.values.marked_revision(item).map(|_| ()),
            false => self.values.standing(&id, item).and_then(|standing| {
                let Standing::Written {
                    revision,
                    is_closed,
                    ..
                } = standing
                else {
                    return Ok(());
                };
                let state = self.values.state_in(&id, item, (revision, is_closed));
                state.map(|_| ())
            }),
        };
        match read {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let number = self.values.revision_in(item);
                Ok(unreadable_at(StoredKind::Value, &id, number, &error))
            }
            read => read.map(|()| Vec::new()),
        }
    }
}

fn conflict(place: &Place, draft: &Draft, found: Revision) -> StateError {
    StateError::Conflict {
        id: place.id.clone(),
        revision: draft.revision,
        found,
    }
}

fn damaged(place: &Place, cause: Error) -> Error {
    let message = format!("a stored value cannot be read. id=`{}`", place.id);
    Error::new(cause.kind(), message).because(cause)
}
