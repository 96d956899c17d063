//! The journal on the `j5ik2o` layout: an item for each event, as j5ik2o's
//! akka-persistence-dynamodb stores them.
//!
//! Guarantees: replays what the plugin wrote, whatever keys it had at the time, and the plugin
//! replays what is appended here. Never overwrites the JVM's events, nor those of another id.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};

use super::keys::{Chosen, Keys, Resolvers};
use super::reader::{Range, Rows};
use super::resolvers::collision;
use super::row::{self, owner};
use super::tables;
use crate::rows::{Base, Markers, NewRow, Row, RowJournal, RowStream, RowTable};
use crate::settings::{AnyLayout, J5ik2oJournal as Section, JournalColumns};
use annals::items::ItemStream;
use annals::items::{Condition, Item, Query, Value, check_item};
use annals::layout::Layout;
use annals::store::Store;
use annals::{Error, PersistenceId, Result};

/// A journal of the `j5ik2o` layout.
///
/// ```
/// use annals::journal::{Expected, Journal};
/// use annals::layout::Layout;
/// use annals::memory::Memory;
/// use annals::store::Store;
/// use annals::{Codec, NewEvent};
/// use annals_jvm::j5ik2o::J5ik2oJournal;
/// use annals_jvm::{AnyLayout, LayoutName};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let settings = AnyLayout { layout: LayoutName::J5ik2o, ..AnyLayout::default() };
/// let store = Store::new(Memory::new());
/// settings.tables()?.create_missing(&store).await?;
/// let layout = J5ik2oJournal::open(&store, &settings)?;
/// let journal = Journal::new(Arc::new(layout), &store);
///
/// let opened = NewEvent::new(Codec::Text, "opened");
/// let appended = journal.append(&"Cart-42".parse()?, Expected::Empty, opened).await?;
/// assert_eq!(appended.last.get(), 1);
/// # Ok(())
/// # }
/// ```
pub type J5ik2oJournal = RowJournal<J5ik2oRows>;

/// The rows of the `j5ik2o` layout. See [`J5ik2oJournal`] for an example.
#[derive(Clone, Debug)]
pub struct J5ik2oRows {
    pub(super) base: Base,
    pub(super) keys: Keys,
}

impl J5ik2oJournal {
    /// Opens the journal with the resolvers that the settings name. Reads nothing.
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other.
    pub fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let resolvers = Chosen::for_journal(settings).resolvers()?;
        Self::open_with(store, settings, resolvers)
    }

    /// Opens the journal with your own resolvers. Reads nothing.
    ///
    /// ```
    /// use annals::journal::{Expected, Journal};
    /// use annals::layout::Layout;
    /// use annals_jvm::j5ik2o::{
    ///     J5ik2oJournal, PartitionKeyResolver, Resolvers, SortKeyResolver,
    /// };
    /// use annals::memory::Memory;
    /// use annals_jvm::{AnyLayout, LayoutName};
    /// use annals::store::Store;
    /// use annals::{Codec, NewEvent, PersistenceId, Result};
    /// use std::sync::Arc;
    ///
    /// /// The id is the partition key, the number in 20 digits the sort key.
    /// #[derive(Debug)]
    /// struct Plain;
    ///
    /// impl PartitionKeyResolver for Plain {
    ///     fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
    ///         Ok(id.to_string())
    ///     }
    ///
    ///     fn is_constant(&self) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// impl SortKeyResolver for Plain {
    ///     fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
    ///         Ok(format!("{number:020}"))
    ///     }
    ///
    ///     fn is_ordered(&self) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let settings = AnyLayout { layout: LayoutName::J5ik2o, ..AnyLayout::default() };
    /// let store = Store::new(Memory::new());
    /// settings.tables()?.create_missing(&store).await?;
    ///
    /// let resolvers = Resolvers { partition: Arc::new(Plain), sort: Arc::new(Plain) };
    /// let layout = J5ik2oJournal::open_with(&store, &settings, resolvers)?;
    /// let journal = Journal::new(Arc::new(layout), &store);
    ///
    /// let event = NewEvent::new(Codec::Text, "opened");
    /// let appended = journal.append(&"Cart|42".parse()?, Expected::Empty, event).await?;
    /// assert_eq!(appended.last.get(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other.
    pub fn open_with(store: &Store, settings: &AnyLayout, resolvers: Resolvers) -> Result<Self> {
        Ok(RowJournal(J5ik2oRows {
            base: Base::new(store, settings.tables()?.journal, settings),
            keys: Keys::new(resolvers, tables::is_numbered(settings)),
        }))
    }
}

