//! Hands out deliveries: reads the feed from the floor, decides, and saves the decision before it returns
//! the events.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::{Either, select};

use super::plan::{Cursor, Plan, Stop, Turn};
use super::source::{self, Events, Source};
use super::state::State;
use super::stored::Loaded;
use super::{CONFLICTS_MAX, Delivery, DeliveryId, Group, Saved, Take};
use crate::feed::{Lane, Place};
use crate::{Error, Event, Result};

/// How many changes of the store the first page of a call has; each further one has four times as many.
const PAGE_MIN: usize = 64;
const PAGE_MAX: usize = 4_096;
/// About how many changes are read before progress is saved.
const ROUND_CHANGES: usize = 32_768;
/// Progress over fewer places is not worth a write.
const PROGRESS_MIN: u64 = 1_000;
/// Other processes may acknowledge, which this one does not notice.
const POLL_MAX: Duration = Duration::from_secs(1);
/// While as many are in flight as may be, appends change nothing.
const POLL_MIN: Duration = Duration::from_millis(50);

/// The events of what a round hands out.
type Read = HashMap<Place, Vec<Event>>;

/// The result of reading and deciding once.
#[derive(Debug, Default)]
struct Round {
    deliveries: Vec<Delivery>,
    /// Whether there is more to read, now.
    is_unfinished: bool,
    /// Whether an append alone changes nothing.
    is_stuck: bool,
    /// Where each lane was read up to.
    read_to: Vec<Place>,
    /// When the next delivery expires.
    deadline_ms: Option<u64>,
}

/// So many handled places in a row are not read again.
const HANDLED_MIN: u64 = 64;

/// The budget of a round.
struct Budget {
    page: usize,
    left: usize,
}

impl Budget {
    /// How many changes the next page may have: at most so many, of which there is at least one.
    fn next(&mut self, most: u64) -> usize {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let page = self.page.min(most).max(1);
        self.left = self.left.saturating_sub(page);
        self.page = (self.page * 4).min(PAGE_MAX);
        page
    }
}

impl Group {
    /// The next deliveries; none if there is nothing to hand out and the wait is over. `None` if there is
    /// no such group.
    ///
    /// Failed commits come first, then dead letters that are retried, then new commits. The call returns
    /// as soon as there is one.
    ///
    /// # Errors
    /// `Invalid` if so many dead letters are stored that no further commit may be handed out, or the group
    /// belongs to the feed of another store. If the store fails, what was handed out unnoticed comes again
    /// after its deadline.
    pub async fn next(&self, take: &Take) -> Result<Option<Vec<Delivery>>> {
        take.check()?;
        let store = self.groups.store();
        let (clock, token) = (store.clock(), store.random().bits());
        let until = clock.monotonic().saturating_add(take.wait);
        loop {
            let Some((round, source)) = self.round(take, token).await? else {
                return Ok(None);
            };
            let left = until.saturating_sub(clock.monotonic());
            if !round.deliveries.is_empty() || (left.is_zero() && !round.is_unfinished) {
                return Ok(Some(round.deliveries));
            }
            if !round.is_unfinished {
                self.wait(&round, &source, left).await?;
            }
        }
    }

    /// Waits until there may be something: an append, a deadline, or an acknowledgement elsewhere.
    async fn wait(&self, round: &Round, source: &Source, left: Duration) -> Result<()> {
        let clock = self.groups.store().clock();
        let deadline = round.deadline_ms.unwrap_or(u64::MAX);
        let deadline = Duration::from_millis(deadline.saturating_sub(clock.now_ms()).max(1));
        let pause = left.min(POLL_MAX).min(deadline);
        if round.is_stuck {
            clock.passes(pause.min(POLL_MIN)).await;
            return Ok(());
        }
        let moved = Box::pin(source.moved(&round.read_to));
        match select(moved, clock.passes(pause)).await {
            Either::Left((moved, _)) => moved,
            Either::Right(_) => Ok(()),
        }
    }

