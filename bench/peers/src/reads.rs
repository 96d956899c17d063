//! Recovery of ids with 100 and 10,000 events, and a scan of everything, in two ways: the feed, which
//! is the way to read everything, and each id that a listing finds. Each event was an append.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use annals::journal::{Journal, Window};
use annals::{Event, PersistenceId};
use futures::TryStreamExt;
use serde_json::json;

use crate::Result;
use crate::appends::payload;
use crate::feed::catch_up;
use crate::machine::{median, spread};
use crate::ours::Ours;
use crate::sqlite::{Reader, Sqlite};
use crate::writer::{Append, Writer};

const WRITERS: u64 = 256;
/// Events of an id, readers.
const CELLS: [(u64, usize); 4] = [(100, 1), (100, 4), (10_000, 1), (10_000, 4)];

pub(crate) async fn run(folder: &Path, events: u64, rounds: u64) -> Result<()> {
    for each in [100, 10_000] {
        let ids: Vec<Arc<str>> = (0..events / each)
            .map(|id| format!("Account|{id}").into())
            .collect();
        let path = folder.join(format!("sqlite-{each}"));
        let sqlite: Arc<dyn Writer> = Arc::new(Sqlite::create(&path)?);
        let ours = Arc::new(Ours::open(&folder.join(format!("annals-{each}"))).await?);
        fill(&sqlite, &ids, each).await?;
        let writer: Arc<dyn Writer> = ours.clone();
        fill(&writer, &ids, each).await?;
        let (ids, journal) = (Arc::new(ids), ours.journal());
        for (_, readers) in CELLS.into_iter().filter(|(events, _)| *events == each) {
            let mut rates = Vec::new();
            for _ in 0..=rounds {
                let theirs = recover_sqlite(&path, &ids, readers).await?;
                rates.push((recover_ours(journal, &ids, readers).await?, theirs));
            }
            print(&format!("recover {each}"), readers, &rates[1..]);
        }
        let (mut listed, mut fed) = (Vec::new(), Vec::new());
        for _ in 0..=rounds {
            let theirs = scan_sqlite(&path, events).await?;
            listed.push((scan_ours(journal, events).await?, theirs));
            fed.push((catch_up(ours.annals(), events).await?, theirs));
        }
        print(
            &format!("ids and their events, {each} an id"),
            1,
            &listed[1..],
        );
        print(
            &format!("everything by the feed, {each} an id"),
            1,
            &fed[1..],
        );
    }
    Ok(())
}

fn print(what: &str, readers: usize, rates: &[(f64, f64)]) {
    let (ours, theirs): (Vec<f64>, Vec<f64>) = rates.iter().copied().unzip();
    let ratios: Vec<f64> = rates.iter().map(|(ours, theirs)| ours / theirs).collect();
    let line = json!({
        "what": what,
        "readers": readers,
        "annals_events_per_second": median(&ours).round(),
        "sqlite_events_per_second": median(&theirs).round(),
        "annals_to_sqlite": spread(&ratios),
    });
    println!("{line}");
}

/// Appends the events of all ids, one at a time, ids in turn.
pub(crate) async fn fill(to: &Arc<dyn Writer>, ids: &[Arc<str>], each: u64) -> Result<()> {
    let payload = payload(200);
    let tasks = (0..WRITERS).map(|writer| {
        let mine: Vec<_> = ids
            .iter()
            .skip(writer as usize)
            .step_by(WRITERS as usize)
            .cloned()
            .collect();
        let (to, payload) = (to.clone(), payload.clone());
        tokio::spawn(async move {
            for after in 0..each {
                for id in &mine {
                    let (id, payload) = (id.clone(), payload.clone());
                    to.append(Append {
                        id,
                        after,
                        payload,
                        events: 1,
                    })
                    .await?;
                }
            }
            Ok::<_, crate::Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

async fn recover_ours(journal: &Journal, ids: &Arc<Vec<Arc<str>>>, readers: usize) -> Result<f64> {
    let start = Instant::now();
    let tasks = (0..readers).map(|reader| {
        let (journal, ids) = (journal.clone(), ids.clone());
        tokio::spawn(async move {
            let mut read = 0;
            for id in ids.iter().skip(reader).step_by(readers) {
                let id: PersistenceId = id.parse()?;
                let events: Vec<Event> = journal.replay(&id, Window::ALL).try_collect().await?;
                let last = events.last().map_or(0, |event| event.sequence_number.get());
                assert_eq!(last, events.len() as u64);
                read += events.len();
            }
            Ok::<_, crate::Error>(read)
        })
    });
    let mut read = 0;
    for task in tasks.collect::<Vec<_>>() {
        read += task.await??;
    }
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

async fn recover_sqlite(path: &Path, ids: &Arc<Vec<Arc<str>>>, readers: usize) -> Result<f64> {
    let start = Instant::now();
    let tasks = (0..readers).map(|reader| {
        let (path, ids) = (PathBuf::from(path), ids.clone());
        tokio::task::spawn_blocking(move || {
            let connection = Reader::open(&path)?;
            let mut read = 0;
            for id in ids.iter().skip(reader).step_by(readers) {
                let rows = connection.recover(id)?;
                assert_eq!(rows.last().map(|row| row.number as usize), Some(rows.len()));
                assert_eq!(rows.last().map(|row| row.payload.len()), Some(200));
                read += rows.len();
            }
            Ok::<_, crate::Error>(read)
        })
    });
    let mut read = 0;
    for task in tasks.collect::<Vec<_>>() {
        read += task.await??;
    }
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

pub(crate) async fn scan_ours(journal: &Journal, events: u64) -> Result<f64> {
    let start = Instant::now();
    let (mut read, mut bytes) = (0, 0);
    let mut ids = journal.persistence_ids("");
    while let Some(id) = ids.try_next().await? {
        let mut replay = journal.replay(&id, Window::ALL);
        while let Some(event) = replay.try_next().await? {
            read += 1;
            bytes += event.data.payload.len() as u64;
        }
    }
    assert_eq!((read, bytes), (events, events * 200));
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

async fn scan_sqlite(path: &Path, events: u64) -> Result<f64> {
    let (start, path) = (Instant::now(), PathBuf::from(path));
    let read = tokio::task::spawn_blocking(move || Reader::open(&path)?.scan()).await??;
    assert_eq!(read, (events, events * 200));
    Ok(events as f64 / start.elapsed().as_secs_f64())
}
