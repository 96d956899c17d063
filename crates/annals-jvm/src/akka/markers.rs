//! Markers: the end of an id's events (high) and the first event that is not deleted (low).
//!
//! Both are spread over shards, and the highest value counts. The high marker is a hint in full
//! hundreds; the low marker decides what is deleted.
//!
//! Guarantees: a marker is never lowered, even if other processes raise it. The high marker may lag,
//! so readers also check the hundred after it.

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION};
use crate::checksum;
use crate::rows::{FoundMarkers, Markers, Put, Raise};
use annals::items::{Condition, Item, Value};
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// On a low marker: the items of all numbers up to here are known to have been deleted. An
/// interrupted deletion resumes after it.
const DONE: &str = "done";
/// The attributes that the checksum covers: never in another order.
const COVERED: [&str; 4] = ["par", "num", "seq", DONE];
/// How many shards after ours are read where markers seem to be missing.
const PROBED_MAX: u32 = 100;
/// Over how many shards the plugin spreads markers by default.
const PLUGIN_SHARDS: u32 = 10;

/// Adds a marker: the highest value counts.
fn merge(markers: &mut Markers, marker: Marker, value: u64, item: &Item) {
    if marker == Marker::High {
        markers.high = markers.high.max(value);
    } else if value > markers.low {
        let done = item.get(DONE).and_then(Value::as_u64);
        markers.low = value;
        // The plugin does not resume its deletions; neither do we.
        let all = value.saturating_sub(1);
        markers.done = done.map_or(all, |done| done.min(all));
    }
}

/// A marker that was altered since it was written, or has no valid number.
#[derive(Debug)]
pub(crate) struct Damaged {
    pub(super) marker: Marker,
    pub(super) shard: u32,
    pub(super) item: Item,
    pub(super) error: Error,
}

impl Damaged {
    /// Its number now.
    pub(super) fn value(&self) -> Option<u64> {
        self.item.get("seq").and_then(Value::as_u64)
    }

    /// Its original number, if that is stored twice: a low marker whose deletion is done.
    pub(super) fn stored_twice(&self) -> Option<u64> {
        let done = self.item.get(DONE).and_then(Value::as_u64);
        let low = self.value().filter(|_| self.marker == Marker::Low)?;
        (done.and_then(|done| done.checked_add(1)) == Some(low)).then_some(low)
    }

    /// The condition that it is unchanged.
    fn unchanged(&self) -> Option<Condition> {
        ["seq", checksum::NAME].into_iter().find_map(|name| {
            let value = self.item.get(name)?.clone();
            Some(Condition::Equals(name.to_owned(), value))
        })
    }
}

impl AkkaRows {
    /// The markers of an id, also those that are damaged.
    pub(super) async fn read_markers(&self, id: &PersistenceId) -> Result<FoundMarkers<Damaged>> {
        let mut found = FoundMarkers {
            markers: Markers::default(),
            is_proven: false,
            damaged: Vec::new(),
        };
        let places = self.places(&[Marker::High, Marker::Low]);
        for (marker, shard, item) in self.marker_items(id, places).await? {
            match value_of(&item, id) {
                Ok(value) => {
                    if marker == Marker::Low && value > found.markers.low {
                        found.is_proven = checksum::is_sealed(&item);
                    }
                    merge(&mut found.markers, marker, value, &item);
                }
                Err(error) => found.damaged.push(Damaged {
                    marker,
                    shard,
                    item,
                    error,
                }),
            }
        }
        Ok(found)
    }

    /// Replaces a damaged marker, unless another process did; returns whether it is repaired.
    pub(super) async fn repair(
        &self,
        id: &PersistenceId,
        old: &Damaged,
        value: u64,
    ) -> Result<bool> {
        let Some(condition) = old.unchanged() else {
            return Ok(false);
        };
        let key = self.keys.marker_in(old.marker, id, old.shard);
        let item = self.base.table.key().item_of(&key).with("seq", value);
        let item = match old.marker {
            Marker::High => item,
            Marker::Low => item.with(DONE, value.saturating_sub(1)),
        };
        let put = self.base.put(sealed(item), condition).await?;
        Ok(matches!(put, Put::Stored))
    }

