//! Folders that the last release of format 1 wrote: one was closed, one was left by a killed process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use super::*;
use crate::ErrorKind;
use crate::embedded::Embedded;
use crate::items::{
    Condition, IndexSpec, Item, Items, KeyAttribute, KeySchema, Query, Scan, TableSpec,
};

/// A file of a fixture: its path, its length, and its bytes without the zeros at the end.
#[derive(serde::Deserialize)]
struct Stored {
    path: PathBuf,
    length: u64,
    bytes: String,
}

pub(super) fn unpack(name: &str, to: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embedded-1");
    let file = fs::File::open(fixtures.join(format!("{name}.jsonl.gz"))).unwrap();
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        let stored: Stored = serde_json::from_str(&line.unwrap()).unwrap();
        let path = to.join(stored.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, BASE64_STANDARD.decode(stored.bytes).unwrap()).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(stored.length).unwrap();
    }
    // A folder without files: the engine's tables, before the first was written.
    for keyspace in fs::read_dir(to.join("engine/keyspaces")).unwrap() {
        fs::create_dir_all(keyspace.unwrap().path().join("tables")).unwrap();
    }
}

pub(super) fn table(name: &str) -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
    let index = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    let spec = TableSpec::new(name.parse().unwrap(), key).unwrap();
    spec.with_index(index).unwrap()
}

pub(super) fn event(n: u64) -> Item {
    let item = Item::new()
        .with("p", format!("cart-{}", n % 3))
        .with("n", n);
    let item = item.with("tag", if n.is_multiple_of(2) { "even" } else { "odd" });
    item.with("body", vec![n as u8; 30])
}

pub(super) fn open(folder: &Path) -> Result<Embedded> {
    Embedded::open(folder, &Default::default())
}

/// The store has what the fixture's program wrote.
pub(super) async fn check(items: &Embedded) {
    let mut found = items
        .scan(&table("events"), Scan::whole())
        .await
        .unwrap()
        .items;
    let number = |item: &Item| item.get("n").and_then(crate::items::Value::as_u64);
    found.sort_by_key(number);
    let want: Vec<Item> = (0..40).filter(|n| *n != 4).map(event).collect();
    assert_eq!(found, want);
    let even = Query::of("even").on("by-tag");
    let even = items.query(&table("events"), even).await.unwrap().items;
    let want: Vec<Item> = (0..40)
        .filter(|n| *n != 4 && n % 2 == 0)
        .map(event)
        .collect();
    assert_eq!(even, want);
    assert_eq!(
        items.describe_table(table("gone").name()).await.unwrap(),
        None
    );
}

pub(super) fn copy(from: &Path, to: &Path) {
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

pub(super) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
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

#[tokio::test]
async fn a_folder_of_format_1_is_converted_once() {
    for name in ["closed", "killed"] {
        let folder = TempDir::new().unwrap();
        unpack(name, folder.path());
        for _ in 0..2 {
            let items = open(folder.path()).unwrap();
            check(&items).await;
            drop(items);
            for gone in ["engine", "REACHED", "converting"] {
                assert!(!folder.path().join(gone).exists(), "{gone}");
            }
        }
        // A dropped table's number is not used again.
        let items = open(folder.path()).unwrap();
        let gone = table("gone");
        items.create_table(&gone, Default::default()).await.unwrap();
        assert!(
            items
                .scan(&gone, Scan::whole())
                .await
                .unwrap()
                .items
                .is_empty()
        );
        items.put(&gone, event(1), Condition::Absent).await.unwrap();
    }
}

/// A killed process leaves the files as they are: a copy after each step is what a kill leaves.
#[tokio::test]
async fn a_conversion_that_is_killed_at_any_step_is_finished_by_the_next_open() {
    for name in ["closed", "killed"] {
        let (folder, images) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        unpack(name, folder.path());
        let steps = Cell::new(0);
        let opened = Folder::open(folder.path()).unwrap();
        let image = |step: u64| images.path().join(step.to_string());
        convert_in_steps(&opened, &|| {
            copy(folder.path(), &image(steps.get()));
            steps.set(steps.get() + 1);
        })
        .unwrap();
        assert!(steps.get() >= 9, "{} steps", steps.get());
        for step in 0..steps.get() {
            check(&open(&image(step)).unwrap()).await;
        }
    }
}

#[tokio::test]
async fn a_damaged_folder_of_format_1_is_refused_and_stays_as_it_was() {
    let truncate = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 4] = [
        ("engine/0.jnl", &truncate),
        ("engine/keyspaces/0/current", &truncate),
        ("engine/keyspaces/2/v0", &|path| {
            fs::remove_file(path).unwrap()
        }),
        ("REACHED", &|path| {
            fs::write(path, "closed 9 00000000\n").unwrap()
        }),
    ];
    for (file, damage) in damages {
        let folder = TempDir::new().unwrap();
        unpack("closed", folder.path());
        damage(&folder.path().join(file));
        let before = files(folder.path());
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{file}: {error}");
        assert!(before == files(folder.path()), "{file}: {error}");
    }
}
