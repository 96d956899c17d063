//! A store that removes one of the guards, to show that each is needed.

use std::sync::{Arc, Mutex};

use annals::Random;
use annals::items::{Condition, Cost, Direction, Item, Items, TableSpec, Value, Write, WriteError};
use annals::memory::Memory;
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing is removed.
    Kept,
    /// A commit overwrites an existing one.
    NoCondition,
    /// A commit is stored with a different token.
    NoToken,
    /// Deleted commits leave no tombstone.
    NoMarks,
    /// A state overwrites any revision.
    NoRevisions,
    /// Deleted states, and deleted events of the JVM layouts, leave no tombstone.
    NoEmptied,
    /// A snapshot does not replace an existing one.
    NoReplacing,
    /// Snapshots are found in reverse order.
    OldestFirst,
    /// The middle members of a batch are put after the last one.
    LastNotLast,
}

/// The maximum number of yields while members of a batch are held back.
const HELD_BACK: u64 = 60;

/// Whether it is an event of a JVM layout.
fn is_jvm_event(table: &TableSpec, item: &Item) -> bool {
    match table.name().as_str() {
        "akka-persistence" => item.get("event").is_some(),
        "Journal" => item.get("deleted") == Some(&Value::Bool(false)),
        _ => false,
    }
}

/// The index of an event in its batch, and the last index.
fn place_of(item: &Item) -> Option<(u64, u64)> {
    Some((item.get("idx")?.as_u64()?, item.get("cnt")?.as_u64()?))
}

/// The prefix of the uuids of our writers, and their length.
const WRITER: &str = "616e6e61-6c73-8000";
const WRITER_BYTES: usize = 36;

/// The position of the writer's uuid in an event's message.
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

/// Whether it is the tombstone of an event of a JVM layout.
fn is_emptied(item: &Item) -> bool {
    let is_marked = item.get("deleted").is_some() && item.get("message").is_none();
    is_marked || item.get("number").is_some()
}

fn is_of(table: &TableSpec, what: &str) -> bool {
    table.name().as_str() == format!("annals-{what}")
}

pub(super) struct Tampered {
    guard: Guard,
    random: Random,
    /// Members of batches that are held back, by their writer.
    held: Mutex<Vec<(String, Item)>>,
}

impl Tampered {
    pub(super) fn new(guard: Guard, random: Random) -> Hooked<Self> {
        let tampered = Self {
            guard,
            random,
            held: Mutex::default(),
        };
        Hooked::over(Arc::new(Memory::new()), tampered)
    }

    /// Whether this item is a tombstone that the missing guard would have left.
    fn takes_away(&self, table: &TableSpec, item: &Item, is_emptied: bool) -> bool {
        match self.guard {
            Guard::NoMarks => is_of(table, "journal") && is_mark(item),
            Guard::NoEmptied => is_emptied,
            _ => false,
        }
    }

    /// Puts the last member of a batch, and some time later those that were held back.
    async fn put_last_first(&self, inner: &dyn Items, table: &TableSpec, item: Item) -> Answered {
        let writer = writer_of(&item);
        let mut answer = inner.put(table, item, Condition::Absent).await?;
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
            match inner.put(table, item, Condition::Absent).await {
                Ok(cost) => answer = cost,
                Err(WriteError::Refused { existing, .. })
                    if existing.as_deref().map(writer_of).as_ref() == Some(&writer) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(answer.into())
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

/// The commit with another token and the matching checksum: see `docs/format.md`.
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
impl Hook for Tampered {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        if let Call::Query(table, query) = &mut call
            && self.guard == Guard::OldestFirst
            && is_of(table, "snapshot")
        {
            query.direction = Direction::Ascending;
        }
        if let Call::Write(table, writes) = &mut call {
            for write in writes {
                if let Write::Put(item) = write
                    && self.takes_away(table, item, is_emptied(item))
                {
                    *write = Write::Delete(table.key_of(item)?);
                }
            }
        }
        let Call::Put(table, item, condition) = &mut call else {
            return call.send(inner).await;
        };
        let is_new = *condition == Condition::Absent;
        let is_commit = is_new && item.get("c").is_some() && is_of(table, "journal");
        let is_event = is_new && is_jvm_event(table, item);
        match self.guard {
            Guard::NoCondition if is_event || is_commit => *condition = Condition::Always,
            Guard::NoToken if is_event => *item = with_writer(item.clone(), self.random.bits()),
            Guard::NoToken if is_commit => {
                let token = self.random.bits().to_be_bytes();
                *item = with_token(item, token).unwrap();
            }
            Guard::LastNotLast if is_event => match place_of(item) {
                Some((at, last)) if 0 < at && at < last => {
                    let held = (writer_of(item), item.clone());
                    self.held.lock().unwrap().push(held);
                    return Ok(Cost::request().into());
                }
                Some((at, last)) if at == last => {
                    return self.put_last_first(inner, table, item.clone()).await;
                }
                _ => {}
            },
            Guard::NoRevisions if is_of(table, "state") => *condition = Condition::Always,
            Guard::NoReplacing if is_of(table, "snapshot") && *condition == Condition::Always => {
                return Ok(Cost::request().into());
            }
            _ if self.takes_away(table, item, item.get("d").is_some()) => {
                call = Call::Delete(table, table.key_of(item)?, condition.clone());
            }
            _ => {}
        }
        call.send(inner).await
    }
}
