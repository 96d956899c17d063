//! Verifying: what is wrong with what is stored, and what can safely be done about it.
//!
//! Promises: a finding says what becomes of it. Repaired is only what cannot lose an event, a
//! snapshot or a value, or bring a deleted one back; why the rest is left is said. What somebody is
//! writing is no finding (`confirm`).

mod confirm;
mod repairs;

pub(crate) use confirm::{Looks, all, one};
pub use repairs::Repairs;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;

use crate::items::{Key, TableName};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// Findings as they are made: for each id, or item, what is wrong with it. An error ends it.
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
/// let mut all: FindingStream = annals.journal().verify_all(Verify::Look);
/// assert_eq!(all.try_next().await?, None);
/// # Ok(())
/// # }
/// ```
pub type FindingStream = Pin<Box<dyn Stream<Item = Result<Vec<Finding>>> + Send>>;

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
    /// An item that belongs to no id: nothing reads it.
    Stray,
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
            Self::Stray => "stray",
        }
    }
}

/// What something is wrong with.
///
/// ```
/// use annals::verify::Kept;
///
/// assert_eq!(Kept::Value.name(), "value");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Events, and what the journal keeps beside them.
    Event,
    /// A snapshot.
    Snapshot,
    /// A value of durable state.
    Value,
}

impl Kept {
    /// Its name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Snapshot => "snapshot",
            Self::Value => "value",
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

/// Something that is wrong with what is stored.
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
/// // Somebody deletes an item with tools of their own.
/// let table = layout.tables()?.journal;
/// for item in items.scan(&table, Scan::whole()).await?.items {
///     if item.get("n").and_then(|n| n.as_u64()) == Some(2) {
///         items.delete(&table, table.key_of(&item)?, Condition::Always).await?;
///     }
/// }
/// let findings = journal.verify(&id, Verify::Look).await?;
/// assert_eq!(findings[0].problem, Problem::Gap);
/// assert_eq!(findings[0].numbers.map(|(from, to)| (from.get(), to.get())), Some((2, 2)));
/// assert!(matches!(findings[0].remedy, Remedy::Left(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whose; `None` where it belongs to nobody.
    pub persistence_id: Option<PersistenceId>,
    /// What something is wrong with.
    pub of: Kept,
    /// What is wrong.
    pub problem: Problem,
    /// With which numbers, from and to: of events, a snapshot, or revisions of a value; `None`
    /// where it has none.
    pub numbers: Option<(SequenceNumber, SequenceNumber)>,
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
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
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
pub struct Findings {
    id: PersistenceId,
    of: Kept,
    repairs: Repairs,
    found: Vec<Finding>,
}

impl Findings {
    /// Findings about the events of an id.
    pub fn about(id: &PersistenceId, repairs: &Repairs) -> Self {
        Self::of(Kept::Event, id, repairs)
    }

    /// Findings about an id.
    pub fn of(of: Kept, id: &PersistenceId, repairs: &Repairs) -> Self {
        Self {
            id: id.clone(),
            of,
            repairs: repairs.clone(),
            found: Vec::new(),
        }
    }

    /// Notes something that is left as it is.
    pub fn leave(
        &mut self,
        problem: Problem,
        numbers: (u64, u64),
        (detail, why): (String, &'static str),
    ) {
        self.add(problem, numbers, (detail, Remedy::Left(why)));
    }

    /// Notes something that can be repaired; answers whether it is to be.
    pub fn repair(&mut self, problem: Problem, numbers: (u64, u64), detail: String) -> bool {
        let is_wanted = self.repairs.wants(problem, numbers);
        let remedy = match is_wanted {
            true => Remedy::Repaired,
            false => Remedy::Repairable,
        };
        self.add(problem, numbers, (detail, remedy));
        is_wanted
    }

    /// What was to be repaired last was not, for this reason.
    pub fn give_up(&mut self, why: &'static str) {
        if let Some(last) = self.found.last_mut() {
            last.remedy = Remedy::Left(why);
        }
    }

    fn add(&mut self, problem: Problem, numbers: (u64, u64), (detail, remedy): (String, Remedy)) {
        let number = |n: u64| SequenceNumber::new(n.max(1)).unwrap_or(SequenceNumber::LAST);
        self.found.push(Finding {
            persistence_id: Some(self.id.clone()),
            of: self.of,
            problem,
            numbers: Some((number(numbers.0), number(numbers.1))),
            detail,
            remedy,
        });
    }

    /// Everything found.
    pub fn finish(self) -> Vec<Finding> {
        self.found
    }
}

/// What a look at a whole table meets.
#[derive(Clone, Debug)]
pub enum Met {
    /// An id that something there is of.
    Id(PersistenceId),
    /// An item that is nobody's.
    Stray(Finding),
}

/// The ids that were met in a table. All of them fit in memory.
#[derive(Debug, Default)]
pub struct Ids(HashSet<Arc<str>>);

impl Ids {
    /// The id, the first time.
    pub fn meet(&mut self, id: PersistenceId) -> Option<Met> {
        let is_new = !self.0.contains(id.as_str());
        if is_new {
            self.0.insert(id.as_str().into());
        }
        is_new.then_some(Met::Id(id))
    }
}

/// An item that no id has a claim to.
pub fn stray(of: Kept, table: &TableName, key: &Key) -> Finding {
    Finding {
        persistence_id: None,
        of,
        problem: Problem::Stray,
        numbers: None,
        detail: format!("no id has this key. table=`{table}`, key=`{key}`"),
        remedy: Remedy::Left(
            "nothing reads it, and whose it is nobody can tell; export it, then delete it with the store's own tools",
        ),
    }
}

/// Something of an id that cannot be read at all, so that nothing more is known of it.
pub fn unreadable(of: Kept, id: &PersistenceId, error: &Error) -> Finding {
    Finding {
        persistence_id: Some(id.clone()),
        of,
        problem: Problem::Unreadable,
        numbers: None,
        detail: told(error),
        remedy: Remedy::Left(LOST),
    }
}

/// Why what was there cannot be had again.
pub const LOST: &str = "what was there is not to be had from anywhere here";

/// Why a snapshot that cannot be read is not deleted.
pub const DISPOSABLE: &str = "it is passed over, and an older one or the events serve instead; delete it (`annals snapshot delete`) once nobody wants its bytes";

/// A snapshot or a value that cannot be read.
pub fn unreadable_at(of: Kept, (id, number): (&PersistenceId, u64), error: &Error) -> Vec<Finding> {
    let mut found = Findings::of(of, id, &Verify::Look.into());
    let why = match of {
        Kept::Snapshot => DISPOSABLE,
        _ => LOST,
    };
    found.leave(Problem::Unreadable, (number, number), (told(error), why));
    found.finish()
}

/// An error with its causes, on one line.
pub fn told(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
