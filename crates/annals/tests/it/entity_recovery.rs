//! Recovery with unreadable snapshots, deleted events, and other hosts that save and delete meanwhile;
//! retention; metadata and correlation ids in the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use annals::entity::{AskError, EntitySettings, Once, Retention};
use annals::items::Items;
use annals::journal::{Expected, Window};
use annals::memory::Memory;
use annals::snapshot::{Criteria, SnapshotPosition};
use annals::store::Verb;
use annals::{Annals, Codec, ErrorKind, NewEvent, Payload, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};
use futures::TryStreamExt;

use crate::entity_bank::{Account, Deposit, DepositAll, DepositWithCallback};

async fn on(items: &Arc<dyn Items>) -> Annals {
    let settings = AnyLayout::default();
    Annals::create(items.clone(), &settings).await.unwrap()
}

fn memory() -> Arc<dyn Items> {
    Arc::new(Memory::new())
}

fn id() -> PersistenceId {
    "Account|a".parse().unwrap()
}

async fn numbers(annals: &Annals) -> Vec<u64> {
    let events = annals.journal().replay(&id(), Window::ALL);
    let numbers = events.map_ok(|event| event.sequence_number.get());
    numbers.try_collect().await.unwrap()
}

async fn snapshots(annals: &Annals) -> Vec<u64> {
    let found = annals.snapshots().find(&id(), Criteria::ALL);
    let numbers = found.map_ok(|snapshot| snapshot.sequence_number.get());
    numbers.try_collect().await.unwrap()
}

/// Save a snapshot that an account cannot read.
async fn save_unreadable(annals: &Annals, number: u64) {
    let place = SnapshotPosition::from(SequenceNumber::new(number).unwrap());
    let strange = Payload::new(Codec::Json, r#"{"balance":1}"#).schema(7);
    let id = id();
    let saved = annals.snapshots().save(&id, place, strange);
    saved.await.unwrap();
}

fn every(events: u64) -> EntitySettings<Account> {
    EntitySettings::new().retention(Retention::every(events).delete_events())
}

#[tokio::test]
async fn events_are_replayed_if_no_snapshot_is_readable() {
    let annals = on(&memory()).await;
    let saves = EntitySettings::new().retention(Retention::every(3));
    let region = annals.region::<Account>(saves);
    for _ in 0..4 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    region.passivate_all().await;
    assert_eq!(snapshots(&annals).await, [3]);
    save_unreadable(&annals, 3).await;
    assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 4);
}

#[tokio::test]
async fn an_older_snapshot_is_used_if_the_newest_is_unreadable() {
    let annals = on(&memory()).await;
    let retention = Retention::every(3).keep(2).delete_events();
    let region = annals.region::<Account>(EntitySettings::new().retention(retention));
    for _ in 0..9 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    region.passivate_all().await;
    assert_eq!(snapshots(&annals).await, [9, 6], "two are kept");
    assert_eq!(numbers(&annals).await, [7, 8, 9]);
    save_unreadable(&annals, 9).await;
    assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 9);
}

/// Even a host that deletes no events must expect that another host or an operator did.
#[tokio::test]
async fn an_older_snapshot_is_not_used_if_events_after_it_are_deleted() {
    let annals = on(&memory()).await;
    let keeps = EntitySettings::new().retention(Retention::every(3).keep(2));
    let region = annals.region::<Account>(keeps);
    for _ in 0..6 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    region.passivate_all().await;
    assert_eq!(snapshots(&annals).await, [6, 3]);
    let last = SequenceNumber::new(6).unwrap();
    annals.journal().delete_to(&id(), last).await.unwrap();
    assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 6);
    region.passivate_all().await;
    save_unreadable(&annals, 6).await;
    let error = region.view("a", |a| a.balance).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn an_entity_with_deleted_events_is_not_new() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let annals = Annals::create(memory(), &*variant.on_default_tables())
            .await
            .unwrap();
        let region = annals.region(every(3));
        for _ in 0..3 {
            region.ask("a", Deposit(100)).await.unwrap();
        }
        region.passivate_all().await;
        assert_eq!(numbers(&annals).await, [0; 0], "all are deleted");
        assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 300);
        region.passivate_all().await;
        save_unreadable(&annals, 3).await;
        let error = region.view("a", |a| a.balance).await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Corrupt,
            "{}: {error}",
            variant.name
        );
    }
}

