//! The properties of snapshots. `s1` to `s13` are the kits' own; the others are ours.

use futures::TryStreamExt;

use super::{Setup, properties, random_bytes};
use annals::items::{Condition, Item, Scan, scan_all};
use annals::snapshot::{Criteria, Snapshot, Snapshots};
use annals::{Codec, Payload, PersistenceId, SequenceNumber};

properties! {
    s1_finds_nothing_of_an_unknown_id,
    s2_finds_nothing_saved_before_a_time,
    s3_finds_nothing_up_to_a_number,
    s4_loads_the_newest,
    s5_loads_the_newest_up_to_a_number,
    s6_loads_the_newest_up_to_a_number_and_time,
    s7_deletes_one,
    s8_deletes_by_criteria,
    s9_deletes_no_newer_snapshot,
    s10_overwrites_one_of_the_same_number,
    s11_saves_ten_thousand_characters,
    s12_carries_codec_manifest_and_schema,
    s13_carries_the_time,
    newest_is_by_number_not_by_time,
    lower_bounds_count,
    a_large_snapshot_is_loaded,
    a_snapshot_that_does_not_decode_is_skipped,
    nothing_is_left_of_a_deleted_snapshot,
}

fn id() -> PersistenceId {
    "p|1".parse().expect("an id")
}

fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).expect("a sequence number")
}

