//! Queries: ranges, directions, limits and pages.

use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{
    Scratch, assert_invalid, assert_page_size, column, filled, item, sorted, texts, unsorted,
    unused_name,
};
use annals::items::{
    Consistency, Cursor, Direction, Item, Items, Key, KeyPart, KeyType, Number, Query, SortRange,
    TableSpec, Value, Write,
};

async fn filled_table(items: &Arc<dyn Items>, key_type: KeyType, sorts: &[KeyPart]) -> Scratch {
    let table = Scratch::new(items, sorted(key_type)).await;
    let puts = sorts.iter().map(|sort| Write::Put(item("a", sort.clone())));
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");
    table
}

/// Asserts that a range returns these sort keys, in both directions.
async fn assert_range(table: &Scratch, range: SortRange, want: &[KeyPart]) {
    let query = Query::of("a").within(range.clone());
    let mut want: Vec<Value> = want.iter().cloned().map(Value::from).collect();
    let seen = table.all(query.clone()).await;
    assert_eq!(column(&seen, "s"), want, "{range:?}, ascending");
    want.reverse();
    let seen = table.all(query.descending()).await;
    assert_eq!(column(&seen, "s"), want, "{range:?}, descending");
}

async fn assert_ranges(table: &Scratch, sorts: &[KeyPart]) {
    let [a, b, c, d, e] = sorts else {
        panic!("five sort keys, ascending")
    };
    let (low, high) = (b.clone(), d.clone());
    assert_range(table, SortRange::All, sorts).await;
    assert_range(table, SortRange::Equal(low.clone()), &sorts[1..2]).await;
    assert_range(table, SortRange::AtLeast(low.clone()), &sorts[1..]).await;
    assert_range(table, SortRange::Above(low.clone()), &sorts[2..]).await;
    assert_range(table, SortRange::AtMost(high.clone()), &sorts[..4]).await;
    assert_range(table, SortRange::Below(high.clone()), &sorts[..3]).await;
    assert_range(table, SortRange::Between(low.clone(), high), &sorts[1..4]).await;
    assert_range(table, SortRange::Between(low.clone(), low), &sorts[1..2]).await;
    assert_range(table, SortRange::Above(e.clone()), &[]).await;
    assert_range(table, SortRange::Below(a.clone()), &[]).await;
    assert_range(table, SortRange::Between(a.clone(), c.clone()), &sorts[..3]).await;
}

/// Without partitions whose keys are similar.
pub(crate) async fn a_partition_is_seen_whole_and_alone(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    for partition in ["a", "ab", "b", "A", "a "] {
        for sort in ["1", "2"] {
            table.put(item(partition, sort).with("v", partition)).await;
        }
    }
    for partition in ["a", "ab", "b", "A", "a "] {
        for query in [Query::of(partition), Query::of(partition).eventually()] {
            // An eventually consistent read may lag, but never returns items of another partition.
            let is_strong = query.consistency == Consistency::Strong;
            let seen = table.all(query).await;
            assert!(texts(&seen, "p").iter().all(|p| p == partition), "{seen:?}");
            if is_strong {
                assert_eq!(texts(&seen, "s"), ["1", "2"], "{partition}");
            }
        }
    }
    table.drop().await;
}

/// There may be empty pages.
pub(crate) async fn an_empty_partition_is_empty(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    table.put(item("a", "1")).await;
    assert_eq!(table.all(Query::of("b")).await, vec![]);
    assert_eq!(
        table.all(Query::of("b").descending().limit(1)).await,
        vec![]
    );
    table.drop().await;
}

/// Every comparison, and prefixes.
pub(crate) async fn text_ranges_bring_what_they_say(items: Arc<dyn Items>) {
    let sorts = ["a", "ab", "abc", "b", "é"].map(KeyPart::from);
    let table = filled_table(&items, KeyType::S, &sorts).await;
    assert_ranges(&table, &sorts).await;
    let begins = |prefix: &str| SortRange::BeginsWith(prefix.into());
    assert_range(&table, begins("a"), &sorts[..3]).await;
    assert_range(&table, begins("ab"), &sorts[1..3]).await;
    assert_range(&table, begins("abc"), &sorts[2..3]).await;
    assert_range(&table, begins("abcd"), &[]).await;
    assert_range(&table, begins("é"), &sorts[4..]).await;
    // Bounds need not exist.
    assert_range(&table, SortRange::Above("aa".into()), &sorts[1..]).await;
    table.drop().await;
}