    /// Reads and decides once, and again if another process was first.
    async fn round(&self, take: &Take, token: u64) -> Result<Option<(Round, Source)>> {
        let _turn = self.groups.queue(&self.name).await;
        for attempt in 0..CONFLICTS_MAX {
            self.pause(attempt).await;
            let Some(mut group) = self.load().await? else {
                return Ok(None);
            };
            let source = Source::open(
                &self.groups.0.journal,
                &group.rules.filter,
                &mut group.state,
            );
            let source = source.await;
            let source = source.map_err(|error| error.fact("group", &self.name))?;
            let handed = group.state.in_flight.iter();
            let handed = handed.filter(|(_, flight)| flight.token == token && !flight.is_waiting);
            let handed: Vec<Place> = handed.map(|(place, _)| *place).collect();
            if !handed.is_empty() {
                // An earlier attempt of this call was saved, and its response was lost.
                let read = read_all(&source, &handed).await?;
                let deliveries = deliveries(&group.state, &handed, read);
                let round = Round {
                    deliveries,
                    ..Round::default()
                };
                return Ok(Some((round, source)));
            }
            let turn = Turn {
                now_ms: self.groups.store().clock().now_ms(),
                token,
                member: take.member.clone(),
                max: take.max,
            };
            if let Some(round) = self.decide(&mut group, &source, &turn).await? {
                return Ok(Some((round, source)));
            }
        }
        Err(self.too_many_conflicts())
    }

    /// Decides, and saves; `None` if another process was first.
    async fn decide(
        &self,
        group: &mut Loaded,
        source: &Source,
        turn: &Turn,
    ) -> Result<Option<Round>> {
        let rules = group.rules.clone();
        let before = group.state.handled_count();
        let mut plan = group.state.begin(turn, &rules);
        let (mut round, mut read) = (Round::default(), Read::new());
        let mut budget = Budget {
            page: PAGE_MIN.max(2 * turn.max),
            left: ROUND_CHANGES,
        };
        again(&mut group.state, source, &mut plan, &mut read).await?;
        for cursor in group.state.cursors() {
            let more = retry(&mut group.state, source, &mut plan, (&cursor, &mut budget));
            read.extend(more.await?);
        }
        let lanes = u16::try_from(group.state.lanes.len()).unwrap_or(u16::MAX);
        for lane in (0..lanes).map(Lane) {
            let scan = scan(&mut group.state, source, &mut plan, (lane, &mut budget)).await?;
            round.read_to.push(scan.read_to);
            round.is_unfinished |= scan.is_unfinished;
            read.extend(scan.read);
        }
        let (handed, stop, has_news) = (plan.handed, plan.stop, plan.has_news);
        let progress = group.state.handled_count().saturating_sub(before);
        round.is_unfinished |= budget.left == 0;
        round.is_stuck = matches!(
            stop,
            Some(Stop::InFlight | Stop::Passed | Stop::DeadLetters)
        );
        if progress == 0 && !has_news {
            // To read on would be to read the same again.
            round.is_stuck |= round.is_unfinished;
            round.is_unfinished = false;
        }
        if has_news || progress >= PROGRESS_MIN || round.is_unfinished {
            match self.save(group).await? {
                Saved::Done => {}
                Saved::Conflict => return Ok(None),
            }
        }
        let state = &group.state;
        let is_retried = state.dead.values().any(|dead| dead.is_retried);
        if stop == Some(Stop::DeadLetters) && handed.is_empty() && !is_retried {
            return Err(self.too_many_dead(state));
        }
        let in_flight = state.in_flight.values();
        round.deadline_ms = in_flight.map(|flight| flight.deadline_ms).min();
        round.deliveries = deliveries(state, &handed, read);
        Ok(Some(round))
    }

