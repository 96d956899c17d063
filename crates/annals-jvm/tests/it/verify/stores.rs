//! Unreadable snapshots and values, and stray items, in every table.

use std::sync::Arc;

use annals::items::{Condition, Item, Scan, TableSpec, Value, scan_all};
use annals::layout::Layout;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::verify::{Finding, FindingStream, Problem, Remedy, StoredKind, Verify};
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_jvm::LayoutName;
use annals_testkit::store;
use futures::TryStreamExt;

use super::Bed;
use annals_testkit::journals::{id, number};

async fn all(found: FindingStream) -> Vec<Finding> {
    let found: Vec<Vec<Finding>> = found.try_collect().await.unwrap();
    found.concat()
}

fn snapshots(bed: &Bed) -> Snapshots {
    let clock = Arc::new(ManualClock::at_ms(1_000));
    bed.settings
        .snapshots(&store(bed.items.clone(), clock, Random::seeded(1)))
        .unwrap()
}

fn states(bed: &Bed) -> Option<States> {
    let clock = Arc::new(ManualClock::at_ms(1_000));
    bed.settings
        .states(&store(bed.items.clone(), clock, Random::seeded(1)))
        .ok()
}

async fn items_in(bed: &Bed, table: &TableSpec) -> Vec<Item> {
    let table = Arc::new(table.clone());
    let all = scan_all(bed.items.clone(), table, Scan::whole());
    all.try_collect().await.unwrap()
}

/// The first item of a table with the last bit of its payload flipped.
async fn flip(bed: &Bed, table: &TableSpec) {
    let item = items_in(bed, table).await.remove(0);
    let names = ["c", "pay_data", "snapshot", "payload"].into_iter();
    let name = names.into_iter().find(|name| item.get(name).is_some());
    let name = name.unwrap();
    let mut bytes = item.get(name).and_then(Value::as_bytes).unwrap().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let put = bed
        .items
        .put(table, item.with(name, bytes), Condition::Always);
    put.await.unwrap();
}

fn other() -> PersistenceId {
    "Cart|other".parse().unwrap()
}

#[tokio::test]
async fn altered_snapshots_and_values_are_found_and_kept() {
    for layout in LayoutName::ALL {
        let bed = Bed::new(layout).await;
        let tables = bed.settings.tables().unwrap();
        let (snapshots, states) = (snapshots(&bed), states(&bed));
        let payload = Payload::new(Codec::Text, "something");
        let saved = snapshots.save(&id(), number(7), payload.clone()).await;
        saved.unwrap();
        if let Some(states) = &states {
            states.upsert(&id(), 1, payload).await.unwrap();
        }
        for whose in [None, Some(&id()), Some(&other())] {
            assert_eq!(all(snapshots.verify(whose)).await, [], "{layout}");
            if let Some(states) = &states {
                assert_eq!(all(states.verify(whose)).await, [], "{layout}");
            }
        }
        flip(&bed, &tables.snapshot).await;
        if let Some(table) = &tables.state {
            flip(&bed, table).await;
        }
        for whose in [None, Some(&id())] {
            let found = all(snapshots.verify(whose)).await;
            check(&found, (StoredKind::Snapshot, number(7).get()));
            if let Some(states) = &states {
                check(&all(states.verify(whose)).await, (StoredKind::Value, 1));
            }
        }
        assert_eq!(all(snapshots.verify(Some(&other()))).await, []);
        // Altered data is never returned.
        let newest = snapshots.load(&id(), annals::snapshot::Criteria::ALL).await;
        assert_eq!(newest.unwrap(), None, "{layout}");
        if let Some(states) = &states {
            let told = states.get(&id()).await.unwrap_err();
            assert_eq!(told.kind(), annals::ErrorKind::Corrupt, "{layout}");
        }
    }
}

#[track_caller]
fn check(found: &[Finding], (of, number): (StoredKind, u64)) {
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0];
    assert_eq!((finding.kind, finding.problem), (of, Problem::Unreadable));
    assert_eq!(finding.persistence_id, Some(id()));
    let numbers = finding.numbers.map(|(from, to)| (from.get(), to.get()));
    assert_eq!(numbers, Some((number, number)));
    assert!(matches!(finding.remedy, Remedy::Left(_)), "{finding:?}");
}

