//! What writers and readers were told, and whether it can all be true.

use std::collections::BTreeMap;

use annals::Event;

/// How many persistence ids there are.
pub(super) const IDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Unknown,
    /// It was told to stand from this number on.
    Acked(u64),
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) id: usize,
    pub(super) count: u64,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) attempts: Vec<Attempt>,
    /// The one event that ever was at a place, by what its payload says.
    seen: BTreeMap<(usize, u64), String>,
    pub(super) deleted: [u64; IDS],
    pub(super) deletion_tried: [u64; IDS],
    pub(super) violations: Vec<String>,
}

/// What the payload of an event says: which append, which of its events, and of how many.
pub(super) fn label(attempt: usize, place: u64, count: u64) -> String {
    format!("{attempt}/{place}/{count}")
}

/// Reads the label of an event back: append, place, count.
pub(super) fn parse(event: &Event) -> (usize, u64, u64) {
    let text = String::from_utf8_lossy(&event.data.payload).into_owned();
    let label = text.split('|').next().unwrap();
    let mut parts = label.split('/').map(|part| part.parse::<u64>().unwrap());
    let mut next = || parts.next().unwrap();
    (next() as usize, next(), next())
}

impl Record {
    pub(super) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(super) fn begin(&mut self, id: usize, count: u64) -> usize {
        self.attempts.push(Attempt {
            id,
            count,
            outcome: Outcome::Unknown,
        });
        self.attempts.len() - 1
    }

    fn settle(&mut self, attempt: usize, outcome: Outcome) {
        let before = std::mem::replace(&mut self.attempts[attempt].outcome, outcome);
        if before != Outcome::Unknown && before != outcome {
            self.violated(format!("append {attempt}: {before:?}, then {outcome:?}"));
        }
    }

    pub(super) fn acked(&mut self, attempt: usize, first: u64, last: u64) {
        self.settle(attempt, Outcome::Acked(first));
        let Attempt { id, count, .. } = self.attempts[attempt];
        if first + count != last + 1 {
            self.violated(format!("append {attempt}: {count} in {first} to {last}"));
        }
        for place in 0..count {
            self.saw(id, first + place, label(attempt, place, count));
        }
    }

    pub(super) fn refused(&mut self, attempt: usize) {
        self.settle(attempt, Outcome::Refused);
    }

    fn saw(&mut self, id: usize, number: u64, label: String) {
        let before = self
            .seen
            .entry((id, number))
            .or_insert_with(|| label.clone());
        if *before != label {
            let what = format!("id {id}: {number} was {before}, then {label}");
            self.violated(what);
        }
    }

    /// Notes events that were read, which must follow one another.
    pub(super) fn saw_all(&mut self, id: usize, events: &[Event]) {
        for event in events {
            let (attempt, place, count) = parse(event);
            self.saw(
                id,
                event.sequence_number.get(),
                label(attempt, place, count),
            );
        }
        let numbers = events.iter().map(|event| event.sequence_number.get());
        if !numbers
            .clone()
            .skip(1)
            .eq(numbers.map(|n| n + 1).take(events.len().max(1) - 1))
        {
            self.violated(format!("id {id}: events are left out"));
        }
    }

    /// Checks everything that is left of an id, of which everything up to `deleted` is deleted.
    pub(super) fn check_all(&mut self, id: usize, events: &[Event], highest: u64) {
        self.saw_all(id, events);
        let deleted = self.deletion_tried[id].min(highest);
        let numbers: Vec<u64> = events.iter().map(|e| e.sequence_number.get()).collect();
        let want: Vec<u64> = (deleted + 1..=highest).collect();
        if numbers != want {
            self.violated(format!("id {id}: {numbers:?} instead of {want:?}"));
        }
        let mut stands: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        for event in events {
            let (attempt, place, _) = parse(event);
            let at = (event.sequence_number.get(), place);
            stands.entry(attempt).or_default().push(at);
        }
        for (index, attempt) in self.attempts.clone().into_iter().enumerate() {
            if attempt.id != id {
                continue;
            }
            let found = stands.remove(&index).unwrap_or_default();
            if let Some(problem) = problem_of(attempt, &found, (deleted, highest)) {
                self.violated(format!("id {id}, append {index}: {problem}"));
            }
        }
        if !stands.is_empty() {
            self.violated(format!("id {id}: of other ids: {stands:?}"));
        }
    }
}

/// What is wrong with where an append stands: pairs of number and place within it. What is left of
/// the id begins behind `left.0` and ends with `left.1`.
fn problem_of(attempt: Attempt, found: &[(u64, u64)], left: (u64, u64)) -> Option<String> {
    let Attempt { count, outcome, .. } = attempt;
    let (deleted, highest) = left;
    let first = match (outcome, found.first()) {
        (Outcome::Refused, None) | (Outcome::Unknown, None) => return None,
        (Outcome::Refused, Some(_)) => return Some("refused, and visible".to_owned()),
        (Outcome::Acked(first), _) => first,
        (Outcome::Unknown, Some((number, place))) => number.checked_sub(*place)?,
    };
    let all = (0..count).map(|place| (first + place, place));
    let want: Vec<_> = all.filter(|(number, _)| *number > deleted).collect();
    if first + count - 1 > highest {
        return Some(format!("acknowledged past the highest, {highest}"));
    }
    (want != found).then(|| format!("{outcome:?}, and stands at {found:?}"))
}
