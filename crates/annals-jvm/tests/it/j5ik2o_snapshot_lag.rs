//! Snapshots of the `j5ik2o` layout where the index lags behind: with keys in order nothing that was
//! saved is missed, whatever the index has.

use std::sync::Arc;

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Write, WriteError, scan_all,
};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_testkit::store;
use async_trait::async_trait;
use futures::TryStreamExt;

use crate::j5ik2o_stores_plugin::{ID, PluginSnapshots, j5ik2o};
use annals_testkit::journals::number;

/// A store whose indexes are so late that they show nothing.
#[derive(Debug)]
struct Lagging(Memory);

#[async_trait]
impl Items for Lagging {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> annals::Result<Got> {
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

    async fn query(&self, table: &TableSpec, query: Query) -> annals::Result<Page> {
        if query.index.is_some() {
            return Ok(Page {
                items: Vec::new(),
                next: None,
                cost: Cost::request(),
            });
        }
        self.0.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> annals::Result<Page> {
        self.0.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> annals::Result<()> {
        self.0.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> annals::Result<Option<TableSpec>> {
        self.0.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> annals::Result<bool> {
        self.0.drop_table(name).await
    }
}

#[tokio::test]
async fn what_the_index_does_not_have_yet_is_loaded_and_deleted() {
    let settings = j5ik2o();
    let items: Arc<dyn Items> = Arc::new(Lagging(Memory::new()));
    let plugin = PluginSnapshots::new(&items, &settings);
    let created = items.create_table(&plugin.table, Default::default());
    created.await.unwrap();
    let clock = Arc::new(ManualClock::at_ms(1_000));
    let snapshots = settings
        .snapshots(&store(items.clone(), clock, Random::seeded(1)))
        .unwrap();
    let id: PersistenceId = ID.parse().unwrap();
    for n in 1..=3 {
        let state = Payload::new(Codec::Text, "x");
        snapshots.save(&id, number(n), state).await.unwrap();
    }
    assert_eq!(
        plugin.load(ID, None, None).await,
        None,
        "the plugin replays all"
    );
    let found = snapshots.load(&id, Criteria::ALL).await.unwrap();
    assert_eq!(found.unwrap().sequence_number, number(3));
    assert_eq!(plugin.delete(ID, 3).await, 0, "and deletes nothing");
    let left = async || {
        let all = scan_all(items.clone(), plugin.table.clone().into(), Scan::whole());
        all.try_collect::<Vec<_>>().await.unwrap().len()
    };
    snapshots
        .delete(&id, Criteria::at(number(3)))
        .await
        .unwrap();
    assert_eq!(left().await, 2);
    snapshots.delete(&id, Criteria::ALL).await.unwrap();
    assert_eq!(left().await, 0);
}
