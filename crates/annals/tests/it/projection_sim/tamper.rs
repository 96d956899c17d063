//! A store that removes one of the guards of projections, to show that each is needed.

use std::sync::{Arc, Mutex};

use annals::items::{Condition, Cost, Item, Items, Key, TableSpec, Write};
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing is removed.
    Kept,
    /// A share is saved whatever its version is: a runner that lost it does not notice.
    Lease,
    /// A row is written whatever its version is.
    RowVersion,
    /// A row does not say what it reflects.
    RowPosition,
    /// A deleted row leaves no tombstone.
    Tombstone,
    /// A position is saved before the rows are stored.
    OffsetOrder,
    /// Events are deleted although they are not handled.
    Retention,
}

/// The store of one process.
pub(super) struct Tampered {
    guard: Guard,
    late: Mutex<Vec<(TableSpec, Item)>>,
}

enum Record {
    Row,
    Share,
    Other,
}

fn record(table: &TableSpec, item: &Item) -> Record {
    let (partition, sort) = (item.text("p").unwrap_or(""), item.text("n").unwrap_or(""));
    if table.name().as_str() != "annals-projection" {
        Record::Other
    } else if partition.starts_with("r:") {
        Record::Row
    } else if sort.starts_with("share:") {
        Record::Share
    } else {
        Record::Other
    }
}

impl Tampered {
    pub(super) fn over(inner: Arc<dyn Items>, guard: Guard) -> Hooked<Self> {
        let late = Mutex::default();
        Hooked::over(inner, Self { guard, late })
    }

    /// Stores what was acknowledged before it was stored, unless the process crashed.
    async fn catch_up(&self, inner: &dyn Items) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        for (table, item) in late {
            let _ = inner.write(&table, vec![Write::Put(item)]).await;
        }
    }
}

#[async_trait]
impl Hook for Tampered {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        let is_position = |call: &Call<'_>| match call {
            Call::Put(table, item, _) => matches!(record(table, item), Record::Share),
            _ => false,
        };
        if self.guard == Guard::OffsetOrder && !is_position(&call) {
            self.catch_up(inner).await;
        }
        if let Call::Put(table, item, condition) = &mut call {
            match (self.guard, record(table, item)) {
                (Guard::Lease, Record::Share) | (Guard::RowVersion, Record::Row) => {
                    *condition = Condition::Always;
                }
                (Guard::RowPosition, Record::Row) => item.insert("a", ""),
                (Guard::Tombstone, Record::Row) if item.get("v").is_none() => {
                    let key = Key::new(item.text("p").unwrap()).sorted("row");
                    let condition = condition.clone();
                    return Call::Delete(table, key, condition).send(inner).await;
                }
                (Guard::OffsetOrder, Record::Row) => {
                    let late = (TableSpec::clone(table), item.clone());
                    self.late.lock().unwrap().push(late);
                    return Ok(Cost::request().into());
                }
                _ => {}
            }
        }
        call.send(inner).await
    }
}
