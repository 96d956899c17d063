//! The embedded store beyond the conformance suite: reopening, locking, formats, full disks, groups.

use std::path::Path;
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::{
    Condition, Cost, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, Query, Scan, SortRange,
    TableSpec, Write,
};
use annals::settings::EmbeddedSettings;
use annals::{Error, ErrorKind};
use annals_testkit::conformance;
use tempfile::TempDir;

fn open(folder: &Path) -> annals::Result<Embedded> {
    Embedded::open(folder, &EmbeddedSettings::default())
}

fn open_with_reserve(folder: &Path, reserve_mib: u64) -> Embedded {
    let settings = EmbeddedSettings::default().reserve_mib(reserve_mib);
    Embedded::open(folder, &settings).unwrap()
}

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
    let index = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    let spec = TableSpec::new("events".parse().unwrap(), key).unwrap();
    spec.with_index(index).unwrap()
}

fn event(n: u64) -> Item {
    let item = Item::new().with("p", "cart-1").with("n", n);
    item.with("tag", if n.is_multiple_of(2) { "even" } else { "odd" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_conforms() {
    let folder = TempDir::new().unwrap();
    conformance::run(Arc::new(open(folder.path()).unwrap())).await;
}

#[tokio::test]
async fn embedded_conforms_after_reopening() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        conformance::run(Arc::new(open(folder.path()).unwrap())).await;
    }
}

#[tokio::test]
async fn writes_survive_reopening() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let writes = (1..=100).map(|n| Write::Put(event(n))).collect();
    items.write(&table(), writes).await.unwrap();
    let key = Key::new("cart-1").sorted(50u64);
    items
        .delete(&table(), key, Condition::Always)
        .await
        .unwrap();
    drop(items);

    let items = open(folder.path()).unwrap();
    assert_eq!(
        items.describe_table(table().name()).await.unwrap(),
        Some(table())
    );
    let all = items
        .query(&table(), Query::of("cart-1"))
        .await
        .unwrap()
        .items;
    assert_eq!(all.len(), 99);
    let odd = items
        .query(&table(), Query::of("odd").on("by-tag"))
        .await
        .unwrap()
        .items;
    let even = items
        .query(&table(), Query::of("even").on("by-tag"))
        .await
        .unwrap()
        .items;
    assert_eq!((odd.len(), even.len()), (50, 49));
}

#[tokio::test]
async fn a_dropped_table_stays_dropped_and_its_number_is_not_reused() {
    let folder = TempDir::new().unwrap();
    for _ in 0..3 {
        let items = open(folder.path()).unwrap();
        items
            .create_table(&table(), Default::default())
            .await
            .unwrap();
        let key = Key::new("cart-1").sorted(1u64);
        let found = items.get(&table(), vec![key]).await.unwrap().items;
        assert_eq!(
            found,
            [None],
            "a new table must not show what an old one held"
        );
        items
            .put(&table(), event(1), Condition::Absent)
            .await
            .unwrap();
        assert!(items.drop_table(table().name()).await.unwrap());
        drop(items);
        let items = open(folder.path()).unwrap();
        assert_eq!(items.describe_table(table().name()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_second_open_is_refused_until_the_first_is_closed() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error
            .to_string()
            .contains("this process has the store open already"),
        "{error}"
    );
    drop(first);
    open(folder.path()).unwrap();
}

#[track_caller]
fn check_refused(opened: annals::Result<Embedded>, kind: ErrorKind, says: &str) -> Error {
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    error
}

#[tokio::test]
async fn a_folder_of_a_newer_format_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    let format = folder.path().join("FORMAT");
    assert_eq!(
        std::fs::read_to_string(&format).unwrap(),
        "annals embedded format 2\n"
    );
    std::fs::write(&format, "annals embedded format 3\n").unwrap();
    check_refused(open(folder.path()), ErrorKind::Invalid, "newer version");
    std::fs::write(&format, "something else\n").unwrap();
    check_refused(open(folder.path()), ErrorKind::Corrupt, "FORMAT");
    std::fs::write(&format, "annals embedded format 2\n").unwrap();
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_that_cannot_be_a_store_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
    check_refused(open(folder.path()), ErrorKind::Invalid, "thesis.txt");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing was added");
    let inside_a_file = folder.path().join("thesis.txt").join("data");
    check_refused(
        open(&inside_a_file),
        ErrorKind::Invalid,
        "can be read and written",
    );
}

#[tokio::test]
async fn an_interrupted_creation_is_started_over() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("FORMAT.new"), "annals em").unwrap();
    std::fs::create_dir(folder.path().join("log")).unwrap();
    std::fs::write(folder.path().join("log").join("next"), "half a segment").unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    assert!(!folder.path().join("FORMAT.new").exists());
}

