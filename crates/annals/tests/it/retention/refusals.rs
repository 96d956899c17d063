//! Consumers that cannot be waited for: unknown ones, wrong settings, stores without a feed.

use std::sync::Arc;
use std::time::Duration;

use annals::entity::{AskError, EntitySettings, Retention};
use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Write, WriteError,
};
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::{Annals, ErrorKind, ManualClock, Random, Result};
use async_trait::async_trait;

use super::{deposit, every, executor, in_memory, numbers, start, until_handled};
use crate::entity_bank::{Account, Deposit};
use crate::noted::Noted;

#[tokio::test]
async fn an_unknown_consumer_keeps_events_and_is_reported_now_and_then() {
    let noted = Noted::default();
    let _guard = tracing::subscriber::set_default(noted.clone());
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let store = annals_testkit::store(Memory::new(), clock.clone(), Random::seeded(1));
    let annals = Annals::create(store, &AnnalsLayout::default())
        .await
        .unwrap();
    let retention = every(1).after_projection("balance").after_group("mailer");
    let accounts = executor(&annals, retention);
    let warnings = || noted.text().matches("does not exist").count();
    for account in ["a", "b"] {
        deposit(&accounts, account, 10).await;
        let left = numbers(&annals, account).await;
        assert_eq!(left, (1..=10).collect::<Vec<_>>());
    }
    assert_eq!(warnings(), 1, "{}", noted.text());
    let text = noted.text();
    for part in ["consumer=projection balance", "correct the name"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    clock.advance(Duration::from_secs(601));
    deposit(&accounts, "a", 5).await;
    assert_eq!(warnings(), 2, "{}", noted.text());
}

#[tokio::test]
async fn events_that_waited_for_an_unknown_projection_are_there_when_it_starts() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let accounts = executor(&annals, every(2).after_projection("balances"));
    deposit(&accounts, "a", 8).await;
    assert_eq!(numbers(&annals, "a").await.len(), 8);
    let balances = start(&annals).await;
    until_handled(&annals, "balances", "a").await;
    let row = balances.get("a").await.unwrap().unwrap();
    assert_eq!(row.deposits, 8);
    deposit(&accounts, "a", 2).await;
    let left = numbers(&annals, "a").await;
    assert!(left.iter().all(|number| *number > 8), "{left:?}");
    balances.stop().await;
}

/// Refuses commands of both hosts, and reading, before anything is written.
async fn is_refused(annals: &Annals, retention: Retention<Account>, part: &str) {
    let settings = || EntitySettings::new().retention(retention.clone());
    let (executor, region) = (annals.executor(settings()), annals.region(settings()));
    let refusals = [
        executor.ask("a", Deposit(1)).await.unwrap_err(),
        region.ask("a", Deposit(1)).await.unwrap_err(),
        AskError::Store(executor.view("a", |_| ()).await.unwrap_err()),
        AskError::Store(region.view("a", |_| ()).await.unwrap_err()),
    ];
    for refusal in refusals {
        let AskError::Store(error) = refusal else {
            panic!("{refusal:?}");
        };
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(format!("{error:?}").contains(part), "{error:?}");
    }
    assert_eq!(numbers(annals, "a").await, [0; 0]);
}

#[tokio::test]
async fn a_name_that_no_consumer_can_have_is_refused() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let part = "letters, digits";
    is_refused(&annals, every(1).after_projection("open carts"), part).await;
    is_refused(&annals, every(1).after_group("a:b"), part).await;
}

#[tokio::test]
async fn to_wait_without_deleting_is_refused() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let retention = Retention::every(1).after_projection("balances");
    is_refused(&annals, retention, "add `delete_events`").await;
}

#[tokio::test]
async fn a_store_without_a_feed_is_refused() {
    let store: Arc<dyn Items> = Arc::new(WithoutFeed(Memory::new()));
    let annals = Annals::create(store, &AnnalsLayout::default())
        .await
        .unwrap();
    let part = "this store has no feed";
    is_refused(&annals, every(1).after_projection("balances"), part).await;
    is_refused(&annals, every(1).after_group("mailer"), part).await;
    // It is not needed otherwise.
    let accounts = executor(&annals, every(1));
    deposit(&accounts, "a", 3).await;
    assert_eq!(numbers(&annals, "a").await, [0; 0]);
}

/// A store that does not keep its changes, as DynamoDB without a stream.
#[derive(Debug)]
struct WithoutFeed(Memory);

#[async_trait]
impl Items for WithoutFeed {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.0.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.0.put(table, item, condition).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.0.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.0.write(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.0.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.0.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.0.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.0.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.0.drop_table(name).await
    }
}
