//! Which commits to hand out next. Pure: it is given pages of the feed, and changes the state.

use std::collections::HashSet;

use super::settings::Rules;
use super::state::{InFlight, State};
use crate::feed::{Lane, Place};
use crate::{PersistenceId, SequenceNumber};

/// The most ids with dead letters.
pub(super) const DEAD_IDS_MAX: usize = 500;
/// The most commits that wait for an earlier one of their id and are passed over, counted from the floor.
const PASSED_MAX: usize = 2_000;
/// About the most bytes of entries: a group is one item. The ranges take up to 60,000 more.
const WEIGHT_MAX: usize = 330_000;
/// After so many bytes of events, a call gets no further commit.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Who takes, and when.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) now_ms: u64,
    /// Identifies the call, in its deliveries.
    pub(super) token: u64,
    pub(super) member: String,
    pub(super) max: usize,
}

/// A part of a lane that was read: everything after one place, up to another.
#[derive(Clone, Debug)]
pub(super) struct SeenPage {
    pub(super) lane: Lane,
    pub(super) after: u64,
    pub(super) upto: u64,
    /// What the filter accepts, in order.
    pub(super) seen: Vec<Seen>,
}

/// An entry of the feed.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) place: u64,
    pub(super) id: PersistenceId,
    pub(super) found: Found,
}

/// What the feed has at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Commit(Commit),
    /// A commit whose events were deleted before they were read.
    Missing,
    /// The id was purged. Of its commits before, those that are not in the feed any more leave no trace
    /// but this.
    Purged,
}

/// What the state remembers of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    pub(super) first: SequenceNumber,
    pub(super) events: u32,
    pub(super) bytes: usize,
}

/// Why no further commit is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The call has what it wanted.
    Enough,
    /// As many are in flight as may be.
    InFlight,
    /// Too many wait for an earlier commit of their id.
    Passed,
    /// Too many ids have dead letters.
    DeadLetters,
}

/// What one call hands out.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    turn: &'a Turn,
    rules: &'a Rules,
    /// Ids with a commit that is not handled before the place that was read up to.
    busy: HashSet<PersistenceId>,
    passed: usize,
    bytes: usize,
    weight: usize,
    pub(super) handed: Vec<Place>,
    pub(super) stop: Option<Stop>,
    /// Whether something changed that should be saved, other than progress.
    pub(super) has_news: bool,
}

/// Dead letters that are to be handed out again.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    pub(super) id: PersistenceId,
    pub(super) lane: Lane,
    pub(super) from: u64,
    pub(super) last: u64,
}

impl Plan<'_> {
    /// Whether the call gets no further commit.
    pub(super) fn has_enough(&self) -> bool {
        self.handed.len() >= self.turn.max || self.bytes >= BYTES_MAX
    }
}

impl State {
    /// Begins a call: what has expired fails first.
    pub(super) fn begin<'a>(&mut self, turn: &'a Turn, rules: &'a Rules) -> Plan<'a> {
        let expired = self.expire(turn.now_ms, rules);
        let busy = self.in_flight.values().map(|flight| flight.id.clone());
        Plan {
            turn,
            rules,
            busy: busy.collect(),
            passed: 0,
            bytes: 0,
            weight: self.weight(),
            handed: Vec::new(),
            stop: None,
            has_news: expired > 0,
        }
    }

    /// The commits that failed and are to be handed out again, in order.
    pub(super) fn waiting(&self) -> Vec<Place> {
        let waiting = self.in_flight.iter();
        let waiting = waiting.filter(|(_, flight)| flight.is_waiting);
        waiting.map(|(place, _)| *place).collect()
    }

    /// Hands a failed commit out again. `None`: its events were deleted meanwhile.
    pub(super) fn redeliver(&mut self, place: Place, commit: Option<Commit>, plan: &mut Plan<'_>) {
        plan.has_news = true;
        let Some(commit) = commit else {
            return self.miss(place);
        };
        if let Some(flight) = self.in_flight.get_mut(&place) {
            flight.is_waiting = false;
            flight.token = plan.turn.token;
            flight.member.clone_from(&plan.turn.member);
            flight.deadline_ms = plan.turn.now_ms.saturating_add(plan.rules.ack_ms);
            flight.attempt = flight.attempt.saturating_add(1);
            plan.handed.push(place);
            plan.bytes += commit.bytes;
        }
    }

    /// The events of a commit in flight were deleted.
    fn miss(&mut self, place: Place) {
        let Some(flight) = self.in_flight.remove(&place) else {
            return;
        };
        self.missed += 1;
        if !flight.is_dead {
            return self.add_handled(place.lane, place.place, place.place);
        }
        if let Some(dead) = self.dead.get_mut(&flight.id) {
            dead.commits = dead.commits.saturating_sub(1);
            dead.from = place.place + 1;
            if dead.from > dead.last {
                self.forget_dead(&flight.id);
            }
        }
    }

    /// The dead letters that are retried and not in flight, the earliest first.
    pub(super) fn cursors(&self) -> Vec<Cursor> {
        let in_flight = self.in_flight.values().filter(|flight| flight.is_dead);
        let in_flight: HashSet<&PersistenceId> = in_flight.map(|flight| &flight.id).collect();
        let retried = self.dead.iter();
        let retried = retried.filter(|(id, dead)| dead.is_retried && !in_flight.contains(id));
        let cursors = retried.map(|(id, dead)| Cursor {
            id: id.clone(),
            lane: dead.lane,
            from: dead.from,
            last: dead.last,
        });
        let mut cursors: Vec<Cursor> = cursors.collect();
        cursors.sort_by_key(|cursor| (cursor.lane, cursor.from));
        cursors
    }

