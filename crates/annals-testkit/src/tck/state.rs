//! The properties of durable state. `d1` to `d10` are the kits' own; the others are ours.

use std::fmt::Debug;

use futures::TryStreamExt;

use super::{Setup, properties, random_bytes};
use annals::items::{Scan, scan_all};
use annals::state::{NewState, StateError, States};
use annals::{Codec, Error, ErrorKind, Payload, PersistenceId};

properties! {
    d1_finds_nothing_of_an_unknown_id,
    d2_keeps_a_value_and_its_revision,
    d3_keeps_the_latest_value,
    d4_finds_nothing_of_a_deleted_value,
    d5_keeps_ids_apart,
    d6_continues_after_a_deletion,
    d7_rejects_a_deletion_of_another_revision,
    d8_rejects_a_value_of_another_revision,
    d9_carries_codec_manifest_and_schema,
    d10_deletes_without_a_revision,
    a_revision_is_never_used_twice,
    a_large_value_is_stored_and_leaves_no_orphans,
    of_many_writers_of_one_revision_one_wins,
    revisions_count_from_one,
    tags_are_carried,
    changes_since_a_revision_are_followed,
}

fn id() -> PersistenceId {
    "p|1".parse().expect("an id")
}

fn value(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

fn states(setup: &Setup) -> States {
    let opened = setup.layout.states(&setup.store());
    opened.expect("durable state opens")
}

async fn upsert(states: &States, revision: u64, text: &str) {
    let written = states.upsert(&id(), revision, value(text)).await;
    written.expect("a value is written");
}

async fn check(states: &States, want: Option<(u64, &str)>) {
    let found = states.get(&id()).await.expect("a get");
    let found = found.map(|state| (state.revision, state.value.expect("a value").bytes));
    let found = found.map(|(n, bytes)| (n, String::from_utf8_lossy(&bytes).into_owned()));
    assert_eq!(found, want.map(|(n, text)| (n, text.to_owned())));
}

#[track_caller]
fn assert_conflict<T: Debug>(outcome: Result<T, StateError>, want: u64) {
    match outcome {
        Err(StateError::Conflict { found, .. }) => assert_eq!(found, want),
        other => panic!("a conflict was expected: {other:?}"),
    }
}

/// D1.
pub(crate) async fn d1_finds_nothing_of_an_unknown_id(setup: Setup) {
    let states = states(&setup);
    check(&states, None).await;
    assert_eq!(states.revision(&id()).await.expect("a revision"), 0);
}

/// D2.
pub(crate) async fn d2_keeps_a_value_and_its_revision(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    check(&states, Some((1, "a"))).await;
}

/// D3.
pub(crate) async fn d3_keeps_the_latest_value(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    upsert(&states, 2, "b").await;
    check(&states, Some((2, "b"))).await;
}

/// D4.
pub(crate) async fn d4_finds_nothing_of_a_deleted_value(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    states.delete(&id(), Some(2)).await.expect("a deletion");
    check(&states, None).await;
    assert_eq!(states.revision(&id()).await.expect("a revision"), 2);
    let last = states.last(&id()).await.expect("the last write");
    let last = last.map(|last| (last.revision, last.value));
    assert_eq!(last, Some((2, None)));
}

/// D5.
pub(crate) async fn d5_keeps_ids_apart(setup: Setup) {
    let states = states(&setup);
    let other: PersistenceId = "p|2".parse().expect("an id");
    upsert(&states, 1, "a").await;
    states.upsert(&other, 1, value("b")).await.expect("a value");
    states.delete(&other, Some(2)).await.expect("a deletion");
    check(&states, Some((1, "a"))).await;
}

/// D6.
pub(crate) async fn d6_continues_after_a_deletion(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    states.delete(&id(), Some(2)).await.expect("a deletion");
    upsert(&states, 3, "c").await;
    check(&states, Some((3, "c"))).await;
}

/// D7.
pub(crate) async fn d7_rejects_a_deletion_of_another_revision(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    assert_conflict(states.delete(&id(), Some(99)).await, 1);
    assert_conflict(states.delete(&id(), Some(1)).await, 1);
    check(&states, Some((1, "a"))).await;
}

/// D8.
pub(crate) async fn d8_rejects_a_value_of_another_revision(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    upsert(&states, 2, "b").await;
    for (revision, found) in [(1, 2), (2, 2), (4, 2)] {
        assert_conflict(states.upsert(&id(), revision, value("x")).await, found);
    }
    let error = states
        .upsert(&id(), 2, value("x"))
        .await
        .expect_err("a conflict");
    assert_eq!(Error::from(error).kind(), ErrorKind::Conflict);
    check(&states, Some((2, "b"))).await;
    let unknown: PersistenceId = "unknown".parse().expect("an id");
    assert_conflict(states.upsert(&unknown, 2, value("x")).await, 0);
}

/// D9.
pub(crate) async fn d9_carries_codec_manifest_and_schema(setup: Setup) {
    let states = states(&setup);
    let payload = Payload::new(Codec::Other("akka:666".into()), vec![0u8, 255]);
    let payload = payload.manifest("A").schema(3);
    states
        .upsert(&id(), 1, payload.clone())
        .await
        .expect("a value");
    let found = states
        .get(&id())
        .await
        .expect("a get")
        .expect("it is there");
    assert_eq!(found.value, Some(payload));
}

/// D10.
pub(crate) async fn d10_deletes_without_a_revision(setup: Setup) {
    let states = states(&setup);
    let delete = || async { states.delete(&id(), None).await.expect("a deletion") };
    assert!(!delete().await, "there is nothing to delete yet");
    upsert(&states, 1, "a").await;
    upsert(&states, 2, "b").await;
    assert!(delete().await);
    check(&states, None).await;
    assert!(!delete().await, "it is deleted");
    assert_eq!(states.revision(&id()).await.expect("a revision"), 3);
}

/// Not even after a deletion, nor by a writer that missed it.
pub(crate) async fn a_revision_is_never_used_twice(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    states.delete(&id(), Some(2)).await.expect("a deletion");
    for revision in [1, 2] {
        assert_conflict(states.upsert(&id(), revision, value("x")).await, 2);
    }
    upsert(&states, 3, "c").await;
    check(&states, Some((3, "c"))).await;
}

/// When it is replaced, deleted or rejected.
pub(crate) async fn a_large_value_is_stored_and_leaves_no_orphans(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "small").await;
    for revision in [2, 3] {
        let value = random_bytes(setup.variant.large_state, revision);
        states
            .upsert(&id(), revision, value.clone())
            .await
            .expect("a value");
        let found = states
            .get(&id())
            .await
            .expect("a get")
            .expect("it is there");
        assert!(found.value == Some(value), "the value is complete");
        assert_eq!(found.revision, revision);
    }
    assert_conflict(
        states
            .upsert(&id(), 3, random_bytes(setup.variant.large_state, 9))
            .await,
        3,
    );
    assert_conflict(
        states
            .upsert(&id(), 9, random_bytes(setup.variant.large_state, 9))
            .await,
        3,
    );
    upsert(&states, 4, "small again").await;
    check(&states, Some((4, "small again"))).await;
    states
        .upsert(&id(), 5, random_bytes(setup.variant.large_state, 5))
        .await
        .expect("a value");
    states.delete(&id(), Some(6)).await.expect("a deletion");
    let table = setup.layout.tables().expect("tables").state;
    let left = scan_all(
        setup.items.clone(),
        table.expect("a table").into(),
        Scan::whole(),
    );
    let left: Vec<_> = left.try_collect().await.expect("a scan");
    assert_eq!(left.len(), 1, "only the tombstone");
}

