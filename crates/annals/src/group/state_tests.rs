//! The state machine of a group, without a store.

use std::collections::HashMap;

use super::delivery::{DeliveryId, Settled};
use super::plan::{Commit, DEAD_IDS_MAX, Found, Plan, Seen, SeenPage, Stop, Turn};
use super::settings::Rules;
use super::state::State;
use super::stored::{self, Loaded};
use crate::feed::{Lane, LanePosition, Place};
use crate::{PersistenceId, Random, SequenceNumber};

const NONE: [u64; 0] = [];

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn place(place: u64) -> Place {
    Lane(0).at(place)
}

fn state() -> State {
    State::new(7, &[LanePosition::default()])
}

fn rules(in_flight: u32, retries: u32) -> Rules {
    Rules {
        in_flight,
        retries,
        ..Rules::default()
    }
}

fn commit() -> Commit {
    Commit {
        first: SequenceNumber::FIRST,
        events: 1,
        bytes: 10,
    }
}

fn turn(token: u64, now_ms: u64, max: usize) -> Turn {
    Turn {
        now_ms,
        token,
        member: "m".to_owned(),
        max,
    }
}

fn delivery(at: u64, token: u64) -> DeliveryId {
    DeliveryId {
        place: place(at),
        token,
    }
}

/// A page with a commit of an id at each place; `-` is one that the filter drops.
fn page(after: u64, ids: &str) -> SeenPage {
    let places = ids.split_whitespace().zip(after + 1..);
    let seen = places.clone().filter(|(of, _)| *of != "-");
    let seen = seen.map(|(of, place)| Seen {
        place,
        id: id(of.trim_end_matches(['!', '~'])),
        found: match of.chars().last() {
            Some('!') => Found::Missing,
            Some('~') => Found::Purged,
            _ => Found::Commit(commit()),
        },
    });
    SeenPage {
        lane: Lane(0),
        after,
        upto: after + places.clone().count() as u64,
        seen: seen.collect(),
    }
}

fn floor(state: &State) -> u64 {
    state.lane(Lane(0)).unwrap().handled.floor()
}

/// Takes from a feed that has these ids; returns the places.
fn take(state: &mut State, rules: &Rules, turn: &Turn, ids: &str) -> Vec<u64> {
    plan(state, rules, turn, ids).0
}

fn plan(state: &mut State, rules: &Rules, turn: &Turn, ids: &str) -> (Vec<u64>, Option<Stop>) {
    let mut plan: Plan<'_> = state.begin(turn, rules);
    for at in state.waiting() {
        if !plan.has_enough() {
            state.redeliver(at, Some(commit()), &mut plan);
        }
    }
    let whole = page(0, ids);
    for cursor in state.cursors() {
        if state.has_room_to_retry(&plan) {
            let seen = whole.seen.iter().filter(|seen| seen.place >= cursor.from);
            let rest = SeenPage {
                after: cursor.from - 1,
                seen: seen.cloned().collect(),
                ..whole.clone()
            };
            state.plan_retry(&cursor, &rest, &mut plan);
        }
    }
    let after = state.read_after(Lane(0), 0);
    let seen = whole.seen.iter().filter(|seen| seen.place > after);
    let rest = SeenPage {
        after,
        seen: seen.cloned().collect(),
        ..whole.clone()
    };
    if rest.after < rest.upto {
        state.plan_next(&rest, &mut plan);
    }
    let handed = plan.handed.iter().map(|place| place.place);
    (handed.collect(), plan.stop)
}

