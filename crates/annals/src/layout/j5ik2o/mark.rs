//! The mark of an id: how far its events were deleted, and which number was last then.
//!
//! It stands under the key of number 0, right before the first event, and the plugin's index does
//! not show it. An id of which nothing was ever deleted has none.
//!
//! Promises: it is never lowered, whoever else raises it.

use super::journal::J5ik2oJournal;
use super::keys::MARK;
use super::row::OWNER;
use crate::items::{Condition, Item, Value, WriteError};
use crate::layout::jvm::attributes::improper;
use crate::{Error, PersistenceId, Result};

const LOW: &str = "low";
const DONE: &str = "done";
const HIGH: &str = "high";
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

impl Mark {
    /// Whether an item is a mark.
    pub(super) fn is_in(item: &Item) -> bool {
        item.get(LOW).is_some()
    }

    pub(super) fn of(item: &Item) -> Result<Self> {
        let number = |name| {
            let value = item.get(name).and_then(Value::as_u64);
            value.ok_or_else(|| improper(name))
        };
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
        let found = self.get(id, std::iter::once(MARK)).await?;
        let found = found.into_iter().flatten().next();
        let mark = found.filter(Mark::is_in).map(|item| Mark::of(&item));
        Ok(mark.transpose()?.unwrap_or_default())
    }

    fn mark_item(&self, id: &PersistenceId, mark: Mark) -> Result<Item> {
        let key = self.keys.key(id, MARK)?;
        let item = self.table.key().item_of(&key).with(OWNER, id.as_str());
        let item = item.with(LOW, mark.low).with(DONE, mark.done);
        Ok(item.with(HIGH, mark.high))
    }

    /// Raises the mark; answers what it is then.
    pub(super) async fn raise(&self, id: &PersistenceId, mark: Mark, was: Mark) -> Result<Mark> {
        let is = |low: u64| Condition::Equals(LOW.to_owned(), Value::from(low));
        let (mut condition, mut mark) = match was.low {
            0 => (Condition::Absent, mark),
            low => (is(low), mark),
        };
        for _ in 0..TRIES_MAX {
            let item = self.mark_item(id, mark)?;
            let existing = match self.items.put(&self.table, item, condition).await {
                Ok(_) => return Ok(mark),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            condition = match existing {
                None => Condition::Absent,
                Some(existing) => {
                    self.check_owner(id, MARK, &existing)?;
                    let found = Mark::of(&existing)?;
                    if found.low >= mark.low {
                        return Ok(found);
                    }
                    mark.done = mark.done.min(found.done);
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
        let item = self.mark_item(id, done)?;
        let condition = Condition::Equals(LOW.to_owned(), Value::from(mark.low));
        match self.items.put(&self.table, item, condition).await {
            // Somebody deletes further, and will note it.
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}
