//! Damage in the journal of format 1: everything is converted, or the store is refused and stays as it
//! was. The exceptions are the ones in the header of `journal.rs`, and each is a test here.
//!
//! Some thousand cases run by default. `ANNALS_DAMAGE=full` flips every bit; `ANNALS_SEED` draws others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use tempfile::TempDir;

use super::tests::{check, event, files, open, table, unpack};
use crate::embedded::Embedded;
use crate::items::{Item, Items, Scan, Value};
use crate::{Error, ErrorKind, Random};

const JOURNAL: &str = "engine/0.jnl";
const RESERVED: u64 = 64 * 1024 * 1024;

fn is_full() -> bool {
    std::env::var("ANNALS_DAMAGE").is_ok_and(|how| how == "full")
}

fn random() -> Random {
    let seed = std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("ANNALS_SEED={seed}");
    Random::seeded(seed)
}

/// A store of format 1 that is damaged again and again.
struct Store {
    /// What it is made of.
    files: BTreeMap<PathBuf, Vec<u8>>,
    folder: TempDir,
}

impl Store {
    fn new(fixture: &str, has_reached: bool) -> Self {
        let folder = TempDir::new().unwrap();
        unpack(fixture, folder.path());
        if !has_reached {
            fs::remove_file(folder.path().join("REACHED")).unwrap();
        }
        Self::of(folder)
    }

    fn of(folder: TempDir) -> Self {
        let files = files(folder.path());
        Self { files, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        self.files[&self.path().join(file)].clone()
    }

    /// Writes these bytes to the file and opens the store. A refused store must be as it was.
    fn open_with(&mut self, file: &str, bytes: &[u8]) -> Result<Embedded, Error> {
        let path = self.path().join(file);
        fs::write(&path, bytes).unwrap();
        let opened = open(self.path());
        if let Err(error) = &opened {
            let mut expected = self.files.clone();
            expected.insert(path.clone(), bytes.to_vec());
            assert!(expected == files(self.path()), "{error}");
            fs::write(&path, &self.files[&path]).unwrap();
        }
        opened
    }

    /// Makes the store again after it was converted.
    fn restore(&self) {
        for part in ["log", "index", "readers", "format-1"] {
            let _ = fs::remove_dir_all(self.path().join(part));
        }
        for (path, bytes) in &self.files {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        for keyspace in fs::read_dir(self.path().join("engine/keyspaces")).unwrap() {
            fs::create_dir_all(keyspace.unwrap().path().join("tables")).unwrap();
        }
    }

    /// Returns whether the store was converted: then it has everything.
    async fn is_complete_or_refused(&mut self, file: &str, bytes: &[u8], what: &str) -> bool {
        match self.open_with(file, bytes) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                false
            }
            Ok(items) => {
                check(&items).await;
                drop(items);
                self.restore();
                true
            }
        }
    }
}

/// Where an entry ends, and the sequence number of its batch.
struct EntryEnd {
    at: usize,
    number: u64,
    is_last: bool,
}

/// The fixtures have only small numbers.
fn entries(journal: &[u8]) -> Vec<EntryEnd> {
    let (mut at, mut number, mut found) = (0, 0, Vec::new());
    while at < journal.len() {
        let tag = journal[at];
        at += match tag {
            1 => {
                number = u64::from(journal[at + 5]);
                13
            }
            2 => {
                let length = |from: usize| usize::from(journal[at + from]);
                21 + length(11) + length(17)
            }
            _ => 13,
        };
        found.push(EntryEnd {
            at,
            number,
            is_last: tag == 3,
        });
    }
    found
}

/// Where the batch with this number begins.
fn batch(journal: &[u8], number: u64) -> usize {
    let ends = entries(journal);
    let before = ends.iter().rfind(|end| end.number < number);
    before.map_or(0, |end| end.at)
}

/// The batch that wrote event `n` of the fixtures. The store was closed after event 20.
fn batch_of(n: u64) -> u64 {
    if n <= 20 { n + 8 } else { n + 9 }
}

