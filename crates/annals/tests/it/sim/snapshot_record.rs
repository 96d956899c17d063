//! Records the outcomes of snapshot operations, and checks that they are consistent.
//!
//! A snapshot is the state of an id at a number: a fold over the labels of all events up to it,
//! which is the same from the first event and from a snapshot.

use std::collections::{BTreeMap, BTreeSet};

use annals::snapshot::{Criteria, Snapshot};

use super::write::{Span, WriteOutcome, parse};

/// An attempt to save a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Save {
    pub(super) id: usize,
    pub(super) number: u64,
    pub(super) time_ms: u64,
    pub(super) state: u64,
    pub(super) is_large: bool,
    pub(super) outcome: WriteOutcome,
    span: Span,
}

impl Save {
    fn matches(&self, criteria: &Criteria) -> bool {
        criteria.matches(annals_testkit::journals::number(self.number), self.time_ms)
    }
}

/// An attempt to delete snapshots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    id: usize,
    criteria: Criteria,
    pub(super) outcome: WriteOutcome,
    span: Span,
}

/// A read of snapshots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) id: usize,
    pub(super) criteria: Criteria,
    span: Span,
}

#[derive(Debug, Default)]
pub(super) struct SnapshotRecord {
    pub(super) saves: Vec<Save>,
    pub(super) deletions: Vec<Deletion>,
    /// How often a snapshot was found, and one in chunks.
    pub(super) found: [u64; 2],
    /// The only state at a number.
    states: BTreeMap<(usize, u64), u64>,
    pub(super) violations: Vec<String>,
    now: u64,
}

/// The state after an event, from the state before it.
pub(super) fn fold(state: u64, label: &str) -> u64 {
    let step = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    label
        .bytes()
        .fold(step(state ^ 0xcbf2_9ce4_8422_2325, b'.'), step)
}

impl SnapshotRecord {
    pub(super) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Records a folded state.
    pub(super) fn folded(&mut self, id: usize, number: u64, state: u64) {
        let before = *self.states.entry((id, number)).or_insert(state);
        if before != state {
            let what = format!("id {id}: the state at {number} was {before}, then {state}");
            self.violated(what);
        }
    }

    /// Begins a save of the state at a number.
    pub(super) fn begin(&mut self, id: usize, at: (u64, u64), is_large: bool) -> usize {
        let (number, state) = at;
        let span = Span::from(self.tick());
        self.saves.push(Save {
            id,
            number,
            time_ms: 0,
            state,
            is_large,
            outcome: WriteOutcome::Unknown,
            span,
        });
        self.saves.len() - 1
    }

    pub(super) fn saved(&mut self, attempt: usize, outcome: WriteOutcome) {
        let now = self.tick();
        let save = &mut self.saves[attempt];
        save.outcome = outcome;
        save.span.end(now);
    }

    pub(super) fn begin_deletion(&mut self, id: usize, criteria: Criteria) -> usize {
        let span = Span::from(self.tick());
        self.deletions.push(Deletion {
            id,
            criteria,
            outcome: WriteOutcome::Unknown,
            span,
        });
        self.deletions.len() - 1
    }

    pub(super) fn deleted(&mut self, attempt: usize, outcome: WriteOutcome) {
        let now = self.tick();
        let deletion = &mut self.deletions[attempt];
        deletion.outcome = outcome;
        deletion.span.end(now);
    }

    pub(super) fn begin_look(&mut self, id: usize, criteria: Criteria) -> Look {
        let span = Span::from(self.tick());
        Look { id, criteria, span }
    }

    /// The saves of a number that a read may return: not those that were certainly replaced or
    /// deleted before.
    fn may_stand(&self, look: &Look, number: u64) -> Vec<(usize, Save)> {
        let of_number = |save: &&Save| save.id == look.id && save.number == number;
        let is_gone = |save: &Save| {
            let is_between = |span: Span| save.span.is_before(span) && span.is_before(look.span);
            let mut later = self.saves.iter().filter(of_number);
            let mut deletions = self.deletions.iter().filter(|d| d.id == look.id);
            later.any(|other| other.outcome == WriteOutcome::Done && is_between(other.span))
                || deletions.any(|d| {
                    d.outcome == WriteOutcome::Done
                        && is_between(d.span)
                        && save.matches(&d.criteria)
                })
        };
        let all = self.saves.iter().enumerate();
        let all = all.filter(|(_, save)| of_number(save) && !is_gone(save));
        all.map(|(attempt, save)| (attempt, *save)).collect()
    }

    /// Whether a snapshot of this number is certainly stored during the read, and matches it.
    fn surely_stands(&self, look: &Look, number: u64) -> bool {
        let may = self.may_stand(look, number);
        let done = may.iter().filter(|(_, save)| {
            save.outcome == WriteOutcome::Done
                && save.number == number
                && save.span.is_before(look.span)
        });
        let deletions: Vec<_> = self.deletions.iter().filter(|d| d.id == look.id).collect();
        // Also through a concurrent save that replaced it and was deleted.
        let may_be_deleted = |since: &Save| {
            let mut tried = deletions.iter().filter(|d| !d.span.is_before(since.span));
            let of_number = |save: &&Save| save.id == look.id && save.number == number;
            let saves = self.saves.iter().filter(of_number);
            let saves: Vec<_> = saves.filter(|it| !it.span.is_before(since.span)).collect();
            tried.any(|d| saves.iter().any(|save| save.matches(&d.criteria)))
        };
        may.iter().all(|(_, save)| save.matches(&look.criteria))
            && done.into_iter().any(|(_, save)| !may_be_deleted(save))
    }

    /// Records a found snapshot; large ones end with `noise`.
    pub(super) fn looked(&mut self, mut look: Look, found: Option<&Snapshot>, noise: &[u8]) {
        look.span.end(self.tick());
        let found_at = found.map_or(0, |found| found.sequence_number.get());
        if let Some(found) = found
            && let Err(problem) = self.check_found(&look, found, noise)
        {
            let (id, criteria) = (look.id, look.criteria);
            self.violated(format!(
                "id {id}: snapshot {found_at} {problem}: {criteria:?}"
            ));
        }
        let of_id = self.saves.iter().filter(|save| save.id == look.id);
        let newer: BTreeSet<u64> = of_id.map(|save| save.number).collect();
        let newer = newer.range(found_at + 1..).copied();
        let missed: Vec<_> = newer.filter(|n| self.surely_stands(&look, *n)).collect();
        if !missed.is_empty() {
            self.violated(format!(
                "id {}: snapshots {missed:?} stand, {found_at} is found: {:?}",
                look.id, look.criteria
            ));
        }
    }

    fn check_found(
        &mut self,
        look: &Look,
        found: &Snapshot,
        noise: &[u8],
    ) -> Result<(), &'static str> {
        let number = found.sequence_number;
        if !look.criteria.matches(number, found.time_ms) {
            return Err("is not what was looked for");
        }
        let (attempt, _) = parse(&found.payload).ok_or("has a payload of nobody")?;
        let may = self.may_stand(look, number.get());
        let save = may.iter().find(|(index, _)| *index == attempt);
        let (_, save) = save.ok_or("was never saved there, or is gone")?;
        let noise = if save.is_large { noise } else { &[] };
        if found.payload != super::write::payload(attempt, save.state, noise) {
            return Err("is not as it was saved");
        }
        if found.time_ms != save.time_ms {
            return Err("has another time");
        }
        self.found[usize::from(save.is_large)] += 1;
        self.folded(look.id, number.get(), save.state);
        Ok(())
    }
}