    /// The markers of an id, in one request.
    pub(super) async fn all_markers(&self, id: &PersistenceId) -> Result<Markers> {
        self.markers_of(id, &[Marker::High, Marker::Low]).await
    }

    /// The markers of these kinds, in one request: a unit for each shard of each.
    pub(super) async fn markers_of(&self, id: &PersistenceId, kinds: &[Marker]) -> Result<Markers> {
        self.markers_at(id, self.places(kinds)).await
    }

    /// The low marker, from the shards of this hundred and the next.
    pub(super) async fn low_near(&self, id: &PersistenceId, hundred: u64) -> Result<u64> {
        let shards = [hundred, hundred + 1].map(|at| self.keys.shard_of(at));
        let mut shards = shards.to_vec();
        shards.dedup();
        let places = shards.into_iter().map(|shard| (Marker::Low, shard));
        Ok(self.markers_at(id, places.collect()).await?.low)
    }

    /// Every kind and shard of a marker.
    fn places(&self, kinds: &[Marker]) -> Vec<(Marker, u32)> {
        let shards = 0..self.keys.shards;
        let places = kinds
            .iter()
            .flat_map(|marker| shards.clone().map(|shard| (*marker, shard)));
        places.collect()
    }

    async fn markers_at(&self, id: &PersistenceId, places: Vec<(Marker, u32)>) -> Result<Markers> {
        let mut markers = Markers::default();
        for (marker, _, item) in self.marker_items(id, places).await? {
            merge(&mut markers, marker, value_of(&item, id)?, &item);
        }
        Ok(markers)
    }

    async fn marker_items(
        &self,
        id: &PersistenceId,
        places: Vec<(Marker, u32)>,
    ) -> Result<Vec<(Marker, u32, Item)>> {
        let keys = places
            .iter()
            .map(|(marker, shard)| self.keys.marker_in(*marker, id, *shard));
        let found = self
            .base
            .store
            .get(&self.base.table, keys.collect())
            .await?;
        let found = found.items.into_iter().zip(places);
        Ok(found
            .filter_map(|(item, (marker, shard))| Some((marker, shard, item?)))
            .collect())
    }

    /// Raises the high marker to the hundred of a number.
    pub(super) async fn raise_high(&self, id: &PersistenceId, number: u64) -> Result<u64> {
        let value = number / PARTITION * PARTITION;
        // If no hundred was skipped, this is the previous value of the shard.
        let round = PARTITION * u64::from(self.keys.shards);
        let before = value.checked_sub(round).filter(|before| *before > 0);
        let guess = before.map_or(Condition::Absent, is);
        let item = sealed(self.marker(Marker::High, id, value));
        self.raise_to(item, value, guess).await?;
        Ok(value)
    }

    /// Raises the low marker, and records the progress of the deletion.
    pub(super) async fn put_low(&self, id: &PersistenceId, low: u64, done: u64) -> Result<()> {
        let item = self.low_item(id, low, done);
        self.raise_to(item, low, Condition::Absent).await
    }

    /// Records on the low marker that everything below it is deleted.
    pub(super) async fn end_deletion(&self, id: &PersistenceId, low: u64) -> Result<()> {
        let item = self.low_item(id, low, low - 1);
        // If not, another process deletes further, and will record it.
        self.base.put(item, is(low)).await.map(|_| ())
    }

    fn marker(&self, marker: Marker, id: &PersistenceId, value: u64) -> Item {
        let key = self.keys.marker(marker, id, value);
        self.base.table.key().item_of(&key).with("seq", value)
    }