fn all_variants() -> [(&'static str, bool); 4] {
    ["closed", "killed"]
        .map(|name| [(name, true), (name, false)])
        .concat()
        .try_into()
        .unwrap()
}

#[tokio::test]
async fn zeroed_blocks_and_garbage_lose_nothing() {
    let random = random();
    for (name, has_reached) in all_variants() {
        let mut store = Store::new(name, has_reached);
        let journal = store.bytes(JOURNAL);
        let mut converted = 0;
        for len in [1, 16, 512, 4096, 9000] {
            for at in (0..journal.len()).step_by(512) {
                // Blocks of the disk, and bytes anywhere.
                for at in [at, at + random.below(512) as usize] {
                    let end = (at + len).min(journal.len());
                    for is_garbage in [false, true] {
                        let mut damaged = journal.clone();
                        for byte in damaged.iter_mut().take(end).skip(at) {
                            *byte = if is_garbage { random.bits() as u8 } else { 0 };
                        }
                        let what = format!("{name} {has_reached} {at}+{len} {is_garbage}");
                        let same = damaged == journal;
                        let is_converted =
                            store.is_complete_or_refused(JOURNAL, &damaged, &what).await;
                        converted += u64::from(is_converted && !same);
                    }
                }
            }
        }
        eprintln!("{name} {has_reached}: {converted} converted");
    }
}

#[tokio::test]
async fn flipped_bits_lose_nothing() {
    let random = random();
    for (name, has_reached) in all_variants() {
        let mut store = Store::new(name, has_reached);
        let journal = store.bytes(JOURNAL);
        let bits = journal.len() as u64 * 8;
        let count = if is_full() { bits } else { 400 };
        for n in 0..count {
            let bit = if is_full() { n } else { random.below(bits) };
            let mut damaged = journal.clone();
            damaged[bit as usize / 8] ^= 1 << (bit % 8);
            let what = format!("{name} {has_reached} bit {bit}");
            store.is_complete_or_refused(JOURNAL, &damaged, &what).await;
        }
        // Sequence numbers, which no checksum covers: at the beginning, in the middle, at the end.
        for number in [5, 6, 30, 52] {
            let start = batch(&journal, number);
            for bit in 0..64 {
                let mut damaged = journal.clone();
                damaged[start + 5 + bit / 8] ^= 1 << (bit % 8);
                let what = format!("{name} {has_reached} number {number} bit {bit}");
                store.is_complete_or_refused(JOURNAL, &damaged, &what).await;
            }
        }
    }
}

/// Nothing shows that there was more, if the file ends where an append may end.
#[tokio::test]
async fn a_shorter_journal_is_refused_unless_it_ends_where_an_append_may_end() {
    let random = random();
    for (name, has_reached) in all_variants() {
        let mut store = Store::new(name, has_reached);
        let journal = store.bytes(JOURNAL);
        let ends = entries(&journal);
        let closed = match (name, has_reached) {
            ("closed", true) => journal.len(),
            ("killed", true) => batch(&journal, 30),
            _ => 1,
        };
        // Each store is converted, which takes a while.
        let some = ends.iter().step_by(if is_full() { 1 } else { 11 });
        let mut lengths: Vec<usize> = some.map(|end| end.at).collect();
        lengths.extend((0..=journal.len()).step_by(512));
        lengths.extend((0..50).map(|_| random.below(journal.len() as u64) as usize));
        for len in lengths {
            let what = format!("{name} {has_reached} first {len}");
            let end = ends.iter().find(|end| end.at == len);
            // Without a batch, the store is empty.
            let first = batch(&journal, 6);
            let is_unknowable =
                len >= closed.max(first) && (end.is_some() || len.is_multiple_of(4096));
            match store.open_with(JOURNAL, &journal[..len]) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                    assert!(!is_unknowable, "{what}: {error}");
                }
                Ok(items) => {
                    assert!(is_unknowable, "{what}");
                    let is_torn = end.is_none_or(|end| !end.is_last);
                    let kept = store.path().join("format-1");
                    assert_eq!(kept.exists(), is_torn, "{what}");
                    if is_torn {
                        assert_eq!(
                            fs::read(kept.join("engine/0.jnl")).unwrap(),
                            &journal[..len]
                        );
                        assert_eq!(kept.join("REACHED").exists(), has_reached);
                    }
                    let complete = ends.iter().filter(|end| end.is_last && end.at <= len);
                    let last = complete.map(|end| end.number).max().unwrap();
                    assert_eq!(events(&items).await, first_events(last), "{what}");
                    drop(items);
                    store.restore();
                }
            }
        }
    }
}

