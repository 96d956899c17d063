//! The journal's table as the plugin sees it: items by key, markers and numbers.

use std::collections::BTreeSet;

use futures::TryStreamExt;

use crate::tck::Setup;
use annals::items::{Condition, Item, Key, Query, TableSpec, Value, query_all};
use annals::journal::{Expected, Journal, Window};
use annals::{Codec, Event, NewEvent, PersistenceId, SequenceNumber};

/// The plugin's constant.
const HUNDRED: u64 = 100;
/// The plugin's default.
const SHARDS: u64 = 10;

pub(super) const ID: &str = "order-1";

pub(super) fn id() -> PersistenceId {
    ID.parse().expect("an id")
}

pub(super) fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).expect("a sequence number")
}

/// The expectation of a writer that has read everything up to `n`.
pub(super) fn after(n: u64) -> Expected {
    SequenceNumber::new(n).map_or(Expected::Empty, Expected::Last)
}

pub(super) fn text(n: u64) -> NewEvent {
    NewEvent::new(Codec::Text, format!("a-{n:04}"))
}

/// The result of the plugin's `ListAll`: low markers, high markers, numbers.
pub(super) type Listed = (BTreeSet<u64>, BTreeSet<u64>, Vec<u64>);

/// The table of a set-up.
pub(super) struct Stage<'a> {
    pub(super) setup: &'a Setup,
    pub(super) table: TableSpec,
}

impl<'a> Stage<'a> {
    pub(super) fn of(setup: &'a Setup) -> Self {
        let tables = setup.layout.tables();
        Self {
            setup,
            table: tables.expect("tables").journal,
        }
    }

    fn key(n: u64) -> Key {
        Key::new(format!("journal-P-{ID}-{}", n / HUNDRED)).sorted(n % HUNDRED)
    }

    /// An item of the second generation, as the plugin writes it.
    pub(super) fn item(n: u64, batch: Option<(u64, u64)>) -> Item {
        let item = Item::new()
            .with("par", format!("journal-P-{ID}-{}", n / HUNDRED))
            .with("num", n % HUNDRED)
            .with("persistence_id", ID)
            .with("seq", n)
            .with("event", format!("a-{n:04}").into_bytes())
            .with("writer_uuid", "6f0c57f1-6b7e-4f8e-9d5e-0a2b3c4d5e6f")
            .with("ev_ser_id", 20u64);
        match batch {
            Some((index, last)) => item.with("idx", index).with("cnt", last),
            None => item,
        }
    }

    pub(super) async fn put(&self, item: Item) {
        let put = self.setup.items.put(&self.table, item, Condition::Always);
        put.await.expect("a put");
    }

    pub(super) async fn remove(&self, n: u64) {
        let items = &self.setup.items;
        let removed = items.delete(&self.table, Self::key(n), Condition::Always);
        removed.await.expect("a removal");
    }

    pub(super) async fn get(&self, n: u64) -> Option<Item> {
        let got = self.setup.items.get(&self.table, vec![Self::key(n)]).await;
        got.expect("an item").items.pop().flatten()
    }

    /// The items of the id, without emptied ones.
    pub(super) async fn list(&self) -> Listed {
        let [low, high] = ["SL", "SH"]
            .map(|mark| (0..SHARDS).map(move |shard| format!("journal-{mark}-{ID}-{shard}")));
        let mut marks = [BTreeSet::new(), BTreeSet::new()];
        for (found, keys) in marks.iter_mut().zip([low.collect(), high.collect()]) {
            let keys: Vec<String> = keys;
            let keys = keys.into_iter().map(|key| Key::new(key).sorted(0u64));
            let got = self.setup.items.get(&self.table, keys.collect()).await;
            let items = got.expect("marks").items.into_iter().flatten();
            found.extend(items.filter_map(|item| item.get("seq").and_then(Value::as_u64)));
        }
        let mut numbers = Vec::new();
        for hundred in 0..=5 {
            let query = Query::of(format!("journal-P-{ID}-{hundred}"));
            let (items, table) = (self.setup.items.clone(), self.table.clone().into());
            let rows: Vec<Item> = query_all(items, table, query)
                .try_collect()
                .await
                .expect("rows");
            let rows = rows.iter().filter(|item| item.get("deleted").is_none());
            let places = rows.filter_map(|item| item.get("num").and_then(Value::as_u64));
            numbers.extend(places.map(|place| hundred * HUNDRED + place));
        }
        let [low, high] = marks;
        (low, high, numbers)
    }
}

/// Appends `count` events after `last`; returns the last number.
pub(super) async fn append(journal: &Journal, last: u64, count: u64) -> u64 {
    let events: Vec<NewEvent> = (last + 1..=last + count).map(text).collect();
    let appended = journal.append(&id(), after(last), events).await;
    let appended = appended.expect("an append");
    assert_eq!(appended.first, number(last + 1));
    appended.last.get()
}

/// Appends `count` events after `last`, one by one; returns the last number.
pub(super) async fn append_singles(journal: &Journal, last: u64, count: u64) -> u64 {
    for n in last..last + count {
        append(journal, n, 1).await;
    }
    last + count
}

/// The numbers of a replay, whose payloads must match.
pub(super) async fn replay(journal: &Journal, window: Window) -> annals::Result<Vec<u64>> {
    let events: Vec<Event> = journal.replay(&id(), window).try_collect().await?;
    for event in &events {
        let n = event.sequence_number.get();
        assert_eq!(event.data.payload, format!("a-{n:04}"), "payload of {n}");
    }
    Ok(events
        .iter()
        .map(|event| event.sequence_number.get())
        .collect())
}

/// Checks the replay and the highest number of a new process.
pub(super) async fn check(setup: &Setup, want: &[u64], highest: u64) {
    let journal = setup.journal().await;
    let found = replay(&journal, Window::ALL).await.expect("a replay");
    assert_eq!(found, want);
    let found = journal.highest(&id()).await.expect("highest");
    assert_eq!(found, SequenceNumber::new(highest));
}

pub(super) fn numbers(ranges: &[std::ops::RangeInclusive<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}
