//! A store that takes one of the guards away, to show what each is for.

use std::sync::{Arc, Mutex};

use annals::Random;
use annals::items::{
    BatchError, Billing, Condition, Cost, Direction, Got, Item, Items, Key, Page, Query, Scan,
    TableName, TableSpec, Value, Write, WriteError,
};
use annals::memory::Memory;
use async_trait::async_trait;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing is taken away.
    Kept,
    /// A commit is put over whatever is there.
    NoCondition,
    /// A commit is stored with another token than it was given.
    NoToken,
    /// Deleted commits leave nothing.
    NoMarks,
    /// A state is put over whatever is there.
    NoRevisions,
    /// Deleted states leave nothing.
    NoEmptied,
    /// A snapshot is put where there is none, and nowhere else.
    NoReplacing,
    /// Snapshots are found in the other order.
    OldestFirst,
    /// The members of a batch that stand between its first and its last are put behind the last.
    LastNotLast,
}

/// How often others get a turn while members of a batch are held back.
const HELD_BACK: u64 = 60;

/// Whether it is an event as the layouts that are shared with the JVM keep it.
fn is_jvm_event(table: &TableSpec, item: &Item) -> bool {
    match table.name().as_str() {
        "akka-persistence" => item.get("event").is_some(),
        "Journal" => item.get("deleted") == Some(&Value::Bool(false)),
        _ => false,
    }
}

/// The place of an event in its batch, and the last place.
fn place_of(item: &Item) -> Option<(u64, u64)> {
    Some((item.get("idx")?.as_u64()?, item.get("cnt")?.as_u64()?))
}

/// How the uuids of our writers begin, and how long they are.
const WRITER: &str = "616e6e61-6c73-8000";
const WRITER_BYTES: usize = 36;

/// Where the writer's uuid stands in an event's message.
fn writer_at(message: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut windows = message.windows(WRITER.len());
    let at = windows.position(|window| window == WRITER.as_bytes())?;
    Some(at..at + WRITER_BYTES)
}

/// An event with the uuid of another writer.
fn with_writer(item: Item, bits: u64) -> Item {
    let uuid = format!("{WRITER}-{:04x}-{:012x}", bits >> 48, bits << 16 >> 16);
    let message = item.get("message").and_then(Value::as_bytes);
    let Some(mut message) = message.map(|message| message.to_vec()) else {
        return item.with("writer_uuid", uuid);
    };
    if let Some(at) = writer_at(&message) {
        message[at].copy_from_slice(uuid.as_bytes());
    }
    item.with("message", message)
}

/// Whether it is what a deletion leaves of an event of the JVM's layouts.
fn is_emptied(item: &Item) -> bool {
    let is_marked = item.get("deleted").is_some() && item.get("message").is_none();
    is_marked || item.get("number").is_some()
}

fn is_of(table: &TableSpec, what: &str) -> bool {
    table.name().as_str() == format!("annals-{what}")
}

#[derive(Debug)]
pub(super) struct Tampered {
    pub(super) inner: Arc<dyn Items>,
    pub(super) guard: Guard,
    pub(super) random: Random,
    /// Members of batches that are held back, by their writer.
    pub(super) held: Mutex<Vec<(String, Item)>>,
}

impl Tampered {
    pub(super) fn new(guard: Guard, random: Random) -> Self {
        Self {
            inner: Arc::new(Memory::new()),
            guard,
            random,
            held: Mutex::default(),
        }
    }

