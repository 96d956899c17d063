//! Runtimes that shut down, commands that panic on drop, entities that stop: every caller gets a reply
//! or an error.

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

use crate::entity_bank::{Account, Balance, Deposit, PanicsOnDrop, Stop};

/// Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

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
fn a_command_completes_after_the_callers_runtime_shut_down() {
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
    // The command completes without its caller, and the next one follows.
    assert_eq!(home.block_on(region.ask("a", Deposit(1))).unwrap(), 3);
    home.block_on(region.passivate_all());
}

#[test]
fn callers_need_no_runtime() {
    let home = threads();
    let (_, annals) = home.block_on(faulty());
    let saves = EntitySettings::new().retention(Retention::every(1));
    let region: Region<Account> = home.block_on(async { annals.region(saves) });
    assert_eq!(
        futures::executor::block_on(region.ask("a", Deposit(1))).unwrap(),
        1
    );
    // A runtime that runs only during its own call.
    let alone = Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(alone.block_on(region.ask("a", Deposit(1))).unwrap(), 2);
    assert_eq!(home.block_on(region.ask("a", Deposit(1))).unwrap(), 3);
    home.block_on(region.passivate_all());
}

#[test]
fn callers_get_an_error_when_the_regions_runtime_shuts_down() {
    let home = threads();
    let (store, annals) = home.block_on(faulty());
    let region: Region<Account> = home.block_on(async { annals.region(EntitySettings::new()) });
    store.hold(Verb::Put);
    let asked = region.clone();
    let waiting =
        std::thread::spawn(move || futures::executor::block_on(asked.ask("a", Deposit(1))));
    home.block_on(store.until_held(1));
    // Another command is queued after it.
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
    let stopped = has_ended.recv_timeout(TIMEOUT).unwrap();
    assert!(matches!(stopped, Err(AskError::Stopped)), "{stopped:?}");
    let ended = waiting.join().unwrap();
    assert!(
        matches!(ended, Err(AskError::Panicked | AskError::Stopped)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_command_that_panics_on_drop_affects_no_other() {
    let (store, annals) = faulty().await;
    let region = annals.region::<Account>(EntitySettings::new());
    region.ask("a", Deposit(1)).await.unwrap();
    let _ = region.ask("a", PanicsOnDrop).await;
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
    region.passivate_all().await;
    store.crash();
    let _ = region.ask("a", PanicsOnDrop).await;
    store.revive();
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
    region.passivate_all().await;
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(region.ask("a", PanicsOnDrop))));
    assert!(
        dropped.is_err(),
        "the command was never sent, so the caller panics"
    );
    assert_eq!(region.ask("a", Balance).await.unwrap(), 1);
}

#[tokio::test]
async fn queued_commands_are_rejected_by_a_stop_and_later_ones_are_not() {
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
    let queued = tokio::spawn({
        let region = region.clone();
        async move { region.ask("a", Deposit(1)).await }
    });
    tokio::task::yield_now().await;
    store.release(Verb::Put);
    stop.await.unwrap().unwrap();
    let rejected = queued.await.unwrap().unwrap_err();
    assert!(
        matches!(rejected, AskError::Stopped) && rejected.is_retryable(),
        "{rejected:?}"
    );
    assert_eq!(region.ask("a", Deposit(1)).await.unwrap(), 2);
}

#[tokio::test]
async fn concurrent_recoveries_are_limited() {
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
