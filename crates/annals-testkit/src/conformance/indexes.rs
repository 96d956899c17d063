//! Local and global indexes: their content, order and consistency.
//!
//! A global index lags, so reads of one are repeated until it has caught up. Among equal sort keys
//! a global index has no order, so none is asserted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::scratch::{
    Scratch, assert_invalid, assert_once_each, column, index_name, item, sorted, texts,
};
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, KeyType, Projection, Query,
    SortRange, TableSpec, Value, Write,
};

/// Same partitions, ordered by the number `l`.
fn local(projection: Projection) -> IndexSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("l"));
    IndexSpec::local(index_name("local"), key).projecting(projection)
}

/// Partitions by the text `g`, ordered by the number `h`.
fn global(projection: Projection) -> IndexSpec {
    let key = KeySchema::new(KeyAttribute::text("g")).sorted(KeyAttribute::number("h"));
    IndexSpec::global(index_name("global"), key).projecting(projection)
}

async fn both(items: &Arc<dyn Items>, projection: Projection) -> Scratch {
    let indexes = [local(projection.clone()), global(projection)];
    Scratch::indexed(items, sorted(KeyType::S), indexes).await
}

fn on_local(partition: &str) -> Query {
    Query::of(partition).on("local")
}

fn on_global(partition: &str) -> Query {
    Query::of(partition).on("global")
}

/// The table sort keys of the items in a global index, once it has as many as `want`.
async fn settled_sorts(table: &Scratch, query: &Query, want: &[&str]) -> Vec<String> {
    let mut want = want.to_vec();
    want.sort_unstable();
    let sorts = |items: &[Item]| {
        let mut sorts = texts(items, "s");
        sorts.sort_unstable();
        sorts
    };
    let items = table.settled(query, |items| sorts(items) == want).await;
    texts(&items, "s")
}

/// An item without it, or with half of it, is only in the table.
pub(crate) async fn an_index_holds_only_items_that_have_its_key(items: Arc<dyn Items>) {
    let table = both(&items, Projection::All).await;
    let full = |sort| item("a", sort).with("l", 1u64).with("g", "x");
    table.put(full("1").with("h", 1u64)).await;
    table.put(item("a", "2")).await;
    table.put(item("a", "3").with("g", "x")).await;
    table.put(item("a", "4").with("h", 1u64)).await;
    table.put(full("5").with("h", 2u64)).await;
    let seen = table.all(on_local("a")).await;
    assert_eq!(BTreeSet::from_iter(texts(&seen, "s")).len(), 2, "{seen:?}");
    let seen = settled_sorts(&table, &on_global("x"), &["1", "5"]).await;
    assert_eq!(seen, ["1", "5"]);
    assert_eq!(table.contents().await.len(), 5);
    table.drop().await;
}

/// The keys of the index and of the table, and the requested attributes.
pub(crate) async fn projections_carry_what_they_say(items: Arc<dyn Items>) {
    let some = Projection::Include(vec!["one".to_owned()]);
    let keys = item("a", "1")
        .with("l", 1u64)
        .with("g", "x")
        .with("h", 1u64);
    let stored = keys.clone().with("one", "1").with("two", "2");
    for projection in [Projection::All, Projection::KeysOnly, some] {
        let table = both(&items, projection.clone()).await;
        table.put(stored.clone()).await;
        let carried = |names: &[&str]| -> Item {
            let attributes = stored.clone().into_iter();
            let names: Vec<&str> = match &projection {
                Projection::All => return stored.clone(),
                Projection::KeysOnly => names.to_vec(),
                Projection::Include(_) => names.iter().copied().chain(["one"]).collect(),
            };
            attributes
                .filter(|(name, _)| names.contains(&name.as_str()))
                .collect()
        };
        let seen = table.all(on_local("a")).await;
        assert_eq!(seen, vec![carried(&["p", "s", "l"])], "{projection:?}");
        let query = on_global("x");
        let seen = table.settled(&query, |items| items.len() == 1).await;
        assert_eq!(seen, vec![carried(&["p", "s", "g", "h"])], "{projection:?}");
        table.drop().await;
    }
}

