//! The state of a group: which commits are handled, in flight or dead letters. Pure: no store, no clock.
//!
//! Guarantees:
//! - A commit is handled, in flight, or still to be handed out. Only an acknowledgement, a dead letter, a
//!   filter or a deletion makes it handled, so the floor never passes another one.
//! - At most one commit of an id is in flight, and it is the first one that is not handled.
//! - While an id has dead letters, its later commits become dead letters after them, in order.

use std::collections::BTreeMap;

use super::delivery::{DeliveryId, Settled};
use super::handled::Handled;
use super::settings::Rules;
use crate::feed::{Lane, LanePosition, Place, Position};
use crate::{PersistenceId, SequenceNumber};

/// The most bytes of a reason; the rest is cut off.
const REASON_BYTES_MAX: usize = 200;
/// About how many bytes an entry takes besides its texts.
const ENTRY_BYTES: usize = 48;

/// Everything that a group must change at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Of the feed that the places belong to.
    pub(super) generation: u32,
    /// By the lane's number.
    pub(super) lanes: Vec<LaneState>,
    pub(super) in_flight: BTreeMap<Place, InFlight>,
    pub(super) dead: BTreeMap<PersistenceId, Dead>,
    /// Commits whose events were deleted before they were handed out.
    pub(super) missed: u64,
    /// How often an id was purged, with all its commits that were not handed out yet.
    pub(super) purged: u64,
}

/// A lane of the feed, as the group has handled it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneState {
    /// Where the group started, which may be inside a commit.
    pub(super) start: LanePosition,
    pub(super) handled: Handled,
}

/// A commit that was handed out and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) id: PersistenceId,
    /// The sequence number of its first event.
    pub(super) first: SequenceNumber,
    pub(super) events: u32,
    /// Of the call that handed it out last.
    pub(super) token: u64,
    pub(super) member: String,
    pub(super) deadline_ms: u64,
    /// 1 for the first time.
    pub(super) attempt: u32,
    /// Failed, and to be handed out again.
    pub(super) is_waiting: bool,
    /// The first of the id's dead letters. Its place is handled already.
    pub(super) is_dead: bool,
}

/// The dead letters of an id: its commits from one place to another. They are found in the feed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) lane: Lane,
    /// No dead letter of the id is before this place. While they are not retried, the first is here.
    pub(super) from: u64,
    /// The place of the last one.
    pub(super) last: u64,
    /// The sequence number of the first event, or one before it.
    pub(super) first: SequenceNumber,
    pub(super) commits: u64,
    pub(super) reason: String,
    pub(super) is_retried: bool,
}

impl InFlight {
    /// About how many bytes it takes, with the reason if it becomes a dead letter.
    pub(super) fn weight(&self) -> usize {
        self.id.as_str().len() + self.member.len() + ENTRY_BYTES + REASON_BYTES_MAX
    }
}

impl State {
    /// Nothing handled yet after these positions of the lanes.
    pub(super) fn new(generation: u32, starts: &[LanePosition]) -> Self {
        let lanes = starts.iter().map(|start| LaneState {
            start: *start,
            handled: Handled::up_to(start.place),
        });
        Self {
            generation,
            lanes: lanes.collect(),
            in_flight: BTreeMap::new(),
            dead: BTreeMap::new(),
            missed: 0,
            purged: 0,
        }
    }

    pub(super) fn lane(&self, lane: Lane) -> Option<&LaneState> {
        self.lanes.get(usize::from(lane.0))
    }

    /// Where each lane began.
    pub(super) fn starts(&self) -> Vec<LanePosition> {
        self.lanes.iter().map(|lane| lane.start).collect()
    }