/// A store that lost its `FORMAT` must not become a new store.
#[tokio::test]
async fn a_store_without_its_format_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    drop(items);
    let format = folder.path().join("FORMAT");
    std::fs::remove_file(&format).unwrap();
    check_refused(
        open(folder.path()),
        ErrorKind::Corrupt,
        "FORMAT of the store is missing",
    );
    std::fs::write(&format, "annals embedded format 2\n").unwrap();
    let items = open(folder.path()).unwrap();
    let found = items.describe_table(table().name()).await.unwrap();
    assert_eq!(found, Some(table()));
}

#[tokio::test]
async fn a_lost_index_is_made_again() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let writes = (1..=100).map(|n| Write::Put(event(n))).collect();
    items.write(&table(), writes).await.unwrap();
    drop(items);
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let items = open(folder.path()).unwrap();
    let odd = Query::of("odd").on("by-tag");
    let odd = items.query(&table(), odd).await.unwrap().items;
    assert_eq!(odd.len(), 50);
}

#[tokio::test]
async fn a_lost_log_is_corrupt_and_not_an_empty_store() {
    for gone in ["log/0000000000000000.log", "log"] {
        let folder = TempDir::new().unwrap();
        let items = open(folder.path()).unwrap();
        items
            .create_table(&table(), Default::default())
            .await
            .unwrap();
        drop(items);
        let path = folder.path().join(gone);
        match path.is_dir() {
            true => std::fs::remove_dir_all(&path).unwrap(),
            false => std::fs::remove_file(&path).unwrap(),
        }
        assert_eq!(open(folder.path()).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// Tables are created and dropped over many openings, and the others keep their content.
#[tokio::test]
async fn tables_stay_intact_while_others_are_created_and_dropped() {
    let folder = TempDir::new().unwrap();
    let named = |name: &str| {
        let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
        let index = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
        let key = table().key().clone();
        let spec = TableSpec::new(name.parse().unwrap(), key).unwrap();
        spec.with_index(index).unwrap()
    };
    let stays = named("stays");
    for round in 0..8u64 {
        let items = open(folder.path()).unwrap();
        if round == 0 {
            items
                .create_table(&stays, Default::default())
                .await
                .unwrap();
        }
        items
            .put(&stays, event(round), Condition::Absent)
            .await
            .unwrap();
        for name in ["first", "second"] {
            let spec = named(name);
            if round % 2 == 1 {
                assert!(items.drop_table(spec.name()).await.unwrap());
            } else {
                items.create_table(&spec, Default::default()).await.unwrap();
                items.put(&spec, event(1), Condition::Absent).await.unwrap();
            }
        }
        let seen = items.query(&stays, Query::of("cart-1")).await.unwrap();
        assert_eq!(seen.items.len() as u64, round + 1);
        let even = Query::of("even").on("by-tag");
        let even = items.query(&stays, even).await.unwrap().items.len() as u64;
        assert_eq!(even, round / 2 + 1);
    }
}

/// Groups become visible atomically: no read sees half of one, or less than an earlier read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gets_queries_and_scans_see_the_same_snapshot() {
    let folder = TempDir::new().unwrap();
    let items = Arc::new(open(folder.path()).unwrap());
    let spec = table();
    items.create_table(&spec, Default::default()).await.unwrap();
    for round in 0..40u64 {
        let numbers = round * 100..round * 100 + 100;
        let writes = numbers.clone().map(|n| Write::Put(event(n))).collect();
        let writing = tokio::spawn({
            let (items, spec) = (items.clone(), spec.clone());
            async move { items.write(&spec, writes).await.unwrap() }
        });
        let keys: Vec<Key> = numbers.map(|n| Key::new("cart-1").sorted(n)).collect();
        loop {
            let got = items.get(&spec, keys.clone()).await.unwrap().items;
            let there = got.iter().flatten().count();
            assert!([0, 100].contains(&there), "half a group: {there}");
            if there == 100 {
                let range = SortRange::AtLeast((round * 100).into());
                let query = Query::of("cart-1").within(range);
                let seen = items.query(&spec, query).await.unwrap().items.len();
                assert_eq!(seen, 100, "a query right after sees less");
                break;
            }
        }
        writing.await.unwrap();
    }
}

/// Every round overwrites all items in one group. No read mixes rounds or goes back, while memtables
/// are written to files and files are merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_consistent_while_files_of_the_index_are_written_and_merged() {
    const ROUNDS: u64 = 120;
    let folder = TempDir::new().unwrap();
    let items = Arc::new(open(folder.path()).unwrap());
    let spec = table();
    items.create_table(&spec, Default::default()).await.unwrap();
    let in_round = |round: u64| {
        let puts = (0..50u64).map(move |n| Write::Put(event(n).with("round", round)));
        puts.collect::<Vec<_>>()
    };
    items.write(&spec, in_round(0)).await.unwrap();
    let reading = tokio::spawn({
        let (items, spec) = (items.clone(), spec.clone());
        async move {
            let mut seen = 0;
            while seen < ROUNDS {
                let all = items.scan(&spec, Scan::whole()).await.unwrap().items;
                let even = items.query(&spec, Query::of("even").on("by-tag"));
                let even = even.await.unwrap().items;
                assert_eq!((all.len(), even.len()), (50, 25));
                for found in [all, even] {
                    let rounds = found.iter().map(|item| item.get("round")?.as_u64());
                    let rounds: Vec<u64> = rounds.map(Option::unwrap).collect();
                    assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
                    assert!(rounds[0] >= seen, "{} after {seen}", rounds[0]);
                    seen = rounds[0];
                }
            }
        }
    });
    for round in 1..=ROUNDS {
        items.write(&spec, in_round(round)).await.unwrap();
        if round % 3 == 0 {
            items.flush_index().await.unwrap();
        }
    }
    reading.await.unwrap();
    drop(items);
    let items = open(folder.path()).unwrap();
    let all = items.scan(&spec, Scan::whole()).await.unwrap().items;
    let last = all
        .iter()
        .filter(|item| item.get("round").unwrap().as_u64() == Some(ROUNDS));
    assert_eq!((all.len(), last.count()), (50, 50));
}

#[tokio::test]
async fn the_folder_is_free_after_a_drop_even_if_a_read_was_abandoned() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let keys: Vec<Key> = (0..4_000u64)
        .map(|n| Key::new("cart-1").sorted(n))
        .collect();
    let spec = table();
    {
        let mut reading = items.get(&spec, keys);
        // Polled once, the read is in flight; then it is dropped.
        assert!(futures::poll!(&mut reading).is_pending());
    }
    drop(items);
    open(folder.path()).unwrap();
}