/// All others get a conflict.
pub(crate) async fn of_many_writers_of_one_revision_one_wins(setup: Setup) {
    for revision in 1..=5 {
        let racing = (0..8).map(|writer| {
            let states = states(&setup);
            let value = value(&format!("{revision} by {writer}"));
            async move { states.upsert(&id(), revision, value).await }
        });
        let outcomes = futures::future::join_all(racing).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert_eq!(
            states(&setup).revision(&id()).await.expect("a revision"),
            revision
        );
    }
}

/// Zero means no value.
pub(crate) async fn revisions_count_from_one(setup: Setup) {
    let error = states(&setup)
        .upsert(&id(), 0, value("x"))
        .await
        .expect_err("zero");
    assert_eq!(Error::from(error).kind(), ErrorKind::Invalid);
}

/// And may change.
pub(crate) async fn tags_are_carried(setup: Setup) {
    let states = states(&setup);
    for (revision, tag) in [(1, "red"), (2, ""), (3, "blue")] {
        states
            .upsert(&id(), revision, NewState::from(value("x")).tag(tag))
            .await
            .expect("a value");
        let found = states
            .get(&id())
            .await
            .expect("a get")
            .expect("it is there");
        assert_eq!(found.tag, tag);
    }
}

/// Deletions too, and nothing older.
pub(crate) async fn changes_since_a_revision_are_followed(setup: Setup) {
    let states = states(&setup);
    upsert(&states, 1, "a").await;
    upsert(&states, 2, "b").await;
    let mut changes = states.changes(&id(), 1);
    let mut seen = Vec::new();
    for revision in 3..=5 {
        let state = changes.try_next().await.expect("a change");
        let state = state.expect("it never ends");
        seen.push((state.revision, state.value.is_some()));
        match revision {
            4 => assert!(states.delete(&id(), Some(4)).await.expect("a deletion")),
            _ => upsert(&states, revision, "next").await,
        }
    }
    assert_eq!(seen, [(2, true), (3, true), (4, false)]);
}