/// The tombstone of a deleted value is checked too.
#[tokio::test]
async fn the_tombstone_of_a_deleted_value_is_checked() {
    for layout in [LayoutName::Annals, LayoutName::J5ik2o] {
        let bed = Bed::new(layout).await;
        let table = bed.settings.tables().unwrap().state.unwrap();
        let states = states(&bed).unwrap();
        let payload = Payload::new(Codec::Text, "something");
        states.upsert(&id(), 1, payload).await.unwrap();
        states.delete(&id(), None).await.unwrap();
        assert_eq!(all(states.verify(None)).await, [], "{layout}");
        let item = items_in(&bed, &table).await.remove(0);
        let name = if layout == LayoutName::Annals {
            "r"
        } else {
            "revision"
        };
        let put = bed
            .items
            .put(&table, item.with(name, 9u64), Condition::Always);
        put.await.unwrap();
        for whose in [None, Some(&id())] {
            let found = all(states.verify(whose)).await;
            assert_eq!(found.len(), 1, "{layout} {found:?}");
            assert_eq!(found[0].problem, Problem::Unreadable);
        }
        // No revision is reused.
        assert!(states.last(&id()).await.is_err(), "{layout}");
    }
}

/// A stray item, by its key.
fn nobodys(table: &TableSpec) -> Item {
    let mut item = Item::new().with("what", "is this?");
    for attribute in table.key().attributes() {
        match attribute.key_type {
            annals::items::KeyType::N => item.insert(&attribute.name, 0u64),
            _ => item.insert(&attribute.name, "?"),
        }
    }
    item
}

#[tokio::test]
async fn stray_items_are_found_in_every_table() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 2]).await;
        let tables = bed.settings.tables().unwrap();
        let (snapshots, states) = (snapshots(&bed), states(&bed));
        let journal = bed.journal().await;
        assert_eq!(all(journal.verify_all(Verify::Check)).await, []);
        for table in tables.all() {
            let put = bed.items.put(table, nobodys(table), Condition::Always);
            put.await.unwrap();
        }
        let mut found = all(journal.verify_all(Verify::Repair)).await;
        found.extend(all(snapshots.verify(None)).await);
        if let Some(states) = &states {
            found.extend(all(states.verify(None)).await);
        }
        assert_eq!(found.len(), tables.all().count(), "{layout} {found:?}");
        for (finding, table) in found.iter().zip(tables.all()) {
            assert_eq!(finding.problem, Problem::Stray);
            assert_eq!((&finding.persistence_id, finding.numbers), (&None, None));
            assert!(
                finding.detail.contains(table.name().as_str()),
                "{finding:?}"
            );
        }
        assert_eq!(bed.numbers().await.unwrap(), [1, 2, 3]);
    }
}

/// On the `akka` layout journals share a table, and an event cannot be outside its hundred.
#[tokio::test]
async fn another_journals_items_are_not_strays() {
    let bed = Bed::with(LayoutName::Akka, &[1]).await;
    let mut settings = bed.settings.clone();
    settings.journal_name = "other-2".to_owned();
    let beside = Bed {
        items: bed.items.clone(),
        table: bed.table.clone(),
        settings,
    };
    beside.fill(&id(), &[1; 101]).await;
    beside.delete_to(2).await;
    let journal = bed.journal().await;
    assert_eq!(all(journal.verify_all(Verify::Check)).await, []);
    let far = bed.row(1).await.with("num", 150u64);
    bed.put(far).await;
    let found = all(journal.verify_all(Verify::Check)).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].problem, Problem::Stray);
}

/// An id is verified even if the item that lists it is lost.
#[tokio::test]
async fn unlisted_ids_are_verified() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 1, 1]).await;
        bed.remove(&bed.row(1).await).await;
        let journal = bed.journal().await;
        let found = all(journal.verify_all(Verify::Check)).await;
        assert_eq!(found.len(), 1, "{layout} {found:?}");
        assert_eq!(found[0].problem, Problem::Gap, "{layout}");
        assert_eq!(found[0].persistence_id, Some(id()));
    }
}
