//! Deleted and overwritten values of the embedded store are gone from every file, and nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use annals::embedded::{Embedded, RestorePoint, backup, restore};
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, Query, Scan, TableSpec, Write,
};
use annals::journal::Expected;
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::settings::EmbeddedSettings;
use annals::{Annals, Codec, ErrorKind, NewEvent, Random};
use tempfile::TempDir;

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedSettings::default()).unwrap()
}

fn table(name: &str) -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
    let index = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    let spec = TableSpec::new(name.parse().unwrap(), key).unwrap();
    spec.with_index(index).unwrap()
}

/// A body that does not compress: it is in the files as it is.
fn body(seed: u64, bytes: usize) -> Vec<u8> {
    let random = Random::seeded(seed);
    let body = std::iter::repeat_with(|| random.bits() as u8);
    body.take(bytes).collect()
}

fn item(n: u64, body: Vec<u8>) -> Item {
    let item = Item::new().with("p", "cart-1").with("n", n);
    let item = item.with("tag", format!("tag-{}", n % 3));
    item.with("body", body)
}

async fn put(items: &Embedded, table: &TableSpec, item: Item) {
    items.put(table, item, Condition::Always).await.unwrap();
}

async fn delete(items: &Embedded, table: &TableSpec, n: u64) {
    let key = Key::new("cart-1").sorted(n);
    items.delete(table, key, Condition::Always).await.unwrap();
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// The bytes of a file, and those of its blocks if it is a compressed segment.
fn contents(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let mut all = Vec::new();
    if bytes.get(8..16) == Some(b"annalsLZ") {
        let (mut at, index, mut raw) = (112, number(&bytes, 96), Vec::new());
        while at < index {
            let stored = u32::from_le_bytes(bytes[at + 20..at + 24].try_into().unwrap()) as usize;
            let block = &bytes[at + 24..at + 24 + stored];
            raw.extend(zstd::stream::decode_all(block).unwrap());
            at += 24 + stored;
        }
        all.push(raw);
    }
    all.push(bytes);
    all
}

/// The files that contain these bytes.
fn files_with(folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
            continue;
        }
        let contents = contents(&path);
        if contents
            .iter()
            .any(|bytes| bytes.windows(needle.len()).any(|it| it == needle))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Part of a body.
fn needle(seed: u64) -> Vec<u8> {
    body(seed, 40)[8..40].to_vec()
}

async fn all(items: &dyn Items, table: &TableSpec) -> Vec<Item> {
    let mut found = Vec::new();
    let mut scan = Scan::whole();
    loop {
        let page = items.scan(table, scan.clone()).await.unwrap();
        found.extend(page.items);
        match page.next {
            Some(next) => scan = Scan::whole().after(next),
            None => return found,
        }
    }
}

async fn tagged(items: &dyn Items, table: &TableSpec) -> Vec<Item> {
    let mut found = Vec::new();
    for tag in ["tag-0", "tag-1", "tag-2"] {
        let mut query = Query::of(tag).on("by-tag");
        loop {
            let page = items.query(table, query.clone()).await.unwrap();
            found.extend(page.items);
            match page.next {
                Some(next) => query = Query::of(tag).on("by-tag").after(next),
                None => break,
            }
        }
    }
    found
}

#[tokio::test]
async fn what_was_deleted_or_overwritten_is_gone_from_every_file() {
    let folder = TempDir::new().unwrap();
    let (kept, dropped) = (table("kept"), table("dropped"));
    let items = open(folder.path());
    for spec in [&kept, &dropped] {
        items.create_table(spec, Default::default()).await.unwrap();
    }
    // 1 MiB fills the first segment; some of it is in the index's files, some is not.
    for n in 1..=30u64 {
        put(&items, &kept, item(n, body(n, 60_000))).await;
        if n == 15 {
            put(&items, &dropped, item(1, body(1001, 5000))).await;
            items.flush_index().await.unwrap();
        }
    }
    for n in [1, 29, 15] {
        assert!(!files_with(folder.path(), &needle(n)).is_empty(), "{n}");
    }
    for n in [1, 29] {
        delete(&items, &kept, n).await;
    }
    // Overwritten twice, the second time after its first version was written to the index's files.
    put(&items, &kept, item(15, body(515, 3000))).await;
    put(&items, &kept, item(15, body(516, 3000))).await;
    assert!(items.drop_table(dropped.name()).await.unwrap());
    let before = (all(&items, &kept).await, tagged(&items, &kept).await);

    items.erase_now().await.unwrap();
    for gone in [1, 29, 15, 515, 1001] {
        let files = files_with(folder.path(), &needle(gone));
        assert_eq!(files, [""; 0], "{gone}");
    }
    for kept in [2, 14, 16, 30, 516] {
        let files = files_with(folder.path(), &needle(kept));
        assert!(!files.is_empty(), "{kept}");
    }
    assert_eq!(
        (all(&items, &kept).await, tagged(&items, &kept).await),
        before
    );
    drop(items);

    // The log alone makes the same store.
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    let items = open(folder.path());
    assert_eq!(
        (all(&items, &kept).await, tagged(&items, &kept).await),
        before
    );
    assert_eq!(items.describe_table(dropped.name()).await.unwrap(), None);
    assert_eq!(files_with(folder.path(), &needle(1)), [""; 0]);
}

#[tokio::test]
async fn a_deletion_before_a_crash_is_erased_after_it() {
    let folder = TempDir::new().unwrap();
    let (data, copied) = (folder.path().join("data"), folder.path().join("copied"));
    let spec = table("kept");
    let items = open(&data);
    items.create_table(&spec, Default::default()).await.unwrap();
    put(&items, &spec, item(1, body(1, 5000))).await;
    put(&items, &spec, item(2, body(2, 5000))).await;
    items.flush_index().await.unwrap();
    // Everything so far is known to be erased.
    items.erase_now().await.unwrap();
    delete(&items, &spec, 1).await;
    copy(&data, &copied);
    drop(items);
    for folder in [&copied, &data] {
        assert!(!files_with(folder, &needle(1)).is_empty());
        let items = open(folder);
        items.erase_now().await.unwrap();
        assert_eq!(files_with(folder, &needle(1)), [""; 0]);
        assert_eq!(all(&items, &spec).await, [item(2, body(2, 5000))]);
    }
}

#[tokio::test]
async fn a_store_in_which_nothing_follows_an_erasure_is_read_and_backed_up() {
    let folder = TempDir::new().unwrap();
    let [data, copied] = ["data", "copy"].map(|name| folder.path().join(name));
    let (kept, dropped) = (table("kept"), table("dropped"));
    let items = open(&data);
    for spec in [&kept, &dropped] {
        items.create_table(spec, Default::default()).await.unwrap();
        put(&items, spec, item(1, body(1, 5000))).await;
    }
    put(&items, &kept, item(2, body(2, 5000))).await;
    for last in ["a deletion", "a dropped table"] {
        match last {
            "a deletion" => delete(&items, &kept, 1).await,
            _ => assert!(items.drop_table(dropped.name()).await.unwrap()),
        }
        items.erase_now().await.unwrap();
        let want = all(&items, &kept).await;
        let reader = Embedded::open_read_only(&data, &EmbeddedSettings::default()).unwrap();
        assert_eq!(all(&reader, &kept).await, want, "{last}");
        let report = backup(&data, &copied, false).unwrap();
        let points = [RestorePoint::End, RestorePoint::Position(report.position)];
        for point in points {
            let restored = folder.path().join("restored");
            let done = restore(&copied, &restored, point).unwrap();
            assert_eq!(done.position, report.position, "{last}");
            let restored_items = open(&restored);
            assert_eq!(all(&restored_items, &kept).await, want, "{last}");
            drop(restored_items);
            fs::remove_dir_all(restored).unwrap();
        }
        let earlier = RestorePoint::Position(report.position - 1);
        let error = restore(&copied, &folder.path().join("restored"), earlier).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{last}: {error}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

#[tokio::test]
async fn a_small_store_stays_small() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    for n in 1..=5 {
        put(&items, &spec, item(n, body(n, 100))).await;
        delete(&items, &spec, n).await;
        items.erase_now().await.unwrap();
        // Nothing to do.
        items.erase_now().await.unwrap();
    }
    drop(items);
    let log = fs::read_dir(folder.path().join("log")).unwrap();
    let bytes: u64 = log
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 1_100_000, "{bytes}");
    drop(open(folder.path()));
}

/// Changes of every kind, with erasures in between; the same on the reference store.
async fn compare(seed: u64) {
    let random = Random::seeded(seed);
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let (mut items, model) = (open(folder.path()), Memory::new());
    items.create_table(&spec, Default::default()).await.unwrap();
    model.create_table(&spec, Default::default()).await.unwrap();
    for step in 0..400u64 {
        let n = random.below(12);
        let new = item(n, body(step, 100 + random.below(20_000) as usize));
        let new = new.with("tag", format!("tag-{}", random.below(3)));
        let key = Key::new("cart-1").sorted(n);
        match random.below(20) {
            0..=9 => {
                put(&items, &spec, new.clone()).await;
                model.put(&spec, new, Condition::Always).await.unwrap();
            }
            10..=13 => {
                delete(&items, &spec, n).await;
                model.delete(&spec, key, Condition::Always).await.unwrap();
            }
            14..=16 => {
                // The same key twice in a batch.
                let other = item(n, body(step + 1_000, 50)).with("tag", "tag-1");
                let writes = vec![Write::Put(other), Write::Delete(key), Write::Put(new)];
                for write in writes {
                    items.write(&spec, vec![write.clone()]).await.unwrap();
                    model.write(&spec, vec![write]).await.unwrap();
                }
            }
            17 => items.flush_index().await.unwrap(),
            18 => items.erase_now().await.unwrap(),
            _ => {
                drop(items);
                if random.below(2) == 0 {
                    fs::remove_dir_all(folder.path().join("index")).unwrap();
                }
                items = open(folder.path());
            }
        }
    }
    let want = (all(&model, &spec).await, tagged(&model, &spec).await);
    let sorted = |mut items: Vec<Item>| {
        items.sort_by_key(|item| format!("{item:?}"));
        items
    };
    let want = (sorted(want.0), sorted(want.1));
    for rebuilt in [false, true] {
        items.erase_now().await.unwrap();
        if rebuilt {
            drop(items);
            fs::remove_dir_all(folder.path().join("index")).unwrap();
            items = open(folder.path());
        }
        let found = (
            sorted(all(&items, &spec).await),
            sorted(tagged(&items, &spec).await),
        );
        assert_eq!(found, want, "seed {seed}, rebuilt {rebuilt}");
    }
}

#[tokio::test]
async fn a_store_with_erasures_equals_one_without() {
    let seed = std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in [seed, seed + 1, seed + 2] {
        compare(seed).await;
    }
}

/// An event of two hundred bytes, as a shop may have them.
fn json_event(n: u64) -> String {
    let random = Random::seeded(n);
    let (sku, user) = (random.below(100_000), random.bits());
    let (price, quantity) = (random.below(20_000), 1 + random.below(9));
    let mut event = format!(
        r#"{{"type":"ItemAdded","cart":"cart-{}","sku":"sku-{sku:06}","quantity":{quantity},"price":"{}.{:02}","currency":"EUR","user":"{user:016x}","at":"2026-03-{:02}T12:{:02}:{:02}.{:03}Z""#,
        n % 100,
        price / 100,
        price % 100,
        1 + n % 28,
        n % 60,
        random.below(60),
        random.below(1000),
    );
    let missing = 199 - event.len() - r#","note":"""#.len();
    let note: String = (0..missing)
        .map(|_| (b'a' + random.below(26) as u8) as char)
        .collect();
    event.push_str(&format!(r#","note":"{note}"}}"#));
    event
}

#[tokio::test]
async fn a_compressed_segment_takes_less_than_half() {
    let folder = TempDir::new().unwrap();
    let items = Arc::new(open(folder.path()));
    let annals = Annals::create(items.clone(), &AnnalsLayout::default())
        .await
        .unwrap();
    let path = folder.path().join("log/0000000000000000.log");
    for round in 0..40u64 {
        let appends = (0..100u64).map(|n| {
            let (journal, n) = (annals.journal(), round * 100 + n);
            async move {
                let event = json_event(n);
                assert_eq!(event.len(), 200);
                let id = format!("Cart|cart-{}", n % 100).parse().unwrap();
                let event = NewEvent::new(Codec::Json, event);
                journal.append(&id, Expected::Any, event).await.unwrap();
            }
        });
        futures::future::join_all(appends).await;
    }
    // Full, and then compressed.
    items.erase_now().await.unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.get(8..16), Some(&b"annalsLZ"[..]));
    let segment = contents(&path).swap_remove(0);
    let events = segment
        .windows(11)
        .filter(|it| *it == b"\"ItemAdded\"")
        .count();
    let (raw, compressed) = (segment.len() / events, bytes.len() / events);
    println!("{events} events of 200 B: {raw} B each in the log, {compressed} B compressed");
    assert!(compressed * 2 < raw, "{raw} {compressed}");
}

/// In one batch, a key is put, replaced and deleted: each change supersedes the one before.
#[tokio::test]
async fn changes_of_one_batch_supersede_each_other() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    let writes = vec![
        Write::Put(item(1, body(1, 200))),
        Write::Put(item(2, body(2, 200))),
    ];
    items.write(&spec, writes).await.unwrap();
    let writes = vec![
        Write::Put(item(1, body(11, 200)).with("tag", "tag-0")),
        Write::Delete(Key::new("cart-1").sorted(2u64)),
    ];
    items.write(&spec, writes).await.unwrap();
    items.erase_now().await.unwrap();
    for gone in [1, 2] {
        assert_eq!(files_with(folder.path(), &needle(gone)), [""; 0], "{gone}");
    }
    let mut found = BTreeMap::new();
    for item in all(&items, &spec).await {
        found.insert(format!("{item:?}"), item);
    }
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn a_damaged_segment_is_neither_compressed_nor_erased() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    for n in 1..=30 {
        put(&items, &spec, item(n, body(n, 60_000))).await;
    }
    let path = folder.path().join("log/0000000000000000.log");
    // Compressed by now or not.
    let mut bytes = fs::read(&path).unwrap();
    bytes[500_000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    delete(&items, &spec, 2).await;
    let error = items.erase_now().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(
        error.to_string().contains("0000000000000000.log"),
        "{error}"
    );
    drop(items);
    assert!(fs::read(&path).unwrap() == bytes, "it stays as it is");
}

#[tokio::test]
async fn a_commit_that_is_longer_than_a_new_segment_does_not_stop_erasing() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    put(&items, &spec, item(1, body(1, 5000))).await;
    put(&items, &spec, item(2, body(2, 5000))).await;
    delete(&items, &spec, 1).await;
    // Begins a segment of 1 MiB.
    items.erase_now().await.unwrap();
    let large = (11..17).map(|n| Write::Put(item(n, body(n, 300_000))));
    items.write(&spec, large.collect()).await.unwrap();
    items.flush_index().await.unwrap();
    delete(&items, &spec, 2).await;
    items.erase_now().await.unwrap();
    for gone in [1, 2] {
        assert_eq!(files_with(folder.path(), &needle(gone)), [""; 0], "{gone}");
    }
    assert_eq!(all(&items, &spec).await.len(), 6);
}

#[tokio::test]
async fn a_damaged_segment_does_not_keep_deleted_values_in_the_index() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    for n in 1..=5 {
        put(&items, &spec, item(n, body(n, 60_000))).await;
    }
    delete(&items, &spec, 1).await;
    let first = folder.path().join("log/0000000000000000.log");
    let mut raw = fs::read(&first).unwrap();
    items.erase_now().await.unwrap();
    drop(items);
    // Sealed, and not compressed yet.
    raw[200_000] ^= 1;
    fs::write(&first, &raw).unwrap();
    let items = open(folder.path());
    put(&items, &spec, item(20, body(20, 5000))).await;
    items.flush_index().await.unwrap();
    delete(&items, &spec, 20).await;
    let error = items.erase_now().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("0000000000000000.log"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
    assert_eq!(files_with(folder.path(), &needle(20)), [""; 0]);
}

#[tokio::test]
async fn a_killed_reader_keeps_nothing_that_is_erased() {
    let folder = TempDir::new().unwrap();
    let spec = table("kept");
    let items = open(folder.path());
    items.create_table(&spec, Default::default()).await.unwrap();
    put(&items, &spec, item(1, body(1, 5000))).await;
    items.flush_index().await.unwrap();
    // As a process that was killed leaves it: nobody has the lock.
    let dead = folder
        .path()
        .join("readers/annals-reader-1-0123456789abcdef");
    let tables = dead.join("index/tables");
    fs::create_dir_all(&tables).unwrap();
    fs::write(dead.join("LOCK"), "").unwrap();
    for table in fs::read_dir(folder.path().join("index/tables")).unwrap() {
        let table = table.unwrap();
        fs::hard_link(table.path(), tables.join(table.file_name())).unwrap();
    }
    assert_ne!(files_with(&dead, &needle(1)), [""; 0]);
    let reader = Embedded::open_read_only(folder.path(), &EmbeddedSettings::default());
    let reader = reader.unwrap();
    // That has removed it already: put it back.
    fs::create_dir_all(&tables).unwrap();
    for table in fs::read_dir(folder.path().join("index/tables")).unwrap() {
        let table = table.unwrap();
        fs::hard_link(table.path(), tables.join(table.file_name())).unwrap();
    }
    delete(&items, &spec, 1).await;
    items.erase_now().await.unwrap();
    assert!(!dead.exists());
    // One that is used keeps what it has.
    assert_eq!(all(&reader, &spec).await.len(), 1);
    drop(reader);
    assert_eq!(files_with(folder.path(), &needle(1)), [""; 0]);
}
