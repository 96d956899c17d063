//! Records the outcomes of durable state operations, and checks that they are consistent.

use std::collections::BTreeMap;

use super::IDS;
use super::write::{Span, WriteOutcome};

/// An attempt to write or delete a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    pub(super) id: usize,
    /// The revision; none for a deletion of any revision.
    pub(super) revision: Option<u64>,
    pub(super) is_deletion: bool,
    pub(super) is_large: bool,
    pub(super) outcome: WriteOutcome,
    /// The last revision that was known when it began.
    floor: u64,
    span: Span,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    id: usize,
    floor: u64,
    span: Span,
}

#[derive(Debug, Default)]
pub(super) struct StateRecord {
    pub(super) tries: Vec<Try>,
    /// The write of a value, or the deletion, at a revision.
    seen: BTreeMap<(usize, u64), Option<usize>>,
    /// The attempt that was acknowledged with a revision.
    done: BTreeMap<(usize, u64), usize>,
    /// The last known revision.
    floor: [u64; IDS],
    /// How often a value was read, and one in chunks.
    pub(super) found: [u64; 2],
    pub(super) violations: Vec<String>,
    now: u64,
}

impl StateRecord {
    pub(super) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn raise(&mut self, id: usize, revision: u64) {
        self.floor[id] = self.floor[id].max(revision);
    }

    /// Begins a write of a value with this revision.
    pub(super) fn begin_upsert(&mut self, id: usize, revision: u64, is_large: bool) -> usize {
        self.begin(id, Some(revision));
        let attempt = self.tries.len() - 1;
        self.tries[attempt].is_deletion = false;
        self.tries[attempt].is_large = is_large;
        attempt
    }

    /// Begins a deletion with this revision or the next.
    pub(super) fn begin_deletion(&mut self, id: usize, revision: Option<u64>) -> usize {
        self.begin(id, revision);
        self.tries.len() - 1
    }

    fn begin(&mut self, id: usize, revision: Option<u64>) {
        let span = Span::from(self.tick());
        self.tries.push(Try {
            id,
            revision,
            is_deletion: true,
            is_large: false,
            outcome: WriteOutcome::Unknown,
            floor: self.floor[id],
            span,
        });
    }

    fn end(&mut self, attempt: usize, outcome: WriteOutcome) -> Try {
        let now = self.tick();
        let tried = &mut self.tries[attempt];
        tried.outcome = outcome;
        tried.span.end(now);
        *tried
    }

    pub(super) fn failed(&mut self, attempt: usize) {
        self.end(attempt, WriteOutcome::Unknown);
    }

    pub(super) fn written(&mut self, attempt: usize) {
        let Try { id, floor, .. } = self.end(attempt, WriteOutcome::Done);
        let Some(revision) = self.tries[attempt].revision else {
            return;
        };
        if revision <= floor {
            self.violated(format!(
                "id {id}: revision {revision} is written behind {floor}"
            ));
        }
        let first = *self.done.entry((id, revision)).or_insert(attempt);
        if first != attempt {
            self.violated(format!(
                "id {id}: revision {revision} is acknowledged twice"
            ));
        }
        let is_deletion = self.tries[attempt].is_deletion;
        self.saw(id, revision, (!is_deletion).then_some(attempt));
    }

    /// A write got a conflict with the revision `found`.
    pub(super) fn refused(&mut self, attempt: usize, found: u64) {
        let tried = self.end(attempt, WriteOutcome::Refused);
        let id = tried.id;
        // A deletion of any revision gets a conflict only after many attempts.
        let revision = tried.revision.unwrap_or(0);
        let is_seen = self.seen.get(&(id, revision)) == Some(&Some(attempt));
        if is_seen || found + 1 == revision || found < tried.floor {
            self.violated(format!(
                "id {id}: {tried:?} is refused for {found}, seen: {is_seen}"
            ));
        }
        self.raise(id, found);
    }

    /// Records the write at a revision.
    fn saw(&mut self, id: usize, revision: u64, what: Option<usize>) {
        self.raise(id, revision);
        let before = *self.seen.entry((id, revision)).or_insert(what);
        if before != what {
            self.violated(format!(
                "id {id}: revision {revision} was {before:?}, then {what:?}"
            ));
        }
        let Some(attempt) = what else {
            return;
        };
        let tried = self.tries.get(attempt).copied();
        let is_right = tried.is_some_and(|tried| {
            (tried.id, tried.revision) == (id, Some(revision))
                && tried.outcome != WriteOutcome::Refused
                && !tried.is_deletion
        });
        if !is_right {
            self.violated(format!("id {id}: revision {revision} is {tried:?}"));
        }
    }

    pub(super) fn begin_read(&mut self, id: usize) -> Read {
        let span = Span::from(self.tick());
        Read {
            id,
            floor: self.floor[id],
            span,
        }
    }

    fn check_floor(&mut self, read: Read, revision: u64) {
        if revision < read.floor {
            let Read { id, floor, .. } = read;
            self.violated(format!("id {id}: {floor} was there, {revision} is read"));
        }
    }

    pub(super) fn read_revision(&mut self, read: Read, revision: u64) {
        self.check_floor(read, revision);
        self.raise(read.id, revision);
    }

    /// A value was read: its revision, and its write.
    pub(super) fn read_value(&mut self, read: Read, revision: u64, attempt: usize) {
        self.check_floor(read, revision);
        self.saw(read.id, revision, Some(attempt));
        let Some(value) = self.tries.get(attempt).copied() else {
            return;
        };
        self.found[usize::from(value.is_large)] += 1;
        let mut deletions = self.deletions(read.id);
        let is_deleted = deletions.any(|deletion| {
            let is_done = deletion.revision.is_none() && deletion.outcome == WriteOutcome::Done;
            is_done && value.span.is_before(deletion.span) && deletion.span.is_before(read.span)
        });
        drop(deletions);
        if is_deleted {
            self.violated(format!(
                "id {}: revision {revision} is read behind its deletion",
                read.id
            ));
        }
    }

    fn deletions(&self, id: usize) -> impl Iterator<Item = &Try> {
        let of_id = self.tries.iter().filter(move |tried| tried.id == id);
        of_id.filter(|tried| tried.is_deletion && tried.outcome != WriteOutcome::Refused)
    }

    /// No value was read: nothing was written yet, or the last write may be a deletion.
    pub(super) fn read_nothing(&mut self, read: Read) {
        let Read { id, floor, .. } = read;
        let Some(Some(value)) = self.seen.get(&(id, floor)) else {
            return;
        };
        let value = self.tries[*value];
        let may_be_deleted = self.deletions(id).any(|deletion| match deletion.revision {
            Some(revision) => revision > floor,
            None => !deletion.span.is_before(value.span),
        });
        if !may_be_deleted {
            self.violated(format!("id {id}: revision {floor} is gone"));
        }
    }

    /// Checks that every revision up to the last belongs to a write.
    pub(super) fn check_revisions(&mut self, id: usize, last: u64) {
        let landed = |tried: &&Try| tried.id == id && tried.outcome != WriteOutcome::Refused;
        let landed: Vec<_> = self.tries.iter().filter(landed).collect();
        let nameless = landed.iter().filter(|tried| tried.revision.is_none());
        let is_of = |n: u64| landed.iter().any(|tried| tried.revision == Some(n));
        let left: Vec<u64> = (1..=last).filter(|n| !is_of(*n)).collect();
        if left.len() > nameless.count() {
            self.violated(format!("id {id}: revisions {left:?} are nobody's"));
        }
    }
}
