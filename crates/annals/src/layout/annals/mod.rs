//! The `annals` layout: one immutable item per append. `docs/format.md` describes the bytes.

mod body;
mod chunks;
mod commit;
mod deletion;
mod envelope;
mod envelope_store;
mod events;
mod feed;
mod journal;
mod keys;
mod lookup;
mod replay;
mod skip;
mod snapshots;
mod states;
mod table_record;
mod verify;

use std::sync::Arc;

use async_trait::async_trait;

use self::journal::AnnalsJournal;
use self::snapshots::AnnalsSnapshots;
use self::states::AnnalsStates;
use super::{Layout, TableNames, Tables};
use crate::items::{KeyAttribute, KeySchema, TableName, TableSpec};
use crate::journal::Journal;
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::store::Store;
use crate::{Error, Result};

/// The core's own layout: one item per append, at one write unit for small events.
///
/// ```
/// use annals::Annals;
/// use annals::layout::AnnalsLayout;
/// use annals::memory::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// assert_eq!(annals.journal().highest(&"Cart|42".parse()?).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnalsLayout {
    names: TableNames,
}

impl AnnalsLayout {
    /// Uses tables of these names.
    pub fn new(names: TableNames) -> Self {
        Self { names }
    }
}

#[async_trait]
impl Layout for AnnalsLayout {
    fn name(&self) -> &'static str {
        "annals"
    }

    /// Attribute names are one letter, because every item pays for them: `p` is the partition, `n`
    /// the sequence number.
    fn tables(&self) -> Result<Tables> {
        let name = |set: &Option<TableName>, own: &str| match set {
            Some(name) => Ok(name.clone()),
            None => own.parse(),
        };
        let partition = KeySchema::new(KeyAttribute::text("p"));
        let numbered = partition.clone().sorted(KeyAttribute::number("n"));
        let journal = name(&self.names.journal, "annals-journal")?;
        let snapshot = name(&self.names.snapshot, "annals-snapshot")?;
        let state = name(&self.names.state, "annals-state")?;
        let tables = Tables {
            journal: TableSpec::new(journal, numbered.clone())?,
            snapshot: TableSpec::new(snapshot, numbered)?,
            state: Some(TableSpec::new(state, partition)?),
        };
        tables.distinct()
    }

    async fn journal(&self, store: &Store) -> Result<Journal> {
        let table = Arc::new(self.tables()?.journal);
        let layout = AnnalsJournal::open(store.clone(), table).await?;
        Ok(Journal::new(Arc::new(layout), store))
    }

    fn snapshots(&self, store: &Store) -> Result<Snapshots> {
        let table = Arc::new(self.tables()?.snapshot);
        let layout = AnnalsSnapshots::open(store.clone(), table);
        Ok(Snapshots::new(Arc::new(layout), store))
    }

    fn states(&self, store: &Store) -> Result<States> {
        let table = self.tables()?.state;
        let table = table.ok_or_else(|| Error::invalid("this layout has no durable state"))?;
        let layout = AnnalsStates::open(store.clone(), Arc::new(table));
        Ok(States::new(Arc::new(layout), store))
    }
}
