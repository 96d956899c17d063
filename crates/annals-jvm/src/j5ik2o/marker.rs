//! The marker of an id: how far its events are deleted, and the last number at that time.
//!
//! Its key does not depend on resolvers, so that deleted events stay deleted when settings change.
//! It is not in the plugin's index. An id without deletions has none.
//!
//! Guarantees: it is never lowered, even if other processes raise it.

use super::format::J5ik2oRows;
use super::row::OWNER;
use crate::attributes::improper;
use crate::checksum;
use crate::rows::{FoundMarkers, Markers, Put, Raise};
use annals::items::{Condition, Item, Value};
use annals::{Error, PersistenceId, Result};

const LOW: &str = "low";
const DONE: &str = "done";
const HIGH: &str = "high";
/// The attributes that the checksum covers, besides the key: never in another order.
const COVERED: [&str; 4] = [OWNER, LOW, DONE, HIGH];

/// A marker that was altered since it was written.
pub(crate) type Damaged = (Item, Error);

/// The values of a damaged marker, if the end of the deletion is stored twice and the last number
/// is in range.
pub(super) fn stored_twice(item: &Item) -> Option<Markers> {
    let number = |name| item.get(name).and_then(Value::as_u64);
    let (low, done, high) = (number(LOW)?, number(DONE)?, number(HIGH)?);
    let is_told = done.checked_add(1) == Some(low) && high >= done;
    is_told.then_some(Markers { low, done, high })
}

/// The low number of a damaged marker.
pub(super) fn low_in(item: &Item) -> u64 {
    item.get(LOW).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn decode(item: &Item) -> Result<Markers> {
    let number = |name| {
        let value = item.get(name).and_then(Value::as_u64);
        value.ok_or_else(|| improper(name))
    };
    checksum::check(item, COVERED.into_iter())?;
    Ok(Markers {
        low: number(LOW)?,
        done: number(DONE)?,
        high: number(HIGH)?,
    })
}

fn is(low: u64) -> Condition {
    Condition::Equals(LOW.to_owned(), Value::from(low))
}

impl J5ik2oRows {
    pub(super) async fn marker_item(&self, id: &PersistenceId) -> Result<Option<Item>> {
        let keys = vec![self.keys.marker(id)];
        let found = self.base.store.get(&self.base.table, keys).await?.items;
        Ok(found.into_iter().flatten().next())
    }

    pub(super) async fn marker(&self, id: &PersistenceId) -> Result<Markers> {
        let marker = self.marker_item(id).await?.as_ref().map(decode);
        Ok(marker.transpose()?.unwrap_or_default())
    }

    /// The marker of an id, even if damaged.
    pub(super) async fn read_marker(&self, id: &PersistenceId) -> Result<FoundMarkers<Damaged>> {
        let mut found = FoundMarkers {
            markers: Markers::default(),
            is_proven: false,
            damaged: Vec::new(),
        };
        if let Some(item) = self.marker_item(id).await? {
            match decode(&item) {
                Ok(markers) => {
                    found.markers = markers;
                    found.is_proven = checksum::is_sealed(&item);
                }
                Err(error) => found.damaged.push((item, error)),
            }
        }
        Ok(found)
    }

    /// Replaces a damaged marker, unless another process did; returns whether it is repaired.
    pub(super) async fn repair(
        &self,
        id: &PersistenceId,
        (old, markers): (&Item, Markers),
    ) -> Result<bool> {
        let low = old.get(LOW).cloned().unwrap_or(Value::Null);
        let condition = Condition::Equals(LOW.to_owned(), low);
        let put = self.base.put(self.encoded(id, markers), condition).await?;
        Ok(matches!(put, Put::Stored))
    }

    fn encoded(&self, id: &PersistenceId, markers: Markers) -> Item {
        let key = self.keys.marker(id);
        let item = self.base.table.key().item_of(&key).with(OWNER, id.as_str());
        let item = item.with(LOW, markers.low).with(DONE, markers.done);
        checksum::sealed(item.with(HIGH, markers.high), COVERED.into_iter())
    }

    /// Raises the marker; returns its new value.
    pub(super) async fn raise_marker(
        &self,
        id: &PersistenceId,
        markers: Markers,
        was: Markers,
    ) -> Result<Markers> {
        let condition = match was.low {
            0 => Condition::Absent,
            low => is(low),
        };
        let first = (self.encoded(id, markers), condition);
        let raised = self.base.raise(first, markers, |existing, mut markers| {
            let found = decode(&existing)?;
            if found.low >= markers.low {
                return Ok(Raise::Done(found));
            }
            markers.done = markers.done.min(found.done);
            markers.high = markers.high.max(found.high);
            let marker = (self.encoded(id, markers), is(found.low));
            Ok(Raise::Again(markers, marker))
        });
        raised.await
    }

    /// Records that everything below the marker is deleted.
    pub(super) async fn end_deletion(&self, id: &PersistenceId, markers: Markers) -> Result<()> {
        let done = Markers {
            done: markers.low - 1,
            ..markers
        };
        let item = self.encoded(id, done);
        // If not, another process deletes further, and will record it.
        self.base.put(item, is(markers.low)).await.map(|_| ())
    }
}