impl J5ik2oRows {
    pub(super) fn section(&self) -> &Section {
        &self.base.settings.j5ik2o.dynamo_db_journal
    }

    pub(super) fn columns(&self) -> &JournalColumns {
        &self.section().columns_def
    }

    /// All items that a query finds.
    pub(super) fn query(&self, query: Query) -> ItemStream {
        self.base.store.query_all(&self.base.table, query)
    }

    /// The items under the keys of these numbers, including those of other ids.
    pub(super) async fn get(
        &self,
        id: &PersistenceId,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<Vec<Option<Item>>> {
        let keys = numbers.map(|number| self.keys.key(id, number));
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.base.store.get(&self.base.table, keys).await?.items)
    }

    /// The rows of these numbers under the current keys.
    pub(super) async fn rows_at(
        &self,
        id: &PersistenceId,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<Vec<Row>> {
        let found = self.get(id, numbers).await?.into_iter().flatten();
        let found = found.filter(|item| self.is_owned(id, item));
        found.map(|item| self.row(item)).collect()
    }

    /// The rows between two numbers, whatever keys they have.
    pub(super) async fn rows_between(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<BTreeMap<u64, Row>> {
        let mut rows = Rows::new(self, id, Range::between(from, to));
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next().await? {
            found.insert(row.number, row);
        }
        Ok(found)
    }

    /// The row of a number, whatever key it has.
    pub(super) async fn find(&self, id: &PersistenceId, number: u64) -> Result<Option<Row>> {
        let mut found = self.rows_between(id, number, number).await?;
        Ok(found.remove(&number))
    }

    /// Whether an item belongs to this id.
    pub(super) fn is_owned(&self, id: &PersistenceId, item: &Item) -> bool {
        owner(item, self.columns()) == Some(id.as_str())
    }
}

impl RowTable for J5ik2oRows {
    fn base(&self) -> &Base {
        &self.base
    }

    fn row(&self, item: Item) -> Result<Row> {
        row::decode(self.columns(), item)
    }

    fn item(&self, new: &NewRow<'_>) -> Result<Item> {
        let key = self.keys.key(new.id, new.number.get())?;
        let item = self.base.table.key().item_of(&key);
        let item = row::encode(new, item, self.section())?;
        check_item(&self.base.table, &item).map_err(|cause| {
            let (id, event) = (new.id, new.batch.map_or(0, |batch| batch.index) + 1);
            Error::new(cause.kind(), "an event does not fit an item of this layout")
                .fact("id", id)
                .fact("event", event)
                .because(cause)
        })?;
        Ok(item)
    }

    /// Two ids may have one key.
    fn check_owner(&self, id: &PersistenceId, number: u64, item: &Item) -> Result<()> {
        match self.is_owned(id, item) {
            true => Ok(()),
            false => {
                let other = owner(item, self.columns()).unwrap_or_default();
                Err(collision(id, other, &self.keys.key(id, number)?))
            }
        }
    }

    /// The condition that it is not flagged as deleted: events do not change in other ways.
    fn unchanged(&self, row: &Row) -> Option<Condition> {
        let name = self.columns().deleted_column_name.clone();
        row.is_live()
            .then(|| Condition::Equals(name, Value::Bool(false)))
    }

    fn rows(&self, id: &PersistenceId, (from, to): (u64, u64)) -> RowStream {
        let rows = Rows::new(self, id, Range::between(from, to));
        let rows = stream::try_unfold(rows, |mut rows| async move {
            Ok(rows.next().await?.map(|row| (row, rows)))
        });
        rows.boxed()
    }

    async fn markers(&self, id: &PersistenceId) -> Result<Markers> {
        self.marker(id).await
    }
}
