//! An id that is purged starts over, and a snapshot beyond the last event is reported instead of
//! conflicts without end.

use std::sync::Arc;

use annals::entity::{AskError, EntitySettings, Retention};
use annals::items::Items;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::store::Verb;
use annals::{Annals, Codec, ErrorKind, Payload, PersistenceId, Random, SequenceNumber};
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};

use crate::entity_bank::{Account, Deposit};

fn id() -> PersistenceId {
    "Account|a".parse().unwrap()
}

fn every(events: u64) -> EntitySettings<Account> {
    EntitySettings::new().retention(Retention::every(events))
}

async fn on(layout: &dyn Layout) -> Annals {
    Annals::create(Memory::new(), layout).await.unwrap()
}

async fn deposit(annals: &Annals, times: u64) {
    for _ in 0..times {
        let executor = annals.executor::<Account>(every(2));
        executor.ask("a", Deposit(1)).await.unwrap();
    }
}

async fn last_snapshot(annals: &Annals) -> Option<u64> {
    let newest = annals.snapshots().load(&id(), Criteria::ALL).await.unwrap();
    newest.map(|snapshot| snapshot.sequence_number.get())
}

#[tokio::test]
async fn a_purged_entity_starts_over() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let annals = on(&*variant.on_default_tables()).await;
        deposit(&annals, 5).await;
        assert_eq!(last_snapshot(&annals).await, Some(4), "{}", variant.name);
        let purged = annals.purge(&id()).await.unwrap();
        assert!(purged.has_events && purged.snapshots > 0, "{purged:?}");
        assert!(annals.purge(&id()).await.unwrap().is_empty());
        let executor = annals.executor::<Account>(every(2));
        assert_eq!(executor.view("a", |a| a.balance).await.unwrap(), 0);
        assert_eq!(executor.ask("a", Deposit(7)).await.unwrap(), 7);
    }
}

/// Otherwise the next purge would find no events, and an entity recover from the snapshot.
#[tokio::test]
async fn an_interrupted_purge_leaves_no_snapshot_of_purged_events() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        for spared in 0..8 {
            let memory: Arc<dyn Items> = Arc::new(Memory::new());
            let store = Faulty::new(memory.clone(), Random::seeded(1), Faults::none());
            let store = Arc::new(store);
            let layout = variant.on_default_tables();
            let before = Annals::create(memory.clone(), &*layout).await.unwrap();
            deposit(&before, 5).await;
            let items: Arc<dyn Items> = store.clone();
            let annals = Annals::open(items, &*layout).await.unwrap();
            for verb in [Verb::Delete, Verb::Write, Verb::Put] {
                store.spare_next(verb, spared);
                store.fail_next(verb, 100, ErrorKind::Unavailable);
            }
            let interrupted = annals.purge(&id()).await.is_err();
            let after = Annals::open(memory, &*layout).await.unwrap();
            let highest = after.journal().highest(&id()).await.unwrap();
            let highest = highest.map_or(0, SequenceNumber::get);
            let snapshot = last_snapshot(&after).await.unwrap_or(0);
            let name = variant.name;
            assert!(interrupted || highest == 0, "{name}, {spared} spared");
            assert!(
                snapshot <= highest,
                "{name}, {spared}: {snapshot} {highest}"
            );
        }
    }
}

#[tokio::test]
async fn a_purge_needs_no_table_of_snapshots() {
    let layout = ANNALS.on_default_tables();
    let store = annals::store::Store::new(Memory::new());
    let tables = layout.tables().unwrap();
    store
        .create_table(&tables.journal, Default::default())
        .await
        .unwrap();
    let annals = Annals::open(store, &*layout).await.unwrap();
    assert!(annals.purge(&id()).await.unwrap().is_empty());
}

/// "Ask again" would be wrong: no attempt could ever succeed.
#[tokio::test]
async fn a_snapshot_beyond_the_last_event_is_corrupt_and_no_conflict() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        for tries in [1, 2, 8] {
            let annals = on(&*variant.on_default_tables()).await;
            deposit(&annals, 1).await;
            let at = SequenceNumber::new(30).unwrap();
            let state = Payload::new(Codec::Json, r#"{"balance":9,"deposits":9}"#);
            annals.snapshots().save(&id(), at, state).await.unwrap();
            let settings = || EntitySettings::<Account>::new().tries(tries);
            let executor = annals.executor(settings());
            let region = annals.region(settings());
            for _ in 0..2 {
                for asked in [
                    executor.ask("a", Deposit(1)).await,
                    region.ask("a", Deposit(1)).await,
                ] {
                    let Err(AskError::Store(error)) = asked else {
                        panic!("{}, {tries} tries: {asked:?}", variant.name);
                    };
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    assert_eq!(error.fact_value("snapshot"), Some("30"), "{error}");
                    assert!(error.message().contains("annals snapshot delete"));
                }
            }
            // The remedy helps.
            let all = annals.snapshots().delete(&id(), Criteria::ALL).await;
            assert_eq!(all.unwrap(), 1);
            assert_eq!(executor.ask("a", Deposit(1)).await.unwrap(), 2);
        }
    }
}

/// Where a layout appends after a snapshot without events, it still does; elsewhere commands do not
/// conflict for ever.
#[tokio::test]
async fn commands_after_a_snapshot_without_events_never_conflict() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let annals = on(&*variant.on_default_tables()).await;
        let at = SequenceNumber::new(3).unwrap();
        let state = Payload::new(Codec::Json, r#"{"balance":9,"deposits":9}"#);
        annals.snapshots().save(&id(), at, state).await.unwrap();
        let executor = annals.executor::<Account>(EntitySettings::new());
        assert_eq!(executor.view("a", |a| a.balance).await.unwrap(), 9);
        match executor.ask("a", Deposit(1)).await {
            Ok(balance) => assert_eq!(balance, 10, "{}", variant.name),
            Err(error) => assert_eq!(error.http_status(), 500, "{}: {error}", variant.name),
        }
    }
}

/// A region that kept its state over a purge recovers.
#[tokio::test]
async fn a_state_in_memory_from_before_a_purge_is_recovered() {
    let layout = ANNALS.on_default_tables();
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let region_side = Annals::create(items.clone(), &*layout).await.unwrap();
    let region = region_side.region::<Account>(EntitySettings::new());
    for _ in 0..3 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    let other = Annals::open(items, &*layout).await.unwrap();
    other.purge(&id()).await.unwrap();
    region_side.journal().forget_cached();
    assert_eq!(region.ask("a", Deposit(7)).await.unwrap(), 7);
}
