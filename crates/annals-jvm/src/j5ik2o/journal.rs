//! The journal on the `j5ik2o` layout: an item for each event, as j5ik2o's
//! akka-persistence-dynamodb keeps them.
//!
//! Promises: what the plugin wrote is replayed, whatever keys it had at the time, and what is
//! appended here it replays. Every event is put on the condition that its key is free, and keys
//! once taken are not freed: of two writers of ours one is refused, and neither overwrites the
//! JVM's events, nor those of another id.
//! Trusts: that an id is not written by the JVM at the same time. The plugin overwrites without
//! looking, and no reader or writer can make up for that.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use futures::Stream;

use super::keys::{Chosen, Keys, Resolvers};
use super::resolvers::collision;
use super::row::{Row, owner};
use super::rows::{Range, Rows, Step};
use super::{deletion, ids, replay, skipping, tables, verify};
use crate::settings::{AnyLayout, J5ik2oJournal as Section, JournalColumns};
use annals::items::{Item, Items, Query, TableSpec};
use annals::journal::{
    AppendError, Appended, EventStream, Expected, Finding, IdStream, JournalLayout, Signature,
    Skip, Stamped, Window,
};
use annals::layout::Layout;
use annals::layout::support::Known;
use annals::layout::support::verify_scanned;
use annals::store::Store;
use annals::verify::{FindingStream, Repairs};
use annals::{PersistenceId, Result, SequenceNumber};

/// What this process knows of an id: by having written or read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The last event; 0: none.
    pub(super) last: u64,
    /// The number that the next event gets.
    pub(super) next: u64,
}

/// A journal of the `j5ik2o` layout.
///
/// ```
/// use annals::items::Items;
/// use annals::journal::{Expected, Journal};
/// use annals_jvm::j5ik2o::J5ik2oJournal;
/// use annals::memory::Memory;
/// use annals_jvm::{AnyLayout, LayoutName};
/// use annals::{Codec, NewEvent, Random, SystemClock};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let settings = AnyLayout { layout: LayoutName::J5ik2o, ..AnyLayout::default() };
/// let items: Arc<dyn Items> = Arc::new(Memory::new());
/// items.create_table(&settings.tables()?.journal, Default::default()).await?;
/// let clock = Arc::new(SystemClock::new());
/// let layout = J5ik2oJournal::open(items, &settings, clock.clone())?;
/// let journal = Journal::of(Arc::new(layout), clock, Random::from_machine());
///
/// let opened = NewEvent::new(Codec::Text, "opened");
/// let appended = journal.append(&"Cart-42".parse()?, Expected::Empty, opened).await?;
/// assert_eq!(appended.last.get(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct J5ik2oJournal {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
    pub(super) settings: Arc<AnyLayout>,
    pub(super) keys: Keys,
    pub(super) heads: Arc<Known<PersistenceId, Head>>,
}

