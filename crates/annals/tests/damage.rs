//! Damage in every file of a store: the right answer or a clear error, never a shorter history. A store
//! that is refused stays as it was, byte for byte.
//!
//! A few hundred cases run by default. `ANNALS_DAMAGE=full` runs thousands, and every byte of a small
//! store; `ANNALS_SEED` draws others.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use annals::embedded::Embedded;
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, Query, Scan, TableSpec, Write,
};
use annals::settings::EmbeddedSettings;
use annals::{Error, ErrorKind, Random, Result};
use tempfile::TempDir;

/// Panics of any thread, also those of the store.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn is_full() -> bool {
    std::env::var("ANNALS_DAMAGE").is_ok_and(|how| how == "full")
}

fn seed() -> u64 {
    std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap())
}

fn count_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        default(info);
    }));
}

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_tag = KeySchema::new(KeyAttribute::text("tag")).sorted(KeyAttribute::number("n"));
    let index = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    let spec = TableSpec::new("events".parse().unwrap(), key).unwrap();
    spec.with_index(index).unwrap()
}

fn event(n: u64, bytes: usize) -> Item {
    let random = Random::seeded(n);
    let body: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
        .take(bytes)
        .collect();
    let item = Item::new()
        .with("p", format!("cart-{}", n % 3))
        .with("n", n);
    let item = item.with("tag", if n.is_multiple_of(2) { "even" } else { "odd" });
    item.with("body", body)
}

fn open(folder: &Path) -> Result<Embedded> {
    Embedded::open(folder, &EmbeddedSettings::default())
}

/// How a store came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// Killed, never closed.
    Killed,
    /// Closed once, opened again, then killed.
    KilledLater,
}

/// What a store is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Small,
    /// Two segments, and files in its index.
    Large,
    /// The same, with compressed segments and erased values.
    Erased,
}

/// What a store holds: by scan, and by its index.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    items: Vec<Item>,
    even: Vec<Item>,
}

/// A store of some groups.
async fn make(folder: &Path, end: End, made: Made) -> Content {
    let data = folder.join("data");
    let mut items = open(&data).unwrap();
    items
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    let bytes = if made == Made::Small { 40 } else { 60_000 };
    for n in 0..24 {
        items
            .put(&table(), event(n, bytes), Condition::Absent)
            .await
            .unwrap();
        if n == 12 && made != Made::Small {
            items.flush_index().await.unwrap();
        }
        if n == 20 && made == Made::Erased {
            for n in [500, 501] {
                items
                    .put(&table(), event(n, bytes), Condition::Absent)
                    .await
                    .unwrap();
                let key = Key::new(format!("cart-{}", n % 3)).sorted(n);
                items
                    .delete(&table(), key, Condition::Always)
                    .await
                    .unwrap();
            }
            let again = event(3, bytes).with("body", vec![7; 100]);
            items.put(&table(), again, Condition::Always).await.unwrap();
            items.erase_now().await.unwrap();
        }
        if n == 16 && end == End::KilledLater {
            drop(items);
            items = open(&data).unwrap();
        }
    }
    let writes = (100..110).map(|n| Write::Put(event(n, 40))).collect();
    items.write(&table(), writes).await.unwrap();
    let key = Key::new("cart-1").sorted(4u64);
    items
        .delete(&table(), key, Condition::Always)
        .await
        .unwrap();
    let content = read(&items).await.unwrap();
    assert_eq!(content.items.len(), 33);
    if end == End::Closed {
        drop(items);
        fs::rename(&data, folder.join("whole")).unwrap();
    } else {
        // A process that is killed leaves the files as they are.
        copy(&data, &folder.join("whole"));
    }
    content
}