#[test]
fn one_commit_of_an_id_is_in_flight_and_the_floor_waits_for_it() {
    let (mut state, rules) = (state(), rules(100, 5));
    let feed = "a a b - c b";
    assert_eq!(take(&mut state, &rules, &turn(1, 0, 10), feed), [1, 3, 5]);
    assert_eq!(floor(&state), 0);
    assert_eq!(take(&mut state, &rules, &turn(2, 0, 10), feed), NONE);
    assert_eq!(state.ack(&[delivery(3, 1)]), [Settled::Acked]);
    assert_eq!(floor(&state), 0, "the first is in flight");
    assert_eq!(take(&mut state, &rules, &turn(3, 0, 10), feed), [6]);
    assert_eq!(state.ack(&[delivery(1, 1)]), [Settled::Acked]);
    assert_eq!(floor(&state), 1, "the second was not handed out");
    assert_eq!(take(&mut state, &rules, &turn(4, 0, 10), feed), [2]);
    let rest = [delivery(2, 4), delivery(5, 1), delivery(6, 3)];
    assert_eq!(state.ack(&rest), [Settled::Acked; 3]);
    assert_eq!(floor(&state), 6, "over the one that the filter drops");
    assert!(state.in_flight.is_empty());
}

#[test]
fn what_expired_comes_again_before_later_commits_and_its_old_delivery_is_refused() {
    let (mut state, rules) = (state(), rules(100, 5));
    let feed = "a b a";
    assert_eq!(take(&mut state, &rules, &turn(1, 0, 1), feed), [1]);
    assert_eq!(take(&mut state, &rules, &turn(2, 29_999, 1), feed), [2]);
    assert_eq!(take(&mut state, &rules, &turn(3, 30_000, 9), feed), [1]);
    let flight = &state.in_flight[&place(1)];
    assert_eq!((flight.attempt, flight.deadline_ms), (2, 60_000));
    let late = [delivery(1, 1), delivery(1, 9), delivery(77, 1)];
    let want = [Settled::Expired, Settled::Expired, Settled::Unknown];
    assert_eq!(state.ack(&late), want);
    // After its deadline, but nobody else has it.
    state.expire(70_000, &rules);
    let both = [delivery(1, 3), delivery(1, 3)];
    assert_eq!(state.ack(&both), [Settled::Acked, Settled::Already]);
}

#[test]
fn after_the_last_attempt_an_id_has_dead_letters_and_no_other_waits() {
    let (mut state, rules) = (state(), rules(100, 1));
    let feed = "a b a a";
    assert_eq!(take(&mut state, &rules, &turn(1, 0, 1), feed), [1]);
    let nacked = state.nack(&[delivery(1, 1)], "no", &rules);
    assert_eq!(nacked, [Settled::Requeued]);
    let again = state.nack(&[delivery(1, 1)], "no", &rules);
    assert_eq!(again, [Settled::Requeued], "repeatable");
    assert_eq!(take(&mut state, &rules, &turn(2, 0, 1), feed), [1]);
    let nacked = state.nack(&[delivery(1, 2)], &"é".repeat(200), &rules);
    assert_eq!(nacked, [Settled::DeadLettered]);
    assert_eq!(state.dead[&id("a")].reason, "é".repeat(100));
    assert_eq!(take(&mut state, &rules, &turn(3, 0, 9), feed), [2]);
    assert_eq!(state.dead[&id("a")].commits, 3);
    assert_eq!(state.ack(&[delivery(2, 3)]), [Settled::Acked]);
    assert_eq!(floor(&state), 4, "past dead letters");
    let expired = state.ack(&[delivery(1, 2)]);
    assert_eq!(expired, [Settled::Expired], "it is a dead letter");

    // They come again in order, with new ones after them.
    let feed = "a b a a a";
    assert_eq!(state.retry(Some(&id("b"))), 0);
    assert_eq!(state.retry(None), 3);
    for (token, at) in [(11, 1), (12, 3), (13, 4), (14, 5)] {
        assert_eq!(take(&mut state, &rules, &turn(token, 0, 9), feed), [at]);
        assert_eq!(take(&mut state, &rules, &turn(99, 0, 9), feed), NONE);
        assert_eq!(state.ack(&[delivery(at, token)]), [Settled::Acked]);
    }
    assert!(state.dead.is_empty() && state.missed == 0);
    assert_eq!(floor(&state), 5);
}

