//! A row, its position in its batch, and the state of an id: markers, tail, head.

use annals::items::{Item, Value};
use annals::{Error, NewEvent, PersistenceId, Result, SequenceNumber, Token};

/// The position of an event in the batch of its append: `idx` and `cnt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchIndex {
    /// Its own, counted from 0.
    pub(crate) index: u64,
    /// That of the last event.
    pub(crate) last: u64,
}

impl BatchIndex {
    pub(crate) const INDEX: &'static str = "idx";
    pub(crate) const LAST: &'static str = "cnt";

    /// The position in an item, if it has one.
    ///
    /// # Errors
    /// `Corrupt` if the event of this number cannot have that position: a batch starts at 1 or
    /// later, and its last event has a valid sequence number.
    pub(crate) fn from_item(item: &Item, number: u64) -> Result<Option<Self>> {
        let position = |name| item.get(name).map(|value: &Value| value.as_u64());
        let batch = match (position(Self::INDEX), position(Self::LAST)) {
            (_, None) => return Ok(None),
            (Some(Some(index)), Some(Some(last))) if index <= last => Self { index, last },
            _ => return Err(improper_batch(number)),
        };
        let begin = number
            .checked_sub(batch.index)
            .and_then(SequenceNumber::new);
        match begin.and_then(|begin| begin.plus(batch.last)) {
            Some(_) => Ok(Some(batch)),
            None => Err(improper_batch(number)),
        }
    }

    pub(crate) fn insert(self, item: &mut Item) {
        item.insert(Self::INDEX, self.index);
        item.insert(Self::LAST, self.last);
    }
}

pub(crate) fn improper_batch(number: u64) -> Error {
    Error::corrupt("an event's position in its batch is missing or out of range")
        .fact("number", number)
}

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    Live,
    Deleted,
    /// Of an abandoned batch, or in place of one of its members. Never counts.
    Closed,
    /// In place of the last member of an abandoned batch whose rows may not all be closed yet.
    Closing,
}

/// An item under the key of a sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) batch: Option<BatchIndex>,
    pub(crate) state: RowState,
    pub(crate) item: Item,
}

impl Row {
    /// The first number of its batch, or its own.
    pub(crate) fn begin(&self) -> u64 {
        self.number - self.batch.map_or(0, |batch| batch.index)
    }

    /// The last number of its batch, or its own.
    pub(crate) fn end(&self) -> u64 {
        self.begin() + self.batch.map_or(0, |batch| batch.last)
    }

    /// Whether it is the last of its append.
    pub(crate) fn is_end(&self) -> bool {
        self.number == self.end()
    }

    /// The end of its batch, if the last member is not this row. Also of a deleted row: a writer that
    /// found the batch open uses the last member's number.
    pub(crate) fn open_end(&self) -> Option<u64> {
        (!self.is_end()).then(|| self.end())
    }

    pub(crate) fn is_same_batch(&self, other: &Self) -> bool {
        self.batch.is_some() && (self.begin(), self.end()) == (other.begin(), other.end())
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == RowState::Live
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state == RowState::Deleted
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, RowState::Closed | RowState::Closing)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state == RowState::Closing
    }
}

/// An event to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) id: &'a PersistenceId,
    pub(crate) number: SequenceNumber,
    pub(crate) batch: Option<BatchIndex>,
    pub(crate) token: Token,
    pub(crate) time_ms: u64,
    pub(crate) causation: Option<&'a str>,
    pub(crate) correlation: Option<&'a str>,
    pub(crate) event: &'a NewEvent,
}

/// The markers of an id; 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Markers {
    /// The first sequence number that is not deleted.
    pub(crate) low: u64,
    /// Rows up to here are known to have been deleted. An interrupted deletion resumes after it.
    pub(crate) done: u64,
    /// A sequence number that is known to have been used.
    pub(crate) high: u64,
}

impl Markers {
    /// The last number that they prove to have been used.
    pub(crate) fn used(&self) -> u64 {
        self.high.max(self.low.saturating_sub(1))
    }
}

/// The end of a history.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) markers: Markers,
    /// The last row, unless only its number is known.
    pub(crate) last: Option<Row>,
    /// The last number that was ever used; 0: none.
    pub(crate) highest: u64,
    /// The number that the next event gets.
    pub(crate) next: u64,
    /// The number that an append without an expectation goes after.
    pub(crate) append_after: u64,
}

/// The end of an id's history, from this process's own writes and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The last event; 0: none.
    pub(crate) last: u64,
    /// The number that the next event gets.
    pub(crate) next: u64,
    /// The high marker, if the format has one.
    pub(crate) high: u64,
}

impl Head {
    /// After an event that is last.
    pub(crate) fn after(last: u64, high: u64) -> Self {
        Self {
            last,
            next: last + 1,
            high,
        }
    }
}

/// # Errors
/// `Invalid` if the number is above the maximum.
pub(crate) fn sequence_number(id: &PersistenceId, number: u64) -> Result<SequenceNumber> {
    SequenceNumber::new(number)
        .ok_or_else(|| Error::invalid("sequence numbers are used up").fact("id", id))
}