    /// Puts the last member of a batch, and some time later those that were held back.
    async fn put_last_first(&self, table: &TableSpec, item: Item) -> Result<Cost, WriteError> {
        let writer = writer_of(&item);
        let mut answer = self.inner.put(table, item, Condition::Absent).await?;
        for _ in 0..self.random.below(HELD_BACK) {
            tokio::task::yield_now().await;
        }
        let held = {
            let mut held = self.held.lock().unwrap();
            let (mine, others) = held.drain(..).partition(|(of, _)| *of == writer);
            *held = others;
            let mine: Vec<(String, Item)> = mine;
            mine
        };
        for (_, item) in held {
            match self.inner.put(table, item, Condition::Absent).await {
                Ok(cost) => answer = cost,
                Err(WriteError::Refused { existing, .. })
                    if existing.as_deref().map(writer_of).as_ref() == Some(&writer) => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(answer)
    }
}

fn writer_of(item: &Item) -> String {
    let writer = item.get("writer_uuid").and_then(Value::as_str);
    let message = item.get("message").and_then(Value::as_bytes);
    let told = message.and_then(|message| {
        let uuid = &message[writer_at(message)?];
        std::str::from_utf8(uuid).ok()
    });
    writer.or(told).unwrap_or_default().to_owned()
}

fn blob_of(item: &Item) -> Option<Vec<u8>> {
    Some(item.get("c")?.as_bytes()?.to_vec())
}

fn is_mark(item: &Item) -> bool {
    blob_of(item).is_some_and(|blob| blob[1] == 3)
}

/// The commit with another token, and the checksum it then has: see `docs/format.md`.
fn with_token(item: &Item, token: [u8; 8]) -> Option<Item> {
    let mut blob = blob_of(item)?;
    blob.truncate(blob.len() - 4);
    let time = 3 + match blob[3] {
        0x18 => 2,
        0x19 => 3,
        0x1a => 5,
        _ => 1,
    };
    let at = time + 1 + 8 + 1;
    blob[at..at + 8].copy_from_slice(&token);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(item.get("p")?.as_str()?.as_bytes());
    checksum.update(&item.get("n")?.as_u64()?.to_be_bytes());
    checksum.update(&blob);
    blob.extend(checksum.finalize().to_be_bytes());
    Some(item.clone().with("c", Value::from(blob)))
}

#[async_trait]
impl Items for Tampered {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> annals::Result<Got> {
        self.inner.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        mut item: Item,
        mut condition: Condition,
    ) -> Result<Cost, WriteError> {
        let is_new = item.get("c").is_some() && condition == Condition::Absent;
        let is_commit = is_new && is_of(table, "journal");
        let is_event = is_jvm_event(table, &item) && condition == Condition::Absent;
        match self.guard {
            Guard::NoCondition if is_event => condition = Condition::Always,
            Guard::NoToken if is_event => item = with_writer(item, self.random.bits()),
            Guard::LastNotLast if is_event => match place_of(&item) {
                Some((at, last)) if 0 < at && at < last => {
                    self.held.lock().unwrap().push((writer_of(&item), item));
                    return Ok(Cost::request());
                }
                Some((at, last)) if at == last => return self.put_last_first(table, item).await,
                _ => {}
            },
            Guard::NoCondition if is_commit => condition = Condition::Always,
            Guard::NoToken if is_commit => {
                let token = self.random.bits().to_be_bytes();
                item = with_token(&item, token).unwrap();
            }
            Guard::NoMarks if is_of(table, "journal") && is_mark(&item) => {
                let key = table.key_of(&item)?;
                return self.inner.delete(table, key, condition).await;
            }
            Guard::NoRevisions if is_of(table, "state") => condition = Condition::Always,
            Guard::NoEmptied if item.get("d").is_some() => {
                let key = table.key_of(&item)?;
                return self.inner.delete(table, key, condition).await;
            }
            Guard::NoReplacing if is_of(table, "snapshot") && condition == Condition::Always => {
                return Ok(Cost::request());
            }
            _ => {}
        }
        self.inner.put(table, item, condition).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.inner.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let tampered = writes.into_iter().map(|write| match write {
            Write::Put(item)
                if self.guard == Guard::NoMarks && is_of(table, "journal") && is_mark(&item) =>
            {
                Write::Delete(table.key_of(&item).unwrap())
            }
            Write::Put(item) if self.guard == Guard::NoEmptied && is_emptied(&item) => {
                Write::Delete(table.key_of(&item).unwrap())
            }
            other => other,
        });
        self.inner.write(table, tampered.collect()).await
    }

    async fn query(&self, table: &TableSpec, mut query: Query) -> annals::Result<Page> {
        if self.guard == Guard::OldestFirst && is_of(table, "snapshot") {
            query.direction = Direction::Ascending;
        }
        self.inner.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> annals::Result<Page> {
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> annals::Result<()> {
        self.inner.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> annals::Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> annals::Result<bool> {
        self.inner.drop_table(name).await
    }
}
