//! Verifying: what is wrong with what is stored, and what can safely be done about it.
//!
//! Promises: a finding says what becomes of it. Repaired is only what cannot lose an event, a
//! snapshot or a value, or bring a deleted one back; why the rest is left is said.

use crate::{PersistenceId, SequenceNumber};

/// What is wrong.
///
/// ```
/// use annals::verify::Problem;
///
/// assert_eq!(Problem::IncompleteBatch.name(), "incomplete-batch");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Numbers are missing.
    Gap,
    /// A batch lacks events: replay passes the others over.
    IncompleteBatch,
    /// Stored bytes do not parse.
    Unreadable,
    /// An item tells another id or number than its key.
    Collision,
    /// The high mark does not reach as far as the events do.
    HighMark,
    /// The low mark does not tell what is deleted.
    LowMark,
    /// Events are still there that a deletion was to take.
    Leftover,
    /// A part of something large that never landed, or was replaced or deleted.
    Orphan,
}

impl Problem {
    /// Its name, as it is printed.
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
        }
    }
}

/// What becomes of it.
///
/// See [`Finding`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It can be repaired safely, and was not asked to be.
    Repairable,
    /// It was repaired.
    Repaired,
    /// It is left as it is, for this reason.
    Left(&'static str),
}

/// Something that is wrong with what is stored of an id.
///
/// ```
/// use annals::items::{Condition, Items, Scan};
/// use annals::journal::Expected;
/// use annals::verify::{Problem, Remedy, Verify};
/// use annals::{Annals, Codec, NewEvent};
///
/// # use annals::memory::Memory;
/// # use annals::settings::Settings;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let (items, settings) = (Arc::new(Memory::new()), Settings::default());
/// # let annals = Annals::create(items.clone(), &settings).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// for _ in 0..3 {
///     journal.append(&id, Expected::Any, NewEvent::new(Codec::Text, "something")).await?;
/// }
/// // Somebody deletes an item with tools of their own.
/// let table = settings.layout.tables(&settings)?.journal;
/// for item in items.scan(&table, Scan::whole()).await?.items {
///     if item.get("n").and_then(|n| n.as_u64()) == Some(2) {
///         items.delete(&table, table.key_of(&item)?, Condition::Always).await?;
///     }
/// }
/// let findings = journal.verify(&id, Verify::Look).await?;
/// assert_eq!(findings[0].problem, Problem::Gap);
/// assert_eq!(findings[0].numbers.0.get(), 2);
/// assert!(matches!(findings[0].remedy, Remedy::Left(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whose.
    pub persistence_id: PersistenceId,
    /// What is wrong.
    pub problem: Problem,
    /// With which numbers, from and to: of events, a snapshot, or revisions of a value.
    pub numbers: (SequenceNumber, SequenceNumber),
    /// More about it, for people.
    pub detail: String,
    /// What becomes of it.
    pub remedy: Remedy,
}

/// Whether what can be repaired is.
///
/// ```
/// use annals::journal::Expected;
/// use annals::verify::Verify;
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::settings::Settings;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Arc::new(Memory::new()), &Settings::default()).await?;
/// let id = "Cart|42".parse()?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&id, Expected::Empty, opened).await?;
/// assert_eq!(annals.journal().verify(&id, Verify::Look).await?, []);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Nothing is changed.
    Look,
    /// What is safe is repaired.
    Repair,
}

/// Findings about one id, as they are made.
#[derive(Debug)]
pub(crate) struct Findings {
    id: PersistenceId,
    pub(crate) verify: Verify,
    found: Vec<Finding>,
}

impl Findings {
    pub(crate) fn about(id: &PersistenceId, verify: Verify) -> Self {
        Self {
            id: id.clone(),
            verify,
            found: Vec::new(),
        }
    }

    /// Notes something that is left as it is.
    pub(crate) fn leave(
        &mut self,
        problem: Problem,
        numbers: (u64, u64),
        (detail, why): (String, &'static str),
    ) {
        self.add(problem, numbers, (detail, Remedy::Left(why)));
    }

    /// Notes something that can be repaired; answers whether it is to be.
    pub(crate) fn repair(&mut self, problem: Problem, numbers: (u64, u64), detail: String) -> bool {
        let is_wanted = self.verify == Verify::Repair;
        let remedy = match is_wanted {
            true => Remedy::Repaired,
            false => Remedy::Repairable,
        };
        self.add(problem, numbers, (detail, remedy));
        is_wanted
    }

    fn add(&mut self, problem: Problem, numbers: (u64, u64), (detail, remedy): (String, Remedy)) {
        let number = |n: u64| SequenceNumber::new(n.max(1)).unwrap_or(SequenceNumber::LAST);
        self.found.push(Finding {
            persistence_id: self.id.clone(),
            problem,
            numbers: (number(numbers.0), number(numbers.1)),
            detail,
            remedy,
        });
    }

    pub(crate) fn finish(self) -> Vec<Finding> {
        self.found
    }
}
