//! The deep check of the embedded store's files: it finds every damaged byte and changes none.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use annals::ErrorKind;
use annals::embedded::{CheckedFiles, Embedded};
use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
use annals::settings::EmbeddedSettings;
use annals::{Error, Random, Result};
use tempfile::TempDir;

fn check(folder: &Path) -> Result<CheckedFiles> {
    let mut read = 0;
    let checked = Embedded::check_files(folder, &mut |bytes| read += bytes)?;
    assert!(read > 0);
    Ok(checked)
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// A store of a compressed segment with erased values, an open one, and files in its index.
async fn make(folder: &Path) {
    let key = KeySchema::new(KeyAttribute::text("p"));
    let spec = TableSpec::new("notes".parse().unwrap(), key).unwrap();
    let items = Embedded::open(folder, &EmbeddedSettings::default()).unwrap();
    items.create_table(&spec, Default::default()).await.unwrap();
    for n in 0..20u64 {
        let random = Random::seeded(n);
        let body: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
            .take(20_000)
            .collect();
        let item = Item::new().with("p", format!("note {n}"));
        let item = item.with("body", body);
        items.put(&spec, item, Condition::Absent).await.unwrap();
        if n == 10 {
            let key = Key::new("note 3");
            items.delete(&spec, key, Condition::Always).await.unwrap();
            items.erase_now().await.unwrap();
        }
    }
    items.flush_index().await.unwrap();
    let error = check(folder).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn an_intact_store_has_no_findings_and_is_not_changed() {
    let folder = TempDir::new().unwrap();
    make(folder.path()).await;
    let before = files(folder.path());
    let checked = check(folder.path()).unwrap();
    assert_eq!(checked.findings.len(), 0, "{:?}", checked.findings);
    // A record of the table and its number, twenty notes and a deletion.
    assert_eq!((checked.frames, checked.changes), (22, 23));
    assert!(checked.tables >= 1);
    assert!(files(folder.path()) == before);
    // A copy may lack the lock.
    fs::remove_file(folder.path().join("LOCK")).unwrap();
    assert_eq!(check(folder.path()).unwrap().findings.len(), 0);
    assert!(!folder.path().join("LOCK").exists());
}

#[tokio::test]
async fn damage_in_each_segment_and_each_table_is_a_finding() {
    let folder = TempDir::new().unwrap();
    make(folder.path()).await;
    let whole = files(folder.path());
    let is_named =
        |error: &Error, path: &Path| error.to_string().contains(&path.display().to_string());
    let mut count = 0;
    for (path, bytes) in &whole {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_table = path.parent().unwrap().ends_with("tables");
        if !is_table && !name.ends_with(".log") {
            continue;
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for at in [0, 70, used / 3, used / 2, used] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fs::write(path, &damaged).unwrap();
            let checked = check(folder.path()).unwrap();
            // A damaged header leaves no segment to read.
            let findings = &checked.findings;
            assert!(
                findings.iter().any(|error| is_named(error, path)),
                "{name}, byte {at}: {findings:?}"
            );
            assert!(findings.iter().all(|it| it.kind() == ErrorKind::Corrupt));
            assert!(fs::read(path).unwrap() == damaged);
            count += 1;
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(count >= 15, "two segments and a table: {count}");
    assert_eq!(check(folder.path()).unwrap().findings.len(), 0);
}

#[tokio::test]
async fn a_log_that_ends_before_its_index_is_a_finding() {
    let folder = TempDir::new().unwrap();
    make(folder.path()).await;
    let log = folder.path().join("log");
    // The last segment and what would show that it is missing.
    let last = (0..9).map(|n| log.join(format!("{n:016}.log")));
    let last = last.take_while(|path| path.exists()).last().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, {
        let mut empty = bytes.clone();
        empty[64..].fill(0);
        empty
    })
    .unwrap();
    fs::remove_file(log.join("reached")).unwrap();
    let checked = check(folder.path()).unwrap();
    assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
    let found = checked.findings[0].to_string();
    assert!(found.contains("the end of the log is lost"), "{found}");
    // The index has the only copy of that.
    let before = files(folder.path());
    let refused = [
        Embedded::open(folder.path(), &EmbeddedSettings::default()),
        Embedded::open_read_only(folder.path(), &EmbeddedSettings::default()),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(
            error.to_string().contains("the end of the log is lost"),
            "{error}"
        );
    }
    assert!(files(folder.path()) == before);
}

fn notes() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p"));
    TableSpec::new("notes".parse().unwrap(), key).unwrap()
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedSettings::default()).unwrap()
}

/// Puts an item, and writes the index to its files.
async fn put(items: &Embedded, value: &str) {
    let item = Item::new().with("p", "note").with("value", value);
    let put = items.put(&notes(), item, Condition::Always).await;
    put.unwrap();
    items.flush_index().await.unwrap();
}

async fn value(items: &Embedded) -> Option<Item> {
    let got = items.get(&notes(), vec![Key::new("note")]).await;
    got.unwrap().items.remove(0)
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let to = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
}

#[tokio::test]
async fn the_index_of_another_log_is_found_and_made_again() {
    let folder = TempDir::new().unwrap();
    let path = |name| folder.path().join(name);
    let items = open(&path("ours"));
    items
        .create_table(&notes(), Default::default())
        .await
        .unwrap();
    put(&items, "both").await;
    drop(items);
    copy(&path("ours"), &path("other history"));
    let items = open(&path("another store"));
    items
        .create_table(&notes(), Default::default())
        .await
        .unwrap();
    put(&items, "both").await;
    drop(items);
    // The same positions, with other changes.
    for name in ["ours", "other history", "another store"] {
        let items = open(&path(name));
        put(&items, name).await;
    }
    let want = Item::new().with("p", "note").with("value", "ours");
    for other in ["other history", "another store"] {
        let mixed = path("mixed");
        copy(&path("ours"), &mixed);
        fs::remove_dir_all(mixed.join("index")).unwrap();
        copy(&path(other).join("index"), &mixed.join("index"));
        let checked = check(&mixed).unwrap();
        assert_eq!(checked.findings.len(), 1, "{other}: {:?}", checked.findings);
        let found = checked.findings[0].to_string();
        assert!(found.contains("belongs to another"), "{other}: {found}");
        let reader = Embedded::open_read_only(&mixed, &EmbeddedSettings::default()).unwrap();
        assert_eq!(value(&reader).await.as_ref(), Some(&want), "{other}");
        drop(reader);
        let items = open(&mixed);
        assert_eq!(value(&items).await.as_ref(), Some(&want), "{other}");
        drop(items);
        assert_eq!(check(&mixed).unwrap().findings.len(), 0, "{other}");
        fs::remove_dir_all(mixed).unwrap();
    }
}

#[test]
fn a_folder_without_a_store_is_refused() {
    let folder = TempDir::new().unwrap();
    let error = check(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