#[test]
fn a_retry_that_fails_keeps_the_rest_and_a_discard_forgets_it() {
    let (mut state, rules) = (state(), rules(100, 0));
    let feed = "a a";
    take(&mut state, &rules, &turn(1, 0, 9), feed);
    state.nack(&[delivery(1, 1)], "first", &rules);
    take(&mut state, &rules, &turn(2, 0, 9), feed);
    assert_eq!(state.retry(Some(&id("a"))), 2);
    assert_eq!(take(&mut state, &rules, &turn(3, 0, 9), feed), [1]);
    state.nack(&[delivery(1, 3)], "second", &rules);
    let dead = &state.dead[&id("a")];
    assert_eq!((dead.commits, &*dead.reason), (2, "second"));
    assert!(!dead.is_retried);
    state.retry(None);
    assert_eq!(take(&mut state, &rules, &turn(4, 0, 9), feed), [1]);
    assert_eq!(state.discard(Some(&id("a"))), 2);
    assert!(state.in_flight.is_empty() && state.dead.is_empty());
    assert_eq!(take(&mut state, &rules, &turn(5, 0, 9), "a a a"), [3]);
}

#[test]
fn deleted_commits_are_counted() {
    let (mut state, rules) = (state(), rules(100, 0));
    assert_eq!(
        take(&mut state, &rules, &turn(1, 0, 9), "a! a b~ c"),
        [2, 4]
    );
    assert_eq!((state.missed, state.purged), (1, 1));
    state.nack(&[delivery(2, 1)], "", &rules);
    state.retry(None);
    // Its events are gone before it is retried.
    assert_eq!(take(&mut state, &rules, &turn(2, 0, 9), "a! a! b~ c"), NONE);
    assert_eq!((state.missed, state.dead.len()), (2, 0));
    let mut plan = state.begin(&turn(3, 40_000, 9), &rules).handed;
    assert!(plan.pop().is_none() && state.in_flight.is_empty());
    assert_eq!(state.dead.len(), 1, "c expired");
}

#[test]
fn a_deleted_dead_letter_is_missed_when_its_retry_ends_unless_it_is_discarded_before() {
    let (mut state, rules) = (state(), rules(100, 0));
    take(&mut state, &rules, &turn(1, 0, 9), "a a");
    state.nack(&[delivery(1, 1)], "", &rules);
    take(&mut state, &rules, &turn(2, 0, 9), "a a");
    state.retry(None);
    assert_eq!(take(&mut state, &rules, &turn(3, 0, 9), "a! a"), [2]);
    let mut other = state.clone();
    assert_eq!(state.discard(None), 2);
    assert_eq!((state.missed, state.dead.len()), (0, 0));
    other.ack(&[delivery(2, 3)]);
    assert_eq!((other.missed, other.dead.len()), (1, 0));
}

#[test]
fn limits_stop_the_plan() {
    let (mut state, two) = (state(), rules(2, 0));
    let feed = "a b c d";
    let (handed, stop) = plan(&mut state, &two, &turn(1, 0, 9), feed);
    assert_eq!((handed, stop), (vec![1, 2], Some(Stop::InFlight)));
    assert_eq!(floor(&state), 0);
    let (handed, stop) = plan(&mut self::state(), &two, &turn(1, 0, 1), feed);
    assert_eq!((handed, stop), (vec![1], Some(Stop::Enough)));

    let (mut state, rules) = (self::state(), rules(1_000, 0));
    let many: Vec<String> = (0..=DEAD_IDS_MAX).map(|n| format!("id{n}")).collect();
    let feed = many.join(" ");
    let (handed, _) = plan(&mut state, &rules, &turn(1, 0, DEAD_IDS_MAX), &feed);
    let failed: Vec<DeliveryId> = handed.iter().map(|at| delivery(*at, 1)).collect();
    state.nack(&failed, "", &rules);
    let (handed, stop) = plan(&mut state, &rules, &turn(2, 0, 9), &feed);
    assert_eq!((handed, stop), (vec![], Some(Stop::DeadLetters)));
    state.discard(Some(&id("id7")));
    assert_eq!(plan(&mut state, &rules, &turn(3, 0, 9), &feed).0.len(), 1);

    let hot = vec!["a"; 3_000].join(" ") + " b";
    let (handed, stop) = plan(&mut self::state(), &rules, &turn(1, 0, 9), &hot);
    assert_eq!((handed, stop), (vec![1], Some(Stop::Passed)));
}