    fn too_many_dead(&self, state: &State) -> Error {
        Error::invalid(
            "too many ids have dead letters, so no further events are handed out; retry or discard them",
        )
        .fact("group", &self.name)
        .fact("ids", state.dead.len())
    }
}

/// Hands failed commits out again.
async fn again(
    state: &mut State,
    source: &Source,
    plan: &mut Plan<'_>,
    read: &mut Read,
) -> Result<()> {
    for place in state.waiting() {
        if plan.has_enough() {
            break;
        }
        let (commit, events) = source.commit(place).await?.unzip();
        state.redeliver(place, commit, plan);
        read.extend(events.map(|events| (place, events)));
    }
    Ok(())
}

/// Hands out the first dead letter of an id.
async fn retry(
    state: &mut State,
    source: &Source,
    plan: &mut Plan<'_>,
    (cursor, budget): (&Cursor, &mut Budget),
) -> Result<Read> {
    let mut from = cursor.from;
    while budget.left > 0 && state.has_room_to_retry(plan) {
        let after = cursor.lane.at(from.saturating_sub(1));
        let changes = budget.next(cursor.last.saturating_sub(after.place));
        let page = source.page_of(&cursor.id, after, changes).await?;
        let has_more = state.plan_retry(cursor, &page.seen, plan);
        let is_at_end = page.seen.upto <= after.place;
        from = page.seen.upto + 1;
        if !has_more || is_at_end {
            return Ok(taken(cursor.lane, page.events, plan));
        }
    }
    Ok(Read::new())
}

/// What a scan of a lane read.
struct Scan {
    read: Read,
    read_to: Place,
    is_unfinished: bool,
}

/// Hands out new commits of a lane.
async fn scan(
    state: &mut State,
    source: &Source,
    plan: &mut Plan<'_>,
    (lane, budget): (Lane, &mut Budget),
) -> Result<Scan> {
    let mut read = Read::new();
    let mut after = 0;
    loop {
        after = state.read_after(lane, after);
        let has_room = state.has_room(plan);
        if !has_room || budget.left == 0 {
            return Ok(Scan {
                read,
                read_to: lane.at(after),
                is_unfinished: has_room,
            });
        }
        let changes = budget.next(state.unread(lane, after, HANDLED_MIN));
        let page = source.page(lane.at(after), changes).await?;
        state.plan_next(&page.seen, plan);
        read.extend(taken(lane, page.events, plan));
        let is_at_end = page.seen.upto >= page.head.position || page.seen.upto <= after;
        after = page.seen.upto;
        if is_at_end || plan.stop.is_some() {
            return Ok(Scan {
                read,
                read_to: lane.at(after),
                is_unfinished: false,
            });
        }
    }
}

/// The events of what was handed out.
fn taken(lane: Lane, mut events: Events, plan: &Plan<'_>) -> Read {
    let handed = plan.handed.iter().filter(|place| place.lane == lane);
    let taken = handed.filter_map(|place| Some((*place, events.remove(&place.place)?)));
    taken.collect()
}

async fn read_all(source: &Source, places: &[Place]) -> Result<Read> {
    let mut read = Read::new();
    for place in places {
        let commit = source.commit(*place).await?;
        read.extend(commit.map(|(_, events)| (*place, events)));
    }
    Ok(read)
}

/// The deliveries of places in flight. One whose events were deleted this moment is left out: it is
/// counted as missed when its deadline passes.
fn deliveries(state: &State, handed: &[Place], mut read: Read) -> Vec<Delivery> {
    let deliveries = handed.iter().filter_map(|place| {
        let flight = state.in_flight.get(place)?;
        Some(Delivery {
            id: DeliveryId {
                place: *place,
                token: flight.token,
            },
            persistence_id: flight.id.clone(),
            position: source::position(state, *place),
            attempt: flight.attempt,
            deadline_ms: flight.deadline_ms,
            events: read.remove(place)?,
        })
    });
    deliveries.collect()
}
