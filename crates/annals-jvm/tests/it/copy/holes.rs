//! Numbers without events are skipped in the target too.

use std::sync::Arc;

use annals::copy::{Copier, CopyEndpoint};
use annals::entity::{
    Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Retention, Stored, persist,
};
use annals::journal::{Expected, Journal, JournalLayout, Skip, Window};
use annals::memory::Memory;
use annals::store::Store;
use annals::{Annals, Event, ManualClock, Token};
use annals_jvm::LayoutName;
use annals_jvm::j5ik2o::J5ik2oJournal;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::stage::{Stage, outcomes, settings};
use annals_testkit::journals::{after, number, text, window};

const ID: &str = "Hole-1";

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: u64,
}

#[derive(Serialize, Deserialize, EntityEvent)]
enum AccountEvent {
    Deposited { amount: u64 },
}

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = std::convert::Infallible;

    fn apply(&mut self, AccountEvent::Deposited { amount }: &AccountEvent) {
        self.balance += amount;
    }
}

struct Deposit(u64);

impl Handle<Deposit> for Account {
    type Reply = u64;

    fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
        let deposited = AccountEvent::Deposited { amount: deposit.0 };
        Ok(persist(deposited).reply(|account: &Self| account.balance))
    }
}

/// A journal whose events have the numbers 1 to 3, 7, 8, and 12,345.
async fn with_holes() -> CopyEndpoint {
    let items = Arc::new(Memory::new());
    let settings = settings(LayoutName::J5ik2o);
    Annals::create(items.clone(), &settings).await.unwrap();
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let store = Store::from(items).with_clock(clock);
    let layout = Arc::new(J5ik2oJournal::open(&store, &settings).unwrap());
    let journal = Journal::new(layout.clone(), &store);
    let id = ID.parse().unwrap();
    for (last, count) in [(0, 3), (6, 2), (12_344, 1)] {
        if last > 0 {
            let skip = Skip::new(number(last), Token::from_bytes([3; 8]), 0);
            layout.skip(&id, skip).await.unwrap();
            // Repeatable.
            layout.skip(&id, skip).await.unwrap();
        }
        for n in 0..count {
            let appended = journal
                .append(&id, after(last + n), text(format!("{n}")))
                .await;
            assert_eq!(appended.unwrap().first.get(), last + n + 1);
        }
    }
    CopyEndpoint::new(journal)
}

async fn numbers(journal: &Journal, window: Window) -> Vec<u64> {
    let events = journal.replay(&ID.parse().unwrap(), window);
    let events: Vec<Event> = events.try_collect().await.unwrap();
    events.iter().map(|e| e.sequence_number.get()).collect()
}

#[tokio::test]
async fn gaps_between_events_are_kept_in_the_target() {
    const ALL: [u64; 6] = [1, 2, 3, 7, 8, 12_345];
    let source = with_holes().await;
    for to in LayoutName::ALL {
        let target = Stage::new(to).await;
        let copier = Copier::new(source.clone(), CopyEndpoint::from(&target.annals));
        for _ in 0..2 {
            for outcome in outcomes(&copier).await {
                assert!(outcome.failure.is_none(), "{to}: {outcome:?}");
            }
        }
        // In this process, and in a new one.
        let items = target.annals.store().items().clone();
        let fresh = Stage::on(items, to).await;
        for journal in [target.annals.journal(), fresh.annals.journal()] {
            assert_eq!(numbers(journal, Window::ALL).await, ALL, "{to}");
            for from in [1, 2, 3, 4, 5, 6, 7, 8, 9, 500, 12_344, 12_345, 12_346] {
                let wanted: Vec<u64> = ALL.into_iter().filter(|n| *n >= from).collect();
                for max in [1, 2, 9] {
                    let some = wanted.iter().copied().take(max).collect::<Vec<_>>();
                    let window = window(from..=u64::MAX, max as u64);
                    assert_eq!(numbers(journal, window).await, some, "{to} from {from}");
                }
            }
            assert_eq!(numbers(journal, window(2..=7, 9)).await, [2, 3, 7], "{to}");
            assert_eq!(numbers(journal, window(4..=6, 9)).await, [0; 0], "{to}");
        }
        let id = ID.parse().unwrap();
        let next = fresh
            .annals
            .journal()
            .append(&id, after(12_345), text("next"));
        assert_eq!(next.await.unwrap().first.get(), 12_346, "{to}");
        fresh.delete(ID, 5).await;
        assert_eq!(fresh.numbers(ID).await, [7, 8, 12_345, 12_346], "{to}");
        fresh.delete(ID, 12_345).await;
        assert_eq!(fresh.numbers(ID).await, [12_346], "{to}");
    }
}

#[tokio::test]
async fn a_writer_that_stalled_before_the_copy_gets_a_conflict() {
    for to in LayoutName::ALL {
        let source = Stage::new(LayoutName::Annals).await;
        source.append("Cut-1", vec![text("x"); 300]).await;
        source.append("Cut-1", text("last")).await;
        for deleted in [300, 301] {
            source.delete("Cut-1", deleted).await;
            let target = Stage::new(to).await;
            let items = target.annals.store().items().clone();
            let frozen = Stage::on(items, to).await;
            // It has read that the id is empty.
            assert!(frozen.events("Cut-1").await.is_empty());
            super::stage::copy(&source, &target).await;
            let id = "Cut-1".parse().unwrap();
            let journal = frozen.annals.journal();
            for append in [vec![text("one")], vec![text("two"); 2]] {
                let late = journal.append(&id, Expected::Empty, append).await;
                assert!(late.is_err(), "{to}: {late:?}");
            }
            assert_eq!(target.seen().await, source.seen().await, "{to}");
        }
    }
}

#[tokio::test]
async fn an_entity_recovers_across_skipped_numbers() {
    let items = Arc::new(Memory::new());
    let settings = settings(LayoutName::J5ik2o);
    let old = Annals::create(items.clone(), &settings).await.unwrap();
    let saves = || EntitySettings::new().retention(Retention::every(3));
    let region = old.region::<Account>(saves());
    for _ in 0..3 {
        region.ask("a", Deposit(1)).await.unwrap();
    }
    let store = Store::from(items.clone());
    let layout = J5ik2oJournal::open(&store, &settings).unwrap();
    let skip = Skip::new(number(6), Token::from_bytes([3; 8]), 0);
    layout
        .skip(&"Account|a".parse().unwrap(), skip)
        .await
        .unwrap();
    region.passivate_all().await;
    let old = Annals::open(items, &settings).await.unwrap();
    old.region(saves()).ask("a", Deposit(10)).await.unwrap();
    for to in LayoutName::ALL {
        let target = Stage::new(to).await;
        let copier = Copier::new(CopyEndpoint::from(&old), CopyEndpoint::from(&target.annals));
        for outcome in outcomes(&copier).await {
            assert!(outcome.failure.is_none(), "{to}: {outcome:?}");
        }
        assert_eq!(target.numbers("Account|a").await, [1, 2, 3, 7], "{to}");
        let region = target.annals.region::<Account>(saves());
        assert_eq!(region.view("a", |a| a.balance).await.unwrap(), 13, "{to}");
        region.ask("a", Deposit(100)).await.unwrap();
        assert_eq!(target.numbers("Account|a").await, [1, 2, 3, 7, 8], "{to}");
    }
}
