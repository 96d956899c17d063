//! Collecting findings: for layouts, as [`layout::support`](crate::layout::support) exports it.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{Finding, Problem, Remedy, Repairs, StoredKind, Verify};
use crate::items::{Key, TableName};
use crate::{Error, PersistenceId, SequenceNumber};

/// Why missing or damaged data is left as it is.
pub const NO_OTHER_COPY: &str = "there is no other copy of it in these tables";

const SKIPPED_SNAPSHOT: &str = "recovery skips it and uses an older snapshot or the events; delete it (`annals snapshot delete`) when its bytes are no longer needed";

/// Something wrong with an id: what, at which sequence numbers or revisions, and details for people.
///
/// See [`Findings`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    problem: Problem,
    numbers: RangeInclusive<u64>,
    detail: String,
}

impl Damage {
    /// A problem with these numbers.
    pub fn new(problem: Problem, numbers: RangeInclusive<u64>, detail: impl Into<String>) -> Self {
        Self {
            problem,
            numbers,
            detail: detail.into(),
        }
    }
}

/// Collects the findings about one id.
///
/// ```
/// use annals::layout::support::{Damage, Findings, NO_OTHER_COPY};
/// use annals::verify::{Problem, StoredKind, Verify};
///
/// let id = "Cart|42".parse()?;
/// let mut findings = Findings::new(StoredKind::Event, &id, &Verify::Check.into());
/// let gap = Damage::new(Problem::Gap, 2..=3, "no event has these sequence numbers");
/// findings.leave(gap, NO_OTHER_COPY);
/// assert_eq!(findings.finish()[0].problem, Problem::Gap);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Debug)]
pub struct Findings {
    id: PersistenceId,
    kind: StoredKind,
    repairs: Repairs,
    found: Vec<Finding>,
}

impl Findings {
    /// Findings about the events, snapshots or value of an id.
    pub fn new(kind: StoredKind, id: &PersistenceId, repairs: &Repairs) -> Self {
        Self {
            id: id.clone(),
            kind,
            repairs: repairs.clone(),
            found: Vec::new(),
        }
    }

    /// Adds damage that is left as it is, with the reason.
    pub fn leave(&mut self, damage: Damage, why: &'static str) {
        self.add(damage, Remedy::Left(why));
    }

    /// Adds damage that can be repaired; returns whether to repair it.
    pub fn repair(&mut self, damage: Damage) -> bool {
        let is_wanted = self.repairs.wants(damage.problem, &damage.numbers);
        let remedy = match is_wanted {
            true => Remedy::Repaired,
            false => Remedy::Repairable,
        };
        self.add(damage, remedy);
        is_wanted
    }

    /// Takes back the last repair, with the reason.
    pub fn give_up(&mut self, why: &'static str) {
        if let Some(last) = self.found.last_mut() {
            last.remedy = Remedy::Left(why);
        }
    }

    fn add(&mut self, damage: Damage, remedy: Remedy) {
        let number = |n: u64| SequenceNumber::new(n.max(1)).unwrap_or(SequenceNumber::LAST);
        let (from, to) = damage.numbers.into_inner();
        self.found.push(Finding {
            persistence_id: Some(self.id.clone()),
            kind: self.kind,
            problem: damage.problem,
            numbers: Some((number(from), number(to))),
            detail: damage.detail,
            remedy,
        });
    }

    /// All findings.
    pub fn finish(self) -> Vec<Finding> {
        self.found
    }
}

/// What the scan of a whole table finds.
///
/// See [`SeenIds`] for an example.
#[derive(Clone, Debug)]
pub enum ScannedEntry {
    /// An id that owns an item.
    Id(PersistenceId),
    /// An item without an owner.
    Stray(Finding),
}

/// The ids that a scan has found. All of them fit in memory.
///
/// ```
/// use annals::layout::support::{ScannedEntry, SeenIds};
///
/// let mut ids = SeenIds::default();
/// assert!(matches!(ids.first_seen("Cart|42".parse()?), Some(ScannedEntry::Id(_))));
/// assert!(ids.first_seen("Cart|42".parse()?).is_none());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SeenIds(HashSet<Arc<str>>);

impl SeenIds {
    /// The id, the first time it is seen.
    pub fn first_seen(&mut self, id: PersistenceId) -> Option<ScannedEntry> {
        let is_new = !self.0.contains(id.as_str());
        if is_new {
            self.0.insert(id.as_str().into());
        }
        is_new.then_some(ScannedEntry::Id(id))
    }
}

/// The finding for an item that belongs to no id.
pub fn stray_item(kind: StoredKind, table: &TableName, key: &Key) -> Finding {
    Finding {
        persistence_id: None,
        kind,
        problem: Problem::Stray,
        numbers: None,
        detail: format!("no id has this key. table=`{table}`, key=`{key}`"),
        remedy: Remedy::Left(
            "nothing reads it, and its owner is unknown; export it, then delete it with the store's own tools",
        ),
    }
}

/// The finding for an id that cannot be read at all.
pub fn unreadable(kind: StoredKind, id: &PersistenceId, error: &Error) -> Finding {
    Finding {
        persistence_id: Some(id.clone()),
        kind,
        problem: Problem::Unreadable,
        numbers: None,
        detail: error_chain(error),
        remedy: Remedy::Left(NO_OTHER_COPY),
    }
}

/// The finding for a snapshot or a value that cannot be read.
pub fn unreadable_at(
    kind: StoredKind,
    id: &PersistenceId,
    number: u64,
    error: &Error,
) -> Vec<Finding> {
    let mut found = Findings::new(kind, id, &Verify::Check.into());
    let damage = Damage::new(Problem::Unreadable, number..=number, error_chain(error));
    let why = match kind {
        StoredKind::Snapshot => SKIPPED_SNAPSHOT,
        _ => NO_OTHER_COPY,
    };
    found.leave(damage, why);
    found.finish()
}

/// An error with its causes, on one line.
pub fn error_chain(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
