//! Where in its entity's history a snapshot stands.

use crate::SequenceNumber;

/// The number of the last event a snapshot knows of and, where that is known, the number that the
/// append began with that this event ends. With both, the tail is read in one request.
///
/// ```
/// use annals::journal::{Append, Expected};
/// use annals::snapshot::Place;
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
/// let place = Place::from(appended);
/// assert_eq!((place.number, place.anchor), (appended.last, Some(appended.first)));
/// annals.snapshots().save(&id, place, Payload::new(Codec::Text, "10")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last event.
    pub number: SequenceNumber,
    /// The first event of its append.
    pub anchor: Option<SequenceNumber>,
}

impl From<SequenceNumber> for Place {
    fn from(number: SequenceNumber) -> Self {
        Self {
            number,
            anchor: None,
        }
    }
}