/// Into another partition of a global index, and to another position in a local one.
pub(crate) async fn an_item_moves_within_its_indexes(items: Arc<dyn Items>) {
    let table = both(&items, Projection::All).await;
    let at = |l: u64, g: &str| item("a", "1").with("l", l).with("g", g).with("h", l);
    table.put(at(1, "x")).await;
    table.put(at(2, "y")).await;
    assert_eq!(table.all(on_local("a")).await, vec![at(2, "y")]);
    let gone = table.settled(&on_global("x"), <[Item]>::is_empty).await;
    assert_eq!(gone, vec![]);
    let there = on_global("y");
    let moved = table.settled(&there, |items| !items.is_empty()).await;
    assert_eq!(moved, vec![at(2, "y")]);

    // Without the key it leaves the index and stays in the table.
    table.put(item("a", "1")).await;
    assert_eq!(table.all(on_local("a")).await, vec![]);
    let gone = table.settled(&on_global("y"), <[Item]>::is_empty).await;
    assert_eq!(gone, vec![]);
    assert_eq!(table.contents().await, vec![item("a", "1")]);
    table.drop().await;
}

/// By `delete` and by `write`.
pub(crate) async fn a_deleted_item_leaves_its_indexes(items: Arc<dyn Items>) {
    let table = both(&items, Projection::KeysOnly).await;
    for (sort, l) in [("1", 1u64), ("2", 2), ("3", 3)] {
        let stored = item("a", sort).with("l", l).with("g", "x").with("h", l);
        table.put(stored).await;
    }
    table.delete(Key::new("a").sorted("1")).await;
    let batch = vec![Write::Delete(Key::new("a").sorted("2"))];
    items.write(&table.spec, batch).await.expect("write");
    assert_eq!(texts(&table.all(on_local("a")).await, "s"), ["3"]);
    assert_eq!(settled_sorts(&table, &on_global("x"), &["3"]).await, ["3"]);
    table.drop().await;
}

/// Every time.
pub(crate) async fn a_local_index_is_strongly_consistent(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [local(Projection::All)]).await;
    for n in 1..=10u64 {
        table.put(item("a", format!("{n:02}")).with("l", n)).await;
        let newest = table.page(on_local("a").descending().limit(1)).await;
        assert_eq!(column(&newest.items, "l"), [n].map(Value::from));
    }
    table.drop().await;
}

/// With ranges and in both directions.
pub(crate) async fn a_local_index_orders_by_its_own_key(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [local(Projection::All)]).await;
    for (sort, l) in [("1", 30u64), ("2", 4), ("3", 200)] {
        table.put(item("a", sort).with("l", l)).await;
        table.put(item("b", sort).with("l", l)).await;
    }
    assert_eq!(texts(&table.all(on_local("a")).await, "s"), ["2", "1", "3"]);
    let back = table.all(on_local("a").descending()).await;
    assert_eq!(texts(&back, "s"), ["3", "1", "2"]);
    let some = on_local("a").within(SortRange::AtLeast(30u64.into()));
    assert_eq!(texts(&table.all(some).await, "s"), ["1", "3"]);
    table.drop().await;
}

/// Across the partitions of the table, with ranges and in both directions.
pub(crate) async fn a_global_index_orders_by_its_own_key(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [global(Projection::All)]).await;
    for (partition, sort, h) in [("a", "1", 30u64), ("b", "2", 4), ("c", "3", 200)] {
        let stored = item(partition, sort).with("g", "x").with("h", h);
        table.put(stored).await;
    }
    let seen = settled_sorts(&table, &on_global("x"), &["1", "2", "3"]).await;
    assert_eq!(seen, ["2", "1", "3"]);
    let back = on_global("x").descending();
    let seen = settled_sorts(&table, &back, &["1", "2", "3"]).await;
    assert_eq!(seen, ["3", "1", "2"]);
    let some = on_global("x").within(SortRange::Below(200u64.into()));
    let seen = settled_sorts(&table, &some, &["1", "2"]).await;
    assert_eq!(seen, ["2", "1"]);
    table.drop().await;
}

/// In no guaranteed order, each once.
pub(crate) async fn a_global_index_without_sort_key_groups_items(items: Arc<dyn Items>) {
    let key = KeySchema::new(KeyAttribute::text("g"));
    let index = IndexSpec::global(index_name("global"), key);
    let table = Scratch::indexed(&items, sorted(KeyType::S), [index]).await;
    let want: BTreeSet<String> = (0..8).map(|n: u32| n.to_string()).collect();
    for sort in &want {
        table.put(item("a", sort.as_str()).with("g", "x")).await;
    }
    table.put(item("a", "other").with("g", "y")).await;
    let query = on_global("x");
    table.settled(&query, |items| items.len() == 8).await;
    for limit in [1, 3, 8] {
        let seen = table.all(query.clone().limit(limit)).await;
        assert_once_each(&texts(&seen, "s"), &want);
    }
    table.drop().await;
}

