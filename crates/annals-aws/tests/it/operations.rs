//! Every operation on one item or one page, on a server.

use std::collections::{BTreeMap, BTreeSet};

use annals::ErrorKind;
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeyPart, KeySchema, Projection, Query,
    Scan, Segment, SortRange, TableSpec, Value, WriteError, query_all, scan_all,
};
use futures::TryStreamExt;

use crate::server::{events, open, unique, with_table};

fn event(n: u64) -> Item {
    Item::new().with("p", "cart-1").with("n", n)
}

#[track_caller]
fn refused(outcome: Result<annals::items::Cost, WriteError>) -> Option<Item> {
    match outcome {
        Err(WriteError::Refused { existing, .. }) => existing.map(|item| *item),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn an_item_with_every_type_round_trips() {
    with_table(events(), async |store, table| {
        let map = BTreeMap::from([("k".to_owned(), Value::L(vec![Value::Null, "é\n".into()]))]);
        let item = event(1)
            .with("empty", "")
            .with(
                "big",
                "-123456789.123456789e-20"
                    .parse::<annals::items::Number>()
                    .unwrap(),
            )
            .with("bytes", (0..=255u8).collect::<Vec<_>>())
            .with("truth", false)
            .with("map", Value::M(map))
            .with(
                "ss",
                Value::Ss(BTreeSet::from(["b".to_owned(), "a".to_owned()])),
            )
            .with("ns", Value::Ns(BTreeSet::from([2u64.into(), 10u64.into()])))
            .with(
                "bs",
                Value::Bs(BTreeSet::from([vec![0u8].into(), vec![1u8].into()])),
            );
        store
            .put(&table, item.clone(), Condition::Always)
            .await
            .unwrap();
        let got = store
            .get(&table, vec![Key::new("cart-1").sorted(1u64)])
            .await
            .unwrap();
        assert_eq!(got.items, [Some(item)]);
    })
    .await;
}

#[tokio::test]
async fn a_refused_put_returns_the_existing_item() {
    with_table(events(), async |store, table| {
        let put = |item: Item, condition: Condition| store.put(&table, item, condition);
        let equals = |value: &str| Condition::Equals("writer".to_owned(), value.into());
        let mine = event(1).with("writer", "me");
        let other = event(1).with("writer", "you");

        assert_eq!(refused(put(mine.clone(), equals("me")).await), None);
        put(mine.clone(), Condition::Absent).await.unwrap();
        assert_eq!(
            refused(put(other.clone(), Condition::Absent).await),
            Some(mine.clone())
        );
        assert_eq!(refused(put(other.clone(), equals("you")).await), Some(mine));
        put(other.clone(), equals("me")).await.unwrap();
        assert_eq!(refused(put(event(1), Condition::Absent).await), Some(other));
        put(event(1), Condition::Always).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_refused_delete_returns_the_existing_item() {
    with_table(events(), async |store, table| {
        let delete = |condition| store.delete(&table, Key::new("cart-1").sorted(1u64), condition);
        let equals = |value: u64| Condition::Equals("x".to_owned(), value.into());
        let item = event(1).with("x", 7u64);

        delete(Condition::Always).await.unwrap();
        delete(Condition::Absent).await.unwrap();
        assert_eq!(refused(delete(equals(7)).await), None);
        store
            .put(&table, item.clone(), Condition::Absent)
            .await
            .unwrap();
        assert_eq!(refused(delete(Condition::Absent).await), Some(item.clone()));
        assert_eq!(refused(delete(equals(8)).await), Some(item));
        delete(equals(7)).await.unwrap();
        let got = store
            .get(&table, vec![Key::new("cart-1").sorted(1u64)])
            .await
            .unwrap();
        assert_eq!(got.items, [None]);
    })
    .await;
}

#[tokio::test]
async fn a_query_returns_its_range_in_order() {
    with_table(events(), async |store, table| {
        for n in [1, 2, 3, 10, 20u64] {
            store
                .put(&table, event(n), Condition::Absent)
                .await
                .unwrap();
        }
        let other = Item::new().with("p", "cart-2").with("n", 5u64);
        store.put(&table, other, Condition::Absent).await.unwrap();
        let numbers = async |query: Query| -> Vec<u64> {
            let items = store.query(&table, query).await.unwrap().items;
            items
                .iter()
                .map(|i| i.get("n").unwrap().as_u64().unwrap())
                .collect()
        };
        let of = || Query::of("cart-1");
        let part = KeyPart::from;
        let range = async |range| numbers(of().within(range)).await;

        assert_eq!(range(SortRange::All).await, [1, 2, 3, 10, 20]);
        assert_eq!(range(SortRange::Equal(part(3u64))).await, [3]);
        assert_eq!(range(SortRange::AtLeast(part(3u64))).await, [3, 10, 20]);
        assert_eq!(range(SortRange::Above(part(3u64))).await, [10, 20]);
        assert_eq!(range(SortRange::AtMost(part(3u64))).await, [1, 2, 3]);
        assert_eq!(range(SortRange::Below(part(3u64))).await, [1, 2]);
        assert_eq!(
            range(SortRange::Between(part(2u64), part(10u64))).await,
            [2, 3, 10]
        );
        assert_eq!(numbers(of().descending()).await, [20, 10, 3, 2, 1]);
        assert_eq!(numbers(of().descending().limit(2)).await, [20, 10]);
        assert_eq!(numbers(Query::of("nobody")).await, [0u64; 0]);
        assert_eq!(numbers(of().eventually().limit(1)).await, [1]);
    })
    .await;
}

#[tokio::test]
async fn a_prefix_query_matches_strings_and_bytes() {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text("s"));
    let table = TableSpec::new(unique("texts"), key).unwrap();
    with_table(table, async |store, table| {
        for s in ["a", "ab", "abc", "b"] {
            let item = Item::new().with("p", "x").with("s", s);
            store.put(&table, item, Condition::Absent).await.unwrap();
        }
        let query = Query::of("x").within(SortRange::BeginsWith("ab".into()));
        assert_eq!(store.query(&table, query).await.unwrap().items.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn pages_continue_past_a_megabyte() {
    with_table(events(), async |store, table| {
        let large = |n: u64| event(n).with("d", vec![n as u8; 300_000]);
        for n in 1..=8u64 {
            store
                .put(&table, large(n), Condition::Absent)
                .await
                .unwrap();
        }
        let first = store.query(&table, Query::of("cart-1")).await.unwrap();
        assert!(first.items.len() < 8 && first.next.is_some());

        let want: Vec<Item> = (1..=8).map(large).collect();
        let all = query_all(store.clone(), table.clone(), Query::of("cart-1"));
        assert_eq!(all.try_collect::<Vec<_>>().await.unwrap(), want);
        let limited = Query::of("cart-1").descending().limit(3);
        let limited = query_all(store.clone(), table.clone(), limited);
        let mut limited = limited.try_collect::<Vec<_>>().await.unwrap();
        limited.reverse();
        assert_eq!(limited, want);
        let scanned = scan_all(store.clone(), table.clone(), Scan::whole().limit(3));
        assert_eq!(scanned.try_collect::<Vec<_>>().await.unwrap().len(), 8);
    })
    .await;
}

#[tokio::test]
async fn scan_segments_cover_the_table_exactly_once() {
    with_table(events(), async |store, table| {
        for n in 0..40u64 {
            let item = Item::new().with("p", format!("cart-{n}")).with("n", n);
            store.put(&table, item, Condition::Absent).await.unwrap();
        }
        let mut found = Vec::new();
        for index in 0..3 {
            let scan = Scan::segment(Segment { index, of: 3 }).limit(7);
            let items = scan_all(store.clone(), table.clone(), scan);
            found.extend(items.try_collect::<Vec<_>>().await.unwrap());
        }
        let numbers = found.iter().map(|i| i.get("n").unwrap().as_u64().unwrap());
        let numbers: BTreeSet<u64> = numbers.collect();
        assert_eq!((found.len(), numbers.len()), (40, 40));
    })
    .await;
}

#[tokio::test]
async fn an_index_is_read_in_its_own_order() {
    let own =
        |sort: &str| KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number(sort));
    let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
    let by_tag = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    let by_time = IndexSpec::local("by-time".parse().unwrap(), own("t"));
    let table = TableSpec::new(unique("indexed"), own("n")).unwrap();
    let table = table
        .with_index(by_tag.projecting(Projection::KeysOnly))
        .unwrap();
    let table = table.with_index(by_time).unwrap();
    with_table(table, async |store, table| {
        for n in 1..=5u64 {
            let item = event(n).with("t", 100 - n).with("x", "carried");
            let item = if n % 2 == 1 {
                item.with("tag", "odd")
            } else {
                item
            };
            store.put(&table, item, Condition::Absent).await.unwrap();
        }
        let odd = Query::of("odd").on("by-tag").limit(2);
        let odd = query_all(store.clone(), table.clone(), odd);
        let odd = odd.try_collect::<Vec<_>>().await.unwrap();
        let want = [1, 3, 5].map(|n| event(n).with("tag", "odd"));
        assert_eq!(odd, want);

        let query = Query::of("cart-1").on("by-time");
        let query = query.within(SortRange::AtMost(97u64.into()));
        let newest = store.query(&table, query).await.unwrap().items;
        let numbers: Vec<_> = newest
            .iter()
            .map(|i| i.get("n").unwrap().as_u64())
            .collect();
        assert_eq!(numbers, [Some(5), Some(4), Some(3)]);
    })
    .await;
}

#[tokio::test]
async fn a_missing_table_and_a_wrong_key_are_invalid() {
    let (store, table) = (open().await, events());
    let error = store.query(&table, Query::of("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().starts_with("table does not exist"),
        "{error}"
    );
    let put = store.put(&table, event(1), Condition::Always).await;
    assert!(matches!(put, Err(WriteError::Failed(e)) if e.kind() == ErrorKind::Invalid));
    let got = store.get(&table, vec![Key::new("no sort part")]).await;
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Invalid);
}
