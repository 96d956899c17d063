//! Signatures: which appends took an id's numbers, also when their events are deleted.

use std::ops::RangeInclusive;

use futures::TryStreamExt;

use super::{EventStream, Journal, told};
use crate::{PersistenceId, Result, SequenceNumber, Token};

/// What tells of an append, deleted or not: where it ends, and its token.
///
/// ```
/// use annals::journal::{Append, Expected};
/// use annals::{Codec, NewEvent, SequenceNumber, Token};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let (id, token) = ("Cart|42".parse()?, Token::from_bytes(*b"a token!"));
/// let two = Append::of(vec![NewEvent::new(Codec::Text, "something"); 2]).token(token);
/// let last = journal.append(&id, Expected::Empty, two).await?.last;
/// journal.delete_to(&id, last).await?;
///
/// let signatures = journal.signatures(&id, SequenceNumber::FIRST..=last).await?;
/// assert_eq!((signatures[0].last, signatures[0].token), (last, Some(token)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// The number of its last event. Of what is forgotten, the last of those numbers.
    pub last: SequenceNumber,
    /// Its token; `None` where the events were deleted, and nobody knows any more whose they were.
    pub token: Option<Token>,
}

impl Journal {
    /// Which appends took the numbers from one to another, in order, also those whose events are
    /// deleted. Whoever repeats an append under its token, and does not know behind what it was
    /// appended, finds it here. An append that was cut off is none.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let outcome = self.layout.signatures(id, numbers).await;
        outcome.map_err(told("signatures", id))
    }
}

/// Collects the signatures of a range, for layouts; numbers in between are of unknown appends.
///
/// ```
/// use annals::SequenceNumber;
/// use annals::layout::support::Signatures;
///
/// let number = |n| SequenceNumber::new(n).expect("not 0");
/// let mut signatures = Signatures::from(number(1));
/// signatures.meet(number(2), None);
/// assert_eq!(signatures.until(number(5)).len(), 2);
/// ```
#[derive(Debug)]
pub struct Signatures {
    all: Vec<Signature>,
    /// The first number of which nothing is known yet.
    next: u64,
}

impl Signatures {
    /// Starts at a sequence number.
    pub fn from(first: SequenceNumber) -> Self {
        Self {
            all: Vec::new(),
            next: first.get(),
        }
    }

    /// That nobody knows of any number before this one that was not met.
    pub fn forget_before(&mut self, number: u64) {
        if let Some(last) = SequenceNumber::new(number - 1).filter(|last| last.get() >= self.next) {
            self.all.push(Signature { last, token: None });
            self.next = number;
        }
    }

    /// An event of an append, or all of them up to this one.
    pub fn meet(&mut self, last: SequenceNumber, token: Option<Token>) {
        self.all.push(Signature { last, token });
        self.pass(last.get());
    }

    /// A number that tells nothing by itself.
    pub fn pass(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Whether no append was seen yet.
    pub fn has_met_none(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, where the last number is one that was used.
    pub fn until(mut self, last: SequenceNumber) -> Vec<Signature> {
        self.forget_before(last.get() + 1);
        self.all
    }
}

/// The signatures that a replay tells; what it does not show is forgotten.
pub(super) async fn replayed(
    mut events: EventStream,
    numbers: RangeInclusive<SequenceNumber>,
) -> Result<Vec<Signature>> {
    let mut signatures = Signatures::from(*numbers.start());
    while let Some(event) = events.try_next().await? {
        signatures.forget_before(event.sequence_number.get());
        signatures.meet(event.sequence_number, Some(event.token));
    }
    Ok(signatures.until(*numbers.end()))
}
