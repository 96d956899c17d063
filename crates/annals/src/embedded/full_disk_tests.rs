//! A full disk refuses changes before they are decided, and the store goes on when there is space.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Embedded;
use super::log::faults::{self, Limits};
use crate::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec, WriteError};
use crate::settings::EmbeddedSettings;
use crate::{Error, ErrorKind, Random, Result};

const MIB: u64 = 1024 * 1024;
const RESERVE_MIB: u64 = 64;

/// A store on a disk of its own.
struct OnDisk {
    folder: TempDir,
}

impl OnDisk {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn open(&self) -> Embedded {
        let settings = EmbeddedSettings {
            reserve_mib: RESERVE_MIB,
            ..Default::default()
        };
        Embedded::open(&self.store(), &settings).unwrap()
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn has_prepared(&self) -> bool {
        self.store().join("log/next").exists()
    }

    /// A new segment cannot be written from this offset on.
    fn fails_at(&self, offset: u64) {
        self.limit(Limits {
            free_bytes: None,
            next_to: Some(offset),
        });
    }

    /// The disk has so many bytes free.
    fn has_free(&self, bytes: u64) {
        self.limit(Limits {
            free_bytes: Some(bytes),
            next_to: None,
        });
    }

    fn limit(&self, limits: Limits) {
        faults::set(self.folder.path(), Some(limits));
    }

    fn has_space(&self) {
        faults::set(self.folder.path(), None);
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        self.has_space();
    }
}

fn table(name: &str) -> TableSpec {
    let key = KeySchema::new(KeyAttribute::number("n"));
    TableSpec::new(name.parse().unwrap(), key).unwrap()
}

fn item(n: u64, bytes: usize) -> Item {
    let random = Random::seeded(n);
    let body: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
        .take(bytes)
        .collect();
    Item::new().with("n", n).with("body", body)
}

async fn put(items: &Embedded, n: u64, bytes: usize) -> Result<()> {
    let notes = table("notes");
    let put = items.put(&notes, item(n, bytes), Condition::Absent);
    match put.await {
        Ok(_) => Ok(()),
        Err(WriteError::Failed(error)) => Err(error),
        Err(refused) => panic!("{refused:?}"),
    }
}

/// Puts items from a number on until one is refused; returns its number.
async fn fill(items: &Embedded, from: u64, bytes: usize) -> u64 {
    // More than the first segment has room for, so that a store without limits fails the test.
    for n in from..from + 2 * MIB / bytes as u64 {
        if let Err(error) = put(items, n, bytes).await {
            assert_refused(&error);
            return n;
        }
    }
    panic!("nothing was refused");
}

fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let message = error.message();
    assert!(message.contains("nothing was written"), "{error}");
    assert!(message.contains("the disk is full"), "{error}");
}

async fn has(items: &Embedded, n: u64) -> bool {
    let got = items.get(&table("notes"), vec![Key::new(n)]).await.unwrap();
    got.items[0].is_some()
}

fn check(store: &Path) {
    let checked = Embedded::check_files(store, &mut |_| ()).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

#[tokio::test]
async fn changes_that_a_full_disk_refuses_resume_when_there_is_space() {
    let disk = OnDisk::new();
    let items = disk.open();
    let (notes, other) = (table("notes"), table("other"));
    items
        .create_table(&notes, Default::default())
        .await
        .unwrap();
    disk.fails_at(MIB / 4);
    // The segment is prepared when the first is half full, which fails and holds nobody up.
    let large = fill(&items, 0, 300_000).await;
    assert_eq!(large, 3);
    assert!(!disk.has_prepared(), "it would take the last space");
    assert!(!has(&items, large).await, "nothing was written");
    // The rest of the segment is used.
    let small = fill(&items, 100, 10_000).await;
    assert!(small > 101, "{small}");
    fill(&items, 1_000, 100).await;
    let created = items.create_table(&other, Default::default()).await;
    assert_refused(&created.unwrap_err());
    let found = items.describe_table(other.name()).await.unwrap();
    assert_eq!(found, None);
    disk.has_space();
    // In the numbers that were refused, and on.
    for n in large..large + 20 {
        put(&items, n, 300_000).await.unwrap();
    }
    let created = items.create_table(&other, Default::default()).await;
    created.unwrap();
    drop(items);
    check(&disk.store());
    let items = disk.open();
    for n in 0..large + 20 {
        assert!(has(&items, n).await, "{n}");
    }
    assert!(has(&items, small - 1).await && !has(&items, small).await);
    assert!(items.describe_table(other.name()).await.unwrap().is_some());
}

#[tokio::test]
async fn the_log_keeps_the_reserve_except_for_deletions() {
    let disk = OnDisk::new();
    let items = disk.open();
    let notes = table("notes");
    items
        .create_table(&notes, Default::default())
        .await
        .unwrap();
    disk.has_free(RESERVE_MIB * MIB + MIB / 2);
    let refused = fill(&items, 0, 100_000).await;
    assert!(refused > 5 && !disk.has_prepared(), "{refused}");
    let mut deleted = 0;
    // A deletion of 60 bytes at least.
    while deleted < 20_000 && !disk.store().join("log/0000000000000001.log").exists() {
        let delete = items.delete(&notes, Key::new(deleted), Condition::Always);
        delete.await.unwrap();
        deleted += 1;
    }
    let begun = std::fs::metadata(disk.store().join("log/0000000000000001.log")).unwrap();
    assert_eq!(begun.len(), MIB, "the shortest");
    disk.has_free(RESERVE_MIB * MIB + 10 * MIB);
    put(&items, refused, 100_000).await.unwrap();
    drop(items);
    check(&disk.store());
}

#[tokio::test]
async fn a_segment_that_cannot_be_begun_early_stops_no_writes() {
    let disk = OnDisk::new();
    let items = disk.open();
    let notes = table("notes");
    items
        .create_table(&notes, Default::default())
        .await
        .unwrap();
    put(&items, 1, 1_000).await.unwrap();
    items
        .delete(&notes, Key::new(1u64), Condition::Always)
        .await
        .unwrap();
    disk.fails_at(0);
    let error = items.erase_now().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    put(&items, 2, 1_000).await.unwrap();
    disk.has_space();
    items.erase_now().await.unwrap();
    put(&items, 3, 1_000).await.unwrap();
    drop(items);
    check(&disk.store());
}
