//! Retention that waits for consumers of the feed: no event is deleted before every named projection and
//! consumer group has handled it.

mod groups;
mod projections;
mod refusals;
mod rows;

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::entity::{EntitySettings, Executor, Retention, Stored};
use annals::feed::Filter;
use annals::journal::Window;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::projection::{Fed, Rows, Running, View};
use annals::{Annals, PersistenceId};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::entity_bank::{Account, AccountEvent, Deposit};
use crate::projection::{quick, until};

/// A store that a test runs on.
struct Opened {
    annals: Annals,
    name: String,
    embedded: Option<(Arc<Embedded>, TempDir)>,
}

/// The memory and the embedded store, on every layout.
async fn stores() -> Vec<Opened> {
    let mut stores = Vec::new();
    for variant in [ANNALS, AKKA, J5IK2O] {
        let layout = variant.on_default_tables();
        stores.push(in_memory(&*layout).await);
        stores.push(embedded(&*layout).await);
    }
    stores
}

async fn in_memory(layout: &dyn Layout) -> Opened {
    Opened {
        annals: Annals::create(Memory::new(), layout).await.unwrap(),
        name: format!("memory, {}", layout.name()),
        embedded: None,
    }
}

async fn embedded(layout: &dyn Layout) -> Opened {
    let folder = TempDir::new().unwrap();
    let store = Arc::new(Embedded::open(folder.path(), &Default::default()).unwrap());
    Opened {
        annals: Annals::create(store.clone(), layout).await.unwrap(),
        name: format!("embedded, {}", layout.name()),
        embedded: Some((store, folder)),
    }
}

/// What each account has, as a view.
struct Balances;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
struct Row {
    balance: i64,
    deposits: u64,
}

impl View for Balances {
    const NAME: &'static str = "balances";
    type Event = AccountEvent;
    type Row = Row;

    fn source() -> Filter {
        Filter::new().category("Account")
    }

    fn key(event: &Fed<AccountEvent>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<Row>, event: &Fed<AccountEvent>) -> Option<Row> {
        let mut row = row.unwrap_or_default();
        if let AccountEvent::Deposited { amount } = event.event {
            row.balance += amount;
            row.deposits += 1;
        }
        Some(row)
    }
}

async fn start(annals: &Annals) -> Running<Rows<Balances>> {
    let view = annals.projections().view::<Balances>().shares(3);
    view.settings(quick()).start().await.unwrap()
}

/// Waits until no runner works on a projection that has begun.
async fn pause<A>(annals: &Annals, (running, name): (&Running<A>, &str)) {
    running.caught_up().await.unwrap();
    let projections = annals.projections();
    assert!(projections.pause(name).await.unwrap());
    until(|| async {
        let status = projections.status(name).await.unwrap().unwrap();
        let mut shares = status.builds.iter().flat_map(|build| &build.shares);
        shares.all(|share| share.owner.is_none())
    })
    .await;
}

/// Waits until a projection has handled everything of an account, also for those who read its records.
async fn until_handled(annals: &Annals, name: &str, account: &str) {
    let head = annals.feed().head().await.unwrap();
    let id = id(account);
    until(|| async {
        let projections = annals.projections();
        let has_handled = projections.has_handled(name, &head, &id).await;
        has_handled.unwrap() == Some(true)
    })
    .await;
}

fn id(account: &str) -> PersistenceId {
    format!("Account|{account}").parse().unwrap()
}

/// The events that are left of an account.
async fn numbers(annals: &Annals, account: &str) -> Vec<u64> {
    let events = annals.journal().replay(&id(account), Window::ALL);
    let numbers = events.map_ok(|event| event.sequence_number.get());
    numbers.try_collect().await.unwrap()
}

fn every(events: u64) -> Retention<Account> {
    Retention::every(events).delete_events()
}

/// Maintains an entity before it replies.
fn executor(annals: &Annals, retention: Retention<Account>) -> Executor<Account> {
    annals.executor(EntitySettings::new().retention(retention))
}

async fn deposit(accounts: &Executor<Account>, account: &str, times: usize) {
    for _ in 0..times {
        accounts.ask(account, Deposit(1)).await.unwrap();
    }
}
