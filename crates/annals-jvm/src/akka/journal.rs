//! The journal on the `akka` layout: an item for each event, as akka-persistence-dynamodb 1.x and
//! pekko-persistence-dynamodb keep them.
//!
//! Promises: what the plugin wrote is replayed and what is appended here it replays. Every event is
//! put on the condition that its key is free, and keys once taken are not freed by our deletions:
//! of two writers of ours one is refused, and a writer of ours never overwrites the JVM's.
//! Trusts: that an id is not written by the JVM at the same time. The plugin overwrites and deletes
//! without looking, and no reader or writer can make up for that.

use std::sync::Arc;

use async_trait::async_trait;

use super::keys::{Keys, by_hundreds};
use super::{deletion, ids, record, replay, skipping, verify};
use crate::settings::AnyLayout;
use annals::items::{Item, Items, TableSpec};
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
    /// How far the high mark is known to be raised.
    pub(super) high: u64,
}

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
#[derive(Clone, Debug)]
pub(crate) struct AkkaJournal {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
    pub(super) settings: Arc<AnyLayout>,
    pub(super) keys: Keys,
    pub(super) heads: Arc<Known<PersistenceId, Head>>,
    pub(super) recorded: Arc<tokio::sync::OnceCell<()>>,
}

impl AkkaJournal {
    /// Opens the journal in a table. Nothing is written before the first append.
    ///
    /// # Errors
    /// `Invalid` where the table is missing, or has marks that these settings would not see.
    pub(crate) async fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let spec = settings.tables()?.journal;
        let keys = Keys::new(&settings.journal_name, settings.sequence_shards)?;
        record::check(store, &spec, &keys).await?;
        Ok(Self {
            store: store.clone(),
            table: Arc::new(spec),
            settings: Arc::new(settings.clone()),
            keys,
            heads: Arc::default(),
            recorded: Arc::default(),
        })
    }

    /// Remembers where an id's history ends.
    pub(super) fn learn(&self, id: &PersistenceId, head: Head) {
        self.heads.update(id.clone(), |known| match known {
            Some(known) if known.next > head.next => known,
            Some(known) => Head {
                high: head.high.max(known.high),
                ..head
            },
            None => head,
        });
    }

    /// The items of one hundred between two numbers, all pages.
    pub(super) async fn items_between(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<Vec<Item>> {
        use futures::TryStreamExt;
        let query = self.keys.between(id, from, to);
        let all = self.store.query_all(&self.table, query);
        all.try_collect().await
    }

    /// The items between two numbers.
    pub(super) async fn items_in(
        &self,
        id: &PersistenceId,
        from: u64,
        to: u64,
    ) -> Result<Vec<Item>> {
        let mut all = Vec::new();
        for (from, to) in by_hundreds(from, to) {
            all.extend(self.items_between(id, from, to).await?);
        }
        Ok(all)
    }
}

#[async_trait]
impl JournalLayout for AkkaJournal {
    async fn prepare(&self) -> Result<()> {
        self.record().await
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
        Ok(SequenceNumber::new(self.find_highest(id).await?))
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
        Ok(Some(self.marks(id).await?.low.saturating_sub(1)))
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
        ids::all(self.clone(), prefix.to_owned())
    }
}
