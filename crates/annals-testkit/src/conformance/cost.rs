//! The exact cost of operations: requests and capacity units as DynamoDB counts them.
//!
//! The figures are from DynamoDB's documentation and from measurements in a region. A store that
//! sends no requests reports those that a DynamoDB client would have sent. Emulators disagree by a
//! hundred bytes about the size of an index entry; the sizes here do not depend on that.

use std::sync::Arc;

use super::scratch::{Scratch, assert_refused, filled, index_name, item, sorted, unsorted};
use annals::items::{
    Condition, Cost, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, KeyType, Projection,
    Query, Scan, SortRange, Write,
};

pub(super) fn writes(requests: u64, write_units: u64) -> Cost {
    Cost {
        requests,
        write_units,
        ..Cost::ZERO
    }
}

pub(super) fn reads(requests: u64, read_half_units: u64) -> Cost {
    Cost {
        requests,
        read_half_units,
        ..Cost::ZERO
    }
}

fn sized(bytes: usize) -> Item {
    filled(Item::new().with("p", "a"), bytes)
}

/// A unit per started KB of the larger item, the old or the new one.
pub(crate) async fn a_put_costs_the_larger_of_both_items(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    for (bytes, units, what) in [
        (1024, 1, "a new item of exactly one KB"),
        (1025, 2, "one byte more"),
        (100, 2, "a smaller one over it"),
        (100, 1, "the same again"),
        (3 * 1024, 3, "a larger one over it"),
        (ITEM_OF_400_KB, 400, "the largest"),
    ] {
        assert_eq!(table.put(sized(bytes)).await, writes(1, units), "{what}");
    }
    table.drop().await;
}

const ITEM_OF_400_KB: usize = 400 * 1024;

/// One unit if there is no item.
pub(crate) async fn a_delete_costs_the_item_it_removes(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    table.put(sized(2049)).await;
    let key = || Key::new("a");
    assert_eq!(table.delete(key()).await, writes(1, 3), "2,049 bytes");
    assert_eq!(table.delete(key()).await, writes(1, 1), "nothing there");
    table.drop().await;
}

/// A refused write is not free, but it costs nothing in indexes.
pub(crate) async fn a_refused_write_costs_the_larger_of_both_items(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, unsorted(), [by_g(Projection::All)]).await;
    table.put(sized(1500).with("g", "x")).await;
    for (bytes, units) in [(100, 2), (1500, 2), (5000, 5)] {
        let put = table.put_if(sized(bytes), Condition::Absent).await;
        let (_, cost) = assert_refused(put, "Absent where an item is");
        assert_eq!(cost, writes(1, units), "put of {bytes} bytes");
    }
    let deleted = table.delete_if(Key::new("a"), Condition::Absent).await;
    let (_, cost) = assert_refused(deleted, "Absent where an item is");
    assert_eq!(cost, writes(1, 2), "delete");
    let equals = Condition::Equals("n".to_owned(), 1u64.into());
    let deleted = table.delete_if(Key::new("b"), equals).await;
    let (_, cost) = assert_refused(deleted, "Equals where nothing is");
    assert_eq!(cost, writes(1, 1), "delete of nothing");
    table.drop().await;
}

pub(super) fn by_g(projection: Projection) -> IndexSpec {
    let key = KeySchema::new(KeyAttribute::text("g"));
    IndexSpec::global(index_name("by-g"), key).projecting(projection)
}

pub(super) fn by_l(projection: Projection) -> IndexSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text("l"));
    IndexSpec::local(index_name("by-l"), key).projecting(projection)
}

/// An index costs units for changes to its projection, not to the item.
pub(crate) async fn indexes_cost_what_changes_in_them(items: Arc<dyn Items>) {
    let indexes = [by_l(Projection::All), by_g(Projection::KeysOnly)];
    let table = Scratch::indexed(&items, sorted(KeyType::S), indexes).await;
    let base = || item("a", "1");
    let l = || base().with("l", "l");
    let lg = |g: &str| l().with("g", g);
    for (new, units, what) in [
        (filled(base(), 2900), 3, "new, in neither index"),
        (filled(l(), 2900), 3 + 3, "enters the local index"),
        (filled(l(), 2900), 3, "unchanged"),
        (filled(l(), 1900), 3 + 3, "smaller, in the local index too"),
        (filled(lg("x"), 1900), 2 + 2 + 1, "enters the global index"),
        (filled(lg("x"), 2500), 3 + 3, "what the global one ignores"),
        (filled(lg("y"), 2500), 3 + 3 + 2, "moves in the global one"),
        (filled(l(), 2500), 3 + 3 + 1, "leaves the global one"),
        (filled(base(), 2500), 3 + 3, "leaves the local one"),
        (filled(lg("x"), 2500), 3 + 3 + 1, "enters both"),
    ] {
        assert_eq!(table.put(new).await, writes(1, units), "{what}");
    }
    let deleted = table.delete(Key::new("a").sorted("1")).await;
    assert_eq!(deleted, writes(1, 3 + 3 + 1), "delete from all three");
    let deleted = table.delete(Key::new("a").sorted("1")).await;
    assert_eq!(deleted, writes(1, 1), "delete of nothing");
    table.drop().await;
}

