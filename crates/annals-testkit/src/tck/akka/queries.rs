//! Persistence ids, with and without the plugin's index.

use std::collections::BTreeSet;

use futures::TryStreamExt;

use super::stage::{Stage, text};
use crate::tck::Setup;
use annals::items::{Condition, IndexSpec, Key, KeyAttribute, KeySchema, Projection};
use annals::journal::Expected;
use annals::{NewEvent, PersistenceId, SequenceNumber};
use annals_jvm::AnyLayout;

/// Recreates the journal's table with the plugin's index: over numbers, or over numbers and
/// partitions.
async fn index(setup: &Setup, is_sorted: bool) {
    let key = KeySchema::new(KeyAttribute::number("num"));
    let key = match is_sorted {
        true => key.sorted(KeyAttribute::text("par")),
        false => key,
    };
    let name = AnyLayout::default().persistence_ids_index_name.parse();
    let index = IndexSpec::global(name.expect("a name"), key).projecting(Projection::KeysOnly);
    let table = Stage::of(setup).table;
    setup.items.drop_table(table.name()).await.expect("a drop");
    let table = table.with_index(index).expect("an index");
    let created = setup.items.create_table(&table, Default::default()).await;
    created.expect("a table");
}

/// Ids with a batch of six events each. One is deleted by us, one as the plugin deletes, and another
/// journal has one in the same table.
async fn check(setup: &Setup, count: usize) {
    let journal = setup.journal().await;
    let ids: Vec<PersistenceId> = (0..count)
        .map(|n| format!("query-{n:03}").parse().expect("an id"))
        .collect();
    for id in &ids {
        let events: Vec<NewEvent> = (1..=6).map(text).collect();
        let appended = journal.append(id, Expected::Empty, events).await;
        appended.expect("an append");
    }
    let deleted = journal.delete_to(&ids[3], SequenceNumber::LAST).await;
    deleted.expect("a deletion");
    let stage = Stage::of(setup);
    for n in 1..=6u64 {
        let key = Key::new("journal-P-query-004-0").sorted(n);
        let removed = setup.items.delete(&stage.table, key, Condition::Always);
        removed.await.expect("a removal");
    }
    let mark = annals::items::Item::new().with("par", "journal-SL-query-004-0");
    stage.put(mark.with("num", 0u64).with("seq", 7u64)).await;
    let foreign = annals::items::Item::new().with("par", "other-P-query-900-0");
    stage.put(foreign.with("num", 1u64)).await;
    let listed = |prefix| journal.persistence_ids(prefix).try_collect::<Vec<_>>();
    let found = listed("").await.expect("ids");
    assert_eq!(found.len(), count, "each once");
    let found: BTreeSet<_> = found.into_iter().collect();
    assert_eq!(found, ids.iter().cloned().collect());
    assert_eq!(listed("query-01").await.expect("ids").len(), 10);
    // After an existing id, after a missing one, after the last, and all.
    let absent: PersistenceId = "query-019-more".parse().expect("an id");
    for (after, want) in [
        (ids.get(19), &ids[20..]),
        (Some(&absent), &ids[20..]),
        (ids.last(), &[]),
        (None, &ids[..]),
    ] {
        let found = journal.persistence_ids_after(after);
        let found: Vec<_> = found.try_collect().await.expect("ids");
        assert_eq!(found, want, "{after:?}");
    }
}

/// QY1, on a table without the index.
pub(crate) async fn qy1_ids_are_found_by_scan(setup: Setup) {
    check(&setup, 101).await;
}

/// QY1.
pub(crate) async fn qy1_ids_are_found_through_the_index_of_numbers(setup: Setup) {
    index(&setup, false).await;
    check(&setup, 101).await;
}

/// QY2: in order, after an id, on every kind of table (`check`).
pub(crate) async fn qy2_ids_are_found_in_order_through_the_index_of_numbers_and_partitions(
    setup: Setup,
) {
    index(&setup, true).await;
    check(&setup, 200).await;
}
