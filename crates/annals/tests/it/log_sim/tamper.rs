//! A store that removes one of the log's guards, to show that each is needed.
//!
//! A batch that is acknowledged before it is stored is stored with the next call, if that succeeds. It
//! has the effect of a deletion or a checkpoint that does not wait for the write before it.

use std::sync::{Arc, Mutex};

use annals::items::{Cost, Item, Items, TableSpec, Value, Write};
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;

use super::LATENESS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing is removed.
    Kept,
    /// A record leaves the buffer before its event is known to be stored.
    DeletedFirst,
    /// An event is stored before its slot is in the index.
    StoredFirst,
    /// A checkpoint is saved before its events are in the buffer.
    SavedFirst,
    /// Sweeps store no claims.
    Unclaimed,
    /// A horizon is published that the sweep did not reach.
    HorizonAhead,
}

/// The store of one process.
pub(super) struct Tampered {
    guard: Guard,
    late: Mutex<Option<(TableSpec, Vec<Write>)>>,
}

fn is_system(item: &Item) -> bool {
    let partition = item.get("event_time_slot").and_then(Value::as_str);
    partition.is_some_and(|partition| partition.starts_with("annals#"))
}

impl Tampered {
    pub(super) fn over(inner: Arc<dyn Items>, guard: Guard) -> Hooked<Self> {
        let late = Mutex::default();
        Hooked::over(inner, Self { guard, late })
    }

    /// Whether a batch is acknowledged before it is stored.
    fn is_hasty(&self, table: &TableSpec, writes: &[Write]) -> bool {
        let is_event_table = table.name().as_str() == "annals-log";
        let system = |write: &Write| matches!(write, Write::Put(item) if is_system(item));
        let is_put = writes.iter().all(|write| matches!(write, Write::Put(_)));
        match self.guard {
            Guard::Kept | Guard::HorizonAhead | Guard::Unclaimed => false,
            Guard::DeletedFirst => is_event_table && is_put && !writes.iter().any(system),
            Guard::StoredFirst => is_event_table && writes.iter().all(system),
            Guard::SavedFirst => table.name().as_str() == "annals-buffer" && is_put,
        }
    }

    async fn catch_up(&self, inner: &dyn Items) {
        let late = self.late.lock().unwrap().take();
        if let Some((table, writes)) = late {
            let _ = inner.write(&table, writes).await;
        }
    }
}

#[async_trait]
impl Hook for Tampered {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        match &mut call {
            Call::Get(..) => self.catch_up(inner).await,
            Call::Put(_, item, _) => {
                self.catch_up(inner).await;
                let partition = item.get("event_time_slot").and_then(Value::as_str);
                if self.guard == Guard::Unclaimed && partition == Some("annals#sweeping") {
                    return Ok(Cost::request().into());
                }
                let sort = item.get("event_id").and_then(Value::as_str);
                if self.guard == Guard::HorizonAhead && is_system(item) && sort == Some("horizon") {
                    let time = item.get("time").and_then(Value::as_u64).unwrap();
                    item.insert("time", time + 3 * LATENESS);
                }
            }
            Call::Write(table, writes) if self.is_hasty(table, writes) => {
                self.catch_up(inner).await;
                let late = (TableSpec::clone(table), std::mem::take(writes));
                *self.late.lock().unwrap() = Some(late);
                return Ok(Cost::request().into());
            }
            Call::Write(..) => {
                // This batch first, then the one before it.
                let written = call.send(inner).await;
                self.catch_up(inner).await;
                return written;
            }
            _ => {}
        }
        call.send(inner).await
    }
}