#[test]
fn the_largest_group_fits_into_an_item() {
    let (mut state, rules) = (state(), rules(1_000, 0));
    let name = |n: usize| format!("{n:04}").repeat(500);
    let ids: Vec<String> = (0..1_500).map(name).collect();
    let feed = ids.join(" ");
    for token in 0..20 {
        let handed = take(&mut state, &rules, &turn(token, 0, 1_000), &feed);
        let failed: Vec<DeliveryId> = handed.iter().map(|at| delivery(*at, token)).collect();
        state.nack(&failed, &"r".repeat(300), &rules);
    }
    assert!(state.dead.len() > 100, "{}", state.dead.len());
    let group = Loaded {
        name: "g".to_owned(),
        token: String::new(),
        rules,
        state,
    };
    let item = stored::item(&group, "t").unwrap();
    assert!(crate::items::item_size(&item) <= crate::items::limits::ITEM_BYTES_MAX);
}

/// Whatever happens, the stored form reads back, the floor is never past a commit that is neither
/// acknowledged nor dead, and ids are in order.
#[test]
fn random_runs_keep_the_rules_and_read_back() {
    for seed in 0..300 {
        let random = Random::seeded(seed);
        let rules = rules(1 + random.below(5) as u32, random.below(3) as u32);
        let ids: Vec<&str> = (0..40)
            .map(|_| ["a", "b", "c", "d", "-"][random.below(5) as usize])
            .collect();
        let feed = ids.join(" ");
        let (mut state, mut now) = (state(), 0);
        let mut acked: HashMap<&str, u64> = HashMap::new();
        for token in 0..200 {
            now += random.below(20_000);
            let handed = take(
                &mut state,
                &rules,
                &turn(token, now, 1 + random.below(4) as usize),
                &feed,
            );
            for at in handed {
                let of = ids[at as usize - 1];
                let last = acked.get(of).copied().unwrap_or_default();
                assert!(at > last, "seed {seed}: {of} {at} after {last}");
                match random.below(4) {
                    0 => drop(state.nack(&[delivery(at, token)], "no", &rules)),
                    1 => {}
                    _ => {
                        assert_eq!(state.ack(&[delivery(at, token)]), [Settled::Acked]);
                        acked.insert(of, at);
                    }
                }
            }
            if random.happens(100) {
                state.retry(None);
            }
            let mut of_flights: Vec<_> = state.in_flight.values().map(|it| &it.id).collect();
            of_flights.sort();
            assert!(
                of_flights.windows(2).all(|pair| pair[0] != pair[1]),
                "seed {seed}"
            );
            for at in 1..=floor(&state) {
                let of = ids[at as usize - 1];
                let is_dead = state.dead.get(&id(of)).is_some_and(|dead| dead.from <= at);
                let is_acked = acked.get(of).is_some_and(|last| at <= *last);
                assert!(
                    of == "-" || is_acked || is_dead,
                    "seed {seed}: {at} of {of}"
                );
            }
            let group = Loaded {
                name: "g".to_owned(),
                token: "t".to_owned(),
                rules: rules.clone(),
                state: state.clone(),
            };
            let read = stored::parse(&stored::item(&group, "t").unwrap()).unwrap();
            assert_eq!((read.rules, read.state), (group.rules, group.state));
        }
    }
}
