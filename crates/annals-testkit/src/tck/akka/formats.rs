//! Items that are too large, and both generations of the format.

use futures::TryStreamExt;

use super::stage::{ID, Stage, after, append, append_singles, check, id, number, numbers, text};
use super::with_settings;
use crate::tck::Setup;
use annals::items::Item;
use annals::journal::Window;
use annals::{Codec, Error, ErrorKind, Event, NewEvent, Payload};
use annals_jvm::settings::Format;

/// The plugin's `max-item-size`.
const BYTES_MAX: usize = 400_000;

/// FR6: an event, a large one, an event, one with a large one, an event.
pub(crate) async fn fr6_an_oversized_event_is_rejected_and_uses_no_number(setup: Setup) {
    let journal = setup.journal().await;
    let large = || NewEvent::new(Codec::Bytes, vec![0; BYTES_MAX]);
    for (last, refused) in [(0, vec![large()]), (1, vec![text(2), large()])] {
        append(&journal, last, 1).await;
        let outcome = journal.append(&id(), after(last + 1), refused).await;
        let error = Error::from(outcome.expect_err("too large"));
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("max-item-size"), "{error}");
    }
    append(&journal, 2, 1).await;
    check(&setup, &[1, 2, 3], 3).await;
    // The maximum size, as the plugin calculates it (§1.5 of its description).
    let overhead = ID.len() + "journal".len() + 26 + 1 + ID.len() + 1 + 36;
    for (bytes, is_stored) in [
        (BYTES_MAX - overhead + 1, false),
        (BYTES_MAX - overhead, true),
    ] {
        let event = NewEvent::new(Codec::Bytes, vec![0; bytes]);
        let outcome = journal.append(&id(), after(3), event).await;
        assert_eq!(outcome.is_ok(), is_stored, "{bytes}");
    }
}

/// A field of a protobuf message that is shorter than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("short");
    assert!(length < 128);
    [&[number << 3 | 2, length], bytes].concat()
}

/// An item of the first generation, as the plugin's 1.0.0 wrote it: a string of Java's.
fn first_generation(n: u8) -> Item {
    let string = format!("a-{n:04}");
    let java = [b"\xAC\xED\x00\x05\x74\x00\x06", string.as_bytes()].concat();
    let payload = [vec![1 << 3, 1], field(2, &java)].concat();
    let message = [
        field(1, &payload),
        vec![2 << 3, n],
        field(3, ID.as_bytes()),
        field(13, b"w-1"),
    ];
    Item::new()
        .with("par", format!("journal-P-{ID}-0"))
        .with("num", u64::from(n))
        .with("pay", message.concat())
}

/// FB1.
pub(crate) async fn fb1_events_of_the_first_generation_are_read(setup: Setup) {
    let stage = Stage::of(&setup);
    for n in 1..=20 {
        stage.put(first_generation(n)).await;
    }
    check(&setup, &numbers(&[1..=20]), 20).await;
    append(&setup.journal().await, 20, 2).await;
    check(&setup, &numbers(&[1..=22]), 22).await;
}

/// FB2 and FB3.
pub(crate) async fn fb2_fb3_serializers_mix(setup: Setup) {
    let journal = setup.journal().await;
    let other = Codec::Other("akka:2255".into());
    let events: Vec<NewEvent> = (0..20)
        .map(|n| match n % 4 {
            0 => NewEvent::new(Codec::Text, format!("text {n}")),
            1 => NewEvent::new(other.clone(), vec![n; 3]).manifest("com.acme.Later"),
            2 => NewEvent::new(Codec::Json, format!(r#"{{"n":{n}}}"#)).manifest("com.acme.Added"),
            _ => NewEvent::new(Codec::Bytes, vec![n; 9]),
        })
        // Ambiguous manifests, and manifests that the serializer cannot store.
        .zip(["", "A#2", "A#2#3", "#", "M"].into_iter().cycle())
        .map(
            |(event, manifest)| match event.manifest.is_empty() || manifest.is_empty() {
                true => event,
                false => event.manifest(manifest),
            },
        )
        .chain([NewEvent::new(Codec::Text, "a").manifest("M").schema(3)])
        .collect();
    for (n, event) in (0..).zip(&events) {
        let appended = journal.append(&id(), after(n), event.clone()).await;
        appended.expect("an append");
    }
    let journal = setup.journal().await;
    let found: Vec<Event> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .expect("a replay");
    let found: Vec<NewEvent> = found.into_iter().map(|event| event.data).collect();
    assert_eq!(found, events);
    assert_eq!(
        journal.highest(&id()).await.expect("highest"),
        Some(number(21))
    );
}

/// FB4: it fails before a request is sent, and the stored snapshot stays.
pub(crate) async fn fb4_an_oversized_snapshot_is_rejected(setup: Setup) {
    let snapshots = setup.layout.snapshots(&setup.store());
    let snapshots = snapshots.expect("snapshots");
    let state = |bytes: usize| Payload::new(Codec::Bytes, vec![7; bytes]);
    let saved = snapshots.save(&id(), number(1), state(10)).await;
    saved.expect("a save");
    let saved = snapshots.save(&id(), number(1), state(1 << 20)).await;
    let error = saved.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("max-item-size"), "{error}");
    let found = snapshots.load(&id(), annals::snapshot::Criteria::ALL).await;
    let found = found.expect("a load").expect("a snapshot");
    assert_eq!(found.payload, state(10));
}

/// Both are read, whichever is written.
pub(crate) async fn both_generations_are_read_in_one_history(setup: Setup) {
    let first = with_settings(&setup, |settings| settings.format = Format::A);
    let stage = Stage::of(&setup);
    let mut last = 0;
    for is_first in [true, false, true, false] {
        let format = if is_first { &first } else { &setup };
        last = append_singles(&format.journal().await, last, 2).await;
        last = append(&format.journal().await, last, 3).await;
        let item = stage.get(last).await.expect("an item");
        assert_eq!(item.get("pay").is_some(), is_first, "{item:?}");
        for name in ["event", "persistence_id", "seq", "writer_uuid", "ev_ser_id"] {
            assert_eq!(item.get(name).is_none(), is_first, "{name}: {item:?}");
        }
    }
    for setup in [&first, &setup] {
        check(setup, &numbers(&[1..=20]), 20).await;
    }
    let deleted = setup.journal().await.delete_to(&id(), number(9)).await;
    deleted.expect("a deletion");
    check(&first, &numbers(&[10..=20]), 20).await;
}
