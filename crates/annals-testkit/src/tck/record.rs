//! Records the outcomes of appends and reads, and checks that they are consistent: acknowledged events
//! are stored unchanged, rejected ones are not visible, no number is used twice, batches are complete,
//! the highest is right, and no event is between an append and its expected event. If numbers may be
//! skipped, every event that was ever read must be in all later reads of its number, and a stored
//! append may be a conflict when it is repeated after enough deletions.
//!
//! For tests in which several writers append to a few ids under faults. Each event's payload has a
//! [`label`]. Outcomes are recorded in any order; contradictions are in `violations`. The record itself
//! uses no journal.

use std::collections::BTreeMap;

use annals::Event;

/// On a layout that may skip numbers: how many of the last deleted events keep their token.
const KEPT: u64 = 32;

/// The outcome of an append for its writer.
///
/// See [`Record`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Unknown: it may be stored.
    Unknown,
    /// Acknowledged, with this first number.
    Acked(u64),
    /// Rejected: it must never be read.
    Refused,
}

/// An append that was begun.
///
/// See [`Record`] for an example.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The index of its id.
    pub id: usize,
    /// How many events it has.
    pub count: u64,
    /// The expected last number; `None` without an expectation.
    pub expected: Option<u64>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcomes of appends and reads. Ids are given by their index.
///
/// ```
/// use annals_testkit::tck::record::{Outcome, Record};
///
/// let mut record = Record::of(1, false);
/// let append = record.begin(0, 2); // two events of the first id
/// record.acked(append, 1, 2);
/// assert_eq!(record.attempts[&append].outcome, Outcome::Acked(1));
/// assert!(record.violations.is_empty());
///
/// record.saw_labels(0, vec![(1, "another event".into())]);
/// assert_eq!(record.violations.len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Record {
    /// Every append, by its number.
    pub attempts: BTreeMap<usize, Attempt>,
    /// The label of the only event at an id and number.
    seen: BTreeMap<(usize, u64), String>,
    /// Up to which number each id is certainly deleted.
    pub deleted: Vec<u64>,
    /// Up to which number a deletion of each id was begun.
    pub deletion_tried: Vec<u64>,
    /// Whether the layout may skip numbers, those of incomplete appends.
    pub may_skip: bool,
    /// Contradictions, a line each.
    pub violations: Vec<String>,
}

/// The label of an event: its append, its position there, and the number of events.
pub fn label(attempt: usize, place: u64, count: u64) -> String {
    format!("{attempt}/{place}/{count}")
}

/// Parses the label of an event: append, position, count.
///
/// # Panics
/// If the payload does not begin with a label that ends there or at a `|`.
pub fn parse(event: &Event) -> (usize, u64, u64) {
    let payload = event.data.payload.split(|byte| *byte == b'|').next();
    parse_label(&String::from_utf8_lossy(payload.unwrap_or_default()))
}

fn parse_label(label: &str) -> (usize, u64, u64) {
    let mut parts = label.split('/').map(str::parse::<u64>);
    let mut next = || parts.next().and_then(Result::ok).expect("a label");
    (next() as usize, next(), next())
}

impl Record {
    /// An empty record of this many ids, on a layout that may skip numbers or not.
    pub fn of(ids: usize, may_skip: bool) -> Self {
        Self {
            may_skip,
            deleted: vec![0; ids],
            deletion_tried: vec![0; ids],
            ..Self::default()
        }
    }

    /// Records a contradiction.
    pub fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Begins an append of this many events; returns its number.
    pub fn begin(&mut self, id: usize, count: u64) -> usize {
        let last = self.attempts.last_key_value();
        let attempt = last.map_or(0, |(attempt, _)| attempt + 1);
        self.begin_as(attempt, id, count);
        attempt
    }

    /// Begins an append under a unique number.
    pub fn begin_as(&mut self, attempt: usize, id: usize, count: u64) {
        let begun = Attempt {
            id,
            count,
            expected: None,
            outcome: Outcome::Unknown,
        };
        if self.attempts.insert(attempt, begun).is_some() {
            self.violated(format!("append {attempt} is begun twice"));
        }
    }

    /// Records the expected last number of an append; 0: none.
    pub fn expects(&mut self, attempt: usize, last: u64) {
        let begun = self.attempts.get_mut(&attempt).expect("a begun append");
        begun.expected = Some(last);
    }

    /// Records the outcome of an append; returns the append.
    fn settle(&mut self, attempt: usize, outcome: Outcome) -> Attempt {
        let begun = *self.attempts.get(&attempt).expect("a begun append");
        let before = begun.outcome;
        let may_have_lost_token = match (before, outcome) {
            (Outcome::Acked(first), Outcome::Refused)
            | (Outcome::Refused, Outcome::Acked(first)) => self.may_have_lost_token(begun, first),
            _ => false,
        };
        if let Some(settled) = self.attempts.get_mut(&attempt)
            && !(may_have_lost_token && outcome == Outcome::Refused)
        {
            settled.outcome = outcome;
        }
        if before != Outcome::Unknown && before != outcome && !may_have_lost_token {
            self.violated(format!("append {attempt}: {before:?}, then {outcome:?}"));
        }
        begun
    }