#[tokio::test]
async fn a_batch_larger_than_a_group_is_written_in_several_groups() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let large = |n: u64| event(n).with("v", vec![0u8; 390_000]);
    let writes: Vec<Write> = (0..60).map(|n| Write::Put(large(n))).collect();
    let before = items.group_counts().groups;
    let cost = items.write(&table(), writes).await.unwrap();
    assert_eq!(cost.requests, 3);
    // Eight MiB hold 21 such items.
    assert_eq!(items.group_counts().groups - before, 3);
    let keys = (0..60u64).map(|n| Key::new("cart-1").sorted(n)).collect();
    let found = items.get(&table(), keys).await.unwrap().items;
    assert_eq!(found.iter().flatten().count(), 60);
}

#[tokio::test]
async fn a_full_disk_refuses_puts_loses_nothing_and_recovers() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    items
        .put(&table(), event(1), Condition::Absent)
        .await
        .unwrap();
    drop(items);

    // No disk has this much free, so every disk is full.
    let items = open_with_reserve(folder.path(), u64::MAX >> 20);
    let error = Error::from(
        items
            .put(&table(), event(2), Condition::Absent)
            .await
            .unwrap_err(),
    );
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("disk is full"), "{error}");
    let error = items
        .write(&table(), vec![Write::Put(event(3))])
        .await
        .unwrap_err();
    assert_eq!(error.remaining, [Write::Put(event(3))]);
    let keys = (1..=3u64).map(|n| Key::new("cart-1").sorted(n)).collect();
    let found = items.get(&table(), keys).await.unwrap().items;
    assert_eq!(found, [Some(event(1)), None, None]);
    let key = Key::new("cart-1").sorted(1u64);
    items
        .delete(&table(), key, Condition::Always)
        .await
        .unwrap();
    drop(items);

    let items = open_with_reserve(folder.path(), 0);
    items
        .put(&table(), event(2), Condition::Absent)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_a_sync() {
    let folder = TempDir::new().unwrap();
    let items = Arc::new(open(folder.path()).unwrap());
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let writers = (0..64u64).map(|writer| {
        let items = items.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                let event = event(writer * 20 + n);
                items.put(&table(), event, Condition::Absent).await.unwrap();
            }
        })
    });
    futures::future::try_join_all(writers).await.unwrap();
    let counts = items.group_counts();
    assert_eq!(counts.changes, 64 * 20);
    assert!(counts.groups * 2 < counts.changes, "{counts:?}");
}