#[tokio::test]
async fn a_stale_host_continues_from_the_snapshot_if_events_are_deleted() {
    let items = memory();
    let one = on(&items).await.region(every(3));
    let two = on(&items).await.region(every(3));
    one.ask("a", Deposit(1)).await.unwrap();
    for _ in 0..5 {
        two.ask("a", Deposit(1)).await.unwrap();
    }
    two.passivate_all().await;
    assert_eq!(numbers(&on(&items).await).await, [0; 0], "all are deleted");
    assert_eq!(one.ask("a", Deposit(1)).await.unwrap(), 7);
    assert_eq!(two.view("a", |a| a.balance).await.unwrap(), 7);
}

/// Sequence numbers may be skipped, so a missing number is not always a deleted event. A stale host must
/// not confuse the two.
#[tokio::test]
async fn a_stale_host_does_not_mistake_deleted_events_for_skipped_numbers() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        // Up to a whole append, and into one of five events.
        for (deleted, left) in [(6, vec![7]), (4, vec![5, 6, 7])] {
            let items = memory();
            let layout = variant.on_default_tables();
            let open = || async { Annals::create(items.clone(), &*layout).await.unwrap() };
            let one = open().await.region::<Account>(EntitySettings::new());
            let two = open().await.region::<Account>(EntitySettings::new());
            let saves = EntitySettings::new().retention(Retention::every(1));
            let three = open().await.region::<Account>(saves);
            one.ask("a", Deposit(1)).await.unwrap();
            two.ask("a", DepositAll(vec![1; 5])).await.unwrap();
            three.ask("a", Deposit(1)).await.unwrap();
            three.passivate_all().await;
            let annals = open().await;
            let to = SequenceNumber::new(deleted).unwrap();
            annals.journal().delete_to(&id(), to).await.unwrap();
            assert_eq!(numbers(&annals).await, left, "{}", variant.name);
            let balance = one.ask("a", Deposit(1)).await.unwrap();
            assert_eq!(balance, 8, "{}, deleted to {deleted}", variant.name);
        }
    }
}

#[tokio::test]
async fn skipped_events_are_never_deleted_or_hidden_by_a_snapshot() {
    let annals = on(&memory()).await;
    let newer = NewEvent::new(Codec::Json, "5").manifest("Newer");
    let id = id();
    let appended = annals.journal().append(&id, Expected::Any, newer);
    appended.await.unwrap();
    let region = annals.region::<Account>(every(2).skip_unknown_events());
    for _ in 0..5 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    region.passivate_all().await;
    assert_eq!(numbers(&annals).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(snapshots(&annals).await, [0; 0]);
}

#[tokio::test]
async fn an_unreadable_snapshot_does_not_count_as_kept() {
    let annals = on(&memory()).await;
    let region = annals.region::<Account>(every(3));
    for _ in 0..2 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    // A newer release saved a later one, which this release cannot read.
    save_unreadable(&annals, 9).await;
    region.ask("a", Deposit(1)).await.unwrap();
    region.passivate_all().await;
    assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 3);
}

#[tokio::test]
async fn snapshots_are_saved_by_bytes_or_by_a_function() {
    let by_bytes = Retention::every_bytes(36);
    let by_function = Retention::when(|account: &Account, since| account.balance >= 3 && since > 1);
    for (retention, wanted) in [(by_bytes, vec![3]), (by_function, vec![3])] {
        let annals = on(&memory()).await;
        let region = annals.region::<Account>(EntitySettings::new().retention(retention));
        for _ in 0..3 {
            region.ask("a", Deposit(1)).await.unwrap();
        }
        region.passivate_all().await;
        assert_eq!(snapshots(&annals).await, wanted, "12 bytes per event");
    }
}

