//! What every step checks by itself: round trips, and that two ways lead to the same.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::entity::{EntityEvent, Format, Stored};
use crate::{Codec, NewEvent, Payload};

/// An event as it is stored, if it reads back as it was.
#[track_caller]
pub(super) fn stored<E: EntityEvent>(event: &E) -> NewEvent {
    let written = to_event(event);
    let again = to_event(&read::<E>(&written));
    if !is_same_event(&written, &again) {
        let (written, again) = (shown(&written), shown(&again));
        panic!("an event reads back as another\n   written: {written}\n read back: {again}");
    }
    written
}

#[track_caller]
fn to_event<E: EntityEvent>(event: &E) -> NewEvent {
    match event.to_event() {
        Ok(written) => written,
        Err(error) => panic!("an event cannot be written: {error:?}"),
    }
}

/// What a stored event holds.
#[track_caller]
pub(super) fn read<E: EntityEvent>(written: &NewEvent) -> E {
    match E::from_event(written) {
        Ok(Some(event)) => event,
        Ok(None) => panic!("an event is not known by its own name: {}", shown(written)),
        Err(error) => panic!("an event does not read back: {}\n{error:?}", shown(written)),
    }
}

/// A state as its snapshot has it.
#[track_caller]
pub(super) fn snapshot<E: Stored>(state: &E) -> Payload {
    match state.to_payload() {
        Ok(payload) => payload,
        Err(error) => panic!("a state cannot be written: {error:?}"),
    }
}

/// A state from its snapshot, if it is the same.
#[track_caller]
pub(super) fn restored<E: Stored>(state: &E) -> E {
    let payload = snapshot(state);
    let restored = match E::from_payload(&payload) {
        Ok(restored) => restored,
        Err(error) => panic!(
            "a state does not read back: {}\n{error:?}",
            shown_payload(&payload)
        ),
    };
    check_same_state(state, &restored, "a state reads back as another");
    restored
}

/// Both states are stored as the same.
#[track_caller]
pub(super) fn check_same_state<E: Stored>(one: &E, other: &E, otherwise: &str) {
    let (one, other) = match (one.to_payload(), other.to_payload()) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => panic!("a state cannot be written: {error:?}"),
    };
    if !is_same_payload(&one, &other) {
        let (one, other) = (shown_payload(&one), shown_payload(&other));
        panic!(
            "{otherwise}; or it holds a set without an order, which reads the same with one\
             \n   one: {one}\n other: {other}"
        );
    }
}

/// Whether two stored events are the same.
pub(super) fn is_same_event(one: &NewEvent, other: &NewEvent) -> bool {
    one.tags == other.tags
        && one.metadata == other.metadata
        && is_same_payload(&one.clone().into(), &other.clone().into())
}

/// Whether two payloads say the same: the same bytes, or the same values but for the order of
/// fields, which a map without an order does not keep.
fn is_same_payload(one: &Payload, other: &Payload) -> bool {
    let is_alike =
        (&one.codec, &one.manifest, one.schema) == (&other.codec, &other.manifest, other.schema);
    let values = |payload| Format::read::<Json>(payload).ok();
    is_alike
        && (one.bytes == other.bytes
            || values(one).is_some_and(|value| values(other) == Some(value)))
}

/// Events as they are stored, a line each.
pub(super) fn listed(events: &[NewEvent]) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let mut list = String::new();
    for event in events {
        let _ = write!(list, "\n    {}", shown(event));
    }
    list
}

/// An event as it is stored.
fn shown(event: &NewEvent) -> String {
    let payload = shown_payload(&event.clone().into());
    match event.tags.is_empty() {
        true => payload,
        false => format!("{payload} tags={:?}", event.tags),
    }
}

fn shown_payload(payload: &Payload) -> String {
    let (manifest, schema) = (&payload.manifest, payload.schema);
    let bytes = match payload.codec {
        Codec::Json | Codec::Text => String::from_utf8_lossy(&payload.bytes).into_owned(),
        _ => match Format::read::<Json>(payload) {
            Ok(value) => format!("{value} as {}", payload.codec),
            Err(_) => format!("{:?} as {}", payload.bytes, payload.codec),
        },
    };
    let schema = match schema {
        0 => String::new(),
        schema => format!(" schema={schema}"),
    };
    format!("{manifest}{schema} {bytes}")
        .trim_start()
        .to_owned()
}