#[tokio::test]
async fn a_condition_sees_the_changes_of_its_own_group() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    // All are queued before the first result is polled. If the committer wakes between two of them,
    // they get separate groups; that does not happen every time.
    let spec = table();
    for round in 1..=100 {
        let before = items.group_counts().groups;
        let racing = (0..50).map(|_| items.put(&spec, event(round), Condition::Absent));
        let outcomes = futures::future::join_all(racing).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        if items.group_counts().groups - before < 50 {
            return;
        }
    }
    panic!("no two changes ever shared a group");
}

#[tokio::test]
async fn a_write_to_a_dropped_table_is_refused() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let (spec, name) = (table(), table().name().clone());
    let (dropped, put) = futures::join!(
        items.drop_table(&name),
        items.put(&spec, event(1), Condition::Absent),
    );
    assert!(dropped.unwrap());
    let error = Error::from(put.unwrap_err());
    assert!(error.to_string().contains("does not exist"), "{error}");
}

#[tokio::test]
async fn an_overwrite_costs_the_larger_of_both_sizes() {
    let folder = TempDir::new().unwrap();
    let items = open(folder.path()).unwrap();
    let key = KeySchema::new(KeyAttribute::text("id"));
    let plain = TableSpec::new("plain".parse().unwrap(), key).unwrap();
    items
        .create_table(&plain, Default::default())
        .await
        .unwrap();
    let sized = |bytes: usize| Item::new().with("id", "a").with("v", vec![0u8; bytes]);
    for (bytes, units) in [(3000, 3), (10, 3), (10, 1)] {
        let cost = items
            .put(&plain, sized(bytes), Condition::Always)
            .await
            .unwrap();
        let want = Cost {
            requests: 1,
            write_units: units,
            ..Cost::ZERO
        };
        assert_eq!(cost, want);
    }
}
