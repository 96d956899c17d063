//! The journal on the `akka` layout: an item for each event, as akka-persistence-dynamodb 1.x and
//! pekko-persistence-dynamodb store them.
//!
//! Guarantees: replays what the plugin wrote, and the plugin replays what is appended here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt, stream};

use super::keys::{Keys, by_hundreds};
use super::{record, row};
use crate::rows::{Base, Markers, NewRow, Row, RowJournal, RowStream, RowTable};
use crate::settings::AnyLayout;
use annals::items::{Condition, Item, Query};
use annals::layout::Layout;
use annals::store::Store;
use annals::{Error, PersistenceId, Result};

/// A journal of the `akka` layout.
///
/// ```
/// use annals::items::{Items, Scan};
/// use annals::journal::Expected;
/// use annals::layout::Layout;
/// use annals::memory::Memory;
/// use annals_jvm::{AnyLayout, LayoutName};
/// use annals::{Annals, Codec, NewEvent};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let items = Arc::new(Memory::new());
/// let settings = AnyLayout { layout: LayoutName::Akka, ..AnyLayout::default() };
/// let annals = Annals::create(items.clone(), &settings).await?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
///
/// // The plugin's keys: the journal's name, the id and a hundred of its numbers.
/// let stored = items.scan(&settings.tables()?.journal, Scan::whole()).await?;
/// let keys = stored.items.iter().filter_map(|item| item.get("par")?.as_str());
/// assert!(keys.into_iter().any(|key| key == "journal-P-Cart|42-0"));
/// # Ok(())
/// # }
/// ```
pub(crate) type AkkaJournal = RowJournal<AkkaRows>;

/// The rows of the `akka` layout.
#[derive(Clone, Debug)]
pub(crate) struct AkkaRows {
    pub(super) base: Base,
    pub(super) keys: Keys,
    /// Set once the journal's record is known to be stored.
    pub(super) recorded: Arc<tokio::sync::OnceCell<()>>,
    /// Names of other journals in the table that listings have met.
    pub(super) others: Arc<Mutex<BTreeSet<String>>>,
}

impl AkkaJournal {
    /// Opens the journal in a table. Nothing is written before the first append.
    ///
    /// # Errors
    /// `Invalid` if the table is missing, or has markers that these settings would not find.
    pub(crate) async fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let table = settings.tables()?.journal;
        let keys = Keys::new(&settings.journal_name, settings.sequence_shards)?;
        record::check(store, &table, &keys).await?;
        Ok(RowJournal(AkkaRows {
            base: Base::new(store, table, settings),
            keys,
            recorded: Arc::default(),
            others: Arc::default(),
        }))
    }
}

impl AkkaRows {
    pub(super) fn jvm_deletes(&self) -> bool {
        self.base.settings.jvm_deletes
    }

    /// The items of one hundred between two numbers, all pages.
    pub(super) async fn items_between(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<Vec<Item>> {
        let query = self.keys.between(id, from, to);
        let all = self.base.store.query_all(&self.base.table, query);
        all.try_collect().await
    }

    /// The rows between two numbers, several hundreds at once.
    pub(super) async fn rows_between(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<Vec<Row>> {
        let read = by_hundreds(from, to).map(|(from, to)| self.items_between(id, from, to));
        let at_once = self.base.settings.replay_parallelism.max(1);
        let items: Vec<Vec<Item>> = stream::iter(read).buffered(at_once).try_collect().await?;
        let items = items.into_iter().flatten();
        items.map(|item| self.row(item)).collect()
    }

    /// The first row that a query finds.
    pub(super) async fn first_row(&self, query: Query) -> Result<Option<Row>> {
        let page = self.base.store.query(&self.base.table, query).await?;
        let item = page.items.into_iter().next();
        item.map(|item| self.row(item)).transpose()
    }
}

impl RowTable for AkkaRows {
    fn base(&self) -> &Base {
        &self.base
    }

    fn row(&self, item: Item) -> Result<Row> {
        row::decode(&self.keys, item)
    }

    fn item(&self, new: &NewRow<'_>) -> Result<Item> {
        let settings = &self.base.settings;
        let (item, bytes) = row::encode(new, &self.keys, settings.format)?;
        let most = settings.aws_api_limits.max_item_size;
        match bytes > most {
            false => Ok(item),
            true => Err(Error::invalid(format!(
                "an event on this layout has at most {most} bytes with its key (max-item-size)"
            ))
            .fact("id", new.id)
            .fact("event", new.batch.map_or(0, |batch| batch.index) + 1)
            .fact("bytes", bytes)),
        }
    }

    fn unchanged(&self, row: &Row) -> Option<Condition> {
        row::unchanged(&row.item)
    }

    async fn prepare(&self) -> Result<()> {
        self.record().await
    }

    fn rows(&self, id: &PersistenceId, (from, to): (u64, u64)) -> RowStream {
        let (format, id) = (self.clone(), id.clone());
        let items = stream::iter(by_hundreds(from, to)).flat_map(move |(from, to)| {
            let query = format.keys.between(&id, from, to);
            format.base.store.query_all(&format.base.table, query)
        });
        let format = self.clone();
        let rows = items.map(move |item| format.row(item?));
        rows.boxed()
    }

    async fn markers(&self, id: &PersistenceId) -> Result<Markers> {
        self.all_markers(id).await
    }
}
