//! Hosts whose runtimes end, whose commands panic when they are dropped, whose entities stop: nobody
//! waits for ever, and nothing is dropped silently.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use annals::entity::{AskError, EntitySettings, Region, Retention};
use annals::items::Items;
use annals::memory::Memory;
use annals::store::Verb;
use annals::{Annals, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use tokio::runtime::{Builder, Runtime};

use crate::entity_bank::{Account, Balance, Bomb, Deposit, Stop};

/// Only a test that fails waits as long.
const FOR_EVER: Duration = Duration::from_secs(60);

async fn faulty() -> (Arc<Faulty>, Annals) {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let store = Arc::new(Faulty::new(items, Random::seeded(1), Faults::none()));
    let annals = Annals::create(store.clone(), &AnyLayout::default()).await;
    (store, annals.unwrap())
}

fn threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().unwrap()
}

#[test]
fn who_asks_may_end_before_the_answer() {
    let (home, guest) = (threads(), threads());
    let (store, annals) = home.block_on(faulty());
    let region: Region<Account> = home.block_on(async { annals.region(EntitySettings::new()) });
    home.block_on(region.ask("a", Deposit(1))).unwrap();
    store.hold(Verb::Put);
    let asked = region.clone();
    guest.spawn(async move { asked.ask("a", Deposit(1)).await });
    home.block_on(store.until_held(1));
    guest.shutdown_background();
    store.release(Verb::Put);
    // Its command goes on without it, and the next one comes after that.
    assert_eq!(home.block_on(region.ask("a", Deposit(1))).unwrap(), 3);
    home.block_on(region.passivate_all());
}

#[test]
fn whoever_asks_needs_no_runtime_of_its_own() {
    let home = threads();
    let (_, annals) = home.block_on(faulty());
    let saves = EntitySettings::new().retention(Retention::every(1));
    let region: Region<Account> = home.block_on(async { annals.region(saves) });
    assert_eq!(
        futures::executor::block_on(region.ask("a", Deposit(1))).unwrap(),
        1
    );
    // A runtime that is driven only while its own question waits.
    let alone = Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(alone.block_on(region.ask("a", Deposit(1))).unwrap(), 2);
    assert_eq!(home.block_on(region.ask("a", Deposit(1))).unwrap(), 3);
    home.block_on(region.passivate_all());
}

#[test]
fn a_region_whose_runtime_has_ended_says_so() {
    let home = threads();
    let (store, annals) = home.block_on(faulty());
    let region: Region<Account> = home.block_on(async { annals.region(EntitySettings::new()) });
    store.hold(Verb::Put);
    let asked = region.clone();
    let waiting =
        std::thread::spawn(move || futures::executor::block_on(asked.ask("a", Deposit(1))));
    home.block_on(store.until_held(1));
    // Another one waits behind it.
    let (queued, is_queued) = channel();
    let (ended, has_ended) = channel();
    let asked = region.clone();
    std::thread::spawn(move || {
        futures::executor::block_on(async {
            let mut asking = pin!(asked.ask("a", Deposit(1)));
            assert!(futures::poll!(&mut asking).is_pending());
            queued.send(()).unwrap();
            ended.send(asking.await).unwrap();
        });
    });
    is_queued.recv().unwrap();
    home.shutdown_background();
    let refused = has_ended.recv_timeout(FOR_EVER).unwrap();
    assert!(matches!(refused, Err(AskError::Stopped)), "{refused:?}");
    let ended = waiting.join().unwrap();
    assert!(
        matches!(ended, Err(AskError::Panicked | AskError::Stopped)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_command_that_panics_when_it_is_dropped_costs_itself_alone() {
    let (store, annals) = faulty().await;
    let region = annals.region::<Account>(EntitySettings::new());
    region.ask("a", Deposit(1)).await.unwrap();
    let _ = region.ask("a", Bomb).await;
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
    region.passivate_all().await;
    store.crash();
    let _ = region.ask("a", Bomb).await;
    store.revive();
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
    region.passivate_all().await;
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(region.ask("a", Bomb))));
    assert!(dropped.is_err(), "never asked: it is the asker's own");
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
}

#[tokio::test]
async fn what_waits_is_told_of_a_stop_and_what_comes_later_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let saves = EntitySettings::new().retention(Retention::every(1));
    let annals = Annals::embedded(folder.path()).await.unwrap();
    let region = annals.region::<Account>(saves);
    for n in 1..=20 {
        region.ask("a", Stop).await.unwrap();
        assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), n);
    }
    let (store, annals) = faulty().await;
    let region = annals.region::<Account>(EntitySettings::new());
    region.ask("a", Deposit(1)).await.unwrap();
    store.hold(Verb::Put);
    let stop = tokio::spawn({
        let region = region.clone();
        async move { region.ask("a", Stop).await }
    });
    store.until_held(1).await;
    let waits = tokio::spawn({
        let region = region.clone();
        async move { region.ask("a", Deposit(1)).await }
    });
    tokio::task::yield_now().await;
    store.release(Verb::Put);
    stop.await.unwrap().unwrap();
    let refused = waits.await.unwrap().unwrap_err();
    assert!(
        matches!(refused, AskError::Stopped) && refused.is_retryable(),
        "{refused:?}"
    );
    assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), 2);
}

#[tokio::test]
async fn no_more_recover_at_once_than_may() {
    let (store, annals) = faulty().await;
    let two = EntitySettings::new().max_concurrent_recoveries(2);
    let region = annals.region::<Account>(two);
    store.hold(Verb::Query);
    let asks: Vec<_> = (0..10)
        .map(|n| {
            let region = region.clone();
            tokio::spawn(
                async move { region.view(&n.to_string(), |account| account.balance).await },
            )
        })
        .collect();
    store.until_held(2).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.n_held(), 2);
    store.release(Verb::Query);
    for asked in asks {
        assert_eq!(asked.await.unwrap().unwrap(), 0);
    }
}
