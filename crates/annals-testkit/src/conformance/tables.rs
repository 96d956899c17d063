//! Creating, describing and dropping tables, and calls to missing ones.

use std::sync::Arc;

use super::scratch::{Scratch, assert_invalid, index_name, item, sorted, unsorted, unused_name};
use annals::ErrorKind;
use annals::items::{
    Billing, Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, KeyType, Projection,
    Query, Scan, TableSpec, Write,
};

fn wide_indexes() -> Vec<IndexSpec> {
    let local = |name, sort| {
        let key = KeySchema::new(KeyAttribute::text("p")).sorted(sort);
        IndexSpec::local(index_name(name), key)
    };
    let global = |name, key| IndexSpec::global(index_name(name), key);
    let some = || Projection::Include(vec!["one".to_owned(), "two".to_owned()]);
    let by_number = KeySchema::new(KeyAttribute::number("n"));
    let by_bytes = KeySchema::new(KeyAttribute::new("b", KeyType::B));
    vec![
        local("local-all", KeyAttribute::text("t")),
        local("local-keys", KeyAttribute::number("n")).projecting(Projection::KeysOnly),
        local("local-some", KeyAttribute::new("b", KeyType::B)).projecting(some()),
        global("global-all", by_number.clone()),
        global("global-keys", by_number.sorted(KeyAttribute::text("t")))
            .projecting(Projection::KeysOnly),
        global("global-some", by_bytes.sorted(KeyAttribute::number("n"))).projecting(some()),
    ]
}

async fn assert_described(items: &Arc<dyn Items>, spec: &TableSpec) {
    let found = items.describe_table(spec.name()).await;
    let found = found.expect("describe_table").expect("a table");
    // Indexes and projected names are in any order, so equality would be too strict.
    assert_eq!(found.name(), spec.name());
    assert_eq!(spec.differences(&found), Vec::<String>::new());
    assert_eq!(found.differences(spec), Vec::<String>::new());
}

/// The key, the indexes of both scopes and all projections.
pub(crate) async fn a_table_is_described_as_it_was_created(items: Arc<dyn Items>) {
    let table = Scratch::indexed(&items, sorted(KeyType::S), wide_indexes()).await;
    assert_described(&items, &table.spec).await;
    table.drop().await;
}

/// Without a sort key, and with provisioned capacity.
pub(crate) async fn a_table_of_one_key_attribute_is_described_as_it_was_created(
    items: Arc<dyn Items>,
) {
    let key = KeySchema::new(KeyAttribute::new("id", KeyType::B));
    let spec = TableSpec::new(unused_name(), key).expect("a table");
    let reserved = Billing::Provisioned {
        read_units: 5,
        write_units: 5,
    };
    items.create_table(&spec, reserved).await.expect("create");
    assert_described(&items, &spec).await;
    assert!(items.drop_table(spec.name()).await.expect("drop_table"));
}

/// A missing table is not an error.
pub(crate) async fn a_name_without_a_table_is_described_as_none(items: Arc<dyn Items>) {
    let found = items.describe_table(&unused_name()).await;
    assert_eq!(found.expect("describe_table"), None);
}

/// A second `create_table` neither replaces nor empties the first.
pub(crate) async fn creating_a_table_twice_is_a_conflict_and_keeps_its_items(
    items: Arc<dyn Items>,
) {
    let table = Scratch::new(&items, unsorted()).await;
    let kept = Item::new().with("p", "kept");
    table.put(kept.clone()).await;
    let again = items.create_table(&table.spec, Billing::OnDemand).await;
    let error = again.expect_err("a table of that name is there");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(table.get(Key::new("kept")).await, Some(kept));
    table.drop().await;
}

/// `true` if there was one, `false` the next time, never an error.
pub(crate) async fn dropping_answers_whether_there_was_a_table(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let name = table.spec.name().clone();
    assert!(items.drop_table(&name).await.expect("drop_table"));
    assert!(!items.drop_table(&name).await.expect("drop_table again"));
    let found = items.describe_table(&name).await.expect("describe_table");
    assert_eq!(found, None);
}

/// Dropping a table deletes its items.
pub(crate) async fn a_table_made_again_is_empty(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    table.put(Item::new().with("p", "gone")).await;
    let dropped = items.drop_table(table.spec.name()).await;
    assert!(dropped.expect("drop_table"));
    let created = items.create_table(&table.spec, Billing::OnDemand).await;
    created.expect("create_table again");
    assert_eq!(table.get(Key::new("gone")).await, None);
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}

/// All six verbs. The error names the table and the request.
pub(crate) async fn every_verb_on_a_missing_table_is_invalid_and_names_it(items: Arc<dyn Items>) {
    let spec = TableSpec::new(unused_name(), sorted(KeyType::S)).expect("a table");
    let key = || Key::new("a").sorted("b");
    let one = || item("a", "b");
    let batch = vec![Write::Put(one()), Write::Delete(Key::new("c").sorted("d"))];

    let got = items.get(&spec, vec![key()]).await;
    let put = items.put(&spec, one(), Condition::Always).await;
    let deleted = items.delete(&spec, key(), Condition::Always).await;
    let written = items.write(&spec, batch.clone()).await;
    if let Err(error) = &written {
        assert_eq!(error.remaining, batch, "all of the batch remains");
    }
    let queried = items.query(&spec, Query::of("a")).await;
    let scanned = items.scan(&spec, Scan::whole()).await;

    let errors = [
        ("get", assert_invalid(got, "get")),
        ("put", assert_invalid(put, "put")),
        ("delete", assert_invalid(deleted, "delete")),
        ("write", assert_invalid(written, "write")),
        ("query", assert_invalid(queried, "query")),
        ("scan", assert_invalid(scanned, "scan")),
    ];
    for (verb, error) in errors {
        let chain = format!("{error:?}");
        assert!(chain.contains(spec.name().as_str()), "{chain}");
        assert!(chain.contains(&format!("request=`{verb}`")), "{chain}");
    }
}

/// The table determines the type of its key, not the caller.
pub(crate) async fn a_spec_of_another_key_type_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    let other = TableSpec::new(table.spec.name().clone(), sorted(KeyType::N)).expect("a table");
    let put = items.put(&other, item("a", 1u64), Condition::Always).await;
    assert_invalid(put, "put of a number where the table has text");
    let got = items.get(&other, vec![Key::new("a").sorted(1u64)]).await;
    assert_invalid(got, "get by a number where the table has text");
    assert_eq!(table.contents().await, vec![]);
    table.drop().await;
}
