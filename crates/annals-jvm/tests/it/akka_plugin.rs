//! A model of how akka-persistence-dynamodb 1.x and pekko-persistence-dynamodb read and write their
//! tables, for tests that show the consequences.
//!
//! It has the plugin's algorithms, mistakes included: puts have no condition, a failed part of a
//! batch may be ignored, markers are trusted, and batches are filtered by the rows that a replay
//! reads.

use std::sync::Arc;

use annals::items::{
    Condition, Item, Items, Key, KeyPart, Query, SortRange, TableSpec, Value, query_all,
};
use annals::layout::Layout;
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use futures::TryStreamExt;

pub(crate) const ID: &str = "order-1";
/// The default writer's uuid.
pub(crate) const WRITER: &str = "6f0c57f1-6b7e-4f8e-9d5e-0a2b3c4d5e6f";
const HUNDRED: u64 = 100;
/// How many keys one request reads.
const KEYS_MAX: usize = 100;

pub(crate) fn akka() -> AnyLayout {
    AnyLayout {
        layout: LayoutName::Akka,
        ..AnyLayout::default()
    }
}

/// Which of the two items of every hundredth event fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unprocessed {
    Nothing,
    Event,
    Mark,
}

/// An event as a replay delivers it: number, text.
pub(crate) type Read = (u64, String);

/// The plugin's journal.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) table: TableSpec,
    pub(crate) shards: u64,
}

impl Plugin {
    pub(crate) fn new(items: &Arc<dyn Items>, shards: u64) -> Self {
        let settings = akka();
        Self {
            items: items.clone(),
            table: settings.tables().unwrap().journal,
            shards,
        }
    }

    pub(crate) fn key(n: u64) -> Key {
        Key::new(format!("journal-P-{ID}-{}", n / HUNDRED)).sorted(n % HUNDRED)
    }

    fn mark_key(kind: &str, shard: u64) -> Key {
        Key::new(format!("journal-{kind}-{ID}-{shard}")).sorted(0u64)
    }

    fn item(n: u64, text: &str) -> Item {
        Item::new()
            .with("par", format!("journal-P-{ID}-{}", n / HUNDRED))
            .with("num", n % HUNDRED)
            .with("persistence_id", ID)
            .with("seq", n)
            .with("event", text.as_bytes().to_vec())
            .with("writer_uuid", WRITER)
            .with("ev_ser_id", 20u64)
    }

    pub(crate) async fn put(&self, item: Item) {
        let put = self.items.put(&self.table, item, Condition::Always);
        put.await.unwrap();
    }

    pub(crate) async fn remove(&self, n: u64) {
        let key = Self::key(n);
        let removed = self.items.delete(&self.table, key, Condition::Always);
        removed.await.unwrap();
    }

    async fn mark(&self, kind: &str, trigger: u64, value: u64) {
        let key = Self::mark_key(kind, trigger / HUNDRED % self.shards);
        self.put(self.table.key().item_of(&key).with("seq", value))
            .await;
    }

    /// A single event. Unprocessed items at every hundredth are ignored.
    pub(crate) async fn write_but(&self, n: u64, text: &str, lost: Unprocessed) {
        if !n.is_multiple_of(HUNDRED) || lost != Unprocessed::Event {
            self.put(Self::item(n, text)).await;
        }
        if n.is_multiple_of(HUNDRED) && lost != Unprocessed::Mark {
            self.mark("SH", n, n).await;
        }
    }

    pub(crate) async fn write(&self, n: u64, text: &str) {
        self.write_but(n, text, Unprocessed::Nothing).await;
    }

    /// Single events from one number to another, each with its number as text.
    pub(crate) async fn write_all(&self, numbers: std::ops::RangeInclusive<u64>) {
        for n in numbers {
            self.write(n, &n.to_string()).await;
        }
    }

    pub(crate) async fn write_batch(&self, numbers: std::ops::RangeInclusive<u64>) {
        let (low, high) = (*numbers.start(), *numbers.end());
        for n in numbers {
            let item = Self::item(n, &n.to_string());
            self.put(item.with("idx", n - low).with("cnt", high - low))
                .await;
        }
        if (low - 1) / HUNDRED != high / HUNDRED {
            self.mark("SH", high, high / HUNDRED * HUNDRED).await;
        }
    }