/// All events; none if the journal ends before their table.
async fn events(items: &Embedded) -> Vec<Item> {
    let name = table("events").name().clone();
    if items.describe_table(&name).await.unwrap().is_none() {
        return Vec::new();
    }
    let found = items.scan(&table("events"), Scan::whole()).await;
    let mut found = found.unwrap().items;
    found.sort_by_key(|item| item.get("n").and_then(Value::as_u64));
    found
}

/// The events up to this batch. The batch 49 deleted one.
fn first_events(last: u64) -> Vec<Item> {
    let numbers = (0..40).filter(|n| batch_of(*n) <= last && (*n != 4 || last < 49));
    numbers.map(event).collect()
}

/// As the engine creates it: with its length reserved.
fn reserved(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(RESERVED).unwrap();
}

#[tokio::test]
async fn a_journal_may_end_with_the_zeros_that_the_engine_reserved() {
    let folder = TempDir::new().unwrap();
    unpack("killed", folder.path());
    let path = folder.path().join(JOURNAL);
    let journal = fs::read(&path).unwrap();
    reserved(&path, &journal);
    check(&open(folder.path()).unwrap()).await;
    assert!(!folder.path().join("format-1").exists());
}

/// The last append was interrupted by a loss of power: some of its bytes were written, then zeros.
#[tokio::test]
async fn an_interrupted_append_is_left_out_and_the_old_files_are_kept() {
    for cut in [1, 13, 40, 120, 195] {
        let folder = TempDir::new().unwrap();
        unpack("killed", folder.path());
        let path = folder.path().join(JOURNAL);
        let journal = fs::read(&path).unwrap();
        let start = batch(&journal, batch_of(39));
        reserved(&path, &journal[..start + cut]);
        let mut before = files(&folder.path().join("engine"));
        let items = open(folder.path()).unwrap();
        assert_eq!(events(&items).await, first_events(batch_of(38)), "{cut}");
        drop(items);
        let kept = folder.path().join("format-1/engine");
        let mut after = files(&kept);
        let moved = |path: &Path, from: &Path| kept.join(path.strip_prefix(from).unwrap());
        let engine = folder.path().join("engine");
        before = before
            .into_iter()
            .map(|(path, bytes)| (moved(&path, &engine), bytes))
            .collect();
        assert!(before == after, "{cut}");
        // They stay, until somebody removes them.
        drop(open(folder.path()).unwrap());
        after = files(&kept);
        assert!(before == after, "{cut}");
    }
}

#[tokio::test]
async fn damage_in_a_reserved_journal_is_refused_if_something_follows_it() {
    let folder = TempDir::new().unwrap();
    unpack("killed", folder.path());
    let path = folder.path().join(JOURNAL);
    let journal = fs::read(&path).unwrap();
    for at in (0..journal.len() - 512).step_by(512) {
        let mut damaged = journal.clone();
        damaged[at..at + 512].fill(0);
        reserved(&path, &damaged);
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}: {error}");
        assert!(folder.path().join("engine").exists(), "{at}");
    }
    // A length that reaches beyond everything that follows.
    for number in [5, 6, 30, batch_of(39)] {
        let mut damaged = journal.clone();
        damaged[batch(&journal, number) + 13 + 19] ^= 1;
        reserved(&path, &damaged);
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{number}: {error}");
    }
}