#[tokio::test]
async fn commands_succeed_though_retention_fails_or_panics() {
    let store = Arc::new(Faulty::new(memory(), Random::seeded(1), Faults::none()));
    let items: Arc<dyn Items> = store.clone();
    let annals = on(&items).await;
    let executor = annals.executor::<Account>(every(1));
    executor.ask("a", Deposit(1)).await.unwrap();
    let panicking = Retention::when(|_: &Account, _| panic!("a panicking retention"));
    let panics = EntitySettings::new().retention(panicking);
    assert_eq!(
        annals.executor(panics).ask("a", Deposit(1)).await.unwrap(),
        2
    );
    let panicking = Retention::when(|_: &Account, _| panic!("a panicking retention"));
    let region = annals.region(EntitySettings::new().retention(panicking));
    for n in 3..6 {
        assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), n);
    }
    // The put of the event succeeds, the one of the snapshot fails.
    store.spare_next(Verb::Put, 1);
    store.fail_next(Verb::Put, 1, ErrorKind::Unavailable);
    assert_eq!(executor.ask("a", Deposit(1)).await.unwrap(), 6);
    assert_eq!(executor.ask("a", Deposit(1)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_lost_response_is_retried_and_then_in_doubt() {
    let store = Arc::new(Faulty::new(memory(), Random::seeded(1), Faults::none()));
    let items: Arc<dyn Items> = store.clone();
    let annals = on(&items).await;
    let region = annals.region::<Account>(EntitySettings::new().remember_commands(10));
    store.lose_next(Verb::Put, 1);
    assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), 1);
    assert_eq!(numbers(&annals).await, [1], "once");
    store.lose_next(Verb::Put, 4);
    let lost = region.ask_once("a", "c", Deposit(1)).await.unwrap_err();
    assert!(
        matches!(lost, AskError::InDoubt(_)) && !lost.is_retryable(),
        "{lost:?}"
    );
    let again = region.ask_once("a", "c", Deposit(1)).await.unwrap();
    assert_eq!(again, Once::Already(2));
    assert_eq!(numbers(&annals).await, [1, 2]);
}

#[tokio::test]
async fn a_command_is_recognised_however_many_events_it_wrote() {
    let annals = on(&memory()).await;
    let remembers = || EntitySettings::<Account>::new().remember_commands(3);
    let region = annals.region(remembers());
    let many = || DepositAll(vec![1; 5]);
    let first = region.ask_once("a", "c", many()).await.unwrap();
    assert_eq!(first, Once::Done(5));
    assert_eq!(
        region.ask_once("a", "c", many()).await.unwrap(),
        Once::Already(1)
    );
    let again = annals.region(remembers()).ask_once("a", "c", many()).await;
    assert!(matches!(again, Ok(Once::Already(_))), "{again:?}");
    let forgets = annals.region::<Account>(EntitySettings::new());
    let rejected = forgets.ask_once("a", "c", many()).await;
    let Err(AskError::Store(error)) = rejected else {
        panic!("{rejected:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn callbacks_run_once_however_often_a_command_is_decided() {
    let items = memory();
    let one = on(&items).await.region::<Account>(EntitySettings::new());
    let two = on(&items).await.region::<Account>(EntitySettings::new());
    let noted = Arc::new(AtomicU64::new(0));
    one.ask("a", Deposit(1)).await.unwrap();
    two.ask("a", Deposit(1)).await.unwrap();
    let decided_twice = one.ask("a", DepositWithCallback(1, noted.clone())).await;
    assert_eq!(decided_twice.unwrap(), 3);
    assert_eq!(noted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_conflict_is_returned_after_the_last_attempt() {
    let items = memory();
    let one = on(&items)
        .await
        .region::<Account>(EntitySettings::new().tries(1));
    let two = on(&items).await.region::<Account>(EntitySettings::new());
    one.ask("a", Deposit(1)).await.unwrap();
    two.ask("a", Deposit(1)).await.unwrap();
    let conflict = one.ask("a", Deposit(1)).await.unwrap_err();
    assert!(matches!(conflict, AskError::Conflict) && conflict.is_retryable());
    assert_eq!(
        one.ask("a", Deposit(1)).await.unwrap(),
        3,
        "it has caught up"
    );
}
