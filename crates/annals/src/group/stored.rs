//! A group as one item of the table `annals-projection`.
//!
//! | attribute | |
//! | --- | --- |
//! | `p`, `n` | `g`, the name of the group |
//! | `v` | the version of the format: 1 |
//! | `w` | the token of the write that put it, random: every put has the condition that it is still the one that was read |
//! | `s` | the settings, as JSON |
//! | `d` | the state, as CBOR |
//!
//! Guarantees: what is saved is read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::handled::Handled;
use super::settings::{Rules, Start};
use super::state::{Dead, InFlight, LaneState, State};
use crate::feed::{Filter, Lane, LanePosition};
use crate::items::{Item, Key};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// The partition of the groups.
pub(super) const GROUPS: &str = "g";
/// The attribute that every write replaces.
pub(super) const TOKEN: &str = "w";
const NAME: &str = "n";
const VERSION: &str = "v";
const SETTINGS: &str = "s";
const STATE: &str = "d";
const VERSION_NOW: u64 = 1;

/// The key of a group.
pub(super) fn key(name: &str) -> Key {
    Key::new(GROUPS).sorted(name)
}

/// A group as it was read.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) name: String,
    /// The token of the write that put it; empty if it is new.
    pub(super) token: String,
    pub(super) rules: Rules,
    pub(super) state: State,
}

#[derive(Serialize, Deserialize)]
struct StoredSettings {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prefix: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slices: Option<(u16, u16)>,
    start: String,
    in_flight: u32,
    ack_ms: u64,
    retries: u32,
}

/// Arrays rather than maps: there may be a thousand entries.
#[derive(Serialize, Deserialize)]
struct StoredState {
    #[serde(rename = "g")]
    generation: u32,
    #[serde(rename = "l")]
    lanes: Vec<StoredLane>,
    #[serde(rename = "f")]
    in_flight: Vec<StoredFlight>,
    #[serde(rename = "d")]
    dead: Vec<StoredDead>,
    #[serde(rename = "m")]
    missed: u64,
    #[serde(rename = "u")]
    purged: u64,
}

/// Start place, start number, floor, and the ranges: places between the end of the one before and the
/// start, and places in it.
#[derive(Serialize, Deserialize)]
struct StoredLane(u64, u64, u64, Vec<(u64, u64)>);

/// Lane, place, id, first, events; token, member, deadline, attempt, whether it waits, whether it is dead.
#[derive(Serialize, Deserialize)]
struct StoredFlight(
    (u16, u64, String, u64, u32),
    (u64, String, u64, u32, bool, bool),
);

/// Id, lane, from, places to the last, first, commits, reason, whether it is retried.
#[derive(Serialize, Deserialize)]
struct StoredDead(String, u16, u64, u64, u64, u64, String, bool);

/// The item of a group, put under a new token.
pub(super) fn item(group: &Loaded, token: &str) -> Result<Item> {
    let failed = |cause| Error::invalid("a group cannot be encoded").because(cause);
    let state = minicbor_serde::to_vec(stored_state(&group.state));
    let state = state.map_err(|cause| failed(cause.to_string()))?;
    let settings = serde_json::to_string(&stored_settings(&group.rules));
    let settings = settings.map_err(|cause| failed(cause.to_string()))?;
    Ok(Item::new()
        .with("p", GROUPS)
        .with(NAME, group.name.as_str())
        .with(VERSION, VERSION_NOW)
        .with(TOKEN, token)
        .with(SETTINGS, settings)
        .with(STATE, state))
}

/// The group in an item.
///
/// # Errors
/// `Invalid` if a newer version wrote it, `Corrupt` if it does not parse.
pub(super) fn parse(item: &Item) -> Result<Loaded> {
    let name = item.text(NAME).unwrap_or_default().to_owned();
    let damaged = || {
        Error::corrupt("the stored group does not parse; delete it and create it again")
            .fact("group", &name)
    };
    if item
        .u64(VERSION)
        .is_some_and(|version| version > VERSION_NOW)
    {
        let error = Error::invalid("a newer version of annals wrote this group; use that version");
        return Err(error.fact("group", &name));
    }
    let token = item.text(TOKEN).ok_or_else(damaged)?.to_owned();
    let settings = item.text(SETTINGS).ok_or_else(damaged)?;
    let settings: StoredSettings =
        serde_json::from_str(settings).map_err(|cause| damaged().because(cause))?;
    let state = item.bytes(STATE).ok_or_else(damaged)?;
    let state: StoredState =
        minicbor_serde::from_slice(&state).map_err(|cause| damaged().because(cause.to_string()))?;
    let rules = rules_of(settings).map_err(|cause| damaged().because(cause))?;
    let state = state_of(state).ok_or_else(damaged)?;
    Ok(Loaded {
        name,
        token,
        rules,
        state,
    })
}

