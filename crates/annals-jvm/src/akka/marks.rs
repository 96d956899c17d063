//! Marks: how far an id's events go, and from where on they are not deleted.
//!
//! Both are spread over shards, and the highest counts. The high mark is a hint in full hundreds,
//! the low mark is the truth about deletions.
//!
//! Promises: a mark is never lowered, whoever else raises it.
//! Trusts: nobody to have raised the high mark in time: whoever reads it looks behind it.

use super::journal::AkkaJournal;
use super::keys::{Mark, PARTITION};
use crate::checksum;
use annals::items::{Condition, Item, Value, WriteError};
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// How often a mark is tried to be raised while others do the same.
const TRIES_MAX: usize = 16;
/// On a low mark: the items of all numbers up to here are known to have been emptied. A deletion
/// that was cut off goes on behind it.
const DONE: &str = "done";
/// What a mark is read from, for its checksum: never in another order.
const COVERED: [&str; 4] = ["par", "num", "seq", DONE];
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

    /// Takes a mark in: the highest counts.
    fn meet(&mut self, mark: Mark, value: u64, item: &Item) {
        if mark == Mark::High {
            self.high = self.high.max(value);
        } else if value > self.low {
            let done = item.get(DONE).and_then(Value::as_u64);
            self.low = value;
            // The plugin does not come back to what it did not delete; neither do we.
            let all = value.saturating_sub(1);
            self.done = done.map_or(all, |done| done.min(all));
        }
    }
}

/// A mark that does not say what it said when it was written, or nothing at all.
#[derive(Debug)]
pub(super) struct Damaged {
    pub(super) mark: Mark,
    pub(super) shard: u32,
    pub(super) item: Item,
    pub(super) error: Error,
}

impl Damaged {
    /// What it says now.
    pub(super) fn value(&self) -> Option<u64> {
        self.item.get("seq").and_then(Value::as_u64)
    }

    /// What it said, where that is told twice: a low mark whose deletion is done says so too.
    pub(super) fn told_twice(&self) -> Option<u64> {
        let done = self.item.get(DONE).and_then(Value::as_u64);
        let low = self.value().filter(|_| self.mark == Mark::Low)?;
        (done.and_then(|done| done.checked_add(1)) == Some(low)).then_some(low)
    }

    /// That it still stands there as it was found.
    fn unchanged(&self) -> Option<Condition> {
        ["seq", checksum::NAME].into_iter().find_map(|name| {
            let value = self.item.get(name)?.clone();
            Some(Condition::Equals(name.to_owned(), value))
        })
    }
}

/// The marks of an id as they are stored.
#[derive(Debug, Default)]
pub(super) struct MarksFound {
    /// What those say that can be read.
    pub(super) marks: Marks,
    /// Whether the low mark that counts is known to be as it was written.
    pub(super) is_low_proven: bool,
    pub(super) damaged: Vec<Damaged>,
}

impl AkkaJournal {
    /// The marks of an id, also those that are damaged.
    pub(super) async fn find_marks(&self, id: &PersistenceId) -> Result<MarksFound> {
        let mut all = MarksFound::default();
        let places = self.places(&[Mark::High, Mark::Low]);
        for (mark, shard, item) in self.mark_items(id, places).await? {
            match value_of(&item, id) {
                Ok(value) => {
                    if mark == Mark::Low && value > all.marks.low {
                        all.is_low_proven = checksum::is_sealed(&item);
                    }
                    all.marks.meet(mark, value, &item);
                }
                Err(error) => all.damaged.push(Damaged {
                    mark,
                    shard,
                    item,
                    error,
                }),
            }
        }
        Ok(all)
    }

