//! What was appended, and what the rows must be.

use std::collections::{BTreeMap, BTreeSet};

use annals::entity::EntityEvent;
use annals::journal::{Append, Expected};
use annals::{Annals, NewEvent, PersistenceId, Random, SequenceNumber};

use super::process::Found;
use super::views::{Cart, CartEvent};

const IDS: u64 = 4;
const GROUPS: u64 = 3;

/// What was appended, by id.
#[derive(Debug, Default)]
pub(super) struct Model {
    next: u64,
    events: BTreeMap<String, Vec<CartEvent>>,
    /// The events before the last purge.
    purged: BTreeMap<String, usize>,
    /// How many of the first events may be deleted.
    deleted: BTreeMap<String, usize>,
}

impl Model {
    pub(super) fn any_id(&self, random: &Random) -> PersistenceId {
        let n = random.below(IDS);
        format!("Cart|p{n}-{n}").parse().unwrap()
    }

    pub(super) fn new_events(&mut self, random: &Random, count: u64) -> Vec<CartEvent> {
        let events = (0..count).map(|_| {
            self.next += 1;
            match random.happens(300) {
                true => CartEvent::Closed { n: self.next },
                false => CartEvent::Added {
                    n: self.next,
                    group: random.below(GROUPS),
                    is_poison: random.happens(40),
                },
            }
        });
        events.collect()
    }

    pub(super) async fn append(&mut self, to: &Annals, id: &PersistenceId, events: Vec<CartEvent>) {
        let new: Vec<NewEvent> = events
            .iter()
            .map(|event| event.to_event().unwrap())
            .collect();
        let appended = to
            .journal()
            .append(id, Expected::Any, Append::of(new))
            .await;
        appended.unwrap();
        self.events
            .entry(id.to_string())
            .or_default()
            .extend(events);
    }

    /// Deletes the older half of the events of an id.
    pub(super) async fn delete(&mut self, at: &Annals, id: &PersistenceId) -> bool {
        let last = at.journal().highest(id).await.unwrap();
        let half = last.map_or(0, |last| last.get() / 2);
        let Some(to) = SequenceNumber::new(half) else {
            return false;
        };
        at.journal().delete_to(id, to).await.unwrap();
        let events = self.events.get(id.as_str()).map_or(0, Vec::len);
        self.deleted.insert(id.to_string(), events);
        true
    }

    pub(super) fn purge(&mut self, id: &PersistenceId) {
        let events = self.events.get(id.as_str()).map_or(0, Vec::len);
        self.purged.insert(id.to_string(), events);
    }

    /// Whether events of an id may have been deleted before they were read.
    fn may_miss(&self, id: &str) -> bool {
        self.purged.contains_key(id) || self.deleted.contains_key(id)
    }

    /// What is wrong with the rows.
    pub(super) fn check(&self, found: &Found) -> Vec<String> {
        let mut violations = Vec::new();
        for (id, events) in &self.events {
            let since = self.purged.get(id).copied().unwrap_or(0);
            let want = events[since..].iter().fold(None, Cart::after);
            let row = found.carts.get(id);
            let is_right = match self.deleted.contains_key(id) {
                false => row == want.as_ref(),
                true => row.is_none_or(|row| is_part(&row.0, &numbers(events, None))),
            };
            if !is_right {
                violations.push(format!("cart {id}: {row:?} instead of {want:?}"));
            }
            for group in 0..GROUPS {
                violations.extend(self.check_group(found, group, (id, events)));
            }
        }
        let unknown = found
            .carts
            .keys()
            .filter(|id| !self.events.contains_key(*id));
        violations.extend(unknown.map(|id| format!("cart {id} was never opened")));
        violations
    }

    fn check_group(
        &self,
        found: &Found,
        group: u64,
        (id, events): (&String, &[CartEvent]),
    ) -> Option<String> {
        let want = numbers(events, Some(group));
        let row = found.groups.get(&format!("group-{group}"));
        let row = row
            .and_then(|row| row.0.get(id))
            .cloned()
            .unwrap_or_default();
        let is_right = match self.may_miss(id) {
            false => row == want,
            true => is_part(&row, &want),
        };
        (!is_right).then(|| format!("group {group} of {id}: {row:?} instead of {want:?}"))
    }

    /// What is wrong with what the handler got.
    pub(super) fn check_handled(
        &self,
        handled: &[(String, u64)],
        is_complete: bool,
    ) -> Vec<String> {
        let mut violations = Vec::new();
        for (id, events) in &self.events {
            let mut seen = BTreeSet::new();
            let of_id = handled.iter().filter(|(of, _)| of == id);
            let first: Vec<u64> = of_id.map(|(_, n)| *n).filter(|n| seen.insert(*n)).collect();
            let want = all_numbers(events);
            let is_right = match is_complete {
                true => first == want,
                false => is_part(&first, &want),
            };
            if !is_right {
                violations.push(format!("handled of {id}: {first:?} instead of {want:?}"));
            }
        }
        violations
    }
}

/// Whether some numbers are in order in others, none twice.
fn is_part(some: &[u64], of: &[u64]) -> bool {
    let mut rest = of.iter();
    some.iter().all(|n| rest.any(|other| other == n))
}

fn all_numbers(events: &[CartEvent]) -> Vec<u64> {
    let numbers = events.iter().map(|event| match event {
        CartEvent::Added { n, .. } | CartEvent::Closed { n } => *n,
    });
    numbers.collect()
}

/// The numbers of what was added, of a group or of all.
fn numbers(events: &[CartEvent], of: Option<u64>) -> Vec<u64> {
    let numbers = events.iter().filter_map(|event| match event {
        CartEvent::Added { n, group, .. } if of.is_none_or(|of| of == *group) => Some(*n),
        _ => None,
    });
    numbers.collect()
}
