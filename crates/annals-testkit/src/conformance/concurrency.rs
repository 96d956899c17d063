//! Concurrent writers.

use std::sync::Arc;

use super::scratch::{Scratch, assert_refused, item, sorted, unsorted};
use annals::items::{Condition, Item, Items, Key, KeyType, Value, WriteError};

/// Twenty tasks, one key: one put succeeds, and all others get its item.
pub(crate) async fn one_of_many_creators_wins_and_the_others_are_shown_it(items: Arc<dyn Items>) {
    let table = Arc::new(Scratch::new(&items, sorted(KeyType::N)).await);
    let offered = |n: u64| item("a", 1u64).with("by", n);
    let racers = (0..20u64).map(|n| {
        let table = table.clone();
        tokio::spawn(async move {
            let put = table.put_if(offered(n), Condition::Absent).await;
            (n, put)
        })
    });
    let (mut winners, mut losers) = (Vec::new(), Vec::new());
    for racer in futures::future::join_all(racers).await {
        match racer.expect("a racer") {
            (n, Ok(_)) => winners.push(n),
            (_, refused) => losers.push(assert_refused(refused, "a loser").0),
        }
    }
    let [winner] = winners[..] else {
        panic!("exactly one put must succeed, not {winners:?}");
    };
    let stored = table.get(Key::new("a").sorted(1u64)).await;
    assert_eq!(stored, Some(offered(winner)));
    assert_eq!(losers, vec![Some(offered(winner)); 19]);
    drop_shared(table).await;
}

async fn drop_shared(table: Arc<Scratch>) {
    let table = Arc::into_inner(table).expect("every task has ended");
    table.drop().await;
}

/// Adds one to the counter; retries after concurrent updates.
async fn increment(table: &Scratch, mut seen: u64) -> u64 {
    // Every refusal means that another increment succeeded, and there are forty in all.
    for _ in 0..=40 {
        let next = Item::new().with("p", "counter").with("n", seen + 1);
        let condition = Condition::Equals("n".to_owned(), seen.into());
        match table.put_if(next, condition).await {
            Ok(_) => return seen + 1,
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.expect("the counter is there");
                let n = existing.get("n").and_then(Value::as_u64);
                seen = n.expect("the counter is a number");
            }
            Err(error) => panic!("put: {error:?}"),
        }
    }
    panic!("more refusals than increments");
}

/// Four tasks, ten increments each, based on the item that a refusal returns.
pub(crate) async fn a_counter_loses_no_increment(items: Arc<dyn Items>) {
    let table = Arc::new(Scratch::new(&items, unsorted()).await);
    table
        .put(Item::new().with("p", "counter").with("n", 0u64))
        .await;
    let tasks = (0..4).map(|_| {
        let table = table.clone();
        tokio::spawn(async move {
            let mut seen = 0;
            for _ in 0..10 {
                seen = increment(&table, seen).await;
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.expect("a task");
    }
    let counter = table.get(Key::new("counter")).await;
    let want = Item::new().with("p", "counter").with("n", 40u64);
    assert_eq!(counter, Some(want));
    drop_shared(table).await;
}