/// Page by page, in both directions, although several items have the cursor's index key.
pub(crate) async fn equal_index_keys_are_walked_once_each(items: Arc<dyn Items>) {
    let table = both(&items, Projection::All).await;
    let mut want = BTreeSet::new();
    let mut puts = Vec::new();
    for n in 0..9u64 {
        let sort = format!("{n}");
        let stored = item("a", sort.as_str()).with("l", n / 4);
        puts.push(Write::Put(stored.with("g", "x").with("h", n / 4)));
        want.insert(sort);
    }
    items.write(&table.spec, puts).await.expect("write");
    let global = on_global("x");
    table.settled(&global, |items| items.len() == 9).await;
    for query in [on_local("a"), global] {
        for query in [query.clone(), query.descending()] {
            for limit in [1, 2, 4] {
                let seen = table.all(query.clone().limit(limit)).await;
                assert_once_each(&texts(&seen, "s"), &want);
            }
        }
    }
    table.drop().await;
}

/// Nor the reverse: it has unknown attributes, or lacks some.
pub(crate) async fn a_cursor_of_an_index_does_not_fit_the_table(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), [local(Projection::All)]).await;
    for (sort, l) in [("1", 1u64), ("2", 2)] {
        table.put(item("a", sort).with("l", l)).await;
    }
    let queries = [Query::of("a"), on_local("a")];
    for (query, other) in queries.iter().zip(queries.iter().rev()) {
        let page = table.page(query.clone().limit(1)).await;
        let cursor = page.next.expect("there is one more");
        let strayed = items.query(&table.spec, other.clone().after(cursor));
        assert_invalid(strayed.await, "a cursor of the other");
    }
    table.drop().await;
}

/// Of another type, or empty: the table refuses the item even if the table's own key is valid.
pub(crate) async fn a_wrong_index_key_is_invalid_and_nothing_is_written(items: Arc<dyn Items>) {
    let table = both(&items, Projection::All).await;
    for (name, value) in [
        ("l", Value::from("text")),
        ("g", 1u64.into()),
        ("h", Value::Null),
        ("g", "".into()),
    ] {
        let wrong = item("a", "1").with(name, value.clone());
        let put = table.put_if(wrong.clone(), Condition::Always).await;
        assert_invalid(put, &format!("put with {name} = {value:?}"));
        let batch = vec![Write::Put(item("a", "2")), Write::Put(wrong)];
        let written = items.write(&table.spec, batch).await;
        assert_invalid(written, &format!("write with {name} = {value:?}"));
    }
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// Even if the caller's spec omits the index, its key is checked, and stored items stay.
pub(crate) async fn an_index_the_caller_does_not_name_guards_its_key(items: Arc<dyn Items>) {
    let table = both(&items, Projection::All).await;
    let spec = TableSpec::new(table.spec.name().clone(), sorted(KeyType::S)).expect("a table");
    let kept = item("a", "1").with("l", 1u64);
    let put = items.put(&spec, kept.clone(), Condition::Always).await;
    put.expect("put");
    assert_eq!(table.all(on_local("a")).await, vec![kept.clone()]);

    // The second item is valid for one index, which must not keep it: the other refuses it.
    let first = item("a", "1").with("l", "text");
    let second = item("a", "1").with("l", 2u64).with("g", 1u64);
    for wrong in [first, second] {
        let put = items.put(&spec, wrong.clone(), Condition::Always).await;
        assert_invalid(put, "put with a wrong key of an index not named");
        let batch = vec![Write::Put(item("a", "2")), Write::Put(wrong)];
        let written = items.write(&spec, batch).await;
        assert_invalid(written, "write with a wrong key of an index not named");
    }
    assert_eq!(
        table.get(Key::new("a").sorted("1")).await,
        Some(kept.clone())
    );
    // Queried by its key, so that an entry under another key is not mistaken for it.
    let there = on_local("a").within(SortRange::Equal(1u64.into()));
    assert_eq!(table.all(there).await, vec![kept]);
    table.drop().await;
}
