//! Regions: command order, passivation, overload, panics, unknown events, store outages, `ask_once`.

use std::sync::Arc;
use std::time::Duration;

use annals::entity::{AskError, EntitySettings, Once, Region, Retention};
use annals::items::Items;
use annals::journal::{Expected, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::store::Store;
use annals::{Annals, Clock, Codec, ErrorKind, Event, ManualClock, NewEvent, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};
use futures::TryStreamExt;

use crate::entity_bank::{
    Account, Balance, Deposit, InsufficientFunds, Panic, Passivate, Poison, Save, Withdraw,
};

async fn on(items: Arc<dyn Items>) -> Annals {
    Annals::create(items, &AnyLayout::default()).await.unwrap()
}

async fn bank() -> (Annals, Region<Account>) {
    let annals = on(Arc::new(Memory::new())).await;
    let region = annals.region(EntitySettings::new());
    (annals, region)
}

async fn events(annals: &Annals, id: &str) -> Vec<Event> {
    let id = format!("Account|{id}").parse().unwrap();
    let replay = annals.journal().replay(&id, Window::ALL);
    replay.try_collect().await.unwrap()
}

#[tokio::test]
async fn an_entity_without_an_id_is_refused() {
    let (annals, region) = bank().await;
    let refused = region.ask("", Deposit(10)).await;
    assert!(
        matches!(&refused, Err(AskError::Store(error)) if error.kind() == ErrorKind::Invalid),
        "{refused:?}"
    );
    assert!(events(&annals, "").await.is_empty());
}

#[tokio::test]
async fn commands_are_handled_one_at_a_time() {
    let (annals, region) = bank().await;
    assert_eq!(region.ask("a", Deposit(10)).await.unwrap(), 10);
    let rejected = region.ask("a", Withdraw(11)).await;
    assert!(matches!(
        rejected,
        Err(AskError::Rejected(InsufficientFunds(10)))
    ));
    let asks = (0..50).map(|_| region.ask("a", Deposit(1)));
    let replies = futures::future::try_join_all(asks).await.unwrap();
    let mut sorted = replies.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        (11..=60).collect::<Vec<_>>(),
        "each sees its own state"
    );
    assert_eq!(region.ask("a", Balance).await.unwrap(), 60);
    assert_eq!(
        region.view("a", |account| account.deposits).await.unwrap(),
        51
    );
    assert_eq!(
        events(&annals, "a").await.len(),
        51,
        "a rejection writes nothing"
    );
    assert_eq!(region.resident(), 1);
}

#[tokio::test]
async fn passivated_entities_recover_unchanged() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let layout = variant.on_default_tables();
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let annals = Annals::create(items.clone(), &*layout).await.unwrap();
        let retention = Retention::every(7).keep(2).delete_events();
        let region = annals.region(EntitySettings::new().retention(retention.clone()));
        for n in 1..=30 {
            assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), n);
            if n % 4 == 0 {
                region.ask("a", Passivate).await.unwrap();
            }
        }
        region.passivate_all().await;
        assert_eq!(region.resident(), 0);
        // Another process, with nothing in memory.
        let other = Annals::open(items, &*layout).await.unwrap();
        let executor = other.executor::<Account>(EntitySettings::new().retention(retention));
        assert_eq!(executor.ask("a", Balance).await.unwrap(), 30);
        assert_eq!(executor.ask("a", Withdraw(30)).await.unwrap(), 0);
        assert_eq!(
            region.ask("a", Deposit(5)).await.unwrap(),
            5,
            "{}",
            variant.name
        );
        let left = events(&annals, "a").await;
        assert!(left.len() < 30, "events before the snapshots are deleted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_on_one_store_lose_no_command() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let (one, two) = (on(items.clone()).await, on(items.clone()).await);
    let regions = [
        one.region::<Account>(EntitySettings::new().tries(100)),
        two.region(EntitySettings::new().tries(100)),
    ];
    let executor = two.executor::<Account>(EntitySettings::new().tries(100));
    let mut tasks = Vec::new();
    for n in 0..300u64 {
        let (region, executor) = (regions[n as usize % 2].clone(), executor.clone());
        tasks.push(tokio::spawn(async move {
            match n % 5 {
                0 => executor.ask("a", Deposit(1)).await,
                _ => loop {
                    match region.ask("a", Deposit(1)).await {
                        Err(AskError::Overloaded { .. }) => tokio::task::yield_now().await,
                        other => break other,
                    }
                },
            }
        }));
    }
    let mut acknowledged = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(AskError::Conflict) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(events(&one, "a").await.len(), acknowledged);
    assert!(acknowledged > 250, "{acknowledged}");
    let balance = executor.ask("a", Balance).await.unwrap();
    assert_eq!(balance, acknowledged as i64);
}

