//! A model of how j5ik2o's akka-persistence-dynamodb reads and writes its journal table, for tests
//! that show the consequences.
//!
//! It has the plugin's algorithms, mistakes included: puts have no condition, all reads use the index,
//! and rows are deleted under the keys of the current settings.

use std::sync::Arc;

use annals::items::{
    Condition, Item, Items, Key, KeyPart, Query, SortRange, TableSpec, Value, Write, query_all,
};
use annals::layout::Layout;
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::PartitionKeyKind;
use futures::TryStreamExt;

/// How many keys one request writes.
const WRITES_MAX: usize = 25;
/// Shards out of 64, as its description works them out.
const SHARDS: [(&str, u64); 5] = [
    ("counter-875e6ce0425e4d2b8203f3b44b9b531a", 53),
    ("a", 34),
    ("n", 34),
    ("order-2021-0001", 2),
    ("order-2021-0012", 2),
];

pub(crate) const ID: &str = SHARDS[0].0;

/// Settings with an id in one partition, or spread over several.
pub(crate) fn j5ik2o(kind: PartitionKeyKind) -> AnyLayout {
    let mut settings = AnyLayout {
        layout: LayoutName::J5ik2o,
        ..AnyLayout::default()
    };
    let journal = &mut settings.j5ik2o.dynamo_db_journal;
    journal.partition_key_resolver_class_name = kind;
    settings
}

/// The bytes of an event: a text, as Akka's own serializers write it.
pub(crate) fn message(id: &str, n: u64, text: &str) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8][..], bytes].concat();
    let payload = [vec![0x08, 20], field(0x12, text.as_bytes())].concat();
    let mut number = vec![0x10];
    let mut left = n;
    while left >= 0x80 {
        number.push((left as u8) | 0x80);
        left >>= 7;
    }
    number.push(left as u8);
    [field(0x0a, &payload), number, field(0x1a, id.as_bytes())].concat()
}

/// An event as a replay delivers it: number, text.
pub(crate) type Read = (u64, String);

/// The plugin's journal, with its settings.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) table: Arc<TableSpec>,
    pub(crate) kind: PartitionKeyKind,
    /// The number of shards.
    pub(crate) shards: u64,
    pub(crate) soft: bool,
}

impl Plugin {
    pub(crate) fn new(items: &Arc<dyn Items>, kind: PartitionKeyKind) -> Self {
        let settings = j5ik2o(kind);
        Self {
            items: items.clone(),
            table: Arc::new(settings.tables().unwrap().journal),
            kind,
            shards: 64,
            soft: true,
        }
    }

    pub(crate) fn key(&self, id: &str, n: u64) -> Key {
        let mut parts = id.split('-');
        let (prefix, body) = (parts.next().unwrap(), parts.next());
        let partition = match self.kind {
            PartitionKeyKind::SequenceNumberBased => format!("{id}-{}", n % self.shards),
            PartitionKeyKind::PersistenceIdBased => {
                let shard = SHARDS.iter().find(|(known, _)| *known == id).unwrap().1;
                let prefix = body.map_or(String::new(), |_| format!("{prefix}-"));
                format!("{prefix}{shard:040}")
            }
        };
        let body = body.map_or(String::new(), |body| format!("{body}-"));
        Key::new(partition).sorted(format!("{body}{n:019}"))
    }

    pub(crate) fn item(&self, id: &str, n: u64, text: &str) -> Item {
        let item = self.table.key().item_of(&self.key(id, n));
        item.with("persistence-id", id)
            .with("sequence-nr", n)
            .with("ordering", 1_700_000_000_000u64)
            .with("deleted", false)
            .with("message", message(id, n, text))
    }

    /// A persist: one blind put.
    pub(crate) async fn persist(&self, id: &str, n: u64, text: &str) {
        let item = self.item(id, n, text);
        let put = self.items.put(&self.table, item, Condition::Always);
        put.await.unwrap();
    }

    pub(crate) async fn persist_each(&self, id: &str, numbers: std::ops::RangeInclusive<u64>) {
        for n in numbers {
            self.persist(id, n, &n.to_string()).await;
        }
    }

    fn rows(&self, id: &str, to: u64) -> Query {
        let range = SortRange::Between(KeyPart::from(1u64), KeyPart::from(to));
        let query = Query::of(id).on("GetJournalRowsIndex").within(range);
        query.eventually()
    }

    /// The highest number, as the index shows it.
    pub(crate) async fn highest(&self, id: &str) -> u64 {
        let query = self.rows(id, i64::MAX as u64).descending().limit(1);
        let found = self.items.query(&self.table, query).await.unwrap().items;
        found.first().map_or(0, number)
    }

    async fn live(&self, id: &str, to: u64) -> Vec<Item> {
        let query = self.rows(id, to);
        let rows = query_all(self.items.clone(), self.table.clone(), query);
        let rows: Vec<Item> = rows.try_collect().await.unwrap();
        let is_live = |item: &Item| item.get("deleted") == Some(&Value::Bool(false));
        rows.into_iter().filter(is_live).collect()
    }

    /// A recovery: what the index shows up to its highest number.
    pub(crate) async fn replay(&self, id: &str) -> Vec<Read> {
        let highest = self.highest(id).await;
        let rows = self.live(id, highest.max(1)).await;
        let read = rows.iter().map(|item| {
            let message = item.get("message").unwrap().as_bytes().unwrap();
            let text = message[6..6 + usize::from(message[5])].to_vec();
            (number(item), String::from_utf8(text).unwrap())
        });
        read.collect()
    }

    /// A deletion: rows are read from the index and written under recomputed keys.
    pub(crate) async fn delete_to(&self, id: &str, to: u64) -> Result<(), &'static str> {
        let rows = self.live(id, to).await;
        let writes: Vec<Write> = rows
            .into_iter()
            .map(|row| {
                let key = self.key(id, number(&row));
                match self.soft {
                    true => {
                        let mut item = theirs(&row).with("deleted", true);
                        for (name, part) in [("pkey", Some(key.partition)), ("skey", key.sort)] {
                            item.insert(name, part.unwrap());
                        }
                        Write::Put(item)
                    }
                    false => Write::Delete(key),
                }
            })
            .collect();
        if !self.soft && writes.is_empty() {
            return Err("no such element");
        }
        if !self.soft && writes.len() == 1 {
            return Err("the table has no name");
        }
        for writes in writes.chunks(WRITES_MAX) {
            let written = self.items.write(&self.table, writes.to_vec());
            written.await.unwrap();
        }
        Ok(())
    }
}

/// A row with only the attributes that the plugin has.
fn theirs(row: &Item) -> Item {
    const KNOWN: [&str; 6] = [
        "persistence-id",
        "sequence-nr",
        "deleted",
        "message",
        "ordering",
        "tags",
    ];
    let mut item = Item::new();
    for name in KNOWN {
        if let Some(value) = row.get(name) {
            item.insert(name, value.clone());
        }
    }
    item
}

pub(crate) fn number(item: &Item) -> u64 {
    item.get("sequence-nr").and_then(Value::as_u64).unwrap()
}
