//! The position of a snapshot in the history of its entity.

use crate::SequenceNumber;

/// The last event that a snapshot includes, and the first event of the same append, if it is known.
/// With both, recovery reads the events after the snapshot in one request.
///
/// ```
/// use annals::journal::{Append, Expected};
/// use annals::snapshot::SnapshotPosition;
/// use annals::{Codec, NewEvent, Payload};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let id = "Account|1".parse()?;
/// let events = vec![NewEvent::new(Codec::Text, "+5"); 2];
/// let appended = annals.journal().append(&id, Expected::Empty, Append::of(events)).await?;
///
/// let position = SnapshotPosition::from(appended);
/// assert_eq!(position.number, appended.last);
/// assert_eq!(position.anchor, Some(appended.first));
/// annals.snapshots().save(&id, position, Payload::new(Codec::Text, "10")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotPosition {
    /// The sequence number of the last event.
    pub number: SequenceNumber,
    /// The first sequence number of the same append.
    pub anchor: Option<SequenceNumber>,
}

impl SnapshotPosition {
    /// The last event, and the first one of the same append if it is known.
    pub fn new(number: SequenceNumber, anchor: Option<SequenceNumber>) -> Self {
        Self { number, anchor }
    }
}

impl From<SequenceNumber> for SnapshotPosition {
    fn from(number: SequenceNumber) -> Self {
        Self {
            number,
            anchor: None,
        }
    }
}
