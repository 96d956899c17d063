//! Marks: how far an id's events go, and from where on they are not deleted.
//!
//! Both are spread over shards, and the highest counts. The high mark is a hint in full hundreds,
//! the low mark is the truth about deletions.
//!
//! Promises: a mark is never lowered, whoever else raises it.
//! Trusts: nobody to have raised the high mark in time: whoever reads it looks behind it.

use super::journal::AkkaJournal;
use super::keys::{Mark, PARTITION};
use crate::items::{Condition, Item, Value, WriteError};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// How often a mark is tried to be raised while others do the same.
const TRIES_MAX: usize = 16;
/// On a low mark: the items of all numbers up to here are known to have been emptied. A deletion
/// that was cut off goes on behind it.
const DONE: &str = "done";
/// How many shards behind ours are looked at where marks seem to be missing.
const PROBED_MAX: u32 = 100;
/// Over how many shards the plugin spreads marks unless it is told otherwise.
const PLUGIN_SHARDS: u32 = 10;

/// What the marks of an id say; 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) high: u64,
    pub(super) low: u64,
    /// Up to here deletion is done.
    pub(super) done: u64,
}

impl Marks {
    /// The last number that they prove to have been used.
    pub(super) fn used(&self) -> u64 {
        self.high.max(self.low.saturating_sub(1))
    }
}

impl AkkaJournal {
    /// The marks of an id, in one request.
    pub(super) async fn marks(&self, id: &PersistenceId) -> Result<Marks> {
        self.marks_of(id, &[Mark::High, Mark::Low]).await
    }

    /// What the marks of these kinds say, in one request: a unit for each shard of each.
    pub(super) async fn marks_of(&self, id: &PersistenceId, kinds: &[Mark]) -> Result<Marks> {
        let places = kinds
            .iter()
            .flat_map(|mark| (0..self.keys.shards).map(move |shard| (*mark, shard)));
        self.marks_at(id, places.collect()).await
    }

    /// What the low marks say that stand where one in this hundred or at the next one's would.
    pub(super) async fn low_near(&self, id: &PersistenceId, hundred: u64) -> Result<u64> {
        let mut shards = [hundred, hundred + 1]
            .map(|at| self.keys.shard_of(at))
            .to_vec();
        shards.dedup();
        let places = shards.into_iter().map(|shard| (Mark::Low, shard));
        Ok(self.marks_at(id, places.collect()).await?.low)
    }

    async fn marks_at(&self, id: &PersistenceId, places: Vec<(Mark, u32)>) -> Result<Marks> {
        let keys = places
            .iter()
            .map(|(mark, shard)| self.keys.mark_in(*mark, id, *shard));
        let found = self.items.get(&self.table, keys.collect()).await?.items;
        let mut marks = Marks::default();
        for (item, (mark, _)) in found.iter().zip(places) {
            let Some(item) = item else { continue };
            let value = value_of(item, id)?;
            if mark == Mark::High {
                marks.high = marks.high.max(value);
            } else if value > marks.low {
                let done = item.get(DONE).and_then(Value::as_u64);
                marks.low = value;
                // The plugin does not come back to what it did not delete; neither do we.
                let all = value.saturating_sub(1);
                marks.done = done.map_or(all, |done| done.min(all));
            }
        }
        Ok(marks)
    }

    /// Raises the high mark to the hundred of a number.
    pub(super) async fn raise_high(&self, id: &PersistenceId, number: u64) -> Result<u64> {
        let value = number / PARTITION * PARTITION;
        // Where events come one after the other, this is what the shard held before.
        let round = PARTITION * u64::from(self.keys.shards);
        let before = value.checked_sub(round).filter(|before| *before > 0);
        let guess = before.map_or(Condition::Absent, is);
        self.raise(self.mark(Mark::High, id, value), value, guess)
            .await?;
        Ok(value)
    }

