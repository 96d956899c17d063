//! Every bit of a stored event flipped, one at a time: a replay returns the event as appended or
//! `Corrupt`, and `verify` finds it.
//!
//! Items of the plugins have no checksum: their bytes must at least parse.

use std::collections::BTreeMap;

use annals::items::{Item, Key, KeyPart, Value};
use annals::journal::{Append, Expected};
use annals::verify::{Problem, Verify};
use annals::{Codec, ErrorKind, NewEvent};
use annals_jvm::LayoutName;
use annals_jvm::settings::Format;

use super::{Bed, unsealed};
use annals_testkit::journals::{id, text};

/// An event with every field.
fn full() -> NewEvent {
    let mut event = text("paid in full").manifest("Paid").schema(3);
    event.tags = vec!["green".to_owned(), "blue".to_owned()];
    event.metadata = BTreeMap::from([("who".to_owned(), "me".to_owned())]);
    event
}

async fn bed(layout: LayoutName, format: Format) -> Bed {
    let mut bed = Bed::new(layout).await;
    bed.settings.format = format;
    let journal = bed.journal().await;
    for events in [
        vec![text("first")],
        vec![full(), full()],
        vec![text("last")],
    ] {
        let mut append = Append::of(events);
        append.causation = Some("cause".into());
        append.correlation = Some("belongs".into());
        journal.append(&id(), Expected::Any, append).await.unwrap();
    }
    bed
}

/// The value with each of its bits flipped, if that is a valid value.
fn flips(value: &Value) -> Vec<Value> {
    let bits = |bytes: &[u8]| {
        let bits = (0..bytes.len() * 8).map(|bit| {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped
        });
        bits.collect::<Vec<_>>()
    };
    match value {
        Value::B(bytes) => bits(bytes).into_iter().map(Value::from).collect(),
        Value::S(text) => {
            let texts = bits(text.as_bytes()).into_iter();
            let texts = texts.filter_map(|bytes| String::from_utf8(bytes).ok());
            texts
                .filter(|text| !text.is_empty())
                .map(Value::from)
                .collect()
        }
        Value::N(_) => {
            let number = value.as_u64().unwrap();
            (0..8).map(|bit| Value::from(number ^ (1 << bit))).collect()
        }
        Value::Bool(value) => vec![Value::Bool(!value)],
        Value::L(values) => {
            let flipped = values.iter().enumerate().flat_map(|(at, value)| {
                flips(value).into_iter().map(move |flip| {
                    let mut values = values.clone();
                    values[at] = flip;
                    Value::L(values)
                })
            });
            flipped.collect()
        }
        other => panic!("{other:?} is not flipped"),
    }
}

/// The item of the third event, or of the commit that has it, with one bit flipped: in a value, or
/// in a name of an attribute.
fn flipped(item: &Item) -> Vec<Item> {
    let mut all = Vec::new();
    for (name, value) in item.iter() {
        all.extend(
            flips(value)
                .into_iter()
                .map(|flip| item.clone().with(name, flip)),
        );
        let mut renamed = item.clone();
        let value = renamed.remove(name).unwrap();
        let name: String = name.chars().rev().collect();
        all.push(renamed.with(format!("{name}~"), value));
    }
    all
}

#[tokio::test]
async fn every_flipped_bit_is_found_and_no_wrong_event_is_replayed() {
    let cases = [
        (LayoutName::Annals, Format::B),
        (LayoutName::Akka, Format::A),
        (LayoutName::Akka, Format::B),
        (LayoutName::J5ik2o, Format::B),
    ];
    for (layout, format) in cases {
        let bed = bed(layout, format).await;
        let (whole, events) = (bed.row(2).await, bed.replay().await.unwrap());
        let (key, all) = (bed.table.key_of(&whole).unwrap(), flipped(&whole));
        assert!(all.len() > 300, "{layout}: {}", all.len());
        for damaged in all {
            // A flip in the key moves the item, if it still is one.
            let Ok(place) = bed.table.key_of(&damaged) else {
                continue;
            };
            if place != key && (is_taken(&bed, &place).await || is_empty(&place)) {
                continue;
            }
            bed.remove_at(key.clone()).await;
            bed.put(damaged.clone()).await;
            let replayed = bed.replay().await;
            let is_harmless = is_harmless(&whole, &damaged);
            match replayed {
                Ok(replayed) => assert_eq!(replayed, events, "{layout} {damaged:?}"),
                Err(kind) => assert_eq!(kind, ErrorKind::Corrupt, "{layout} {damaged:?}"),
            }
            let found = bed.verify(Verify::Check).await;
            assert_eq!(
                found.is_empty(),
                is_harmless,
                "{layout} {damaged:?} {found:?}"
            );
            assert_eq!(
                replayed_is_ok(&bed).await,
                is_harmless,
                "{layout} {damaged:?}"
            );
            if place == key && !is_harmless {
                assert_eq!(found.len(), 1, "{layout} {damaged:?} {found:?}");
                let numbers = found[0].numbers.unwrap();
                let is_second = numbers.0.get() == 2;
                assert!(is_second, "{layout} {damaged:?} {found:?}");
            }
            // A repair cannot restore lost data, and removes nothing.
            let before = bed.items().await;
            bed.verify(Verify::Repair).await;
            assert_eq!(bed.items().await, before, "{layout} {damaged:?}");
            bed.remove_at(place).await;
            bed.put(whole.clone()).await;
        }
        assert_eq!(bed.found().await, []);
    }
}

