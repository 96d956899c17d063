//! A store that is opened for reading while another handle, as another process would, has it open.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use annals::embedded::Embedded;
use annals::items::{
    Condition, Item, Items, Key, KeyAttribute, KeySchema, Query, TableSpec, Value, Write, query_all,
};
use annals::{Error, ErrorKind};
use futures::TryStreamExt;
use tempfile::TempDir;

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    TableSpec::new("events".parse().unwrap(), key).unwrap()
}

fn event(n: u64, bytes: usize) -> Item {
    let item = Item::new().with("p", "cart").with("n", n);
    item.with("body", vec![n as u8; bytes])
}

fn own(folder: &Path) -> Embedded {
    Embedded::open(folder, &Default::default()).unwrap()
}

fn read(folder: &Path) -> Embedded {
    Embedded::open_read_only(folder, &Default::default()).unwrap()
}

async fn put(items: &Embedded, n: u64) {
    let table = table();
    let put = items.put(&table, event(n, 10_000), Condition::Absent);
    put.await.unwrap();
}

async fn numbers(items: Embedded) -> Vec<u64> {
    let all = query_all(
        std::sync::Arc::new(items),
        table().into(),
        Query::of("cart"),
    );
    let all: Vec<Item> = all.try_collect().await.unwrap();
    let numbers = all
        .iter()
        .map(|item| item.get("n").and_then(Value::as_u64).unwrap());
    numbers.collect()
}

async fn store(folder: &Path, events: u64) -> Embedded {
    let owner = own(folder);
    owner
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    for n in 0..events {
        put(&owner, n).await;
    }
    owner
}

fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
}

fn all_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(folder, &mut found);
    found
}

fn readers(folder: &Path) -> usize {
    fs::read_dir(folder.join("readers")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_reader_sees_the_store_as_it_was_and_changes_nothing() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let owner = store(&folder, 20).await;
    owner.flush_index().await.unwrap();
    put(&owner, 20).await;
    let before = all_files(&folder);
    let reader = read(&folder);
    assert_eq!(readers(&folder), 1);
    put(&owner, 21).await;
    let key = Key::new("cart").sorted(3u64);
    owner
        .delete(&table(), key, Condition::Always)
        .await
        .unwrap();
    owner.flush_index().await.unwrap();
    let query = Query::of("cart");
    let seen = reader.query(&table(), query).await.unwrap().items;
    assert_eq!(seen.len(), 21);
    assert_eq!(numbers(reader).await, (0..21).collect::<Vec<_>>());
    assert_eq!(readers(&folder), 0, "its copy is removed");
    let later = numbers(read(&folder)).await;
    assert_eq!(later, (0..22).filter(|n| *n != 3).collect::<Vec<_>>());

    // Without an owner, nothing changes at all.
    drop(owner);
    let closed = all_files(&folder);
    assert_ne!(closed, before);
    assert_eq!(numbers(read(&folder)).await, later);
    assert_eq!(all_files(&folder), closed);
    // A lock of the readers would refuse this.
    let reader = read(&folder);
    let owner = own(&folder);
    put(&owner, 30).await;
    assert_eq!(numbers(reader).await, later);
}

#[tokio::test]
async fn a_reader_writes_nothing() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let _owner = store(&folder, 1).await;
    let reader = read(&folder);
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(
            error.message().contains("was opened for reading"),
            "{error}"
        );
        let process = std::process::id().to_string();
        assert_eq!(error.fact_value("process"), Some(&*process), "{error}");
    };
    let table = table();
    let put = reader.put(&table, event(9, 1), Condition::Absent).await;
    refused(put.unwrap_err().into());
    let key = || Key::new("cart").sorted(0u64);
    let deleted = reader.delete(&table, key(), Condition::Always).await;
    refused(deleted.unwrap_err().into());
    let written = reader.write(&table, vec![Write::Delete(key())]).await;
    refused(written.unwrap_err().cause);
    refused(
        reader
            .create_table(&table, Default::default())
            .await
            .unwrap_err(),
    );
    refused(reader.drop_table(table.name()).await.unwrap_err());
}

/// The owner writes and merges its index as fast as it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_find_everything_acknowledged_while_the_index_is_merged() {
    const EVENTS: u64 = 300;
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let owner = store(&folder, 0).await;
    let (acknowledged, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let writing = async {
        for n in 0..EVENTS {
            put(&owner, n).await;
            acknowledged.store(n + 1, Ordering::Release);
            if n % 3 == 0 {
                owner.flush_index().await.unwrap();
            }
        }
        is_done.store(true, Ordering::Release);
    };
    let reading = async {
        let mut views = 0;
        while views == 0 || !is_done.load(Ordering::Acquire) {
            let before = acknowledged.load(Ordering::Acquire);
            let folder = folder.clone();
            let reader = tokio::task::spawn_blocking(move || read(&folder));
            let seen = numbers(reader.await.unwrap()).await;
            assert!(seen.len() as u64 >= before, "{} of {before}", seen.len());
            assert_eq!(seen, (0..seen.len() as u64).collect::<Vec<_>>());
            views += 1;
        }
        println!("{views} views");
    };
    futures::join!(writing, reading);
}

#[tokio::test]
async fn without_an_index_a_reader_makes_its_own() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let owner = store(&folder, 10).await;
    owner.flush_index().await.unwrap();
    drop(owner);
    let whole: Vec<u64> = (0..10).collect();
    for damage in ["current", "tables"] {
        let path = folder.join("index").join(damage);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::write(path, "damaged").unwrap(),
        }
        let before = all_files(&folder);
        assert_eq!(numbers(read(&folder)).await, whole, "{damage}");
        assert_eq!(all_files(&folder), before, "{damage}");
    }
    fs::remove_dir_all(folder.join("index")).unwrap();
    assert_eq!(numbers(read(&folder)).await, whole);
    assert!(!folder.join("index").exists());
}

#[tokio::test]
async fn a_folder_that_cannot_take_the_copy_is_read_from_a_temporary_one() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let owner = store(&folder, 5).await;
    owner.flush_index().await.unwrap();
    drop(owner);
    // As in a folder that cannot be written.
    fs::write(folder.join("readers"), "").unwrap();
    let before = all_files(&folder);
    assert_eq!(numbers(read(&folder)).await, (0..5).collect::<Vec<_>>());
    assert_eq!(all_files(&folder), before);
}

#[tokio::test]
async fn what_a_killed_reader_left_is_removed() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let owner = store(&folder, 5).await;
    let reader = read(&folder);
    let dead = folder.join("readers").join("annals-reader-1-dead");
    fs::create_dir(&dead).unwrap();
    let other = read(&folder);
    assert_eq!(readers(&folder), 2, "two readers");
    drop((owner, other));
    fs::create_dir(&dead).unwrap();
    let _owner = own(&folder);
    assert_eq!(readers(&folder), 1);
    assert_eq!(numbers(reader).await, (0..5).collect::<Vec<_>>());
}

#[test]
fn there_must_be_a_store_of_this_format() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("data");
    let refused = || Embedded::open_read_only(&folder, &Default::default()).unwrap_err();
    assert_eq!(refused().kind(), ErrorKind::Invalid);
    assert!(!folder.exists());
    fs::create_dir(&folder).unwrap();
    for (format, kind) in [
        (1, ErrorKind::Invalid),
        (0, ErrorKind::Corrupt),
        (3, ErrorKind::Invalid),
    ] {
        fs::write(
            folder.join("FORMAT"),
            format!("annals embedded format {format}\n"),
        )
        .unwrap();
        assert_eq!(refused().kind(), kind, "{format}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
