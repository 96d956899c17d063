//! What goes into a table: conditions, puts and deletes, and how they can end.

use super::{Cost, Item, Key, Value};
use crate::Error;

/// What must hold for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing: write.
    Always,
    /// No item is there.
    Absent,
    /// An item is there and its attribute has this value.
    Equals(String, Value),
}

impl Condition {
    /// Whether this holds for what is there.
    pub fn holds(&self, existing: Option<&Item>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => existing.is_none(),
            Self::Equals(name, value) => existing.and_then(|item| item.get(name)) == Some(value),
        }
    }
}

/// One of the writes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Put this item, over whatever is there.
    Put(Item),
    /// Delete whatever is there.
    Delete(Key),
}

/// How a conditional write fails.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The condition did not hold; this is what is there.
    ///
    /// After an answer was lost and the write repeated, what is there may be our own: whoever
    /// needs to know puts a token into the item and compares.
    #[error("condition does not hold")]
    Refused {
        /// The item that is there, if any.
        existing: Option<Box<Item>>,
        /// What finding out cost.
        cost: Cost,
    },
    /// The store failed; the error's kind says whether the write may have landed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Failed(error) => error,
            refused @ WriteError::Refused { .. } => {
                Error::conflict("somebody else wrote first; reload and decide again")
                    .because(refused)
            }
        }
    }
}

/// How a batch of writes fails: some may have landed, `remaining` have not been confirmed.
#[derive(Debug, thiserror::Error)]
#[error("{} writes of the batch remain", remaining.len())]
pub struct BatchError {
    /// The writes that were not confirmed. Writing them again is safe.
    pub remaining: Vec<Write>,
    /// What the batch cost so far.
    pub cost: Cost,
    /// Why.
    #[source]
    pub cause: Error,
}

impl From<BatchError> for Error {
    fn from(error: BatchError) -> Self {
        let message = format!("{error}; the rest is written");
        Error::new(error.cause.kind(), message).because(error.cause)
    }
}