impl J5ik2oJournal {
    /// Opens the journal with the resolvers that the settings name. Asks nothing of the store.
    ///
    /// # Errors
    /// `Invalid` where the settings contradict themselves.
    pub fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_journal;
        let chosen = Chosen {
            partition: section.partition_key_resolver_class_name,
            sort: section.sort_key_resolver_class_name,
            separator: &section.persistence_id_separator,
            shards: section.shard_count,
        };
        Self::open_with(store, settings, chosen.resolvers()?)
    }

    /// Opens the journal with resolvers of one's own. Asks nothing of the store.
    ///
    /// ```
    /// use annals::items::Items;
    /// use annals::journal::{Expected, Journal};
    /// use annals::layout::Layout;
    /// use annals_jvm::j5ik2o::{
    ///     J5ik2oJournal, PartitionKeyResolver, Resolvers, SortKeyResolver,
    /// };
    /// use annals::memory::Memory;
    /// use annals_jvm::{AnyLayout, LayoutName};
    /// use annals::{Codec, NewEvent, PersistenceId, Random, Result, SystemClock};
    /// use std::sync::Arc;
    ///
    /// /// The id is the partition, the number in 20 digits the place in it.
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
    /// let items: Arc<dyn Items> = Arc::new(Memory::new());
    /// let table = settings.tables()?.journal;
    /// items.create_table(&table, Default::default()).await?;
    ///
    /// let clock = Arc::new(SystemClock::new());
    /// let resolvers = Resolvers { partition: Arc::new(Plain), sort: Arc::new(Plain) };
    /// let layout = J5ik2oJournal::open_with(items, &settings, (clock.clone(), resolvers))?;
    /// let journal = Journal::of(Arc::new(layout), clock, Random::from_machine());
    ///
    /// let event = NewEvent::new(Codec::Text, "opened");
    /// let appended = journal.append(&"Cart|42".parse()?, Expected::Empty, event).await?;
    /// assert_eq!(appended.last.get(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` where the settings contradict themselves.
    pub fn open_with(store: &Store, settings: &AnyLayout, resolvers: Resolvers) -> Result<Self> {
        let is_numbered = tables::is_numbered(settings);
        Ok(Self {
            store: store.clone(),
            table: Arc::new(settings.tables()?.journal),
            settings: Arc::new(settings.clone()),
            keys: Keys::new(resolvers, is_numbered),
            heads: Arc::default(),
        })
    }

    pub(super) fn section(&self) -> &Section {
        &self.settings.j5ik2o.dynamo_db_journal
    }

    pub(super) fn columns(&self) -> &JournalColumns {
        &self.section().columns_def
    }

    /// Remembers where an id's history ends.
    pub(super) fn learn(&self, id: &PersistenceId, head: Head) {
        self.heads.update(id.clone(), |known| match known {
            Some(known) if known.next > head.next => known,
            _ => head,
        });
    }

    /// All items that a query asks for.
    pub(super) fn query(
        &self,
        query: Query,
    ) -> impl Stream<Item = Result<Item>> + Send + Unpin + use<> {
        self.store.query_all(&self.table, query)
    }

    /// What stands under the keys of numbers, whosever it is.
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
        Ok(self.store.get(&self.table, keys).await?.items)
    }

    /// The rows of numbers that are under the keys in use now.
    pub(super) async fn rows_at(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<Row>>> {
        let found = self.get(id, numbers).await?.into_iter();
        let rows = found.map(|item| {
            let item = item.filter(|item| self.is_owned(id, item));
            item.map(|item| self.row(item)).transpose()
        });
        rows.collect()
    }

    /// The rows between two numbers, whatever keys they have.
    pub(super) async fn rows_between(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<BTreeMap<u64, Row>> {
        let mut rows = Rows::of(self, id, Range::between(from, to));
        let mut found = BTreeMap::new();
        while let Some(step) = rows.next().await? {
            if let Step::Row(row) = step {
                found.insert(row.number, row);
            }
        }
        Ok(found)
    }

    /// The row of a number, whatever key it has.
    pub(super) async fn find(&self, id: &PersistenceId, number: u64) -> Result<Option<Row>> {
        let mut found = self.rows_between(id, number, number).await?;
        Ok(found.remove(&number))
    }

    pub(super) fn row(&self, item: Item) -> Result<Row> {
        Row::of(self.columns(), item)
    }

    /// Whether an item is of this id.
    pub(super) fn is_owned(&self, id: &PersistenceId, item: &Item) -> bool {
        owner(item, self.columns()) == Some(id.as_str())
    }

    /// Refuses an id whose key is another's.
    pub(super) fn check_owner(&self, id: &PersistenceId, number: u64, item: &Item) -> Result<()> {
        match self.is_owned(id, item) {
            true => Ok(()),
            false => {
                let other = owner(item, self.columns()).unwrap_or_default();
                Err(collision(id, other, &self.keys.key(id, number)?))
            }
        }
    }
}

#[async_trait]
impl JournalLayout for J5ik2oJournal {
    /// Nothing is recorded in a table of this layout.
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        self.put_expecting(id, expected, &stamped).await
    }

    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        replay::start(self.clone(), id.clone(), window)
    }

    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        Ok(SequenceNumber::new(self.tail(id).await?.settled()))
    }

    async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: (SequenceNumber, SequenceNumber),
    ) -> Result<Vec<Signature>> {
        self.find_signatures(id, numbers).await
    }

    async fn delete_to(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()> {
        deletion::delete_to(self, id, to.get()).await
    }

    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        Ok(Some(self.mark(id).await?.low.saturating_sub(1)))
    }

    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        skipping::skip(self, id, skip).await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<()> {
        deletion::purge(self, id).await
    }

    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>> {
        verify::verify(self, id, repairs).await
    }

    fn verify_all(self: Arc<Self>) -> FindingStream {
        let met = ids::met(&self);
        verify_scanned((*self).clone(), met)
    }

    fn persistence_ids(&self, prefix: &str) -> IdStream {
        ids::all(self, prefix)
    }
}