    /// The highest value of a marker. A failed chunk of keys is ignored unless all fail.
    pub(crate) async fn read_mark(&self, kind: &str, failing_chunk: Option<usize>) -> u64 {
        let keys: Vec<Key> = (0..self.shards)
            .map(|shard| Self::mark_key(kind, shard))
            .collect();
        let mut value = 0;
        for (chunk, keys) in keys.chunks(KEYS_MAX).enumerate() {
            if Some(chunk) == failing_chunk {
                continue;
            }
            let got = self.items.get(&self.table, keys.to_vec()).await.unwrap();
            let found = got.items.iter().flatten();
            let values = found.filter_map(|item| item.get("seq")?.as_u64());
            value = value.max(values.max().unwrap_or(0));
        }
        value
    }

    async fn rows(&self, hundred: u64, (from, to): (u64, u64)) -> Vec<Item> {
        let range = SortRange::Between(KeyPart::from(from), KeyPart::from(to));
        let query = Query::of(format!("journal-P-{ID}-{hundred}")).within(range);
        let (items, table) = (self.items.clone(), Arc::new(self.table.clone()));
        query_all(items, table, query).try_collect().await.unwrap()
    }

    pub(crate) async fn highest(&self) -> u64 {
        self.highest_but(None).await
    }

    pub(crate) async fn highest_but(&self, failing_chunk: Option<usize>) -> u64 {
        let mark = self.read_mark("SH", failing_chunk).await;
        let rows = self.rows(mark / HUNDRED, (0, 99)).await;
        let last = rows
            .iter()
            .filter_map(|item| item.get("num")?.as_u64())
            .max();
        match last {
            Some(last) => mark + last,
            None => mark.max(self.read_mark("SL", None).await.saturating_sub(1)),
        }
    }

    /// An actor's recovery: replay up to the highest.
    pub(crate) async fn recover(&self) -> Vec<Read> {
        self.replay(1, self.highest().await).await
    }

    pub(crate) async fn replay(&self, from: u64, to: u64) -> Vec<Read> {
        let start = from.max(self.read_mark("SL", None).await);
        let mut rows = Vec::new();
        for hundred in start / HUNDRED..=to / HUNDRED {
            let first = start.max(hundred * HUNDRED);
            let last = to.min(hundred * HUNDRED + 99);
            if first <= last {
                let places = (first % HUNDRED, last % HUNDRED);
                let found = self.rows(hundred, places).await.into_iter();
                rows.extend(found.map(|item| (hundred, item)));
            }
        }
        filter(rows)
    }

    /// Deletes; failures are logged and ignored.
    pub(crate) async fn delete_to(&self, to: u64, fails: impl Fn(u64) -> bool) {
        let low = self.read_mark("SL", None).await;
        let to = to.min(self.highest().await);
        if to + 1 > low {
            self.mark("SL", to + 1, to + 1).await;
        }
        for n in (low..=to).filter(|n| !fails(*n)) {
            self.remove(n).await;
        }
    }
}

/// Passes batches whose members were all read in sequence.
fn filter(rows: Vec<(u64, Item)>) -> Vec<Read> {
    let mut out = Vec::new();
    let mut pending: Option<(u64, Vec<Read>)> = None;
    for (hundred, item) in rows {
        let number = |name: &str| item.get(name).and_then(Value::as_u64);
        let n = hundred * HUNDRED + number("num").unwrap();
        let event = item.get("event").and_then(Value::as_bytes).unwrap();
        let event = (n, String::from_utf8(event.to_vec()).unwrap());
        let Some((index, last)) = number("idx").zip(number("cnt")) else {
            pending = None;
            out.push(event);
            continue;
        };
        let end = n - index + last;
        match &mut pending {
            Some((awaited, events)) if *awaited == end && n <= end => events.push(event),
            other => *other = Some((end, vec![event])),
        }
        if n == end
            && let Some((_, events)) = pending.take_if(|(_, events)| events.len() > 1)
            && events.len() as u64 == last + 1
        {
            out.extend(events);
        }
    }
    out
}