    fn low_item(&self, id: &PersistenceId, low: u64, done: u64) -> Item {
        sealed(self.marker(Marker::Low, id, low).with(DONE, done))
    }

    async fn raise_to(&self, item: Item, value: u64, guess: Condition) -> Result<()> {
        let again = item.clone();
        let raised = self.base.raise((item, guess), (), move |existing, ()| {
            let found = existing.get("seq").and_then(Value::as_u64).unwrap_or(0);
            Ok(match found >= value {
                true => Raise::Done(()),
                false => Raise::Again((), (again.clone(), is(found))),
            })
        });
        raised.await
    }

    /// Fails if there are markers in shards that these settings do not read. Called when markers
    /// and events do not agree.
    pub(super) async fn check_shards(&self, id: &PersistenceId) -> Result<()> {
        self.check_shards_to(id, self.keys.shards.saturating_add(PROBED_MAX))
            .await
    }

    /// The same for an id that seems to be new. With fewer shards than the plugin's default, the id
    /// may have markers in shards that are not read. Checking them costs no more than the plugin's
    /// default number of shards.
    pub(super) async fn check_unknown(&self, id: &PersistenceId) -> Result<()> {
        match self.keys.shards < PLUGIN_SHARDS {
            true => self.check_shards_to(id, PLUGIN_SHARDS).await,
            false => Ok(()),
        }
    }

    async fn check_shards_to(&self, id: &PersistenceId, end: u32) -> Result<()> {
        let others = self.keys.shards..end;
        let places = others.flat_map(|shard| [(Marker::High, shard), (Marker::Low, shard)]);
        let found = self.marker_items(id, places.collect()).await?;
        match found.iter().map(|(_, shard, _)| *shard).max() {
            None => Ok(()),
            Some(shard) => Err(too_few_shards(self.keys.shards, shard.saturating_add(1))),
        }
    }

    /// Checks for markers in shards that these settings do not read, if some seem to be missing:
    /// there are rows after the markers, or none where the markers point. `at` is the hundred of the
    /// last row.
    pub(super) async fn check_markers(
        &self,
        id: &PersistenceId,
        markers: Markers,
        at: Option<u64>,
    ) -> Result<()> {
        let shards = u64::from(self.keys.shards);
        let used = super::keys::hundred(markers.used());
        let is_doubtful = match at {
            Some(at) => at > super::keys::hundred(markers.high) && at >= shards,
            None if markers.used() == 0 => return self.check_unknown(id).await,
            None => markers.low <= markers.high || used + 1 >= shards,
        };
        match is_doubtful {
            true => self.check_shards(id).await,
            false => Ok(()),
        }
    }
}

/// The error for settings with fewer shards than the table has.
pub(super) fn too_few_shards(set: u32, shown: u32) -> Error {
    Error::invalid(
        "sequence-shards was lowered, which hides markers and loses events; raise it to what the table shows or more",
    )
    .fact("sequence-shards", set)
    .fact("shown", shown)
}

fn is(value: u64) -> Condition {
    Condition::Equals("seq".to_owned(), Value::from(value))
}

fn sealed(marker: Item) -> Item {
    checksum::sealed(marker, COVERED.into_iter())
}

pub(super) fn value_of(item: &Item, id: &PersistenceId) -> Result<u64> {
    let key = item.get("par").and_then(Value::as_str).unwrap_or_default();
    checksum::check(item, COVERED.into_iter()).map_err(|cause| {
        Error::corrupt("a marker is damaged")
            .fact("id", id)
            .fact("partition", key)
            .because(cause)
    })?;
    let value = item.get("seq").and_then(Value::as_u64);
    // If all events are deleted, it may be one more than the largest number.
    let value = value.filter(|value| *value <= SequenceNumber::LAST.get() + 1);
    value.ok_or_else(|| {
        Error::corrupt("the number of a marker is missing or out of range")
            .fact("id", id)
            .fact("partition", key)
    })
}
