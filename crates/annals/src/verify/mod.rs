//! Verification: finding damage in what is stored, and repairing what can be repaired safely.
//!
//! Guarantees: a repair never loses an event, a snapshot or a value, and never brings a deleted one
//! back; a finding that is not repaired has the reason. Writes in flight are not reported
//! (`confirm`).

mod confirm;
mod repairs;
pub(crate) mod report;

pub(crate) use confirm::{Verifier, confirm_all, confirm_check, confirm_one};
pub use repairs::Repairs;

use crate::{PersistenceId, ResultStream, SequenceNumber};

/// A stream of findings: a list for each id or stray item, empty if nothing is wrong. An error ends it.
///
/// ```
/// use annals::verify::{FindingStream, Verify};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let mut all: FindingStream = annals.journal().verify_all(Verify::Check);
/// assert_eq!(all.try_next().await?, None);
/// # Ok(())
/// # }
/// ```
pub type FindingStream = ResultStream<Vec<Finding>>;

/// The kind of damage.
///
/// ```
/// use annals::verify::Problem;
///
/// assert_eq!(Problem::IncompleteBatch.name(), "incomplete-batch");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Sequence numbers are missing.
    Gap,
    /// A batch lacks events: replay skips the others.
    IncompleteBatch,
    /// Stored bytes do not parse.
    Unreadable,
    /// An item has another id or number than its key.
    Collision,
    /// The high watermark is lower than the last event.
    HighMark,
    /// The low watermark does not match the deleted events.
    LowMark,
    /// Events remain that a deletion should have removed.
    Leftover,
    /// A chunk of a large write that never completed, or was replaced or deleted.
    Orphan,
    /// An item that belongs to no id and is never read.
    Stray,
    /// A snapshot is beyond the last event of its id: recovery would skip the next events.
    BeyondEnd,
}

impl Problem {
    /// The name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::IncompleteBatch => "incomplete-batch",
            Self::Unreadable => "unreadable",
            Self::Collision => "collision",
            Self::HighMark => "high-mark",
            Self::LowMark => "low-mark",
            Self::Leftover => "leftover",
            Self::Orphan => "orphan",
            Self::Stray => "stray",
            Self::BeyondEnd => "beyond-end",
        }
    }
}

/// What is damaged.
///
/// ```
/// use annals::verify::StoredKind;
///
/// assert_eq!(StoredKind::Value.name(), "value");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredKind {
    /// Events and the journal's markers.
    Event,
    /// A snapshot.
    Snapshot,
    /// A value of durable state.
    Value,
}

impl StoredKind {
    /// The name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Snapshot => "snapshot",
            Self::Value => "value",
        }
    }
}

/// What is done about a finding.
///
/// See [`Finding`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It can be repaired safely, with [`Verify::Repair`].
    Repairable,
    /// It was repaired.
    Repaired,
    /// It is not repaired, for this reason.
    Left(&'static str),
}

/// Something that is wrong with the stored data.
///
/// ```
/// use annals::items::{Condition, Items, Scan};
/// use annals::journal::Expected;
/// use annals::verify::{Problem, Remedy, Verify};
/// use annals::{Annals, Codec, NewEvent};
///
/// # use annals::memory::Memory;
/// # use annals::layout::{AnnalsLayout, Layout};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let layout = AnnalsLayout::default();
/// # let annals = Annals::create(Memory::new(), &layout).await?;
/// # let items = annals.store();
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// for _ in 0..3 {
///     journal.append(&id, Expected::Any, NewEvent::new(Codec::Text, "something")).await?;
/// }
/// // An item is deleted with the store's own tools.
/// let table = layout.tables()?.journal;
/// for item in items.scan(&table, Scan::whole()).await?.items {
///     if item.get("n").and_then(|n| n.as_u64()) == Some(2) {
///         items.delete(&table, table.key_of(&item)?, Condition::Always).await?;
///     }
/// }
/// let findings = journal.verify(&id, Verify::Check).await?;
/// assert_eq!(findings[0].problem, Problem::Gap);
/// assert_eq!(findings[0].numbers.map(|(from, to)| (from.get(), to.get())), Some((2, 2)));
/// assert!(matches!(findings[0].remedy, Remedy::Left(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The id; `None` for a stray item.
    pub persistence_id: Option<PersistenceId>,
    /// What is damaged.
    pub kind: StoredKind,
    /// The kind of damage.
    pub problem: Problem,
    /// The first and last sequence number, or revision of a value; `None` if unknown.
    pub numbers: Option<(SequenceNumber, SequenceNumber)>,
    /// Details, for people.
    pub detail: String,
    /// What is done about it.
    pub remedy: Remedy,
}

/// Whether to repair.
///
/// ```
/// use annals::journal::Expected;
/// use annals::verify::Verify;
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let id = "Cart|42".parse()?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&id, Expected::Empty, opened).await?;
/// assert_eq!(annals.journal().verify(&id, Verify::Check).await?, []);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Report only.
    Check,
    /// Repair what is safe to repair.
    Repair,
}