    /// Marks places as handled.
    pub(super) fn add_handled(&mut self, lane: Lane, first: u64, last: u64) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane.0)) {
            lane.handled.add(first, last);
        }
    }

    pub(super) fn is_handled(&self, place: Place) -> bool {
        let lane = self.lane(place.lane);
        lane.is_some_and(|lane| lane.handled.contains(place.place))
    }

    /// The last of the places after one that are handled, or in flight and to be passed over.
    pub(super) fn skip(
        &self,
        lane: Lane,
        after: u64,
        is_passed: impl Fn(&InFlight) -> bool,
    ) -> u64 {
        let mut after = after;
        loop {
            let handled = self.lane(lane).map(|lane| lane.handled.skip(after));
            after = handled.unwrap_or(after);
            if !self
                .in_flight
                .get(&lane.at(after + 1))
                .is_some_and(&is_passed)
            {
                return after;
            }
            after += 1;
        }
    }

    /// The position up to which every commit of an id is handled; the start while it has dead letters.
    ///
    /// What others have in flight is passed over. A place that is neither handled nor in flight is not,
    /// as nobody knows whose it is: it may wait for an earlier commit of this id.
    pub(super) fn handled_to(&self, id: &PersistenceId) -> Position {
        let lanes = u16::try_from(self.lanes.len()).unwrap_or(u16::MAX);
        let mut position = Position::start(self.generation, lanes);
        if self.dead.contains_key(id) {
            return position;
        }
        for lane in (0..lanes).map(Lane) {
            let place = self.skip(lane, 0, |flight| flight.id != *id);
            position = position.with_lane(lane.0, LanePosition::after(place));
        }
        position
    }

    /// How many places are handled, in all lanes.
    pub(super) fn handled_count(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.handled.count()).sum()
    }

    /// About how many bytes the entries take.
    pub(super) fn weight(&self) -> usize {
        let in_flight = self.in_flight.values().map(InFlight::weight);
        let dead = self.dead.iter();
        let dead = dead.map(|(id, dead)| id.as_str().len() + dead.reason.len() + ENTRY_BYTES);
        in_flight.sum::<usize>() + dead.sum::<usize>()
    }

    /// How many commits are dead letters.
    pub(super) fn dead_commits(&self) -> u64 {
        self.dead.values().map(|dead| dead.commits).sum()
    }

    /// Fails every delivery whose deadline has passed. Returns how many.
    pub(super) fn expire(&mut self, now_ms: u64, rules: &Rules) -> usize {
        let is_late = |flight: &InFlight| !flight.is_waiting && flight.deadline_ms <= now_ms;
        let late = self.in_flight.iter().filter(|(_, flight)| is_late(flight));
        let late: Vec<Place> = late.map(|(place, _)| *place).collect();
        for place in &late {
            let member = self.in_flight.get(place).map(|flight| &flight.member);
            let by = member.filter(|member| !member.is_empty());
            let by = by.map_or(String::new(), |member| format!(" by {member}"));
            let reason = format!("not acknowledged{by} within {} ms", rules.ack_ms);
            self.fail(*place, &reason, rules.retries);
        }
        late.len()
    }

    /// Acknowledges deliveries.
    pub(super) fn ack(&mut self, ids: &[DeliveryId]) -> Vec<Settled> {
        ids.iter().map(|id| self.ack_one(*id)).collect()
    }

    fn ack_one(&mut self, id: DeliveryId) -> Settled {
        let place = id.place;
        match self.in_flight.get(&place) {
            // Also after its deadline, as long as nobody else has it.
            Some(flight) if flight.token == id.token => {}
            _ => return self.settled(id),
        }
        let Some(flight) = self.in_flight.remove(&place) else {
            return Settled::Unknown;
        };
        match flight.is_dead {
            true => self.pass_dead(&flight, place),
            false => self.add_handled(place.lane, place.place, place.place),
        }
        Settled::Acked
    }

    /// What a delivery is that is not in flight under its token.
    fn settled(&self, id: DeliveryId) -> Settled {
        let place = id.place;
        let is_dead = |dead: &Dead| dead.lane == place.lane && dead.from == place.place;
        if self.in_flight.contains_key(&place) || self.dead.values().any(is_dead) {
            return Settled::Expired;
        }
        match self.is_handled(place) {
            true => Settled::Already,
            false => Settled::Unknown,
        }
    }

    /// The first dead letter of an id is handled.
    fn pass_dead(&mut self, flight: &InFlight, place: Place) {
        let Some(dead) = self.dead.get_mut(&flight.id) else {
            return;
        };
        dead.from = place.place + 1;
        dead.commits = dead.commits.saturating_sub(1);
        let next = flight.first.plus(flight.events.into());
        dead.first = next.unwrap_or(SequenceNumber::LAST);
        if dead.from > dead.last {
            self.forget_dead(&flight.id);
        }
    }

    /// Removes the dead letters of an id. Those that were not found in the feed any more are missed.
    pub(super) fn forget_dead(&mut self, id: &PersistenceId) {
        let dead = self.dead.remove(id);
        self.missed += dead.map_or(0, |dead| dead.commits);
    }

    /// Refuses deliveries: they are handed out again, or become dead letters.
    pub(super) fn nack(&mut self, ids: &[DeliveryId], reason: &str, rules: &Rules) -> Vec<Settled> {
        let nack = |id: &DeliveryId| match self.in_flight.get(&id.place) {
            Some(flight) if flight.token == id.token && flight.is_waiting => Settled::Requeued,
            Some(flight) if flight.token == id.token => self.fail(id.place, reason, rules.retries),
            _ => self.settled(*id),
        };
        ids.iter().map(nack).collect()
    }

    /// An attempt failed.
    fn fail(&mut self, place: Place, reason: &str, retries: u32) -> Settled {
        match self.in_flight.get_mut(&place) {
            Some(flight) if flight.attempt <= retries => {
                flight.is_waiting = true;
                Settled::Requeued
            }
            _ => {
                self.bury(place, reason);
                Settled::DeadLettered
            }
        }
    }

    /// A commit in flight becomes a dead letter, or is one again.
    fn bury(&mut self, place: Place, reason: &str) {
        let Some(flight) = self.in_flight.remove(&place) else {
            return;
        };
        let last = self
            .dead
            .get(&flight.id)
            .map(|dead| (dead.last, dead.commits));
        let (last, commits) = last.unwrap_or((place.place, 1));
        let dead = Dead {
            lane: place.lane,
            from: place.place,
            last,
            first: flight.first,
            commits,
            reason: cut(reason).to_owned(),
            is_retried: false,
        };
        self.dead.insert(flight.id, dead);
        if !flight.is_dead {
            self.add_handled(place.lane, place.place, place.place);
        }
    }

    /// Hands dead letters out again: those of an id, or all. Returns how many commits they are.
    pub(super) fn retry(&mut self, id: Option<&PersistenceId>) -> u64 {
        let wanted = self.dead.iter_mut();
        let wanted = wanted.filter(|(of, _)| id.is_none_or(|id| id == *of));
        let retried = wanted.map(|(_, dead)| {
            dead.is_retried = true;
            dead.commits
        });
        retried.sum()
    }

    /// Forgets dead letters: those of an id, or all. Returns how many commits they were.
    pub(super) fn discard(&mut self, id: Option<&PersistenceId>) -> u64 {
        let is_wanted = |of: &PersistenceId| id.is_none_or(|id| id == of);
        self.in_flight
            .retain(|_, flight| !(flight.is_dead && is_wanted(&flight.id)));
        let mut discarded = 0;
        self.dead.retain(|of, dead| {
            let is_discarded = is_wanted(of);
            discarded += u64::from(is_discarded) * dead.commits;
            !is_discarded
        });
        discarded
    }
}

/// The first bytes of a reason, at the end of a character.
fn cut(reason: &str) -> &str {
    let mut ends = (0..=REASON_BYTES_MAX.min(reason.len())).rev();
    let end = ends.find(|end| reason.is_char_boundary(*end));
    reason.get(..end.unwrap_or(0)).unwrap_or_default()
}