    /// Writes a damaged mark anew, unless somebody else did; answers whether it is well now.
    pub(super) async fn mend(&self, id: &PersistenceId, old: &Damaged, value: u64) -> Result<bool> {
        let Some(condition) = old.unchanged() else {
            return Ok(false);
        };
        let key = self.keys.mark_in(old.mark, id, old.shard);
        let mark = self.table.key().item_of(&key).with("seq", value);
        let mark = match old.mark {
            Mark::High => mark,
            Mark::Low => mark.with(DONE, value.saturating_sub(1)),
        };
        match self.store.put(&self.table, sealed(mark), condition).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// The marks of an id, in one request.
    pub(super) async fn marks(&self, id: &PersistenceId) -> Result<Marks> {
        self.marks_of(id, &[Mark::High, Mark::Low]).await
    }

    /// What the marks of these kinds say, in one request: a unit for each shard of each.
    pub(super) async fn marks_of(&self, id: &PersistenceId, kinds: &[Mark]) -> Result<Marks> {
        self.read_marks(id, self.places(kinds)).await
    }

    /// What the low marks say that stand where one in this hundred or at the next one's would.
    pub(super) async fn low_near(&self, id: &PersistenceId, hundred: u64) -> Result<u64> {
        let mut shards = [hundred, hundred + 1]
            .map(|at| self.keys.shard_of(at))
            .to_vec();
        shards.dedup();
        let places = shards.into_iter().map(|shard| (Mark::Low, shard));
        Ok(self.read_marks(id, places.collect()).await?.low)
    }

    /// Every place where marks of these kinds may stand.
    fn places(&self, kinds: &[Mark]) -> Vec<(Mark, u32)> {
        let shards = 0..self.keys.shards;
        let places = kinds
            .iter()
            .flat_map(|mark| shards.clone().map(|shard| (*mark, shard)));
        places.collect()
    }

    async fn read_marks(&self, id: &PersistenceId, places: Vec<(Mark, u32)>) -> Result<Marks> {
        let mut marks = Marks::default();
        for (mark, _, item) in self.mark_items(id, places).await? {
            marks.meet(mark, value_of(&item, id)?, &item);
        }
        Ok(marks)
    }

    /// The marks that stand in these places, with their shards.
    async fn mark_items(
        &self,
        id: &PersistenceId,
        places: Vec<(Mark, u32)>,
    ) -> Result<Vec<(Mark, u32, Item)>> {
        let keys = places
            .iter()
            .map(|(mark, shard)| self.keys.mark_in(*mark, id, *shard));
        let found = self.store.get(&self.table, keys.collect()).await?.items;
        let found = found.into_iter().zip(places);
        Ok(found
            .filter_map(|(item, (mark, shard))| Some((mark, shard, item?)))
            .collect())
    }

    /// Raises the high mark to the hundred of a number.
    pub(super) async fn raise_high(&self, id: &PersistenceId, number: u64) -> Result<u64> {
        let value = number / PARTITION * PARTITION;
        // Where events come one after the other, this is what the shard held before.
        let round = PARTITION * u64::from(self.keys.shards);
        let before = value.checked_sub(round).filter(|before| *before > 0);
        let guess = before.map_or(Condition::Absent, is);
        self.raise(sealed(self.mark(Mark::High, id, value)), value, guess)
            .await?;
        Ok(value)
    }

    /// Raises the low mark, and notes how far deletion has got.
    pub(super) async fn raise_low(&self, id: &PersistenceId, low: u64, done: u64) -> Result<()> {
        let mark = self.low_mark(id, low, done);
        self.raise(mark, low, Condition::Absent).await
    }

    /// Notes on the low mark that everything below it is emptied.
    pub(super) async fn end_deletion(&self, id: &PersistenceId, low: u64) -> Result<()> {
        let mark = self.low_mark(id, low, low - 1);
        match self.store.put(&self.table, mark, is(low)).await {
            // Somebody deletes further, and will note it.
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    fn mark(&self, mark: Mark, id: &PersistenceId, value: u64) -> Item {
        let key = self.keys.mark(mark, id, value);
        self.table.key().item_of(&key).with("seq", value)
    }

    fn low_mark(&self, id: &PersistenceId, low: u64, done: u64) -> Item {
        sealed(self.mark(Mark::Low, id, low).with(DONE, done))
    }

    async fn raise(&self, mark: Item, value: u64, guess: Condition) -> Result<()> {
        let mut condition = guess;
        for _ in 0..TRIES_MAX {
            let put = self.store.put(&self.table, mark.clone(), condition).await;
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
        let found = self.store.get(&self.table, keys).await?.items;
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

fn sealed(mark: Item) -> Item {
    checksum::sealed(mark, COVERED.into_iter())
}

fn value_of(item: &Item, id: &PersistenceId) -> Result<u64> {
    let key = item.get("par").and_then(Value::as_str).unwrap_or_default();
    checksum::check(item, COVERED.into_iter()).map_err(|cause| {
        Error::corrupt(format!("a mark is damaged. id=`{id}`, par=`{key}`")).because(cause)
    })?;
    let value = item.get("seq").and_then(Value::as_u64);
    // One behind the last number there can be, where everything is deleted.
    let value = value.filter(|value| *value <= SequenceNumber::LAST.get() + 1);
    value.ok_or_else(|| {
        Error::corrupt(format!(
            "a mark has no number, or one that cannot be. id=`{id}`, par=`{key}`"
        ))
    })
}