    /// Raises the low mark, and notes how far deletion has got.
    pub(super) async fn raise_low(&self, id: &PersistenceId, low: u64, done: u64) -> Result<()> {
        let mark = self.mark(Mark::Low, id, low).with(DONE, done);
        self.raise(mark, low, Condition::Absent).await
    }

    /// Notes on the low mark that everything below it is emptied.
    pub(super) async fn end_deletion(&self, id: &PersistenceId, low: u64) -> Result<()> {
        let mark = self.mark(Mark::Low, id, low).with(DONE, low - 1);
        match self.items.put(&self.table, mark, is(low)).await {
            // Somebody deletes further, and will note it.
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    fn mark(&self, mark: Mark, id: &PersistenceId, value: u64) -> Item {
        let key = self.keys.mark(mark, id, value);
        self.table.key().item_of(&key).with("seq", value)
    }

    async fn raise(&self, mark: Item, value: u64, guess: Condition) -> Result<()> {
        let mut condition = guess;
        for _ in 0..TRIES_MAX {
            let put = self.items.put(&self.table, mark.clone(), condition).await;
            condition = match put {
                Ok(_) => return Ok(()),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => match existing {
                    None => Condition::Absent,
                    Some(existing) => {
                        let found = existing.get("seq").and_then(Value::as_u64).unwrap_or(0);
                        if found >= value {
                            return Ok(());
                        }
                        is(found)
                    }
                },
            };
        }
        Err(Error::unavailable(
            "others keep raising the same mark; try again",
        ))
    }

    /// Fails where marks are found in shards that these settings do not know. To be called where
    /// the marks and the events do not agree.
    pub(super) async fn check_shards(&self, id: &PersistenceId) -> Result<()> {
        self.check_shards_to(id, self.keys.shards.saturating_add(PROBED_MAX))
            .await
    }

    /// The same where an id seems to be new. With fewer shards than the plugin has of itself, all
    /// that is left of an id may be marks that are not seen; to look for them costs no more than
    /// the plugin's number of shards does anyway.
    pub(super) async fn check_unknown(&self, id: &PersistenceId) -> Result<()> {
        match self.keys.shards < PLUGIN_SHARDS {
            true => self.check_shards_to(id, PLUGIN_SHARDS).await,
            false => Ok(()),
        }
    }

    async fn check_shards_to(&self, id: &PersistenceId, end: u32) -> Result<()> {
        let behind = self.keys.shards..end;
        let keys: Vec<_> = behind
            .clone()
            .flat_map(|shard| {
                [Mark::High, Mark::Low].map(|mark| self.keys.mark_in(mark, id, shard))
            })
            .collect();
        let found = self.items.get(&self.table, keys).await?.items;
        let shards = behind.flat_map(|shard| [shard; 2]);
        let last = found.iter().zip(shards).filter(|(item, _)| item.is_some());
        match last.map(|(_, shard)| shard).max() {
            None => Ok(()),
            Some(shard) => Err(too_few_shards(self.keys.shards, shard.saturating_add(1))),
        }
    }
}

/// The refusal of settings with fewer shards than the table has.
pub(super) fn too_few_shards(set: u32, shown: u32) -> Error {
    Error::invalid(format!(
        "sequence-shards was lowered, which hides marks and loses events; raise it to what the table shows or more. sequence-shards=`{set}`, shown=`{shown}`"
    ))
}

fn is(value: u64) -> Condition {
    Condition::Equals("seq".to_owned(), Value::from(value))
}

fn value_of(item: &Item, id: &PersistenceId) -> Result<u64> {
    let value = item.get("seq").and_then(Value::as_u64);
    // One behind the last number there can be, where everything is deleted.
    let value = value.filter(|value| *value <= SequenceNumber::LAST.get() + 1);
    value.ok_or_else(|| {
        let key = item.get("par").and_then(Value::as_str).unwrap_or_default();
        Error::corrupt(format!(
            "a mark has no number, or one that cannot be. id=`{id}`, par=`{key}`"
        ))
    })
}
