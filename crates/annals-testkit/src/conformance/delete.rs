//! Deletes, with and without conditions.

use std::sync::Arc;

use super::scratch::{Scratch, assert_invalid, assert_refused, item, sorted, unsorted};
use annals::items::{Condition, Item, Items, Key, KeyType};

/// Its neighbours stay.
pub(crate) async fn a_delete_removes_that_item_alone(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    for sort in 1..=3u64 {
        table.put(item("a", sort)).await;
    }
    table.delete(Key::new("a").sorted(2u64)).await;
    assert_eq!(table.get(Key::new("a").sorted(2u64)).await, None);
    assert_eq!(table.contents().await.len(), 2);
    table.drop().await;
}

/// In an empty table, and when it is repeated.
pub(crate) async fn deleting_nothing_is_fine(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    table.delete(Key::new("a")).await;
    table.put(Item::new().with("p", "a")).await;
    table.delete(Key::new("a")).await;
    table.delete(Key::new("a")).await;
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// And the item stays.
pub(crate) async fn a_conditional_delete_is_refused_with_what_is_there(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let stored = Item::new().with("p", "a").with("n", 1u64);
    table.put(stored.clone()).await;
    for condition in [
        Condition::Absent,
        Condition::Equals("n".to_owned(), 2u64.into()),
        Condition::Equals("m".to_owned(), 1u64.into()),
    ] {
        let refused = table.delete_if(Key::new("a"), condition.clone()).await;
        let (existing, _) = assert_refused(refused, &format!("{condition:?}"));
        assert_eq!(existing.as_ref(), Some(&stored), "{condition:?}");
    }
    assert_eq!(table.contents().await, vec![stored]);
    let condition = Condition::Equals("n".to_owned(), 1u64.into());
    let refused = table.delete_if(Key::new("b"), condition).await;
    let (existing, _) = assert_refused(refused, "Equals where nothing is");
    assert_eq!(existing, None);
    table.drop().await;
}

/// `Equals` with the stored value; `Absent` without an item.
pub(crate) async fn a_conditional_delete_goes_through_where_its_condition_holds(
    items: Arc<dyn Items>,
) {
    let table = Scratch::new(&items, unsorted()).await;
    table.put(Item::new().with("p", "a").with("n", 1u64)).await;
    let condition = Condition::Equals("n".to_owned(), 1u64.into());
    let deleted = table.delete_if(Key::new("a"), condition).await;
    deleted.expect("n is 1");
    assert_eq!(table.get(Key::new("a")).await, None);
    let deleted = table.delete_if(Key::new("a"), Condition::Absent).await;
    deleted.expect("nothing is there");
    table.drop().await;
}

/// `Absent` holds for a deleted item.
pub(crate) async fn a_deleted_item_can_be_created_again(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    for round in 0..3u64 {
        let new = item("a", "1").with("round", round);
        let created = table.put_if(new.clone(), Condition::Absent).await;
        created.expect("nothing is there");
        assert_eq!(table.get(Key::new("a").sorted("1")).await, Some(new));
        table.delete(Key::new("a").sorted("1")).await;
    }
    table.drop().await;
}

/// No delete removes a whole partition.
pub(crate) async fn a_delete_by_half_a_key_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    table.put(item("a", "1")).await;
    let deleted = table.delete_if(Key::new("a"), Condition::Always).await;
    assert_invalid(deleted, "delete without the sort key");
    assert_eq!(table.contents().await.len(), 1);
    table.drop().await;
}
