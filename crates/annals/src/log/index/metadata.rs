//! The metadata of the event table: the length of its slots, the numbers of parts that slots are
//! spread over, and whether its index is complete.
//!
//! Guarantees: the slots of a table have one length, if our sweep was the first to write to it. Every
//! number of parts is recorded before the first event is stored that way.

use std::collections::BTreeSet;

use super::super::shared::Shared;
use super::super::{LogTables, tables};
use crate::items::{Item, Number, TableSpec, Value};
use crate::layout::Hint;
use crate::settings::LogSettings;
use crate::store::Store;
use crate::{Error, Result};

/// The metadata of the event table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    /// The recorded numbers of parts that slots are spread over.
    pub(crate) parts: BTreeSet<u32>,
    /// Whether every slot with events is in the index.
    pub(crate) is_indexed: bool,
    pub(super) item: Option<Item>,
}

impl Metadata {
    /// The numbers of parts under which an event may be stored. The original always uses 1.
    pub(crate) fn all_parts(&self) -> BTreeSet<u32> {
        self.parts.iter().copied().chain([1]).collect()
    }
}

pub(super) async fn read(shared: &Shared) -> Result<Metadata> {
    let keys = vec![tables::metadata_key(), tables::indexed_key()];
    let got = shared.store.get(&shared.tables.event, keys).await?;
    let mut items = got.items.into_iter();
    let item = items.next().flatten();
    let parts = item.as_ref().map(|item| parts_of(shared, item));
    Ok(Metadata {
        parts: parts.transpose()?.unwrap_or_default(),
        is_indexed: items.next().flatten().is_some(),
        item,
    })
}

/// The item that records these numbers of parts.
pub(super) fn item(shared: &Shared, parts: &BTreeSet<u32>) -> Item {
    let parts = parts.iter().map(|n| Number::from(u64::from(*n)));
    tables::system_item(&tables::metadata_key())
        .with(tables::TIME_UNIT, shared.format.unit.ms())
        .with(tables::PARTS, Value::Ns(parts.collect()))
}

/// The numbers of parts in a metadata item, if its slots have the length in the settings.
pub(super) fn parts_of(shared: &Shared, item: &Item) -> Result<BTreeSet<u32>> {
    let (table, want) = (shared.tables.event.name(), shared.format.unit.ms());
    let unit = item.get(tables::TIME_UNIT).and_then(Value::as_u64);
    let number = |n: &Number| n.to_u64().and_then(|n| u32::try_from(n).ok());
    let parts = match item.get(tables::PARTS) {
        Some(Value::Ns(parts)) => parts.iter().map(number).collect(),
        _ => None,
    };
    match unit.zip(parts) {
        None => Err(
            Error::corrupt("the metadata of the log's table does not parse").fact("table", table),
        ),
        Some((unit, _)) if unit != want => Err(Error::invalid(
            "slots have another length in this table; set time-unit-ms to it, or use another table",
        )
        .fact("table", table)
        .fact("want", want)
        .fact("found", unit)),
        Some((_, parts)) => Ok(parts),
    }
}

/// What the settings get wrong about the log's tables, given the tables that were `found`. A missing
/// table has no hints.
///
/// ```
/// use annals::items::Items;
/// use annals::log::{LogTables, hints};
/// use annals::memory::Memory;
/// use annals::settings::LogSettings;
/// use annals::store::Store;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let (store, settings) = (Store::new(Memory::new()), LogSettings::default());
/// let tables: Vec<_> = LogTables::new(&settings)?.all().cloned().collect();
/// for table in &tables {
///     store.create_table(table, Default::default()).await?;
/// }
/// assert_eq!(hints(&store, &settings, &tables).await?, []);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As the store fails.
pub async fn hints(
    store: &Store,
    settings: &LogSettings,
    found: &[TableSpec],
) -> Result<Vec<Hint>> {
    let table = LogTables::new(settings)?.event;
    let is_same = |found: &TableSpec| found.name() == table.name() && found.key() == table.key();
    if !found.iter().any(is_same) {
        return Ok(Vec::new());
    }
    let got = store.get(&table, vec![tables::metadata_key()]).await?;
    let metadata = got.items.into_iter().flatten().next();
    let unit = metadata.and_then(|item| item.get(tables::TIME_UNIT)?.as_u64());
    let want = settings.time_unit_ms;
    let wrong = unit.filter(|unit| *unit != want).map(|unit| {
        let problem = format!(
            "its slots have {unit} ms and the settings {want} ms: events would not be found; set log.time-unit-ms to {unit}"
        );
        Hint::wrong(&table, problem)
    });
    Ok(wrong.into_iter().collect())
}