fn stored_settings(rules: &Rules) -> StoredSettings {
    let filter = rules.filter.clone();
    StoredSettings {
        categories: filter.categories,
        prefix: filter.prefix,
        tags: filter.tags,
        slices: filter.slices.map(|slices| (*slices.start(), *slices.end())),
        start: rules.start.to_string(),
        in_flight: rules.in_flight,
        ack_ms: rules.ack_ms,
        retries: rules.retries,
    }
}

fn rules_of(stored: StoredSettings) -> Result<Rules> {
    let mut filter = Filter::new().prefix(stored.prefix);
    filter.categories = stored.categories;
    filter.tags = stored.tags;
    filter.slices = stored.slices.map(|(first, last)| first..=last);
    Ok(Rules {
        filter,
        start: stored.start.parse::<Start>()?,
        in_flight: stored.in_flight,
        ack_ms: stored.ack_ms,
        retries: stored.retries,
    })
}

fn stored_state(state: &State) -> StoredState {
    let lanes = state.lanes.iter().map(|lane| {
        let mut end = lane.handled.floor();
        let ranges = lane.handled.ranges().map(|(first, last)| {
            let gap = first - end;
            end = last;
            (gap, last - first)
        });
        let ranges = ranges.collect();
        let start = lane.start;
        StoredLane(start.place, start.number, lane.handled.floor(), ranges)
    });
    let in_flight = state.in_flight.iter().map(|(place, flight)| {
        let (id, first) = (flight.id.to_string(), flight.first.get());
        let InFlight {
            is_waiting,
            is_dead,
            ..
        } = *flight;
        let member = flight.member.clone();
        StoredFlight(
            (place.lane.0, place.place, id, first, flight.events),
            (
                flight.token,
                member,
                flight.deadline_ms,
                flight.attempt,
                is_waiting,
                is_dead,
            ),
        )
    });
    let dead = state.dead.iter().map(|(id, dead)| {
        let (from, length) = (dead.from, dead.last.saturating_sub(dead.from));
        let (first, commits) = (dead.first.get(), dead.commits);
        let (id, reason) = (id.to_string(), dead.reason.clone());
        StoredDead(
            id,
            dead.lane.0,
            from,
            length,
            first,
            commits,
            reason,
            dead.is_retried,
        )
    });
    StoredState {
        generation: state.generation,
        lanes: lanes.collect(),
        in_flight: in_flight.collect(),
        dead: dead.collect(),
        missed: state.missed,
        purged: state.purged,
    }
}

fn state_of(stored: StoredState) -> Option<State> {
    let mut lanes = Vec::with_capacity(stored.lanes.len());
    for StoredLane(place, number, floor, ranges) in stored.lanes {
        let mut handled = Handled::up_to(floor);
        let mut end = floor;
        for (gap, length) in ranges {
            let first = end.checked_add(gap)?;
            end = first.checked_add(length)?;
            handled.add(first, end);
        }
        let mut start = LanePosition::after(place);
        start.number = number;
        lanes.push(LaneState { start, handled });
    }
    let mut in_flight = BTreeMap::new();
    for StoredFlight(commit, attempt) in stored.in_flight {
        let (lane, place, id, first, events) = commit;
        let (token, member, deadline_ms, attempt, is_waiting, is_dead) = attempt;
        let flight = InFlight {
            id: id.parse().ok()?,
            first: SequenceNumber::new(first)?,
            events,
            token,
            member,
            deadline_ms,
            attempt,
            is_waiting,
            is_dead,
        };
        in_flight.insert(Lane(lane).at(place), flight);
    }
    let mut dead = BTreeMap::new();
    for StoredDead(id, lane, from, length, first, commits, reason, is_retried) in stored.dead {
        let id: PersistenceId = id.parse().ok()?;
        let of_id = Dead {
            lane: Lane(lane),
            from,
            last: from.checked_add(length)?,
            first: SequenceNumber::new(first)?,
            commits,
            reason,
            is_retried,
        };
        dead.insert(id, of_id);
    }
    Some(State {
        generation: stored.generation,
        lanes,
        in_flight,
        dead,
        missed: stored.missed,
        purged: stored.purged,
    })
}
