//! Batches of puts and deletes.

use std::sync::Arc;

use super::scratch::{Scratch, assert_once_each, item, sorted, texts, unsorted};
use annals::ErrorKind;
use annals::items::{BatchError, Cost, Item, Items, Key, KeyType, Write};

fn numbered(n: usize) -> Item {
    Item::new().with("p", format!("{n:03}"))
}

fn puts(count: usize) -> Vec<Write> {
    (0..count).map(|n| Write::Put(numbered(n))).collect()
}

#[track_caller]
fn assert_batch_invalid(result: Result<Cost, BatchError>, batch: &[Write]) {
    let error = result.expect_err("the batch must be refused");
    assert_eq!(error.cause.kind(), ErrorKind::Invalid, "{error:?}");
    assert_eq!(error.remaining, batch, "all of the batch remains");
}

/// And costs nothing.
pub(crate) async fn nothing_to_write_is_fine(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let cost = items.write(&table.spec, vec![]).await.expect("write");
    assert_eq!(cost, Cost::ZERO);
    table.drop().await;
}

/// It overwrites unconditionally.
pub(crate) async fn one_write_is_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    table.put(numbered(0).with("old", 1u64)).await;
    items.write(&table.spec, puts(1)).await.expect("write");
    assert_eq!(table.contents().await, vec![numbered(0)]);
    table.drop().await;
}

/// 60 writes take more than two requests.
pub(crate) async fn many_writes_are_all_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    items.write(&table.spec, puts(60)).await.expect("write");
    let want = (0..60).map(|n| format!("{n:03}")).collect();
    assert_once_each(&texts(&table.contents().await, "p"), &want);
    table.drop().await;
}

/// Deletes of existing and missing items, puts of existing and new ones.
pub(crate) async fn puts_and_deletes_mix(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    items.write(&table.spec, puts(40)).await.expect("write");
    let mixed = (0..60).map(|n| match n % 3 {
        0 => Write::Delete(Key::new(format!("{n:03}"))),
        _ => Write::Put(numbered(n).with("again", true)),
    });
    let written = items.write(&table.spec, mixed.collect()).await;
    written.expect("write");
    let contents = table.contents().await;
    let want = (0..60).filter(|n| n % 3 != 0).map(|n| format!("{n:03}"));
    assert_once_each(&texts(&contents, "p"), &want.collect());
    let is_new = |item: &Item| item.get("again").is_some();
    assert!(contents.iter().all(is_new), "{contents:?}");
    table.drop().await;
}

/// A batch has no order that could decide.
pub(crate) async fn one_key_twice_is_invalid_and_nothing_is_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    let key = || Key::new("a").sorted("1");
    let put = || Write::Put(item("a", "1"));
    let other = || Write::Put(item("a", "2"));
    let far_apart = || {
        let between = (10..60).map(|n| Write::Put(item("a", n.to_string())));
        [put()].into_iter().chain(between).chain([put()]).collect()
    };
    for batch in [
        vec![other(), put(), put()],
        vec![put(), Write::Delete(key()), other()],
        vec![other(), Write::Delete(key()), Write::Delete(key())],
        far_apart(),
    ] {
        let result = items.write(&table.spec, batch.clone()).await;
        assert_batch_invalid(result, &batch);
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// At any position, even after the first request.
pub(crate) async fn an_invalid_item_among_valid_ones_keeps_all_from_being_written(
    items: Arc<dyn Items>,
) {
    let table = Scratch::new(&items, unsorted()).await;
    let wrong_type = || Write::Put(Item::new().with("p", 1u64));
    let empty_key = || Write::Delete(Key::new(""));
    let mut first = puts(5);
    first.insert(0, wrong_type());
    let mut last = puts(30);
    last.push(empty_key());
    for batch in [first, last] {
        let result = items.write(&table.spec, batch.clone()).await;
        assert_batch_invalid(result, &batch);
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}
