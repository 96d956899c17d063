//! Gets of none, one and many keys.

use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{Scratch, assert_invalid, item, sorted, unsorted};
use annals::items::{Cost, Got, Item, Items, Key, KeyPart, KeyType, Write};

/// And cost nothing: no request is sent, so the table may even be missing.
pub(crate) async fn no_keys_bring_nothing(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let spec = table.spec.clone();
    assert_eq!(items.get(&spec, vec![]).await.expect("get"), Got::default());
    table.drop().await;
    assert_eq!(items.get(&spec, vec![]).await.expect("get"), Got::default());
    assert_eq!(items.write(&spec, vec![]).await.expect("write"), Cost::ZERO);
}

/// The whole item.
pub(crate) async fn a_key_brings_its_item_or_nothing(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let written = item("a", 1u64).with("v", "x");
    table.put(written.clone()).await;
    assert_eq!(table.get(Key::new("a").sorted(1u64)).await, Some(written));
    assert_eq!(table.get(Key::new("a").sorted(2u64)).await, None);
    assert_eq!(table.get(Key::new("b").sorted(1u64)).await, None);
    table.drop().await;
}

/// 250 keys, a fifth of them missing and some given twice.
pub(crate) async fn many_keys_are_answered_in_their_order(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let stored = |n: u64| item(&format!("p{}", n % 7), n).with("v", n * n);
    let key = |n: u64| Key::new(format!("p{}", n % 7)).sorted(n);
    let is_there = |n: u64| !n.is_multiple_of(5);
    let puts = (0..200).filter(|n| is_there(*n));
    let puts = puts.map(|n| Write::Put(stored(n))).collect();
    items.write(&table.spec, puts).await.expect("write");

    // 37 and 200 have no common factor: every number occurs, the first fifty twice.
    let asked: Vec<u64> = (0..250).map(|i| i * 37 % 200).collect();
    let keys = asked.iter().map(|n| key(*n)).collect();
    let got = items.get(&table.spec, keys).await.expect("get");
    let want: Vec<Option<Item>> = asked
        .iter()
        .map(|n| is_there(*n).then(|| stored(*n)))
        .collect();
    assert_eq!(got.items, want);
    table.drop().await;
}

/// Every time.
pub(crate) async fn a_get_sees_what_was_just_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    for n in 0..20u64 {
        let written = Item::new().with("p", "a").with("n", n);
        table.put(written.clone()).await;
        assert_eq!(table.get(Key::new("a")).await, Some(written));
    }
    table.delete(Key::new("a")).await;
    assert_eq!(table.get(Key::new("a")).await, None);
    table.drop().await;
}

/// An attribute is missing, extra or of another type, even in the last of many keys.
pub(crate) async fn a_key_that_does_not_fit_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let fitting = Key::new("a").sorted(1u64);
    for key in [
        Key::new("a"),
        Key::new("a").sorted("1"),
        Key::new("a").sorted(KeyPart::B(Bytes::from_static(b"1"))),
        Key::new(1u64).sorted(1u64),
    ] {
        let keys = vec![fitting.clone(), key.clone()];
        let got = items.get(&table.spec, keys).await;
        assert_invalid(got, &format!("get of {key:?}"));
    }
    table.drop().await;
    let table = Scratch::new(&items, unsorted()).await;
    let got = items.get(&table.spec, vec![fitting]).await;
    assert_invalid(got, "get with a sort key where the table has none");
    table.drop().await;
}
