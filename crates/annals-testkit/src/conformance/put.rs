//! Puts, with and without conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{Scratch, assert_invalid, assert_refused, item, sorted, unsorted};
use annals::items::{Condition, Item, Items, Key, KeyType, Value};
use annals::{Error, ErrorKind};

fn equals(name: &str, value: impl Into<Value>) -> Condition {
    Condition::Equals(name.to_owned(), value.into())
}

/// Attributes that the new item lacks are gone.
pub(crate) async fn a_put_replaces_the_whole_item(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    table.put(item("a", "1").with("old", 1u64)).await;
    let new = item("a", "1").with("new", 2u64);
    table.put(new.clone()).await;
    assert_eq!(table.contents().await, vec![new]);
    table.drop().await;
}

/// The first put creates the item; the second is refused and gets exactly that item.
pub(crate) async fn absent_lets_one_put_through_and_shows_its_item_to_the_next(
    items: Arc<dyn Items>,
) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let first = item("a", 1u64).with("by", "first");
    let created = table.put_if(first.clone(), Condition::Absent).await;
    created.expect("nothing was there");
    let second = item("a", 1u64).with("by", "second");
    let refused = table.put_if(second, Condition::Absent).await;
    let (existing, _) = assert_refused(refused, "Absent where an item is");
    assert_eq!(existing, Some(first));
    table.drop().await;
}

/// Items that have only the partition key or only the sort key in common do not count.
pub(crate) async fn absent_looks_at_the_whole_key(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    for (partition, sort) in [("a", 1u64), ("a", 2), ("b", 1)] {
        let put = table.put_if(item(partition, sort), Condition::Absent).await;
        put.expect("no item has this key yet");
    }
    assert_eq!(table.contents().await.len(), 3);
    table.drop().await;
}

/// Another value, another type or no attribute: refused, with the stored item.
pub(crate) async fn equals_holds_for_the_same_value_only(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let stored = Item::new().with("p", "a").with("revision", 7u64);
    table.put(stored.clone()).await;
    let new = Item::new().with("p", "a").with("revision", 8u64);
    for condition in [
        equals("revision", 6u64),
        equals("revision", "7"),
        equals("missing", 7u64),
    ] {
        let refused = table.put_if(new.clone(), condition.clone()).await;
        let (existing, _) = assert_refused(refused, &format!("{condition:?}"));
        assert_eq!(existing.as_ref(), Some(&stored), "{condition:?}");
    }
    let put = table.put_if(new.clone(), equals("revision", 7u64)).await;
    put.expect("the revision is 7");
    assert_eq!(table.get(Key::new("a")).await, Some(new));
    table.drop().await;
}

/// Nested values and sets are compared completely.
pub(crate) async fn equals_compares_values_of_every_type(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let nested = Value::M(BTreeMap::from([(
        "list".to_owned(),
        Value::L(vec![1u64.into(), "x".into()]),
    )]));
    let other_nested = Value::M(BTreeMap::from([(
        "list".to_owned(),
        Value::L(vec!["x".into(), 1u64.into()]),
    )]));
    let texts = |some: &[&str]| Value::Ss(some.iter().map(|t| (*t).to_owned()).collect());
    let numbers = |some: &[u64]| Value::Ns(some.iter().map(|n| (*n).into()).collect());
    let cases: [(Value, Value); 7] = [
        ("x".into(), "X".into()),
        (Bytes::from_static(&[0, 255]).into(), vec![0u8, 254].into()),
        (true.into(), false.into()),
        (Value::Null, false.into()),
        (nested, other_nested),
        (texts(&["a", "b"]), texts(&["a", "c"])),
        (numbers(&[1, 20]), numbers(&[1, 2])),
    ];
    for (value, other) in cases {
        let stored = Item::new().with("p", "a").with("v", value.clone());
        table.put(stored.clone()).await;
        let refused = table.put_if(stored.clone(), equals("v", other)).await;
        assert_refused(refused, "another value");
        let put = table.put_if(stored, equals("v", value.clone())).await;
        put.unwrap_or_else(|error| panic!("the value is {value:?}: {error:?}"));
    }
    table.drop().await;
}

/// There is no item to return.
pub(crate) async fn equals_is_refused_where_nothing_is_there(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let new = Item::new().with("p", "a").with("revision", 1u64);
    let refused = table.put_if(new, equals("revision", 1u64)).await;
    let (existing, _) = assert_refused(refused, "Equals where nothing is");
    assert_eq!(existing, None);
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// Neither the stored item nor another.
pub(crate) async fn a_refused_put_changes_nothing(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    let texts: BTreeSet<String> = ["x".to_owned(), "y".to_owned()].into();
    let stored = item("a", "1").with("n", 1u64).with("set", Value::Ss(texts));
    table.put(stored.clone()).await;
    for condition in [Condition::Absent, equals("n", 2u64)] {
        let refused = table
            .put_if(item("a", "1").with("n", 9u64), condition)
            .await;
        let (existing, _) = assert_refused(refused, "the condition does not hold");
        assert_eq!(existing.as_ref(), Some(&stored));
    }
    assert_eq!(table.contents().await, vec![stored]);
    table.drop().await;
}

/// With `?` a caller gets `Conflict`: reload and decide again.
pub(crate) async fn a_refusal_is_a_conflict(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let one = Item::new().with("p", "a");
    table.put(one.clone()).await;
    let put = table.put_if(one, Condition::Absent).await;
    let error: Error = put.expect_err("an item is there").into();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    table.drop().await;
}

/// Without the partition key or without the sort key.
pub(crate) async fn an_item_without_its_key_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    for half in [
        Item::new(),
        Item::new().with("p", "a"),
        Item::new().with("s", "1"),
    ] {
        let put = table.put_if(half.clone(), Condition::Always).await;
        assert_invalid(put, &format!("put of {half:?}"));
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// Also a type that no key can have.
pub(crate) async fn a_key_attribute_of_another_type_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    for sort in ["1".into(), Value::Null, true.into(), Value::L(vec![])] {
        let put = table.put_if(item("a", sort), Condition::Always).await;
        assert_invalid(put, "put with a sort key that is no number");
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// Such as an empty set: the request is invalid, so the condition is not evaluated.
pub(crate) async fn a_condition_on_what_no_attribute_can_be_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let stored = Item::new().with("p", "a");
    table.put(stored.clone()).await;
    let unnamed = Value::M([(String::new(), "x".into())].into());
    for condition in [
        equals("v", Value::Ss(BTreeSet::new())),
        equals("v", unnamed),
        equals("", "x"),
    ] {
        let put = table.put_if(stored.clone(), condition.clone()).await;
        assert_invalid(put, "a put on such a condition");
        let deleted = items.delete(&table.spec, Key::new("a"), condition).await;
        assert_invalid(deleted, "a delete on such a condition");
    }
    assert_eq!(table.contents().await, vec![stored]);
    table.drop().await;
}