/// A journal of two files, as after 64 MB, and damage in the older one.
#[tokio::test]
async fn every_file_of_the_journal_is_checked() {
    let folder = TempDir::new().unwrap();
    unpack("killed", folder.path());
    fs::remove_file(folder.path().join("REACHED")).unwrap();
    let journal = fs::read(folder.path().join(JOURNAL)).unwrap();
    let middle = batch(&journal, 30);
    fs::write(folder.path().join(JOURNAL), &journal[..middle]).unwrap();
    fs::write(folder.path().join("engine/1.jnl"), &journal[middle..]).unwrap();
    let mut store = Store::of(folder);
    let (older, newer) = (store.bytes(JOURNAL), store.bytes("engine/1.jnl"));
    assert!(
        store
            .is_complete_or_refused(JOURNAL, &older, "two files")
            .await
    );
    for at in (0..older.len()).step_by(512) {
        let mut damaged = older.clone();
        let end = (at + 512).min(damaged.len());
        damaged[at..end].fill(0);
        let what = format!("block {at} of the older file");
        assert!(!store.is_complete_or_refused(JOURNAL, &damaged, &what).await);
        // A part of a batch, in the older file.
        let part = &older[..at.max(1)];
        assert!(!store.is_complete_or_refused(JOURNAL, part, &what).await);
    }
    for swapped in [JOURNAL, "engine/1.jnl"] {
        let other = if swapped == JOURNAL { &newer } else { &older };
        assert!(!store.is_complete_or_refused(swapped, other, swapped).await);
    }
    for lost in [JOURNAL, "engine/1.jnl"] {
        // A third file, so that one in the middle can be lost.
        fs::write(store.path().join("engine/2.jnl"), []).unwrap();
        fs::remove_file(store.path().join(lost)).unwrap();
        let before = files(store.path());
        let error = open(store.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{lost}: {error}");
        assert!(before == files(store.path()), "{lost}");
        fs::remove_file(store.path().join("engine/2.jnl")).unwrap();
        store.restore();
    }
}

/// A store with a value that the engine compresses, and with two batches after its tables were written:
/// the first writes an event again that the tables have differently.
struct WithTables {
    folder: TempDir,
    journal: Vec<u8>,
    /// Where the first of them begins.
    first: usize,
}

fn with_tables() -> WithTables {
    let folder = TempDir::new().unwrap();
    unpack("killed", folder.path());
    let path = folder.path().join(JOURNAL);
    let db = Database::builder(folder.path().join("engine"))
        .open()
        .unwrap();
    let tree = |name| db.keyspace(name, KeyspaceCreateOptions::default).unwrap();
    let items = tree("items");
    let first = items.iter().next().unwrap().into_inner().unwrap();
    items.insert(first.0.clone(), [7; 10]).unwrap();
    // Of a table that was dropped.
    items.insert([0, 0, 0, 9, 1], [7; 100_000]).unwrap();
    for name in ["catalog", "items", "entries"] {
        tree(name).rotate_memtable_and_wait().unwrap();
    }
    db.persist(PersistMode::SyncAll).unwrap();
    let start = fs::metadata(&path).unwrap().len() as usize;
    items.insert(first.0, first.1).unwrap();
    items.insert([0, 0, 0, 9, 2], [8; 10]).unwrap();
    db.persist(PersistMode::SyncAll).unwrap();
    drop((items, db));
    let journal = fs::read(&path).unwrap();
    assert!(journal.len() < 20_000, "the large value is compressed");
    WithTables {
        folder,
        journal,
        first: start,
    }
}

#[tokio::test]
async fn the_tables_know_that_the_end_of_the_journal_is_lost() {
    let WithTables {
        folder,
        journal,
        first,
    } = with_tables();
    fs::remove_file(folder.path().join("REACHED")).unwrap();
    let mut store = Store::of(folder);
    assert!(
        store
            .is_complete_or_refused(JOURNAL, &journal, "intact")
            .await
    );
    // The ends of all batches that are in the tables, but the last of them.
    let before = entries(&journal[..9074]);
    for end in before.iter().filter(|end| end.is_last) {
        let what = format!("first {}", end.at);
        let is_converted = store
            .is_complete_or_refused(JOURNAL, &journal[..end.at], &what)
            .await;
        assert!(!is_converted, "{what}");
    }
    assert!(!store.is_complete_or_refused(JOURNAL, &[], "empty").await);
    for bit in 0..64 {
        let mut damaged = journal.clone();
        damaged[first + 5 + bit / 8] ^= 1 << (bit % 8);
        let what = format!("number of a batch, bit {bit}");
        store.is_complete_or_refused(JOURNAL, &damaged, &what).await;
    }
}

/// Only the newest file of the journal is left: nothing in it shows that the sequence number of its first
/// batch is too low, and the engine skips what it takes for older than its tables.
#[tokio::test]
async fn a_batch_that_the_engine_takes_for_old_is_not_lost() {
    let WithTables {
        folder,
        journal,
        first,
    } = with_tables();
    let newest = "engine/1.jnl";
    fs::remove_file(folder.path().join(JOURNAL)).unwrap();
    fs::write(folder.path().join(newest), &journal[first..]).unwrap();
    let mut store = Store::of(folder);
    let newer = store.bytes(newest);
    assert!(store.is_complete_or_refused(newest, &newer, "intact").await);
    let mut refused = 0;
    for bit in 0..64 {
        let mut damaged = newer.clone();
        damaged[5 + bit / 8] ^= 1 << (bit % 8);
        let what = format!("bit {bit}");
        let is_converted = store.is_complete_or_refused(newest, &damaged, &what).await;
        refused += u64::from(!is_converted);
    }
    assert!(refused >= 2, "{refused} refused");
    // Without tables, an earlier file is missing.
    for tree in 1..=3 {
        let tree = format!("engine/keyspaces/{tree}");
        fs::remove_dir_all(store.path().join(&tree)).unwrap();
        assert_eq!(open(store.path()).unwrap_err().kind(), ErrorKind::Corrupt);
        store.restore();
    }
}

#[tokio::test]
async fn a_store_without_anything_is_refused() {
    for len in [0, RESERVED] {
        let folder = TempDir::new().unwrap();
        unpack("killed", folder.path());
        fs::remove_file(folder.path().join("REACHED")).unwrap();
        let path = folder.path().join(JOURNAL);
        fs::write(&path, []).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("remove the folder"), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
    }
}

/// A crash after the decision to keep the old files, and one while they are moved.
#[tokio::test]
async fn old_files_that_are_to_be_kept_survive_a_crash() {
    let folder = TempDir::new().unwrap();
    unpack("killed", folder.path());
    let journal = fs::read(folder.path().join(JOURNAL)).unwrap();
    let torn = &journal[..batch(&journal, batch_of(39)) + 13];
    fs::write(folder.path().join(JOURNAL), torn).unwrap();
    let images = TempDir::new().unwrap();
    let steps = std::cell::Cell::new(0);
    let image = |step: u64| images.path().join(step.to_string());
    let opened = super::Folder::open(folder.path()).unwrap();
    super::convert_in_steps(&opened, &|| {
        super::tests::copy(folder.path(), &image(steps.get()));
        steps.set(steps.get() + 1);
    })
    .unwrap();
    for step in 0..steps.get() {
        let items = open(&image(step)).unwrap();
        assert_eq!(events(&items).await, first_events(batch_of(38)));
        let kept = image(step).join("format-1");
        assert_eq!(fs::read(kept.join("engine/0.jnl")).unwrap(), torn);
        assert!(kept.join("REACHED").exists());
        for gone in ["engine", "REACHED", "converting"] {
            assert!(!image(step).join(gone).exists(), "{gone}");
        }
    }
}
