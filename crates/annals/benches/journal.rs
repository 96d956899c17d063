//! The journal on the embedded store against the bare engine, in one run: appends by number of
//! writers and of events, then the replay of a million events, with the memory it took.
//!
//! `cargo bench -p annals --bench journal`

use std::path::Path;
use std::sync::Arc;

use annals::bench::{StorePlan, measure_journal};
use annals::embedded::Embedded;
use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
use annals::journal::{Append, Expected, Journal, Window};
use annals::settings::Settings;
use annals::{Clock, Codec, NewEvent, PersistenceId, Random, Result, SystemClock};
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use futures::StreamExt;

/// Events of the long replay, and how many of them an append has.
const EVENTS: u64 = 1_000_000;
const EVENTS_AN_APPEND: u64 = 10;

fn event(n: u64) -> NewEvent {
    let random = Random::seeded(n);
    let words = std::iter::repeat_with(|| random.bits()).flat_map(u64::to_le_bytes);
    NewEvent::new(Codec::Bytes, words.take(200).collect::<Vec<u8>>()).manifest("Deposited")
}

fn events(n: u64, count: u64) -> Append {
    Append::of((n..n + count).map(event).collect::<Vec<_>>())
}

async fn open(folder: &Path) -> Result<Journal> {
    let settings = Settings::default();
    let items: Arc<dyn Items> = Arc::new(Embedded::open(folder, &settings.embedded)?);
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let table = TableSpec::new("annals-journal".parse()?, key)?;
    items.create_table(&table, Default::default()).await?;
    let clock = Arc::new(SystemClock::new());
    Journal::open(items, &settings, clock, Random::from_machine()).await
}

/// The most memory this process ever had, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Fills an id with a million events.
async fn fill(journal: &Journal, id: &PersistenceId) -> Result<()> {
    let mut expected = Expected::Empty;
    let mut n = 0;
    while n < EVENTS {
        let append = events(n, EVENTS_AN_APPEND);
        expected = Expected::Last(journal.append(id, expected, append).await?.last);
        n += EVENTS_AN_APPEND;
    }
    Ok(())
}

/// A bare engine with as many values of as many bytes.
fn bare(folder: &Path, bytes_each: usize) -> fjall::Result<(Database, fjall::Keyspace)> {
    let db = Database::builder(folder).open()?;
    let keyspace = db.keyspace("items", KeyspaceCreateOptions::default)?;
    for n in 0..EVENTS / EVENTS_AN_APPEND {
        let random = Random::seeded(n);
        let words = std::iter::repeat_with(|| random.bits()).flat_map(u64::to_le_bytes);
        let value: Vec<u8> = words.take(bytes_each).collect();
        keyspace.insert(n.to_be_bytes(), value)?;
    }
    db.persist(PersistMode::SyncAll)?;
    Ok((db, keyspace))
}

async fn replay_rate(clock: &SystemClock, journal: &Journal, id: &PersistenceId) -> Result<f64> {
    let start = clock.monotonic();
    let mut count = 0u64;
    let mut replayed = journal.replay(id, Window::ALL);
    while let Some(event) = replayed.next().await {
        event?;
        count += 1;
    }
    assert_eq!(count, EVENTS);
    Ok(count as f64 / (clock.monotonic() - start).as_secs_f64())
}

fn scan_rate(clock: &SystemClock, keyspace: &fjall::Keyspace) -> fjall::Result<f64> {
    let start = clock.monotonic();
    let mut bytes = 0;
    for entry in keyspace.iter() {
        bytes += entry.value()?.len();
    }
    assert!(bytes > 0);
    Ok(EVENTS as f64 / (clock.monotonic() - start).as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk to be measured");
    let clock = SystemClock::new();
    println!("writers  events  engine/s  appends/s  events/s  ours/engine");
    let shared = Arc::new(clock.clone());
    measure_journal(folder.path(), StorePlan::default(), shared, |row| {
        let (writers, events) = (row.writers, row.events);
        let (engine, ours, ratio) = (row.engine, row.ours, row.ours_to_engine);
        let events_per_second = ours * events as f64;
        println!("{writers:>7} {events:>7} {engine:>9.0} {ours:>10.0} {events_per_second:>9.0} {ratio:>12.2}");
    })
    .await?;
    let id: PersistenceId = "Account|1".parse()?;
    let journal = open(&folder.path().join("ours")).await?;
    fill(&journal, &id).await?;
    let (_db, keyspace) = bare(&folder.path().join("bare"), 2_200).expect("the bare engine");
    let before = peak_mib();
    println!("   replay/s   scan/s  replay/scan");
    for _ in 0..5 {
        let scan = scan_rate(&clock, &keyspace).expect("a scan");
        let replay = replay_rate(&clock, &journal, &id).await?;
        println!("{replay:>11.0} {scan:>8.0} {:>12.2}", replay / scan);
    }
    println!(
        "peak memory: {before} MiB before the replays, {} MiB after",
        peak_mib()
    );
    Ok(())
}
