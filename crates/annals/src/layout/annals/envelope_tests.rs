//! Envelopes decode unchanged, and any damage is noticed.

use std::sync::Arc;

use super::super::chunks::ChunkedTable;
use super::*;
use crate::ErrorKind;
use crate::layout::{AnnalsLayout, Layout};
use crate::memory::Memory;
use crate::store::Store;
use crate::{Codec, ManualClock};

fn tables() -> [ChunkedTable; 2] {
    let tables = AnnalsLayout::default().tables().unwrap();
    let clock = Arc::new(ManualClock::at_ms(0));
    let store = Store::new(Memory::new()).with_clock(clock);
    [tables.snapshot, tables.state.unwrap()].map(|table| ChunkedTable {
        store: store.clone(),
        table: Arc::new(table),
    })
}

fn samples() -> Vec<Payload> {
    let alike = "the same again and again ".repeat(200);
    vec![
        Payload::default(),
        Payload::new(Codec::Text, "é").manifest("M").schema(7),
        Payload::new(Codec::Other("mine".into()), vec![0u8, 255, 1]),
        // As a name it is another codec than it says.
        Payload::new(Codec::Other("json".into()), "{}"),
        // Large enough that packing saves a unit.
        Payload::new(Codec::Json, alike),
    ]
}

fn snapshot(payload: Payload) -> Snapshot {
    Snapshot {
        persistence_id: "Cart|1".parse().unwrap(),
        sequence_number: SequenceNumber::new(7).unwrap(),
        time_ms: 1_700_000_000_000,
        anchor: SequenceNumber::new(5),
        payload,
    }
}

fn state(value: Option<Payload>, tag: &str) -> State {
    State {
        persistence_id: "Cart|1".parse().unwrap(),
        revision: 7,
        time_ms: 1_700_000_000_000,
        tag: tag.to_owned(),
        value,
    }
}

fn item(envelope: Result<Envelope>) -> Item {
    let written = envelope.unwrap().write().unwrap();
    assert!(written.chunks.is_empty());
    written.item
}

const TOKEN: Token = Token::from_bytes([9; 8]);

#[tokio::test]
async fn every_envelope_decodes_unchanged() {
    let [snapshots, states] = tables();
    for payload in samples() {
        let saved = snapshot(payload.clone());
        let item = item(Envelope::of_snapshot(&saved, TOKEN));
        let envelope = Envelope::snapshot(&saved.persistence_id, &item).unwrap();
        assert_eq!(envelope.token, TOKEN);
        assert_eq!(envelope.open_snapshot(&snapshots).await.unwrap(), saved);
    }
    let values = samples().into_iter().map(Some).chain([None]);
    for (value, tag) in values.zip(["", "red"].into_iter().cycle()) {
        let saved = state(value, tag);
        let item = item(Envelope::of_state(&saved, TOKEN));
        let envelope = Envelope::state(&saved.persistence_id, &item).unwrap();
        assert_eq!(envelope.token, TOKEN);
        assert_eq!(envelope.open_state(&states).await.unwrap(), saved);
    }
}

#[test]
fn every_damage_is_corrupt_and_never_another_payload() {
    for payload in samples() {
        let saved = snapshot(payload);
        let item = item(Envelope::of_snapshot(&saved, TOKEN));
        let bytes = item.get(BYTES).unwrap().as_bytes().unwrap().to_vec();
        let check = |damaged: Vec<u8>, what: &str| {
            let item = item.clone().with(BYTES, damaged);
            let error = Envelope::snapshot(&saved.persistence_id, &item).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}");
        };
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                check(damaged, &format!("byte {at}"));
            }
            check(bytes[..at].to_vec(), &format!("cut at {at}"));
        }
    }
}