/// By value: 10 is greater than 9.
pub(crate) async fn number_ranges_bring_what_they_say(items: Arc<dyn Items>) {
    let number = |text: &str| KeyPart::N(text.parse::<Number>().expect("a number"));
    let sorts = ["-10", "-9.5", "0", "9", "10"].map(number);
    let table = filled_table(&items, KeyType::N, &sorts).await;
    assert_ranges(&table, &sorts).await;
    assert_range(&table, SortRange::Above(number("9.99")), &sorts[4..]).await;
    assert_range(&table, SortRange::AtMost(number("-9.50")), &sorts[..2]).await;
    table.drop().await;
}

/// Every comparison, and prefixes, even those that end with 0xff.
pub(crate) async fn byte_ranges_bring_what_they_say(items: Arc<dyn Items>) {
    let bytes = |b: &'static [u8]| KeyPart::B(Bytes::from_static(b));
    let sorts = [
        bytes(&[0]),
        bytes(&[1, 255]),
        bytes(&[1, 255, 255]),
        bytes(&[2]),
        bytes(&[255, 255]),
    ];
    let table = filled_table(&items, KeyType::B, &sorts).await;
    assert_ranges(&table, &sorts).await;
    let begins = |prefix| SortRange::BeginsWith(bytes(prefix));
    assert_range(&table, begins(&[1, 255]), &sorts[1..3]).await;
    assert_range(&table, begins(&[255]), &sorts[4..]).await;
    assert_range(&table, begins(&[3]), &[]).await;
    table.drop().await;
}

/// One item or none. Whether its page has a cursor is not checked: DynamoDB returns one if the page
/// was limited, and emulators differ in what follows it.
pub(crate) async fn a_table_without_sort_key_is_queried_by_its_partition(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let stored = Item::new().with("p", "a").with("v", 1u64);
    table.put(stored.clone()).await;
    assert_eq!(table.all(Query::of("a")).await, vec![stored.clone()]);
    let limited = Query::of("a").descending().limit(1);
    assert_eq!(table.all(limited).await, vec![stored]);
    assert_eq!(table.all(Query::of("b")).await, vec![]);
    table.drop().await;
}

/// Follows the cursors by hand: each page within the limit, everything once and in order.
async fn walk(table: &Scratch, query: Query, limit: u32) -> Vec<Item> {
    let mut seen = Vec::new();
    let mut next = Some(query.limit(limit));
    // This ends: every page except the last few has items.
    for _ in 0..100 {
        let Some(query) = next.take() else {
            return seen;
        };
        let page = table.page(query.clone()).await;
        assert!(page.items.len() <= limit as usize, "limit {limit}");
        seen.extend(page.items);
        next = page.next.map(|cursor| query.after(cursor));
    }
    panic!("a hundred pages and no end: {seen:?}");
}

/// With pages of 1, 3, 7, 10 and 11 of ten items. After the exact last item there may or may not
/// be one more page, which is then empty.
pub(crate) async fn cursors_walk_everything_once_in_both_directions(items: Arc<dyn Items>) {
    let sorts: Vec<KeyPart> = (1..=10u64).map(KeyPart::from).collect();
    let table = filled_table(&items, KeyType::N, &sorts).await;
    let ascending: Vec<Value> = sorts.iter().cloned().map(Value::from).collect();
    let descending: Vec<Value> = ascending.iter().rev().cloned().collect();
    for limit in [1, 3, 7, 10, 11] {
        let seen = walk(&table, Query::of("a"), limit).await;
        assert_eq!(column(&seen, "s"), ascending, "by {limit}");
        let seen = walk(&table, Query::of("a").descending(), limit).await;
        assert_eq!(column(&seen, "s"), descending, "by {limit}, descending");
    }
    table.drop().await;
}

/// A cursor stays within its range.
pub(crate) async fn cursors_walk_a_range_once(items: Arc<dyn Items>) {
    let sorts: Vec<KeyPart> = (1..=10u64).map(KeyPart::from).collect();
    let table = filled_table(&items, KeyType::N, &sorts).await;
    let range = SortRange::Between(3u64.into(), 8u64.into());
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut query = Query::of("a").within(range.clone());
        query.direction = direction;
        let mut seen = column(&walk(&table, query, 2).await, "s");
        if direction == Direction::Descending {
            seen.reverse();
        }
        let want: Vec<Value> = (3..=8u64).map(Value::from).collect();
        assert_eq!(seen, want, "{direction:?}");
    }
    table.drop().await;
}