/// A removal and an insertion, each rounded up separately.
pub(crate) async fn a_local_index_entry_that_moves_costs_twice(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [by_l(Projection::All)]).await;
    let at = |l: &str, bytes| filled(item("a", "1").with("l", l), bytes);
    assert_eq!(table.put(at("x", 1500)).await, writes(1, 2 + 2), "new");
    assert_eq!(table.put(at("y", 500)).await, writes(1, 2 + 2 + 1), "moved");
    assert_eq!(table.put(at("x", 500)).await, writes(1, 1 + 2), "and back");
    table.drop().await;
}

/// A read unit, two half units, per started 4 KB.
pub(crate) async fn gets_cost_each_item_by_itself(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let stored = |id: &str, bytes| filled(Item::new().with("p", id), bytes);
    table.put(stored("a", 4096)).await;
    table.put(stored("b", 4097)).await;
    table.put(stored("c", 100)).await;
    for (keys, halves) in [
        (vec!["a"], 2),
        (vec!["b"], 4),
        (vec!["a", "b", "c"], 2 + 4 + 2),
        (vec!["b", "b", "b"], 4),
    ] {
        let asked = keys.iter().map(|key| Key::new(*key)).collect();
        let got = items.get(&table.spec, asked).await.expect("get");
        assert_eq!(got.cost, reads(1, halves), "{keys:?}");
    }
    table.drop().await;
}

/// 100 keys in one request, 101 in two.
pub(crate) async fn gets_take_a_request_for_every_hundred_keys(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let puts = (0..101u64).map(|n| Write::Put(Item::new().with("p", n.to_string())));
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");
    for (count, requests) in [(100, 1), (101, 2)] {
        let keys = (0..count).map(|n: u64| Key::new(n.to_string()));
        let got = items.get(&table.spec, keys.collect()).await.expect("get");
        assert_eq!(got.cost, reads(requests, 2 * count), "{count} keys");
    }
    table.drop().await;
}

/// 25 writes per request; units are counted for each write.
pub(crate) async fn a_batch_costs_what_its_writes_cost(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [by_g(Projection::KeysOnly)]).await;
    let stored = |n: u32| filled(item("a", n.to_string()), 1500);
    let puts: Vec<Write> = (0..25).map(|n| Write::Put(stored(n))).collect();
    let cost = items.write(&table.spec, puts).await.expect("write");
    assert_eq!(cost, writes(1, 25 * 2), "25 new items of 1,500 bytes");

    let deletes = (0..25).map(|n: u32| Write::Delete(Key::new("a").sorted(n.to_string())));
    let indexed = filled(item("b", "1").with("g", "x"), 100);
    let mixed = deletes.chain([Write::Put(indexed)]).collect();
    let cost = items.write(&table.spec, mixed).await.expect("write");
    assert_eq!(cost, writes(2, 25 * 2 + (1 + 1)), "26 mixed writes");
    table.drop().await;
}

/// Sizes are added up before rounding; an eventually consistent read costs half.
pub(crate) async fn a_query_costs_the_sum_of_its_page(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let puts = (1..=10u64).map(|n| Write::Put(filled(item("a", n), 1000)));
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");
    let upto = |n: u64| Query::of("a").within(SortRange::AtMost(n.into()));
    for (query, halves, what) in [
        (upto(1), 2, "one item"),
        (upto(4), 2, "4,000 bytes"),
        (upto(5), 4, "5,000 bytes"),
        (Query::of("a"), 6, "10,000 bytes"),
        (Query::of("a").descending(), 6, "10,000 bytes, descending"),
        (Query::of("a").limit(5), 4, "the first five"),
    ] {
        assert_eq!(table.page(query).await.cost, reads(1, halves), "{what}");
    }
    // An eventually consistent read may miss items; the returned ones cost half.
    let page = table.page(Query::of("a").eventually()).await;
    let seen = (page.items.len() as u64 * 1000).div_ceil(4096).max(1);
    assert_eq!(page.cost, reads(1, seen), "all, eventually");
    table.drop().await;
}

/// The cost of a local index depends on the consistency; a global one always costs half.
pub(crate) async fn a_query_on_an_index_costs_what_the_index_holds(items: Arc<dyn Items>) {
    let indexes = [by_l(Projection::KeysOnly), by_g(Projection::All)];
    let table = Scratch::indexed(&items, sorted(KeyType::S), indexes).await;
    for sort in ["1", "2", "3"] {
        let stored = item("a", sort).with("l", sort).with("g", "x");
        table.put(filled(stored, 3000)).await;
    }
    let local = Query::of("a").on("by-l");
    let page = table.page(local.clone()).await;
    assert_eq!(page.cost, reads(1, 2), "three keys, strongly");
    let page = table.page(local.eventually()).await;
    assert_eq!(page.cost, reads(1, 1), "three keys, eventually");

    let global = Query::of("x").on("by-g");
    table.settled(&global, |items| items.len() == 3).await;
    let page = table.page(global).await;
    assert_eq!(page.cost, reads(1, 3), "9,000 bytes");
    table.drop().await;
}

/// DynamoDB rounds up once per physical partition, and does not report their number: so this is a
/// lower bound, in one request.
pub(crate) async fn a_scan_costs_at_least_what_it_reads(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let puts = (1..=10u64).map(|n| Write::Put(filled(item("a", n), 1000)));
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");
    let page = items.scan(&table.spec, Scan::whole()).await.expect("scan");
    assert_eq!((page.items.len(), page.cost.requests), (10, 1));
    assert_eq!(page.cost.write_units, 0);
    assert!(page.cost.read_half_units >= 6, "{:?}", page.cost);
    table.drop().await;
}
