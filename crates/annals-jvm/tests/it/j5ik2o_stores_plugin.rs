//! A model of how j5ik2o's akka-persistence-dynamodb reads and writes the tables of snapshots and
//! durable state, for tests that show the consequences.
//!
//! It makes the plugin's requests, mistakes included: puts have no condition, only the first page of
//! a query is read, and unprocessed items of a batch are ignored.

use std::sync::Arc;

use annals::items::{
    Condition, Item, Items, Key, KeyPart, Query, SortRange, TableSpec, Value, Write, WriteError,
};
use annals::layout::Layout;
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::StoredRevision;

/// An id of the intended kind: prefix, separator, body.
pub(crate) const ID: &str = "my-1";
/// Two ids to which the plugin's resolvers give one partition, and to their snapshots one key.
pub(crate) const TWINS: [&str; 2] = ["a", "n"];

pub(crate) fn j5ik2o() -> AnyLayout {
    AnyLayout {
        layout: LayoutName::J5ik2o,
        ..AnyLayout::default()
    }
}

/// The partition of the ids above with `PersistenceIdBased`.
pub(crate) fn partition(id: &str) -> String {
    match id {
        ID => format!("my-{:040}", 5),
        _ => format!("{:040}", 34),
    }
}

fn snapshot_key(id: &str, n: u64) -> Key {
    Key::new(partition(id)).sorted(match id {
        ID => format!("1-{n:019}"),
        _ => format!("{n:019}"),
    })
}

pub(crate) fn number(item: &Item, name: &str) -> u64 {
    item.get(name).and_then(Value::as_u64).unwrap()
}

/// The plugin's snapshots, in the current format.
#[derive(Clone, Debug)]
pub(crate) struct PluginSnapshots {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) table: TableSpec,
}

impl PluginSnapshots {
    pub(crate) fn new(items: &Arc<dyn Items>, settings: &AnyLayout) -> Self {
        Self {
            items: items.clone(),
            table: settings.tables().unwrap().snapshot,
        }
    }

    /// PutItem, without a condition.
    pub(crate) async fn save(&self, id: &str, n: u64, created: u64) {
        let item = self.table.key().item_of(&snapshot_key(id, n));
        let item = item
            .with("persistence-id", id)
            .with("sequence-nr", n)
            .with("created", created)
            // A text, by serializer 20.
            .with("snapshot", b"\x04\0\0\0\x14\0\0\0jvm".to_vec());
        let put = self.items.put(&self.table, item, Condition::Always);
        put.await.unwrap();
    }

    fn query(&self, id: &str, up_to: u64) -> Query {
        let range = SortRange::Between(KeyPart::from(0), KeyPart::from(up_to));
        let query = Query::of(id).on("GetSnapshotRowsIndex").within(range);
        query.eventually()
    }

    /// The first page of a query.
    async fn page(&self, query: Query) -> Vec<Item> {
        self.items.query(&self.table, query).await.unwrap().items
    }

    /// The number of the snapshot that is loaded. Only an unbounded query has a limit; the filter on
    /// time applies to the only page that is read.
    pub(crate) async fn load(
        &self,
        id: &str,
        up_to: Option<u64>,
        until: Option<u64>,
    ) -> Option<u64> {
        let query = self.query(id, up_to.unwrap_or(i64::MAX as u64));
        let query = query.descending();
        let query = match (up_to, until) {
            (None, None) => query.limit(1),
            _ => query,
        };
        let page = self.page(query).await;
        let mut meant = page
            .iter()
            .filter(|item| until.is_none_or(|until| number(item, "created") <= until));
        meant.next().map(|item| number(item, "sequence-nr"))
    }

    /// Deletes the first page, in batches whose unprocessed items are ignored. Returns the number of
    /// requested deletions.
    pub(crate) async fn delete(&self, id: &str, up_to: u64) -> usize {
        let page = self.page(self.query(id, up_to)).await;
        let keys = page
            .iter()
            .map(|item| Write::Delete(snapshot_key(id, number(item, "sequence-nr"))));
        let _ = self.items.write(&self.table, keys.collect()).await;
        page.len()
    }

    /// The number of items.
    pub(crate) async fn count(&self, id: &str) -> usize {
        self.page(self.query(id, i64::MAX as u64).limit(1_000))
            .await
            .len()
    }
}

/// The plugin's durable state.
#[derive(Clone, Debug)]
pub(crate) struct PluginStates {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) table: TableSpec,
    /// The module.
    pub(crate) module: StoredRevision,
}

impl PluginStates {
    pub(crate) fn new(items: &Arc<dyn Items>, settings: &AnyLayout) -> Self {
        let tables = settings.tables().unwrap();
        Self {
            items: items.clone(),
            table: tables.state.unwrap(),
            module: settings.j5ik2o.dynamo_db_state.stored_revision,
        }
    }

    pub(crate) fn key(id: &str) -> Key {
        Key::new(partition(id)).sorted(id)
    }

    /// PutItem, without a condition.
    pub(crate) async fn upsert(&self, id: &str, revision: u64, text: &str) {
        let stored = match self.module {
            StoredRevision::V1 => revision,
            StoredRevision::V2 => revision + 1,
        };
        // Before v1.14.0 the partition was the whole key.
        let mut item = Item::new().with("pkey", partition(id));
        if self.table.key().sort.is_some() {
            item.insert("skey", id);
        }
        let item = item
            .with("persistence-id", id)
            .with("revision-nr", stored)
            .with("payload", text.as_bytes().to_vec())
            .with("serializer-id", 20u64)
            .with("ordering", 1_000u64);
        let put = self.items.put(&self.table, item, Condition::Always);
        put.await.unwrap();
    }

    /// GetItem: the value and the number that is stored as its revision; 0 for none.
    pub(crate) async fn get(&self, id: &str) -> (Option<String>, u64) {
        let key = match self.table.key().sort {
            Some(_) => Self::key(id),
            None => Key::new(partition(id)),
        };
        let got = self.items.get(&self.table, vec![key]).await.unwrap();
        let Some(item) = &got.items[0] else {
            return (None, 0);
        };
        let payload = item.get("payload").and_then(Value::as_bytes);
        let payload = payload.expect("the plugin cannot read an item without a payload");
        let text = String::from_utf8(payload.to_vec()).unwrap();
        (Some(text), number(item, "revision-nr"))
    }

    /// DeleteItem, of any revision or of this one. Returns whether it succeeded.
    pub(crate) async fn delete(&self, id: &str, revision: Option<u64>) -> bool {
        let condition = match revision {
            None => Condition::Always,
            Some(n) => Condition::Equals("revision-nr".to_owned(), n.into()),
        };
        let deleted = self.items.delete(&self.table, Self::key(id), condition);
        match deleted.await {
            Ok(_) => true,
            Err(WriteError::Refused { .. }) => false,
            Err(WriteError::Failed(error)) => panic!("{error}"),
        }
    }
}