#[tokio::test]
async fn a_stale_host_catches_up_at_once() {
    let counting = Store::from(Arc::new(Memory::new()));
    let (one, two) = (
        on(counting.items().clone()).await,
        on(counting.items().clone()).await,
    );
    let one = one.region::<Account>(EntitySettings::new());
    let two = two.region::<Account>(EntitySettings::new());
    one.ask("a", Deposit(1)).await.unwrap();
    // It lags by one append: the conflict returns it.
    two.ask("a", Deposit(1)).await.unwrap();
    let before = counting.counts().total().cost.requests;
    assert_eq!(one.ask("a", Deposit(1)).await.unwrap(), 3);
    assert_eq!(counting.counts().total().cost.requests - before, 2);
    // It lags by more appends than the number of attempts.
    for _ in 0..50 {
        two.ask("a", Deposit(1)).await.unwrap();
    }
    let before = counting.counts().total().cost.requests;
    assert_eq!(one.ask("a", Deposit(1)).await.unwrap(), 54);
    assert_eq!(counting.counts().total().cost.requests - before, 4);
}

#[tokio::test]
async fn overload_is_rejected_and_no_command_is_dropped() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let store = Arc::new(Faulty::new(items, Random::seeded(1), Faults::none()));
    let annals = on(store.clone()).await;
    let settings = EntitySettings::new().mailbox(4).max_resident(2);
    let region = annals.region::<Account>(settings);
    region.ask("a", Deposit(1)).await.unwrap();
    store.freeze();
    let asks: Vec<_> = (0..20)
        .map(|_| {
            let region = region.clone();
            tokio::spawn(async move { region.ask("a", Deposit(1)).await })
        })
        .collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let second = tokio::spawn({
        let region = region.clone();
        async move { region.ask("b", Deposit(1)).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    // Both resident entities are busy, so a third one cannot be loaded.
    let third = tokio::spawn({
        let region = region.clone();
        async move { region.ask("c", Deposit(1)).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(region.resident(), 2);
    store.thaw();
    let (mut accepted, mut overloaded) = (0, 0);
    for ask in asks {
        match ask.await.unwrap() {
            Ok(_) => accepted += 1,
            Err(AskError::Overloaded { .. }) => overloaded += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    // Four are queued, and one may be in flight.
    assert!((4..=5).contains(&accepted), "{accepted}");
    assert_eq!(accepted + overloaded, 20);
    second.await.unwrap().unwrap();
    let third = third.await.unwrap();
    assert!(
        matches!(third, Ok(_) | Err(AskError::Overloaded { .. })),
        "{third:?}"
    );
    assert!(region.resident() <= 2);
    assert_eq!(events(&annals, "a").await.len(), 1 + accepted);
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1 + accepted as i64);
}

#[tokio::test]
async fn the_longest_idle_entity_makes_room() {
    let annals = on(Arc::new(Memory::new())).await;
    let region = annals.region::<Account>(EntitySettings::new().max_resident(3));
    for n in 0..20i64 {
        let id = (n % 10).to_string();
        region.ask(&id, Deposit(1)).await.unwrap();
        assert!(region.resident() <= 3);
    }
    for n in 0..10 {
        assert_eq!(region.ask(&n.to_string(), Balance).await.unwrap(), 2);
    }
}

/// Later commands ask for none.
#[tokio::test]
async fn an_effect_can_ask_for_a_snapshot() {
    let (annals, region) = bank().await;
    region.ask("a", Deposit(1)).await.unwrap();
    region.ask("a", Save(2)).await.unwrap();
    for _ in 0..3 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    region.passivate_all().await;
    let id = "Account|a".parse().unwrap();
    let saved = annals.snapshots().find(&id, Criteria::ALL);
    let saved: Vec<_> = saved.try_collect().await.unwrap();
    let numbers: Vec<u64> = saved.iter().map(|s| s.sequence_number.get()).collect();
    assert_eq!(numbers, [2]);
    assert_eq!(region.ask("a", Balance).await.unwrap(), 6);
}

#[tokio::test]
async fn idle_entities_leave_memory() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let settings = AnyLayout::default();
    for table in settings.tables().unwrap().all() {
        items.create_table(table, Default::default()).await.unwrap();
    }
    let annals = Annals::open(Store::from(items).with_clock(clock.clone()), &settings)
        .await
        .unwrap();
    let idle = EntitySettings::new().passivate_after(Duration::from_secs(60));
    let region = annals.region::<Account>(idle);
    for id in ["a", "b"] {
        region.ask(id, Deposit(1)).await.unwrap();
    }
    let resident = async || {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        region.resident()
    };
    let start = clock.now_ms();
    assert_eq!(resident().await, 2);
    assert_eq!(clock.now_ms(), start, "nothing else moves the clock");
    clock.advance(Duration::from_secs(45));
    assert_eq!(resident().await, 2);
    region.ask("b", Deposit(1)).await.unwrap();
    clock.advance(Duration::from_secs(15));
    assert_eq!(resident().await, 1, "one was idle for a minute");
    clock.advance(Duration::from_secs(60));
    assert_eq!(resident().await, 0);
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
}

#[tokio::test]
async fn a_panic_affects_only_its_own_entity() {
    let (annals, region) = bank().await;
    for id in ["a", "b"] {
        region.ask(id, Deposit(7)).await.unwrap();
    }
    let panicked = region.ask("a", Panic).await;
    assert!(matches!(panicked, Err(AskError::Panicked)), "{panicked:?}");
    assert_eq!(region.ask("a", Balance).await.unwrap(), 7);
    assert_eq!(region.ask("b", Balance).await.unwrap(), 7);

    // A poisoned event is named each time, and other entities continue.
    let _ = region.ask("a", Poison).await;
    assert_eq!(events(&annals, "a").await.len(), 2);
    for _ in 0..2 {
        let poisoned = region.ask("a", Balance).await;
        let Err(AskError::Store(error)) = poisoned else {
            panic!("{poisoned:?}")
        };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let error = error.to_string();
        let is_named = error.contains("Account|a") && error.contains("number=`2`");
        assert!(is_named && error.contains("Poisoned"), "{error}");
    }
    assert_eq!(region.ask("b", Deposit(1)).await.unwrap(), 8);
}

#[tokio::test]
async fn an_unknown_event_is_named_or_skipped() {
    let (annals, region) = bank().await;
    region.ask("a", Deposit(7)).await.unwrap();
    region.passivate_all().await;
    let id = "Account|a".parse().unwrap();
    let strange = NewEvent::new(Codec::Json, "{}").manifest("Frobnicated");
    let appended = annals.journal().append(&id, Expected::Any, strange);
    appended.await.unwrap();
    let failed = region.ask("a", Balance).await;
    let Err(AskError::Store(error)) = failed else {
        panic!("{failed:?}")
    };
    let message = format!("{error:?}");
    for part in ["Account|a", "number=`2`", "Frobnicated"] {
        assert!(message.contains(part), "{message}");
    }
    let lenient = annals.region::<Account>(EntitySettings::new().skip_unknown_events());
    assert_eq!(lenient.ask("a", Deposit(1)).await.unwrap(), 8);
}

#[tokio::test]
async fn callers_get_errors_during_an_outage_and_nothing_is_lost() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let store = Arc::new(Faulty::new(items, Random::seeded(1), Faults::none()));
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let settings = AnyLayout::default();
    on(store.clone()).await;
    let annals = Annals::open(
        Store::from(store.clone()).with_clock(clock.clone()),
        &settings,
    );
    let region = annals
        .await
        .unwrap()
        .region::<Account>(EntitySettings::new());
    region.ask("a", Deposit(1)).await.unwrap();
    store.crash();
    for id in ["a", "b"] {
        for _ in 0..30 {
            clock.advance(Duration::from_secs(1));
            let down = region.ask(id, Deposit(1)).await;
            // A write for an entity in memory is in doubt; one that cannot be loaded wrote nothing.
            let error = match (id, down) {
                ("a", Err(AskError::InDoubt(error) | AskError::Store(error))) => error,
                ("b", Err(AskError::Store(error))) => error,
                other => panic!("{other:?}"),
            };
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
    store.revive();
    assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), 2);
    assert_eq!(region.ask("b", Deposit(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_command_with_an_id_is_handled_once() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let annals = on(items.clone()).await;
    let settings = || {
        EntitySettings::<Account>::new()
            .remember_commands(5)
            .retention(Retention::every(3).delete_events())
    };
    let region = annals.region(settings());
    let once = |n: u64| {
        let region = region.clone();
        async move {
            region
                .ask_once("a", &format!("c{n}"), Deposit(1))
                .await
                .unwrap()
        }
    };
    for n in 1..=6u64 {
        assert_eq!(once(n).await, Once::Done(n as i64));
        assert_eq!(once(n).await, Once::Already(n));
    }
    region.passivate_all().await;
    // Another process, from a snapshot: it recognises the last five.
    let other = on(items).await;
    let executor = other.executor(settings());
    for n in 2..=6u64 {
        let again = executor.ask_once("a", &format!("c{n}"), Deposit(1)).await;
        assert_eq!(again.unwrap(), Once::Already(n), "{n}");
    }
    assert_eq!(executor.ask("a", Balance).await.unwrap(), 6);
}