async fn read(items: &Embedded) -> Result<Content> {
    let mut scan = Scan::whole();
    let mut all = Vec::new();
    loop {
        let page = items.scan(&table(), scan.clone()).await?;
        all.extend(page.items);
        match page.next {
            Some(next) => scan = Scan::whole().after(next),
            None => break,
        }
    }
    let mut even = Vec::new();
    let mut query = Query::of("even").on("by-tag");
    loop {
        let page = items.query(&table(), query.clone()).await?;
        even.extend(page.items);
        match page.next {
            Some(next) => query = Query::of("even").on("by-tag").after(next),
            None => break,
        }
    }
    Ok(Content { items: all, even })
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

/// The files of a folder that hold something, and their bytes. The lock is not part of a store.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().unwrap() != "LOCK" {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// The offset after the last byte that is not zero.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// What was done to a store.
#[derive(Clone, Debug)]
enum Damage {
    Flip {
        at: usize,
        bit: u8,
    },
    Zeros {
        at: usize,
        len: usize,
    },
    Garbage {
        at: usize,
        len: usize,
    },
    Truncate {
        to: usize,
    },
    Remove,
    /// Exchanged with another file.
    Swap(PathBuf),
}

impl Damage {
    fn draw(random: &Random, bytes: &[u8], others: &[PathBuf]) -> Self {
        let used = used(bytes).max(1) as u64;
        let at = random.below(used) as usize;
        match random.below(8) {
            0..=2 => Self::Flip {
                at,
                bit: random.below(8) as u8,
            },
            3 => Self::Zeros {
                at: at / 4096 * 4096,
                len: 4096,
            },
            4 => Self::Garbage {
                at,
                len: 1 + random.below(600) as usize,
            },
            5 => Self::Truncate { to: at },
            6 => Self::Remove,
            _ => Self::Swap(others[random.below(others.len() as u64) as usize].clone()),
        }
    }

    fn apply(&self, file: &Path, random: &Random) {
        let mut bytes = fs::read(file).unwrap();
        let range = |at: usize, len: usize, of: &[u8]| at..(at + len).min(of.len());
        match self {
            Self::Flip { at, bit } => bytes[*at] ^= 1 << bit,
            Self::Zeros { at, len } => {
                let range = range(*at, *len, &bytes);
                bytes[range].fill(0);
            }
            Self::Garbage { at, len } => {
                let range = range(*at, *len, &bytes);
                bytes[range].fill_with(|| random.bits() as u8);
            }
            Self::Truncate { to } => bytes.truncate(*to),
            Self::Remove => return fs::remove_file(file).unwrap(),
            Self::Swap(other) => {
                let there = fs::read(other).unwrap();
                fs::write(other, &bytes).unwrap();
                bytes = there;
            }
        }
        fs::write(file, bytes).unwrap();
    }
}

#[derive(Debug, Default)]
struct Outcomes {
    right: u64,
    refused: u64,
    failed_reads: u64,
}

/// A reader beside the owner finds the right data or an error, and changes nothing.
async fn check_reader(folder: &Path, content: &Content, case: &str) {
    let before = files(folder);
    let found = match Embedded::open_read_only(folder, &EmbeddedSettings::default()) {
        Ok(reader) => read(&reader).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => assert!(found == *content, "{case}: a reader has other content"),
        Err(error) => {
            let kinds = [ErrorKind::Corrupt, ErrorKind::Invalid];
            assert!(kinds.contains(&error.kind()), "{case}: {error}");
        }
    }
    assert!(
        before == files(folder),
        "{case}: a reader changed the store"
    );
}

/// Opens a damaged store and reads everything.
async fn check(folder: &Path, content: &Content, outcomes: &mut Outcomes, case: &str) {
    check_reader(folder, content, case).await;
    let before = files(folder);
    let is_told = |error: &Error| {
        // A changed version number is another version.
        let is_format = case.contains("FORMAT") || case.contains("index");
        error.kind() == ErrorKind::Corrupt || (is_format && error.kind() == ErrorKind::Invalid)
    };
    let opened = match open(folder) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(is_told(&error), "{case}: {error}");
            let after = files(folder);
            assert!(
                before == after,
                "{case}: a refused store was changed: {error}"
            );
            outcomes.refused += 1;
            return;
        }
    };
    match read(&opened).await {
        Ok(found) => {
            assert!(
                found == *content,
                "{case}: another content, {} items",
                found.items.len()
            );
            outcomes.right += 1;
        }
        Err(error) => {
            assert!(is_told(&error), "{case}: {error}");
            outcomes.failed_reads += 1;
        }
    }
    drop(opened);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "{case}: a panic");
}

async fn damage_at_random(end: End, made: Made, cases: u64) {
    let folder = TempDir::new().unwrap();
    let content = make(folder.path(), end, made).await;
    let whole = folder.path().join("whole");
    let all: Vec<PathBuf> = files(&whole).into_keys().collect();
    let mut outcomes = Outcomes::default();
    for case in 0..cases {
        let random = Random::seeded(seed() << 32 | case);
        let damaged = folder.path().join("damaged");
        copy(&whole, &damaged);
        let here = |path: &PathBuf| damaged.join(path.strip_prefix(&whole).unwrap());
        let files: Vec<PathBuf> = all.iter().map(here).collect();
        let file = &files[random.below(files.len() as u64) as usize];
        let damage = Damage::draw(&random, &fs::read(file).unwrap(), &files);
        damage.apply(file, &random);
        let name = format!(
            "{end:?}, {made:?}, case {case}: {damage:?} in {}",
            file.display()
        );
        check(&damaged, &content, &mut outcomes, &name).await;
        fs::remove_dir_all(&damaged).unwrap();
    }
    println!("{end:?}, {made:?}: {outcomes:?}");
    assert!(outcomes.right > 0 && outcomes.refused > 0, "{outcomes:?}");
}

/// One test, as panics of all threads are counted.
#[tokio::test]
async fn damage_is_right_data_or_an_error() {
    count_panics();
    let cases = if is_full() { 1_000 } else { 60 };
    for end in [End::Closed, End::Killed, End::KilledLater] {
        damage_at_random(end, Made::Small, cases).await;
        damage_at_random(end, Made::Large, cases / 2).await;
        damage_at_random(end, Made::Erased, cases / 2).await;
    }
    every_byte().await;
}

/// One bit of each byte.
async fn every_byte() {
    let folder = TempDir::new().unwrap();
    let content = make(folder.path(), End::Killed, Made::Small).await;
    let whole = folder.path().join("whole");
    let step = if is_full() { 1 } else { 29 };
    let mut outcomes = Outcomes::default();
    let mut count = 0;
    for (path, bytes) in files(&whole) {
        for at in (0..used(&bytes)).step_by(step) {
            let damaged = folder.path().join("damaged");
            copy(&whole, &damaged);
            let file = damaged.join(path.strip_prefix(&whole).unwrap());
            let damage = Damage::Flip {
                at,
                bit: (at % 8) as u8,
            };
            damage.apply(&file, &Random::seeded(0));
            let name = format!("{damage:?} in {}", file.display());
            check(&damaged, &content, &mut outcomes, &name).await;
            fs::remove_dir_all(&damaged).unwrap();
            count += 1;
        }
    }
    println!("{count} bytes of a small store: {outcomes:?}");
}