    /// Hands out the first dead letter of an id in a page that was read from its cursor on. Returns
    /// whether there is more to read.
    pub(super) fn plan_retry(
        &mut self,
        cursor: &Cursor,
        page: &SeenPage,
        plan: &mut Plan<'_>,
    ) -> bool {
        plan.has_news = true;
        let of_id = page.seen.iter().filter(|seen| seen.id == cursor.id);
        for seen in of_id.take_while(|seen| seen.place <= cursor.last) {
            let Some(dead) = self.dead.get_mut(&cursor.id) else {
                return false;
            };
            let commit = match seen.found {
                Found::Commit(commit) => commit,
                // What is missing at the end is counted: this may be no dead letter, as tags are not
                // known any more.
                Found::Missing | Found::Purged => continue,
            };
            (dead.from, dead.first) = (seen.place, commit.first);
            let place = page.lane.at(seen.place);
            self.hand_out(place, (&seen.id, commit), plan);
            return false;
        }
        let Some(dead) = self.dead.get_mut(&cursor.id) else {
            return false;
        };
        dead.from = dead.from.max(page.upto + 1);
        let is_over = dead.from > dead.last;
        if is_over {
            self.forget_dead(&cursor.id);
        }
        !is_over
    }

    /// Whether there is room for one more in flight; if not, the plan stops.
    pub(super) fn has_room(&self, plan: &mut Plan<'_>) -> bool {
        let is_heavy = plan.weight + crate::PERSISTENCE_ID_BYTES_MAX > WEIGHT_MAX;
        let is_full = self.in_flight.len() >= plan.rules.in_flight as usize;
        plan.stop = if plan.has_enough() {
            Some(Stop::Enough)
        } else if is_full || (is_heavy && !self.in_flight.is_empty()) {
            Some(Stop::InFlight)
        } else if self.dead.len() >= DEAD_IDS_MAX || is_heavy {
            Some(Stop::DeadLetters)
        } else if plan.passed >= PASSED_MAX {
            Some(Stop::Passed)
        } else {
            None
        };
        plan.stop.is_none()
    }

    /// Whether a dead letter may be handed out again.
    pub(super) fn has_room_to_retry(&self, plan: &Plan<'_>) -> bool {
        let is_full = self.in_flight.len() >= plan.rules.in_flight as usize;
        let is_heavy = plan.weight + crate::PERSISTENCE_ID_BYTES_MAX > WEIGHT_MAX;
        !plan.has_enough() && !is_full && (!is_heavy || self.in_flight.is_empty())
    }

    /// The place after which the lane is to be read next: after what is handled or in flight.
    pub(super) fn read_after(&self, lane: Lane, after: u64) -> u64 {
        self.skip(lane, after, |_| true)
    }

    /// How many places follow before a range of so many handled ones.
    pub(super) fn unread(&self, lane: Lane, after: u64, handled: u64) -> u64 {
        let next = self
            .lane(lane)
            .and_then(|lane| lane.handled.next_range(after, handled));
        next.map_or(u64::MAX, |next| next.saturating_sub(after + 1))
    }

    /// Hands out commits of a page, and marks as handled what need not be handed out. A page begins where
    /// the one before it ended, or where [`read_after`](Self::read_after) says.
    pub(super) fn plan_next(&mut self, page: &SeenPage, plan: &mut Plan<'_>) {
        let mut open: Vec<u64> = Vec::new();
        let mut upto = page.upto;
        for seen in &page.seen {
            let place = page.lane.at(seen.place);
            if self.is_handled(place) || self.in_flight.contains_key(&place) {
                continue;
            }
            if !self.has_room(plan) {
                upto = seen.place - 1;
                break;
            }
            if !self.decide(page.lane, seen, plan) {
                open.push(seen.place);
            }
        }
        let (first, last) = (page.lane.at(page.after), page.lane.at(upto));
        if first < last {
            let in_flight = self.in_flight.range(first..=last);
            open.extend(in_flight.map(|(place, _)| place.place));
        }
        open.sort_unstable();
        let mut first = page.after + 1;
        for place in open {
            self.add_handled(page.lane, first, place.saturating_sub(1));
            first = place + 1;
        }
        self.add_handled(page.lane, first, upto);
    }

    /// What becomes of an entry that is neither handled nor in flight. Returns whether it is handled now.
    fn decide(&mut self, lane: Lane, seen: &Seen, plan: &mut Plan<'_>) -> bool {
        let commit = match seen.found {
            Found::Commit(commit) => commit,
            Found::Missing => {
                plan.has_news = true;
                self.missed += 1;
                return true;
            }
            Found::Purged => {
                plan.has_news = true;
                self.purged += 1;
                return true;
            }
        };
        if let Some(dead) = self.dead.get_mut(&seen.id) {
            plan.has_news = true;
            dead.commits += 1;
            dead.last = seen.place;
            return true;
        }
        match plan.busy.insert(seen.id.clone()) {
            true => self.hand_out(lane.at(seen.place), (&seen.id, commit), plan),
            false => plan.passed += 1,
        }
        false
    }

    fn hand_out(
        &mut self,
        place: Place,
        (id, commit): (&PersistenceId, Commit),
        plan: &mut Plan<'_>,
    ) {
        plan.has_news = true;
        let flight = InFlight {
            id: id.clone(),
            first: commit.first,
            events: commit.events,
            token: plan.turn.token,
            member: plan.turn.member.clone(),
            deadline_ms: plan.turn.now_ms.saturating_add(plan.rules.ack_ms),
            attempt: 1,
            is_waiting: false,
            is_dead: self.dead.contains_key(id),
        };
        plan.bytes += commit.bytes;
        plan.weight += flight.weight();
        self.in_flight.insert(place, flight);
        plan.handed.push(place);
    }
}
