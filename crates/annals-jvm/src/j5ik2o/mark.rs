//! The mark of an id: how far its events were deleted, and which number was last then.
//!
//! It stands under a key of its own that no resolver has a part in: settings change, and what was
//! deleted stays deleted. The plugin's index does not show it. An id of which nothing was ever
//! deleted has none.
//!
//! Promises: it is never lowered, whoever else raises it.

use super::journal::J5ik2oJournal;
use super::row::OWNER;
use crate::attributes::improper;
use crate::checksum;
use annals::items::{Condition, Item, Value, WriteError};
use annals::{Error, PersistenceId, Result};

const LOW: &str = "low";
const DONE: &str = "done";
const HIGH: &str = "high";
/// What a mark is read from, for its checksum, besides its key: never in another order.
const COVERED: [&str; 4] = [OWNER, LOW, DONE, HIGH];
/// How often a mark is tried to be raised while others do the same.
const TRIES_MAX: usize = 16;

/// What a mark says; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The first number that is not deleted.
    pub(super) low: u64,
    /// Up to here rows are known to have been marked or emptied.
    pub(super) done: u64,
    /// The last number when it was raised.
    pub(super) high: u64,
}

/// The mark of an id as it is stored.
#[derive(Debug, Default)]
pub(super) struct MarkFound {
    /// What it says, where that can be read.
    pub(super) mark: Mark,
    /// Whether it is known to be as it was written.
    pub(super) is_proven: bool,
    pub(super) damaged: Option<(Item, Error)>,
}

impl Mark {
    /// What a damaged mark said: where it tells twice that everything below it is deleted, and the
    /// last number then is one that can be.
    pub(super) fn told_twice(item: &Item) -> Option<Self> {
        let number = |name| item.get(name).and_then(Value::as_u64);
        let (low, done, high) = (number(LOW)?, number(DONE)?, number(HIGH)?);
        let is_told = done.checked_add(1) == Some(low) && high >= done;
        is_told.then_some(Self { low, done, high })
    }

    /// How far a damaged mark says that events are deleted.
    pub(super) fn low_in(item: &Item) -> u64 {
        item.get(LOW).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(super) fn of(item: &Item) -> Result<Self> {
        let number = |name| {
            let value = item.get(name).and_then(Value::as_u64);
            value.ok_or_else(|| improper(name))
        };
        checksum::check(item, COVERED.into_iter())?;
        Ok(Self {
            low: number(LOW)?,
            done: number(DONE)?,
            high: number(HIGH)?,
        })
    }
}

impl J5ik2oJournal {
    /// The mark of an id.
    pub(super) async fn mark(&self, id: &PersistenceId) -> Result<Mark> {
        let keys = vec![self.keys.mark(id)];
        let found = self.store.get(&self.table, keys).await?.items;
        let mark = found.iter().flatten().next().map(Mark::of);
        Ok(mark.transpose()?.unwrap_or_default())
    }

    /// The mark of an id as it is stored, also where it is damaged.
    pub(super) async fn find_mark(&self, id: &PersistenceId) -> Result<MarkFound> {
        let keys = vec![self.keys.mark(id)];
        let found = self.store.get(&self.table, keys).await?.items;
        let Some(item) = found.into_iter().flatten().next() else {
            return Ok(MarkFound::default());
        };
        let is_proven = checksum::is_sealed(&item);
        Ok(match Mark::of(&item) {
            Ok(mark) => MarkFound {
                mark,
                is_proven,
                damaged: None,
            },
            Err(error) => MarkFound {
                damaged: Some((item, error)),
                ..MarkFound::default()
            },
        })
    }

    /// Writes a damaged mark anew where it tells twice how far everything is deleted, unless
    /// somebody else did; answers whether it is well now.
    pub(super) async fn mend(
        &self,
        id: &PersistenceId,
        (old, mark): (&Item, Mark),
    ) -> Result<bool> {
        let low = old.get(LOW).cloned().unwrap_or(Value::Null);
        let condition = Condition::Equals(LOW.to_owned(), low);
        let mended = self.mark_item(id, mark);
        match self.store.put(&self.table, mended, condition).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    fn mark_item(&self, id: &PersistenceId, mark: Mark) -> Item {
        let key = self.keys.mark(id);
        let item = self.table.key().item_of(&key).with(OWNER, id.as_str());
        let item = item.with(LOW, mark.low).with(DONE, mark.done);
        checksum::sealed(item.with(HIGH, mark.high), COVERED.into_iter())
    }

    /// Raises the mark; answers what it is then.
    pub(super) async fn raise(&self, id: &PersistenceId, mark: Mark, was: Mark) -> Result<Mark> {
        let is = |low: u64| Condition::Equals(LOW.to_owned(), Value::from(low));
        let (mut condition, mut mark) = match was.low {
            0 => (Condition::Absent, mark),
            low => (is(low), mark),
        };
        for _ in 0..TRIES_MAX {
            let item = self.mark_item(id, mark);
            let existing = match self.store.put(&self.table, item, condition).await {
                Ok(_) => return Ok(mark),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            condition = match existing {
                None => Condition::Absent,
                Some(existing) => {
                    let found = Mark::of(&existing)?;
                    if found.low >= mark.low {
                        return Ok(found);
                    }
                    mark.done = mark.done.min(found.done);
                    mark.high = mark.high.max(found.high);
                    is(found.low)
                }
            };
        }
        Err(Error::unavailable(
            "others keep raising the same mark; try again",
        ))
    }

    /// Notes that everything below the mark is dealt with.
    pub(super) async fn end_deletion(&self, id: &PersistenceId, mark: Mark) -> Result<()> {
        let done = Mark {
            done: mark.low - 1,
            ..mark
        };
        let item = self.mark_item(id, done);
        let condition = Condition::Equals(LOW.to_owned(), Value::from(mark.low));
        match self.store.put(&self.table, item, condition).await {
            // Somebody deletes further, and will note it.
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}
