//! Comparing events, directly and by digest.
//!
//! The token is not compared: it identifies the append, and a copy groups events into other appends.

use sha2::{Digest as _, Sha256};

use crate::Event;

/// A digest of everything that is compared.
pub(super) type Digest = [u8; 32];

/// The name of the first field in which two events differ.
pub(super) fn first_difference(one: &Event, other: &Event) -> Option<&'static str> {
    let (a, b) = (&one.data, &other.data);
    let differs = [
        (
            "sequence_number",
            one.sequence_number != other.sequence_number,
        ),
        ("payload", a.payload != b.payload),
        ("codec", a.codec != b.codec),
        ("manifest", a.manifest != b.manifest),
        ("schema", a.schema != b.schema),
        ("time", one.time_ms != other.time_ms),
        ("tags", a.tags != b.tags),
        ("metadata", a.metadata != b.metadata),
        ("causation", one.causation != other.causation),
        ("correlation", one.correlation != other.correlation),
    ];
    let found = differs.into_iter().find(|(_, differs)| *differs);
    found.map(|(name, _)| name)
}

/// The digest of an event, of the fields that [`first_difference`] compares.
pub(super) fn digest(event: &Event) -> Digest {
    let mut hash = Sha256::new();
    // Each field after its length, so that different fields never hash the same bytes.
    let mut add = |field: &[u8]| {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    };
    let data = &event.data;
    add(&event.sequence_number.get().to_be_bytes());
    add(&event.time_ms.to_be_bytes());
    add(&data.payload);
    add(data.codec.to_string().as_bytes());
    add(data.manifest.as_bytes());
    add(&data.schema.to_be_bytes());
    add(&data.tags.len().to_be_bytes());
    data.tags.iter().for_each(|tag| add(tag.as_bytes()));
    add(&data.metadata.len().to_be_bytes());
    for (name, value) in &data.metadata {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    for cause in [&event.causation, &event.correlation] {
        add(&[u8::from(cause.is_some())]);
        add(cause.as_deref().unwrap_or_default().as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, NewEvent, SequenceNumber, Token};

    fn event() -> Event {
        Event {
            persistence_id: "Cart|42".parse().unwrap(),
            sequence_number: SequenceNumber::FIRST,
            time_ms: 7,
            token: Token::from_bytes([1; 8]),
            causation: None,
            correlation: None,
            data: NewEvent::new(Codec::Text, "a").tag("b").metadata("c", "d"),
        }
    }

    #[test]
    fn every_difference_is_named_and_changes_the_digest() {
        type Change = fn(&mut Event);
        let changes: [(&str, Change); 11] = [
            ("sequence_number", |e| {
                e.sequence_number = e.sequence_number.next().unwrap();
            }),
            ("payload", |e| e.data.payload = "b".into()),
            ("codec", |e| e.data.codec = Codec::Bytes),
            ("manifest", |e| e.data.manifest = "b".into()),
            ("schema", |e| e.data.schema = 1),
            ("time", |e| e.time_ms = 8),
            ("tags", |e| e.data.tags.push(String::new())),
            ("tags", |e| e.data.tags = vec!["c".into()]),
            ("metadata", |e| e.data.metadata.clear()),
            ("causation", |e| e.causation = Some("".into())),
            ("correlation", |e| e.correlation = Some("b".into())),
        ];
        for (name, change) in changes {
            let mut other = event();
            change(&mut other);
            assert_eq!(first_difference(&event(), &other), Some(name));
            assert_ne!(digest(&event()), digest(&other), "{name}");
        }
    }

    #[test]
    fn the_token_is_not_compared() {
        let mut other = event();
        other.token = Token::from_bytes([2; 8]);
        assert_eq!(first_difference(&event(), &other), None);
        assert_eq!(digest(&event()), digest(&other));
    }
}