    /// Whether a stored append with this first number may have lost its token.
    fn may_have_lost_token(&self, begun: Attempt, first: u64) -> bool {
        let end = (first + begun.count).saturating_sub(1);
        self.may_skip && end + KEPT <= self.deletion_tried[begun.id]
    }

    /// An append was acknowledged, with these numbers.
    pub fn acked(&mut self, attempt: usize, first: u64, last: u64) {
        let Attempt { id, count, .. } = self.settle(attempt, Outcome::Acked(first));
        if first + count != last + 1 {
            self.violated(format!("append {attempt}: {count} in {first} to {last}"));
        }
        for place in 0..count {
            self.saw(id, first + place, label(attempt, place, count));
        }
    }

    /// An append got a conflict.
    pub fn refused(&mut self, attempt: usize) {
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

    /// Records events that were read, which must be consecutive.
    pub fn saw_all(&mut self, id: usize, events: &[Event]) {
        let read = events.iter().map(|event| {
            let (attempt, place, count) = parse(event);
            (event.sequence_number.get(), label(attempt, place, count))
        });
        self.saw_labels(id, read.collect());
    }

    /// Records the numbers and labels of events that were read, which must be consecutive.
    pub fn saw_labels(&mut self, id: usize, read: Vec<(u64, String)>) {
        let is_successor = |pair: &[(u64, String)]| self.follows(id, pair[0].0, pair[1].0);
        if let Some(pair) = read.windows(2).find(|pair| !is_successor(pair)) {
            let (before, behind) = (pair[0].0, pair[1].0);
            let what = format!("id {id}: events are left out between {before} and {behind}");
            self.violated(what);
        }
        for (number, label) in read {
            self.saw(id, number, label);
        }
    }

    /// Whether a number may follow another in a read.
    pub fn follows(&self, id: usize, before: u64, number: u64) -> bool {
        match self.may_skip {
            false => before + 1 == number,
            true => before < number && self.seen_between(id, before, number).is_none(),
        }
    }

    /// The first number between two others at which an event was ever read.
    fn seen_between(&self, id: usize, before: u64, number: u64) -> Option<u64> {
        let between = self
            .seen
            .range((id, before + 1)..(id, number.max(before + 1)));
        between.map(|((_, number), _)| *number).next()
    }

    /// Checks all events that were ever read of an id: none was rejected, and each append has one
    /// position.
    fn check_seen(&mut self, id: usize) {
        let mut stood: BTreeMap<usize, u64> = BTreeMap::new();
        let mut wrong = Vec::new();
        for ((_, number), label) in self.seen.range((id, 0)..=(id, u64::MAX)) {
            let (attempt, place, _) = parse_label(label);
            let begun = self.attempts.get(&attempt);
            let first = stood.entry(attempt).or_insert(number.wrapping_sub(place));
            let is_right = match begun.map(|begun| (begun.id, begun.outcome)) {
                Some((of, Outcome::Refused)) => {
                    of == id && begun.is_some_and(|begun| self.may_have_lost_token(*begun, *first))
                }
                None => false,
                Some((of, Outcome::Acked(acked))) => of == id && acked == *first,
                Some((of, Outcome::Unknown)) => of == id,
            };
            if !is_right || number.wrapping_sub(place) != *first {
                wrong.push(format!("id {id}: {label} was seen at {number}: {begun:?}"));
            }
        }
        for (attempt, first) in stood {
            let begun = self.attempts.get(&attempt);
            let Some(expected) = begun.and_then(|begun| begun.expected) else {
                continue;
            };
            if let Some(between) = self.seen_between(id, expected, first) {
                wrong.push(format!(
                    "id {id}: append {attempt} expected {expected} as the last, is stored at {first}, and {between} is between"
                ));
            }
        }
        self.violations.append(&mut wrong);
    }

    /// Checks all events of an id, of which those up to `deleted` are deleted.
    pub fn check_all(&mut self, id: usize, events: &[Event], highest: u64) {
        self.saw_all(id, events);
        self.check_seen(id);
        let deleted = self.deletion_tried[id].min(highest);
        let numbers: Vec<u64> = events.iter().map(|e| e.sequence_number.get()).collect();
        let want: Vec<u64> = (deleted + 1..=highest).collect();
        let is_right = match self.may_skip {
            false => numbers == want,
            true => numbers.iter().all(|n| (deleted + 1..=highest).contains(n)),
        };
        if !is_right {
            self.violated(format!("id {id}: {numbers:?} instead of {want:?}"));
        }
        let mut stands: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        for event in events {
            let (attempt, place, _) = parse(event);
            let at = (event.sequence_number.get(), place);
            stands.entry(attempt).or_default().push(at);
        }
        for (index, attempt) in self.attempts.clone() {
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

/// The error in the position of an append: pairs of number and position in it. The events of the id
/// begin after `left.0` and end with `left.1`.
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
    (want != found).then(|| format!("{outcome:?}, and is stored at {found:?}"))
}
