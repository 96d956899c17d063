//! DynamoDB's limits, to the byte, on every store.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{Scratch, assert_invalid, filled, index_name, item, sorted, unsorted};
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeyPart, KeySchema, KeyType, Value, Write,
};

// Literals, so that a wrong constant of the library is detected.
const ITEM_BYTES_MAX: usize = 409_600;
const PARTITION_BYTES_MAX: usize = 2_048;
const SORT_BYTES_MAX: usize = 1_024;
const NESTING_MAX: usize = 32;

/// 409,600 bytes of names and values. By `put` and by `write`; the stored item stays.
pub(crate) async fn the_largest_item_is_taken_and_one_byte_more_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let largest = filled(Item::new().with("p", "a"), ITEM_BYTES_MAX);
    table.put(largest.clone()).await;
    assert_eq!(table.get(Key::new("a")).await, Some(largest.clone()));

    let larger = filled(Item::new().with("p", "a"), ITEM_BYTES_MAX + 1);
    let put = table.put_if(larger.clone(), Condition::Always).await;
    assert_invalid(put, "put of 409,601 bytes");
    let small = Write::Put(Item::new().with("p", "b"));
    let batch = vec![small, Write::Put(larger)];
    assert_invalid(items.write(&table.spec, batch).await, "write");
    assert_eq!(table.get(Key::new("a")).await, Some(largest));
    assert_eq!(table.get(Key::new("b")).await, None);
    table.drop().await;
}

/// Item and entries together have 409,600 bytes. An item without an index's key has no entry
/// there. If an index does not project everything, DynamoDB Local leaves the table's own sort key
/// out of the entry's size, so that case is not tested.
pub(crate) async fn local_indexes_share_the_limit_of_their_item(items: Arc<dyn Items>) {
    for entries in [1, 2] {
        let indexes = (0..entries).map(|n| {
            let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text("k"));
            IndexSpec::local(index_name(&format!("local-{n}")), key)
        });
        let table = Scratch::indexed(&items, sorted(KeyType::S), indexes).await;
        let sized = |bytes| filled(item("a", "1").with("k", "x"), bytes);
        let largest = ITEM_BYTES_MAX / (1 + entries);
        table.put(sized(largest)).await;
        let what = format!("an item with {entries} entries");
        let put = table.put_if(sized(largest + 1), Condition::Always).await;
        assert_invalid(put, &what);
        let batch = vec![Write::Put(sized(largest + 1))];
        assert_invalid(items.write(&table.spec, batch).await, &what);
        let key = Key::new("a").sorted("1");
        assert_eq!(table.get(key).await, Some(sized(largest)), "{what}");
        table.put(filled(item("a", "2"), ITEM_BYTES_MAX)).await;
        table.drop().await;
    }
}

/// 2,048 bytes of partition key and 1,024 of sort key, for every verb.
pub(crate) async fn the_longest_keys_are_taken_and_one_byte_more_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    let partition = "p".repeat(PARTITION_BYTES_MAX);
    let sort = "é".repeat(SORT_BYTES_MAX / 2);
    let longest = item(&partition, sort.as_str());
    table.put(longest.clone()).await;
    let key = Key::new(partition.as_str()).sorted(sort.as_str());
    assert_eq!(table.get(key.clone()).await, Some(longest.clone()));

    let long_partition = format!("{partition}x");
    let long_sort = format!("{sort}x");
    for (partition, sort) in [(&long_partition, &sort), (&partition, &long_sort)] {
        let what = format!("{} and {} bytes", partition.len(), sort.len());
        let too_long = item(partition, sort.as_str());
        let put = table.put_if(too_long, Condition::Always).await;
        assert_invalid(put, &what);
        let key = Key::new(partition.as_str()).sorted(sort.as_str());
        assert_invalid(items.get(&table.spec, vec![key.clone()]).await, &what);
        let deleted = table.delete_if(key, Condition::Always).await;
        assert_invalid(deleted, &what);
    }
    assert_eq!(table.contents().await, vec![longest]);
    table.delete(key).await;
    table.drop().await;
}

/// Text and bytes, as partition or sort key.
pub(crate) async fn empty_keys_are_invalid(items: Arc<dyn Items>) {
    let parts: [(KeyType, KeyPart, KeyPart); 2] = [
        (KeyType::S, "".into(), "x".into()),
        (
            KeyType::B,
            Bytes::new().into(),
            Bytes::from_static(b"x").into(),
        ),
    ];
    for (key_type, empty, full) in parts {
        let attribute = |name| KeyAttribute::new(name, key_type);
        let schema = KeySchema::new(attribute("p")).sorted(attribute("s"));
        let table = Scratch::new(&items, schema).await;
        for (partition, sort) in [(&empty, &full), (&full, &empty)] {
            let stored = Item::new()
                .with("p", partition.clone())
                .with("s", sort.clone());
            let put = table.put_if(stored, Condition::Always).await;
            assert_invalid(put, "put with an empty key");
            let key = Key::new(partition.clone()).sorted(sort.clone());
            let got = items.get(&table.spec, vec![key]).await;
            assert_invalid(got, "get by an empty key");
        }
        assert_eq!(table.contents().await, vec![]);
        table.drop().await;
    }
}

/// A value that is `levels` deep, including the attribute's own level and the text's.
fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (1..levels).fold("deep".into(), |value, _| wrap(value))
}

/// In lists and in maps. The innermost value counts as a level.
pub(crate) async fn values_nest_32_levels_and_no_deeper(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let in_list = |value| Value::L(vec![value]);
    let in_map = |value| Value::M([("m".to_owned(), value)].into());
    let wraps: [&(dyn Fn(Value) -> Value + Sync); 2] = [&in_list, &in_map];
    for wrap in wraps {
        let deepest = Item::new().with("p", "a");
        let deepest = deepest.with("v", nested(NESTING_MAX, wrap));
        table.put(deepest.clone()).await;
        assert_eq!(table.get(Key::new("a")).await, Some(deepest));
        let deeper = Item::new().with("p", "b");
        let deeper = deeper.with("v", nested(NESTING_MAX + 1, wrap));
        let put = table.put_if(deeper, Condition::Always).await;
        assert_invalid(put, "put of 33 levels");
        assert_eq!(table.get(Key::new("b")).await, None);
    }
    table.drop().await;
}

/// At any depth: sets must have a member, and attributes of maps a name.
pub(crate) async fn empty_sets_and_names_are_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let empty = || Value::Ss(BTreeSet::new());
    let unnamed = || Value::M([(String::new(), 1u64.into())].into());
    for (name, value) in [
        ("v", empty()),
        ("v", Value::Ns(BTreeSet::new())),
        ("v", Value::Bs(BTreeSet::new())),
        ("v", Value::L(vec![empty()])),
        ("v", Value::M([("m".to_owned(), empty())].into())),
        ("", 1u64.into()),
        ("v", unnamed()),
        ("v", Value::L(vec![unnamed()])),
        ("v", Value::M([("m".to_owned(), unnamed())].into())),
    ] {
        let wrong = Item::new().with("p", "a").with(name, value.clone());
        let put = table.put_if(wrong, Condition::Always).await;
        assert_invalid(put, &format!("put with `{name}` = {value:?}"));
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}