fn state(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

fn snapshots(setup: &Setup) -> Snapshots {
    let opened = setup.layout.snapshots(&setup.store());
    opened.expect("snapshots open")
}

/// The kits' set-up: s-1 to s-5 at 11 to 15, at different times, which are returned.
async fn five(setup: &Setup) -> (Snapshots, Vec<u64>) {
    let snapshots = snapshots(setup);
    let mut times = Vec::new();
    for n in 1..=5u64 {
        setup.clock.advance(std::time::Duration::from_millis(10));
        times.push(annals::Clock::now_ms(&*setup.clock));
        let saved = snapshots
            .save(&id(), number(10 + n), state(&format!("s-{n}")))
            .await;
        saved.expect("a snapshot is saved");
    }
    (snapshots, times)
}

async fn load(snapshots: &Snapshots, criteria: Criteria) -> Option<Snapshot> {
    snapshots.load(&id(), criteria).await.expect("a load")
}

#[track_caller]
fn check(found: Option<Snapshot>, want: Option<(u64, &str)>) {
    let found = found.map(|snapshot| (snapshot.sequence_number.get(), snapshot.payload.bytes));
    let found = found.map(|(n, bytes)| (n, String::from_utf8_lossy(&bytes).into_owned()));
    assert_eq!(found, want.map(|(n, text)| (n, text.to_owned())));
}

/// S1.
pub(crate) async fn s1_finds_nothing_of_an_unknown_id(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    let unknown: PersistenceId = "invalid".parse().expect("an id");
    assert_eq!(
        snapshots
            .load(&unknown, Criteria::ALL)
            .await
            .expect("a load"),
        None
    );
}

/// S2.
pub(crate) async fn s2_finds_nothing_saved_before_a_time(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    check(load(&snapshots, Criteria::ALL.until_ms(100)).await, None);
}

/// S3.
pub(crate) async fn s3_finds_nothing_up_to_a_number(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    check(load(&snapshots, Criteria::ALL.up_to(number(7))).await, None);
}

/// S4.
pub(crate) async fn s4_loads_the_newest(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    check(load(&snapshots, Criteria::ALL).await, Some((15, "s-5")));
}

/// S5.
pub(crate) async fn s5_loads_the_newest_up_to_a_number(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    check(
        load(&snapshots, Criteria::ALL.up_to(number(13))).await,
        Some((13, "s-3")),
    );
}

/// S6.
pub(crate) async fn s6_loads_the_newest_up_to_a_number_and_time(setup: Setup) {
    let (snapshots, times) = five(&setup).await;
    let criteria = Criteria::ALL.up_to(number(13)).until_ms(times[2]);
    check(load(&snapshots, criteria).await, Some((13, "s-3")));
    check(
        load(&snapshots, Criteria::ALL.until_ms(times[1])).await,
        Some((12, "s-2")),
    );
}

/// S7.
pub(crate) async fn s7_deletes_one(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    for deleted in [1, 0] {
        let outcome = snapshots.delete(&id(), Criteria::at(number(13))).await;
        assert_eq!(outcome.expect("a deletion"), deleted);
    }
    check(
        load(&snapshots, Criteria::ALL.up_to(number(13))).await,
        Some((12, "s-2")),
    );
    check(load(&snapshots, Criteria::ALL).await, Some((15, "s-5")));
}

/// S8.
pub(crate) async fn s8_deletes_by_criteria(setup: Setup) {
    let (snapshots, times) = five(&setup).await;
    let criteria = Criteria::ALL.up_to(number(13)).until_ms(times[2]);
    let one = criteria.until_ms(times[0]);
    for (criteria, deleted) in [(one, 1), (criteria, 2), (criteria, 0)] {
        let outcome = snapshots.delete(&id(), criteria).await;
        assert_eq!(outcome.expect("a deletion"), deleted);
    }
    check(load(&snapshots, criteria).await, None);
    let criteria = Criteria::ALL.up_to(number(14)).until_ms(times[3]);
    check(load(&snapshots, criteria).await, Some((14, "s-4")));
}

/// S9.
pub(crate) async fn s9_deletes_no_newer_snapshot(setup: Setup) {
    let (snapshots, times) = five(&setup).await;
    let criteria = Criteria::ALL.up_to(number(14)).until_ms(times[3] - 1);
    snapshots.delete(&id(), criteria).await.expect("a deletion");
    let criteria = Criteria::ALL.up_to(number(14)).until_ms(times[3]);
    check(load(&snapshots, criteria).await, Some((14, "s-4")));
}

/// S10.
pub(crate) async fn s10_overwrites_one_of_the_same_number(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    snapshots
        .save(&id(), number(15), state("s-5-modified"))
        .await
        .expect("a save");
    check(
        load(&snapshots, Criteria::ALL).await,
        Some((15, "s-5-modified")),
    );
}

/// S11.
pub(crate) async fn s11_saves_ten_thousand_characters(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    let long = "x".repeat(10_000);
    snapshots
        .save(&id(), number(16), state(&long))
        .await
        .expect("a save");
    check(load(&snapshots, Criteria::ALL).await, Some((16, &long)));
}

/// S12.
pub(crate) async fn s12_carries_codec_manifest_and_schema(setup: Setup) {
    let snapshots = snapshots(&setup);
    let payload = Payload::new(Codec::Other("akka:666".into()), vec![0u8, 255]);
    let payload = payload.manifest("A").schema(3);
    snapshots
        .save(&id(), number(100), payload.clone())
        .await
        .expect("a save");
    let found = load(&snapshots, Criteria::ALL).await.expect("it is there");
    assert_eq!(found.payload, payload);
}

/// S13.
pub(crate) async fn s13_carries_the_time(setup: Setup) {
    let (snapshots, times) = five(&setup).await;
    let found = load(&snapshots, Criteria::ALL).await.expect("it is there");
    assert_eq!(found.time_ms, times[4]);
}

/// An older state may be saved later.
pub(crate) async fn newest_is_by_number_not_by_time(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    snapshots
        .save(&id(), number(3), state("late"))
        .await
        .expect("a save");
    check(load(&snapshots, Criteria::ALL).await, Some((15, "s-5")));
}

/// Of number and time.
pub(crate) async fn lower_bounds_count(setup: Setup) {
    let (snapshots, times) = five(&setup).await;
    let criteria = Criteria::ALL.at_least(number(12)).since_ms(times[2]);
    let found: Vec<Snapshot> = snapshots
        .find(&id(), criteria)
        .try_collect()
        .await
        .expect("a find");
    let numbers: Vec<_> = found
        .iter()
        .map(|found| found.sequence_number.get())
        .collect();
    assert_eq!(numbers, [15, 14, 13]);
    snapshots.delete(&id(), criteria).await.expect("a deletion");
    check(load(&snapshots, Criteria::ALL).await, Some((12, "s-2")));
}

/// Also one that overwrites it.
pub(crate) async fn a_large_snapshot_is_loaded(setup: Setup) {
    let snapshots = snapshots(&setup);
    for seed in 1..=2 {
        let large = random_bytes(setup.variant.large_snapshot, seed);
        snapshots
            .save(&id(), number(7), large.clone())
            .await
            .expect("a save");
        let found = load(&snapshots, Criteria::ALL).await.expect("it is there");
        assert!(found.payload == large, "the payload is complete");
    }
}

/// If none is left, all events are replayed.
pub(crate) async fn a_snapshot_that_does_not_decode_is_skipped(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    let table = setup.layout.tables().expect("tables").snapshot;
    let all = scan_all(setup.items.clone(), table.clone().into(), Scan::whole());
    let all: Vec<_> = all.try_collect().await.expect("a scan");
    for n in [15u64, 14] {
        // Its number, in any attribute.
        let is_it = |item: &&Item| item.iter().any(|(_, value)| value.as_u64() == Some(n));
        let mut item = all.iter().find(is_it).expect("the snapshot's item").clone();
        // Without a checksum, as the plugin writes it: otherwise it would not be decoded.
        item.remove("crc");
        let names: Vec<String> = item
            .iter()
            .filter(|(_, value)| value.as_bytes().is_some())
            .map(|(name, _)| name.to_owned())
            .collect();
        assert_eq!(names.len(), 1);
        for name in names {
            item.insert(name, vec![0xFFu8, 2, 3]);
        }
        let put = setup.items.put(&table, item, Condition::Always).await;
        put.expect("a put");
    }
    check(load(&snapshots, Criteria::ALL).await, Some((13, "s-3")));
}

/// No chunk of it either.
pub(crate) async fn nothing_is_left_of_a_deleted_snapshot(setup: Setup) {
    let (snapshots, _) = five(&setup).await;
    snapshots
        .save(
            &id(),
            number(20),
            random_bytes(setup.variant.large_snapshot, 1),
        )
        .await
        .expect("a save");
    snapshots
        .save(
            &id(),
            number(20),
            random_bytes(setup.variant.large_snapshot, 2),
        )
        .await
        .expect("a save");
    snapshots
        .save(&id(), number(20), state("small"))
        .await
        .expect("a save");
    snapshots
        .save(
            &id(),
            number(21),
            random_bytes(setup.variant.large_snapshot, 3),
        )
        .await
        .expect("a save");
    snapshots
        .delete(&id(), Criteria::ALL)
        .await
        .expect("a deletion");
    let table = setup.layout.tables().expect("tables").snapshot;
    let left = scan_all(setup.items.clone(), table.into(), Scan::whole());
    let left: Vec<_> = left.try_collect().await.expect("a scan");
    assert_eq!(left.len(), 0, "{left:?}");
}
