//! Numbers to be taken without events, where a journal is copied that has none there.

use crate::{SequenceNumber, Token};

/// Numbers to be taken without events.
///
/// ```
/// use annals::journal::{Append, Expected, JournalLayout, Skip, Stamped};
/// use annals::layout::j5ik2o::J5ik2oJournal;
/// use annals::{Codec, ManualClock, NewEvent, SequenceNumber, Token};
///
/// # use annals::items::Items;
/// # use annals::layout::Layout;
/// # use annals::memory::Memory;
/// # use annals::settings::Settings;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let settings = Settings { layout: Layout::J5ik2o, ..Settings::default() };
/// # let items: Arc<dyn Items> = Arc::new(Memory::new());
/// # items.create_table(&settings.layout.tables(&settings)?.journal, Default::default()).await?;
/// # let layout = J5ik2oJournal::open(items, &settings, Arc::new(ManualClock::at_ms(0)))?;
/// let (id, to) = ("Cart-42".parse()?, SequenceNumber::new(1_000).expect("it is not 0"));
/// let skip = Skip { to, is_deleted: true, token: Token::from_bytes([7; 8]), time_ms: 0 };
/// layout.skip(&id, skip).await?;
/// assert_eq!(layout.highest(&id).await?, Some(to));
/// assert_eq!(layout.deleted_to(&id).await?, Some(1_000));
/// # let stamped = Stamped {
/// #     append: Append::from(NewEvent::new(Codec::Text, "opened")),
/// #     token: Token::from_bytes(*b"a token!"),
/// #     time_ms: 1_700_000_000_000,
/// # };
/// let appended = layout.append(&id, Expected::Last(to), stamped).await?;
/// assert_eq!(appended.first.get(), 1_001);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The last of them.
    pub to: SequenceNumber,
    /// Whether they count as deleted, as everything before them must: no event is there. Otherwise
    /// they stand between events, as numbers that were never used.
    pub is_deleted: bool,
    /// What tells whoever takes them from everybody else.
    pub token: Token,
    /// When they are taken, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}