async fn replayed_is_ok(bed: &Bed) -> bool {
    bed.replay().await.is_ok()
}

/// A checksum under a wrong name is no checksum: everything else is intact.
fn is_harmless(whole: &Item, damaged: &Item) -> bool {
    whole.get("crc").is_some() && damaged.get("crc").is_none()
}

async fn is_taken(bed: &Bed, place: &Key) -> bool {
    bed.get(place.clone()).await.is_some()
}

fn is_empty(place: &Key) -> bool {
    matches!(&place.partition, KeyPart::S(text) if text.is_empty())
}

/// Items of the plugins have no checksum. Bytes that are invalid for their serializer are found.
#[tokio::test]
async fn bytes_of_the_plugins_must_parse() {
    // Serializer, manifest, valid bytes, damaged bytes.
    let gzip = [&[0x1F, 0x8B][..], b"no gzip"].concat();
    let lz4 = [&[0x87, 0xD9, 0x6D, 0xF6][..], &[0, 0, 0, 9], b"no lz4"].concat();
    let java = [&[0xAC, 0xED, 0, 5, 0x74, 0, 9][..], b"short"].concat();
    let cases: [(u64, &[u8], &[u8]); 13] = [
        (20, b"text", &[0xFF, 0xFE]),
        (31, b"{\"a\":1}", &[0xFF, 0xFE]),
        (31, b"{\"a\":1}", b"{\"a\":1"),
        (31, b"{\"a\":1}", b"{\"a\":1}}"),
        (31, b"{\"a\":1}", &gzip),
        (31, b"{\"a\":1}", &lz4),
        (32, b"{}", b"{"),
        (33, &[0xA0], &[0xA1]),
        (33, &[0xA0], &[0xA0, 0xFF]),
        (18, &[0; 8], &[0; 7]),
        (19, &[0; 4], &[0; 5]),
        (35, &[1], &[2]),
        (1, b"any object", &java),
    ];
    let bed = Bed::with(LayoutName::Akka, &[1, 1, 1]).await;
    let row = unsealed(bed.row(2).await);
    for (serializer, well, damaged) in cases {
        let with = |bytes: &[u8]| {
            let row = row.clone().with("ev_ser_id", serializer);
            row.with("event", bytes.to_vec())
        };
        bed.put(with(well)).await;
        assert_eq!(bed.found().await, [], "{serializer} {well:?}");
        bed.put(with(damaged)).await;
        let want = [(Problem::Unreadable, 2, 2, false)];
        assert_eq!(bed.found().await, want, "{serializer} {damaged:?}");
    }
    for damaged in [
        row.clone().with("metadata", "{"),
        row.clone().with("metadata", 1u64),
        row.clone().with("tags", "t"),
        row.clone().with("schema", u64::MAX),
        row.clone().with("type", 1u64),
    ] {
        bed.put(damaged).await;
        assert_eq!(bed.found().await, [(Problem::Unreadable, 2, 2, false)]);
        assert_eq!(bed.numbers().await, Err(ErrorKind::Corrupt));
    }
}

/// An event that the plugin replaced in place keeps our attributes, and is readable.
#[tokio::test]
async fn events_replaced_by_the_plugin_are_read() {
    let bed = Bed::with(LayoutName::J5ik2o, &[1, 1, 1]).await;
    let message = crate::j5ik2o_plugin::message(id().as_str(), 2, "replaced");
    let row = bed.row(2).await;
    assert!(row.get("crc").is_some());
    bed.put(row.with("message", message).with("ordering", 7u64))
        .await;
    assert_eq!(bed.found().await, []);
    let events = bed.replay().await.unwrap();
    assert_eq!(events[1].data, NewEvent::new(Codec::Text, "replaced"));
}

/// Attributes of others, such as a time to live, are not covered by the checksum.
#[tokio::test]
async fn attributes_of_others_are_not_covered() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 1]).await;
        let row = bed.row(2).await;
        bed.put(row.with("expires", 1_800_000_000u64)).await;
        assert_eq!(bed.found().await, [], "{layout}");
        assert_eq!(bed.numbers().await.unwrap(), [1, 2]);
    }
}
