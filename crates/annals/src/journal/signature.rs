//! Signatures: which append used which sequence numbers, even after its events are deleted.

use std::ops::RangeInclusive;

use futures::TryStreamExt;

use super::{EventStream, Journal, annotate};
use crate::{PersistenceId, Result, SequenceNumber, Token};

/// The last sequence number and the token of an append, deleted or not.
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
    /// The sequence number of the append's last event, or the last of a range of numbers whose
    /// appends are unknown.
    pub last: SequenceNumber,
    /// Its token; `None` if the token was deleted with the events.
    pub token: Option<Token>,
}

impl Journal {
    /// Lists the appends that used a range of sequence numbers, in order, including appends whose
    /// events are deleted. Finds an append by its token when its position is unknown. Incomplete
    /// appends are left out.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let outcome = self.layout.signatures(id, numbers).await;
        outcome.map_err(annotate("signatures", id))
    }
}

/// Collects the signatures of a range, for layouts. Numbers in between belong to unknown appends.
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
    /// The first number that is not covered yet.
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

    /// Adds the uncovered numbers before this one as an unknown append.
    pub fn forget_before(&mut self, number: u64) {
        if let Some(last) = SequenceNumber::new(number - 1).filter(|last| last.get() >= self.next) {
            self.all.push(Signature { last, token: None });
            self.next = number;
        }
    }

    /// Adds an append that ends at `last`, or one of its events.
    pub fn meet(&mut self, last: SequenceNumber, token: Option<Token>) {
        self.all.push(Signature { last, token });
        self.pass(last.get());
    }

    /// Covers the numbers up to this one without adding an append.
    pub fn pass(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Whether no append was added yet.
    pub fn has_met_none(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the signatures of the range up to `last`, which must be a used number.
    pub fn until(mut self, last: SequenceNumber) -> Vec<Signature> {
        self.forget_before(last.get() + 1);
        self.all
    }
}

/// The signatures of replayed events. Numbers without an event belong to unknown appends.
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