/// Four items of 390 KB do not fit into one page. DynamoDB's own emulator ends a page after the
/// item that exceeds 1 MB, others before it, so the last item does not count.
pub(crate) async fn partitions_larger_than_a_page_come_in_pages(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    for n in 1..=4u64 {
        table.put(filled(item("a", n), 390 * 1024)).await;
    }
    for query in [Query::of("a"), Query::of("a").descending()] {
        let direction = query.direction;
        let (mut seen, mut pages) = (Vec::new(), 0);
        let mut next = Some(query);
        while let Some(query) = next.take() {
            let page = table.page(query.clone()).await;
            assert_page_size(&page.items);
            seen.extend(column(&page.items, "s"));
            next = page.next.map(|cursor| query.after(cursor));
            pages += 1;
            assert!(pages < 10, "four items in {pages} pages");
        }
        if direction == Direction::Descending {
            seen.reverse();
        }
        assert_eq!(seen, [1u64, 2, 3, 4].map(Value::from), "{direction:?}");
        assert!(pages > 1, "more than a page allows came in one");
    }
    table.drop().await;
}

/// It is a position, not an item.
pub(crate) async fn a_cursor_outlives_its_item(items: Arc<dyn Items>) {
    let sorts: Vec<KeyPart> = (1..=5u64).map(KeyPart::from).collect();
    let table = filled_table(&items, KeyType::N, &sorts).await;
    let first = table.page(Query::of("a").limit(2)).await;
    let cursor = first.next.expect("there are three more");
    table.delete(Key::new("a").sorted(2u64)).await;
    let rest = table.all(Query::of("a").after(cursor.clone())).await;
    assert_eq!(column(&rest, "s"), [3u64, 4, 5].map(Value::from));
    let back = table.all(Query::of("a").descending().after(cursor)).await;
    assert_eq!(column(&back, "s"), [1u64].map(Value::from));
    table.drop().await;
}

/// By default.
pub(crate) async fn a_query_sees_what_was_just_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    for n in 1..=10u64 {
        table.put(item("a", n)).await;
        let newest = table.page(Query::of("a").descending().limit(1)).await;
        assert_eq!(newest.items, vec![item("a", n)]);
        let seen = table.all(Query::of("a")).await;
        assert_eq!(seen.len() as u64, n);
    }
    table.drop().await;
}

/// A limit of zero, a reversed range, keys of another type, an unknown index.
pub(crate) async fn what_cannot_be_asked_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let of = |range| Query::of("a").within(range);
    for query in [
        Query::of("a").limit(0),
        of(SortRange::Between(2u64.into(), 1u64.into())),
        of(SortRange::BeginsWith(1u64.into())),
        of(SortRange::Equal("1".into())),
        of(SortRange::Between(1u64.into(), "2".into())),
        Query::of(1u64),
        Query::of(""),
        Query::of("a").on("no-such-index"),
    ] {
        let what = format!("{query:?}");
        assert_invalid(items.query(&table.spec, query).await, &what);
    }
    table.drop().await;
}

/// Any range.
pub(crate) async fn a_range_without_sort_key_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    for range in [
        SortRange::Equal("1".into()),
        SortRange::AtLeast("1".into()),
        SortRange::BeginsWith("1".into()),
    ] {
        let query = Query::of("a").within(range.clone());
        let page = items.query(&table.spec, query).await;
        assert_invalid(page, &format!("{range:?}"));
    }
    table.drop().await;
}

/// From a table with another key, from another partition, from outside the range.
pub(crate) async fn a_cursor_from_elsewhere_is_invalid(items: Arc<dyn Items>) {
    let sorts: Vec<KeyPart> = (1..=3u64).map(KeyPart::from).collect();
    let table = filled_table(&items, KeyType::N, &sorts).await;
    let other = TableSpec::new(unused_name(), unsorted()).expect("a table");
    let elsewhere = Cursor::new(other.key().item_of(&Key::new("a")));
    let page = items.query(&table.spec, Query::of("a").after(elsewhere));
    assert_invalid(page.await, "a cursor from a table with another key");

    let first = table.page(Query::of("a").limit(1)).await;
    let cursor = first.next.expect("there are two more");
    let page = items.query(&table.spec, Query::of("b").after(cursor.clone()));
    assert_invalid(page.await, "a cursor from another partition");
    let above = Query::of("a").within(SortRange::Above(1u64.into()));
    let page = items.query(&table.spec, above.after(cursor));
    assert_invalid(page.await, "a cursor from outside the range");
    table.drop().await;
}
