//! Checks of every step: round trips, and that states reached in different ways are the same.

use std::fmt::{self, Write as _};

use serde_json::Value as Json;

use crate::entity::{EntityEvent, Stored};
use crate::payload::SerdeFormat;
use crate::{Codec, NewEvent, Payload};

/// The event as it is stored. Panics if it does not read back the same.
#[track_caller]
pub(super) fn stored<E: EntityEvent>(event: &E) -> NewEvent {
    let written = to_event(event);
    let again = to_event(&read::<E>(&written));
    if !is_same_event(&written, &again) {
        let (written, again) = (shown(&written), shown(&again));
        panic!("an event reads back as another one\n   written: {written}\n read back: {again}");
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

/// Decode a stored event.
#[track_caller]
pub(super) fn read<E: EntityEvent>(written: &NewEvent) -> E {
    match E::from_event(written) {
        Ok(Some(event)) => event,
        Ok(None) => panic!(
            "an event does not know its own manifest: {}",
            shown(written)
        ),
        Err(error) => panic!("an event does not read back: {}\n{error:?}", shown(written)),
    }
}

/// The state as a snapshot stores it.
#[track_caller]
pub(super) fn snapshot<E: Stored>(state: &E) -> Payload {
    match state.to_payload() {
        Ok(payload) => payload,
        Err(error) => panic!("a state cannot be written: {error:?}"),
    }
}

/// The state read back from a snapshot. Panics if it is not the same.
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
    let (otherwise, names) = (
        "a state reads back as another one",
        ["written", "read back"],
    );
    check_same_state((state, &restored), names, otherwise);
    restored
}

/// Panic unless both states are stored the same.
#[track_caller]
pub(super) fn check_same_state<E: Stored>(
    (one, other): (&E, &E),
    names: [&str; 2],
    otherwise: &str,
) {
    let (one, other) = match (one.to_payload(), other.to_payload()) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => panic!("a state cannot be written: {error:?}"),
    };
    if !is_same_payload(&one, &other) {
        let (one, other) = (shown_payload(&one), shown_payload(&other));
        let width = names.map(str::len).into_iter().max().unwrap_or_default();
        let [first, second] = names.map(|name| format!("{name:>width$}"));
        panic!(
            "{otherwise}; if it depends on a field that serde skips, store that field; if it holds a \
             hash set, use an ordered set\n  {first}: {one}\n  {second}: {other}"
        );
    }
}

/// Whether two stored events are the same.
pub(super) fn is_same_event(one: &NewEvent, other: &NewEvent) -> bool {
    one.tags == other.tags
        && one.metadata == other.metadata
        && is_same_payload(&one.clone().into(), &other.clone().into())
}

/// Whether two payloads are the same: the same bytes, or the same values except for the order of
/// fields, which a hash map does not keep.
fn is_same_payload(one: &Payload, other: &Payload) -> bool {
    let is_alike =
        (&one.codec, &one.manifest, one.schema) == (&other.codec, &other.manifest, other.schema);
    let values = |payload| SerdeFormat::read::<Json>(payload).ok();
    is_alike
        && (one.bytes == other.bytes
            || values(one).is_some_and(|value| values(other) == Some(value)))
}

/// What is appended.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) events: Vec<NewEvent>,
    pub(super) causation: Option<String>,
    pub(super) correlation: Option<String>,
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.events))?;
        for (name, id) in [
            ("causation", &self.causation),
            ("correlation", &self.correlation),
        ] {
            if let Some(id) = id {
                write!(f, " {name}={id}")?;
            }
        }
        Ok(())
    }
}

/// Stored events, one per line.
fn listed(events: &[NewEvent]) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let mut list = String::new();
    for event in events {
        let _ = write!(list, "\n    {}", shown(event));
    }
    list
}

/// A stored event.
fn shown(event: &NewEvent) -> String {
    let mut shown = shown_payload(&event.clone().into());
    if !event.tags.is_empty() {
        let _ = write!(shown, " tags={:?}", event.tags);
    }
    if !event.metadata.is_empty() {
        let _ = write!(shown, " metadata={:?}", event.metadata);
    }
    shown
}

fn shown_payload(payload: &Payload) -> String {
    let (manifest, schema) = (&payload.manifest, payload.schema);
    let bytes = match payload.codec {
        Codec::Json | Codec::Text => String::from_utf8_lossy(&payload.bytes).into_owned(),
        _ => match SerdeFormat::read::<Json>(payload) {
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
