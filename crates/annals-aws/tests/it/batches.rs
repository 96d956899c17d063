//! Batch get and batch write of any size, on a server.

use annals::items::{Condition, Item, Items, Key, Query, Write, query_all};
use futures::TryStreamExt;

use crate::server::{events, with_table};

fn event(n: u64) -> Item {
    Item::new().with("p", "cart-1").with("n", n)
}

fn key(n: u64) -> Key {
    Key::new("cart-1").sorted(n)
}

#[tokio::test]
async fn a_batch_get_keeps_the_order_of_its_keys() {
    with_table(events(), async |store, table| {
        let writes = (0..250).step_by(2).map(|n| Write::Put(event(n))).collect();
        store.write(&table, writes).await.unwrap();
        // Descending, with a repeated key and half of them absent.
        let mut keys: Vec<Key> = (0..250).rev().map(key).collect();
        keys.extend([key(4), key(5), key(4)]);
        let got = store.get(&table, keys).await.unwrap();
        let want = (0..250).rev().chain([4, 5, 4]);
        let want: Vec<_> = want.map(|n| (n % 2 == 0).then(|| event(n))).collect();
        assert_eq!(got.items, want);
        assert_eq!(got.cost.requests, 3);

        assert_eq!(store.get(&table, vec![]).await.unwrap().items, []);
        let twice = store.get(&table, vec![key(2), key(2)]).await.unwrap();
        assert_eq!(twice.items, [Some(event(2)), Some(event(2))]);
        assert_eq!(twice.cost.requests, 1);
    })
    .await;
}

#[tokio::test]
async fn a_batch_write_puts_and_deletes() {
    with_table(events(), async |store, table| {
        let puts: Vec<Write> = (0..60).map(|n| Write::Put(event(n))).collect();
        let cost = store.write(&table, puts).await.unwrap();
        assert_eq!((cost.requests, cost.write_units), (3, 60));
        let mut writes: Vec<Write> = (0..30).map(|n| Write::Delete(key(n))).collect();
        writes.push(Write::Put(event(30).with("x", "new")));
        store.write(&table, writes).await.unwrap();
        let left = query_all(store.clone(), table.clone(), Query::of("cart-1"));
        let left = left.try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(left.len(), 30);
        assert_eq!(left[0], event(30).with("x", "new"));
        assert_eq!(
            store.write(&table, vec![]).await.unwrap(),
            Default::default()
        );
    })
    .await;
}

#[tokio::test]
async fn large_items_are_split_into_several_requests() {
    with_table(events(), async |store, table| {
        // 45 items of 390 KB exceed one response, so DynamoDB leaves keys unprocessed.
        let large = |n: u64| event(n).with("d", vec![n as u8; 390 * 1024]);
        let puts = (0..45).map(|n| Write::Put(large(n))).collect();
        store.write(&table, puts).await.unwrap();
        let got = store.get(&table, (0..45).map(key).collect()).await.unwrap();
        for (n, item) in (0..45).zip(got.items) {
            assert_eq!(item, Some(large(n)));
        }
        assert!(got.cost.requests > 1);
    })
    .await;
}

#[tokio::test]
async fn refuses_a_batch_with_a_repeated_key() {
    with_table(events(), async |store, table| {
        let writes = vec![Write::Put(event(1)), Write::Delete(key(1))];
        let error = store.write(&table, writes.clone()).await.unwrap_err();
        assert_eq!(error.remaining, writes);
        assert_eq!(error.cost, Default::default());
        let put = store.put(&table, event(1), Condition::Absent).await;
        assert!(put.is_ok());
    })
    .await;
}
