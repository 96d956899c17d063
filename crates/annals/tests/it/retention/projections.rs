//! Events wait for projections: lagging, paused, with dead letters, being built.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use annals::entity::EntitySettings;
use annals::feed::Filter;
use annals::journal::Expected;
use annals::layout::AnnalsLayout;
use annals::projection::{Fed, Handler, OnPoison, Running};
use annals::{Annals, Error, Result};
use std::sync::Arc;

use super::{
    Row, deposit, every, executor, id, in_memory, numbers, pause, start, stores, until_handled,
};
use crate::entity_bank::{Account, AccountEvent, Deposit};
use crate::projection::{quick, until};

fn upto(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

#[tokio::test]
async fn a_paused_projection_holds_events_back_until_it_has_handled_them() {
    for store in stores().await {
        let (annals, name) = (&store.annals, &store.name);
        let balances = start(annals).await;
        pause(annals, (&balances, "balances")).await;
        let settings = EntitySettings::new().retention(every(5).after_projection("balances"));
        let accounts = annals.region::<Account>(settings);
        let deposit = async |times: u32| {
            for _ in 0..times {
                accounts.ask("a", Deposit(1)).await.unwrap();
            }
            // Snapshots are saved, and what waits is not forgotten.
            accounts.passivate_all().await;
        };
        deposit(11).await;
        deposit(11).await;
        assert_eq!(numbers(annals, "a").await, upto(22), "{name}");

        assert!(annals.projections().resume("balances").await.unwrap());
        until_handled(annals, "balances", "a").await;
        deposit(5).await;
        let left = numbers(annals, "a").await;
        assert!(left.iter().all(|number| *number > 20), "{name}: {left:?}");
        until_handled(annals, "balances", "a").await;
        deposit(5).await;
        let left = numbers(annals, "a").await;
        assert!(left.iter().all(|number| *number > 25), "{name}: {left:?}");

        balances.caught_up().await.unwrap();
        let row = Row {
            balance: 32,
            deposits: 32,
        };
        assert_eq!(balances.get("a").await.unwrap(), Some(row), "{name}");
        assert_eq!(accounts.view("a", |a| a.balance).await.unwrap(), 32);
        let status = annals.projections().status("balances").await.unwrap();
        assert_eq!(status.unwrap().builds[0].missed, 0, "{name}");
        balances.stop().await;
    }
}

/// Handles everything but deposits of 13.
#[derive(Default)]
struct Picky {
    is_fixed: AtomicBool,
    sum: AtomicU64,
}

#[async_trait::async_trait]
impl Handler for Picky {
    const NAME: &'static str = "picky";
    type Event = AccountEvent;

    fn source() -> Filter {
        Filter::new().category("Account")
    }

    async fn handle(&self, event: &Fed<AccountEvent>) -> Result<()> {
        if let AccountEvent::Deposited { amount } = event.event {
            if amount == 13 && !self.is_fixed.load(Ordering::SeqCst) {
                return Err(Error::corrupt("unlucky"));
            }
            self.sum.fetch_add(amount as u64, Ordering::SeqCst);
        }
        Ok(())
    }
}

async fn picky(annals: &Annals) -> Running<Arc<Picky>> {
    let picky = annals.projections().handler(Picky::default()).shares(3);
    let picky = picky.settings(quick().on_poison(OnPoison::DeadLetter));
    picky.start().await.unwrap()
}

async fn until_no_dead_letters(annals: &Annals) {
    until(|| async {
        let letters = annals.projections().dead_letters("picky").await.unwrap();
        letters.unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_kept_until_they_are_retried_or_discarded() {
    for store in stores().await {
        let (annals, name) = (&store.annals, &store.name);
        let projections = annals.projections();
        let picky = picky(annals).await;
        let accounts = executor(annals, every(1).after_projection("picky"));
        for (account, amount) in [("retried", 13), ("discarded", 13), ("fine", 1)] {
            accounts.ask(account, Deposit(amount)).await.unwrap();
            deposit(&accounts, account, 2).await;
        }
        until_handled(annals, "picky", "fine").await;
        for account in ["retried", "discarded", "fine"] {
            deposit(&accounts, account, 1).await;
        }
        // The last one of `fine` may be handled already.
        let left = numbers(annals, "fine").await;
        assert!(left.iter().all(|number| *number > 3), "{name}: {left:?}");
        assert_eq!(numbers(annals, "retried").await, upto(4), "{name}");
        assert_eq!(numbers(annals, "discarded").await, upto(4), "{name}");
        until_handled(annals, "picky", "fine").await;
        deposit(&accounts, "retried", 1).await;
        assert_eq!(numbers(annals, "retried").await, upto(5), "{name}");

        let one = id("discarded");
        assert!(projections.discard("picky", Some(&one)).await.unwrap());
        picky.handler().is_fixed.store(true, Ordering::SeqCst);
        until_handled(annals, "picky", "discarded").await;
        assert!(projections.retry("picky", None).await.unwrap());
        until_no_dead_letters(annals).await;
        for account in ["retried", "discarded"] {
            until_handled(annals, "picky", account).await;
            deposit(&accounts, account, 1).await;
            let left = numbers(annals, account).await;
            assert!(left.iter().all(|number| *number > 4), "{name}: {left:?}");
        }
        picky.caught_up().await.unwrap();
        // Everything but the four that were discarded, 13 and three times 1.
        let sum = (13 + 4 + 1) + 1 + 4;
        assert_eq!(picky.handler().sum.load(Ordering::SeqCst), sum, "{name}");
        let status = projections.status("picky").await.unwrap().unwrap();
        assert_eq!(status.builds[0].missed, 4, "{name}");
        picky.stop().await;
    }
}

#[tokio::test]
async fn a_build_that_is_being_made_holds_events_back() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let projections = annals.projections();
    let balances = start(&annals).await;
    pause(&annals, (&balances, "balances")).await;
    let accounts = executor(&annals, every(4).after_projection("balances"));
    deposit(&accounts, "a", 4).await;
    let (head, a) = (annals.feed().head().await.unwrap(), id("a"));
    let has_handled = async || {
        let has_handled = projections.has_handled("balances", &head, &a).await;
        has_handled.unwrap().unwrap()
    };
    projections.resume("balances").await.unwrap();
    until(&has_handled).await;
    balances.stop().await;
    // Nobody makes it yet.
    assert_eq!(projections.rebuild("balances").await.unwrap(), Some(2));
    assert!(!has_handled().await);
    deposit(&accounts, "a", 5).await;
    assert_eq!(numbers(&annals, "a").await, upto(9));

    let balances = start(&annals).await;
    until_handled(&annals, "balances", "a").await;
    deposit(&accounts, "a", 3).await;
    let left = numbers(&annals, "a").await;
    assert!(left.iter().all(|number| *number > 8), "{left:?}");
    until(|| async { projections.switch("balances").await.is_ok() }).await;
    let status = projections.status("balances").await.unwrap().unwrap();
    assert!(status.builds.iter().all(|build| build.missed == 0));
    balances.stop().await;
}

/// Also that it is enough if every consumer that is named has handled them: others do not count.
#[tokio::test]
async fn every_named_consumer_counts_and_no_other() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let (balances, picky) = (start(&annals).await, picky(&annals).await);
    pause(&annals, (&picky, "picky")).await;
    let both = every(2)
        .after_projection("balances")
        .after_projection("picky");
    let accounts = executor(&annals, both);
    let after_one = executor(&annals, every(2).after_projection("balances"));
    for account in ["both", "one"] {
        deposit(&accounts, account, 2).await;
        until_handled(&annals, "balances", account).await;
    }
    deposit(&accounts, "both", 2).await;
    // The first is remembered by this executor, the second is checked with it.
    deposit(&after_one, "one", 2).await;
    until_handled(&annals, "balances", "one").await;
    deposit(&after_one, "one", 2).await;
    assert_eq!(numbers(&annals, "both").await, upto(4));
    let left = numbers(&annals, "one").await;
    assert!(left.iter().all(|number| *number > 4), "{left:?}");
    balances.stop().await;
    picky.stop().await;
}

/// Numbering restarts after a purge: what waited must not delete the new events.
#[tokio::test]
async fn what_waited_before_a_purge_deletes_nothing_after_it() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let balances = start(&annals).await;
    pause(&annals, (&balances, "balances")).await;
    let accounts = executor(&annals, every(3).after_projection("balances"));
    deposit(&accounts, "a", 3).await;
    annals.purge(&id("a")).await.unwrap();
    annals.projections().resume("balances").await.unwrap();
    until_handled(&annals, "balances", "a").await;
    pause(&annals, (&balances, "balances")).await;
    deposit(&accounts, "a", 6).await;
    assert_eq!(numbers(&annals, "a").await, upto(6));
    balances.stop().await;
}

#[tokio::test]
async fn a_projection_that_does_not_want_an_id_needs_nothing_of_it() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let balances = start(&annals).await;
    pause(&annals, (&balances, "balances")).await;
    let projections = annals.projections();
    let event = annals::NewEvent::new(annals::Codec::Text, "opened");
    for (id, has_handled) in [("Account|a", false), ("Order|a", true)] {
        let id = id.parse().unwrap();
        let appended = annals.journal().append(&id, Expected::Empty, event.clone());
        appended.await.unwrap();
        let head = annals.feed().head().await.unwrap();
        let found = projections.has_handled("balances", &head, &id).await;
        assert_eq!(found.unwrap(), Some(has_handled), "{id}");
        let unknown = projections.has_handled("balance", &head, &id).await;
        assert_eq!(unknown.unwrap(), None);
    }
    balances.stop().await;
}
