//! What DynamoDB charges for finding nothing.
//!
//! These are DynamoDB's figures, as documented and as measured in a region. DynamoDB Local
//! reports other figures for some of them, so runs against it skip this subject.

use std::sync::Arc;

use super::cost::{by_g, by_l, reads, writes};
use super::scratch::{Scratch, item, sorted};
use annals::items::{Items, Key, KeyType, Projection, Query, Write};

/// As much as a small item, alone or among others.
pub(crate) async fn a_get_of_nothing_costs_a_read(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    table.put(item("a", "1")).await;
    let key = |sort: &str| Key::new("a").sorted(sort);
    for (keys, halves) in [
        (vec![key("2")], 2),
        (vec![key("1"), key("2"), key("3")], 6),
        (vec![key("2"), key("2")], 2),
    ] {
        let got = items.get(&table.spec, keys.clone()).await.expect("get");
        assert_eq!(got.cost, reads(1, halves), "{keys:?}");
    }
    table.drop().await;
}

/// On a table, a local and a global index.
pub(crate) async fn an_empty_page_costs_a_read(items: Arc<dyn Items>) {
    let indexes = [by_l(Projection::All), by_g(Projection::All)];
    let table = Scratch::indexed(&items, sorted(KeyType::S), indexes).await;
    table.put(item("a", "1")).await;
    for (query, halves) in [
        (Query::of("b"), 2),
        (Query::of("b").eventually(), 1),
        (Query::of("a").on("by-l"), 2),
        (Query::of("a").on("by-l").eventually(), 1),
        (Query::of("a").on("by-g"), 1),
    ] {
        let page = table.page(query.clone()).await;
        assert_eq!(page.cost, reads(1, halves), "{query:?}");
    }
    table.drop().await;
}

/// Like a single delete.
pub(crate) async fn a_batch_delete_of_nothing_costs_a_write(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [by_g(Projection::All)]).await;
    let deletes = ["1", "2"].map(|sort| Write::Delete(Key::new("a").sorted(sort)));
    let cost = items.write(&table.spec, deletes.to_vec()).await;
    assert_eq!(cost.expect("write"), writes(1, 2));
    table.drop().await;
}
