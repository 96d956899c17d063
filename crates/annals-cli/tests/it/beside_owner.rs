//! Readers, backups and restores beside an owner under full load that is killed again and again.
//!
//! `ANNALS_BESIDE_SECONDS` sets how long (default 12).

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use annals::embedded::{Embedded, RestorePoint, backup, restore};
use annals::journal::Window;
use annals::layout::AnnalsLayout;
use annals::{Annals as Library, Clock, Random, SystemClock};
use futures::TryStreamExt;
use serde_json::Value as Json;

use crate::run::Annals;
use crate::serve_client::{JSON, Reply, Server, connect, write_request};

const CLIENTS: u64 = 8;
/// Large, so that segments are filled and the index is written and merged.
const PADDING: usize = 3_000;

fn limit() -> Duration {
    let said = std::env::var("ANNALS_BESIDE_SECONDS");
    Duration::from_secs(said.map_or(12, |said| said.parse().expect("a number of seconds")))
}

/// By id: the payload's number of each event, in order.
type Events = BTreeMap<u64, Vec<u64>>;

/// What clients were told: by id, the sequence number and the payload's number.
#[derive(Clone, Default)]
struct Acknowledged(BTreeMap<u64, BTreeMap<u64, u64>>);

impl Acknowledged {
    #[track_caller]
    fn are_in(&self, events: &Events, what: &str) {
        for (id, acknowledged) in &self.0 {
            for (sequence_number, n) in acknowledged {
                let found = events
                    .get(id)
                    .and_then(|it| it.get(*sequence_number as usize - 1));
                assert_eq!(found, Some(n), "{what}: event {sequence_number} of id {id}");
            }
        }
    }

    fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }
}

/// Appends to one id until the server is gone.
fn append(
    address: &str,
    id: u64,
    random: &Random,
    (acknowledged, one): (&Mutex<Acknowledged>, Sender<()>),
) {
    let stream = connect(address);
    let (mut out, mut back) = (stream.try_clone().unwrap(), BufReader::new(stream));
    let path = format!("/v1/journal/{id}/events");
    loop {
        let n = random.bits() >> 12;
        let padding: String = std::iter::repeat_with(|| format!("{:016x}", random.bits()))
            .take(PADDING / 16)
            .collect();
        let body = format!(r#"{{"events":[{{"payload":{{"n":{n},"padding":"{padding}"}}}}]}}"#);
        write_request(&mut out, ("POST", &path), &[JSON], body.as_bytes());
        let Ok(reply) = Reply::try_read(&mut back, "POST") else {
            return;
        };
        let number = reply.json(201)["sequence_number"].as_u64().unwrap();
        let mut acknowledged = acknowledged.lock().unwrap();
        acknowledged.0.entry(id).or_default().insert(number, n);
        drop(acknowledged);
        if one.send(()).is_err() {
            return;
        }
    }
}

/// Every event of a store. Replay fails if a number is missing.
fn events(items: Embedded) -> Events {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let library = Library::open(items, &AnnalsLayout::default())
            .await
            .unwrap();
        let ids: Vec<annals::PersistenceId> = library
            .journal()
            .persistence_ids("")
            .try_collect()
            .await
            .unwrap();
        let mut all = Events::new();
        for id in ids {
            let replay = library.journal().replay(&id, Window::ALL);
            let replayed: Vec<annals::Event> = replay.try_collect().await.unwrap();
            let highest = library.journal().highest(&id).await.unwrap();
            assert_eq!(
                highest.map_or(0, |it| it.get()),
                replayed.len() as u64,
                "{id}"
            );
            let numbers = replayed.iter().map(|event| {
                let payload: Json = serde_json::from_slice(&event.data.payload).unwrap();
                payload["n"].as_u64().unwrap()
            });
            all.insert(id.to_string().parse().unwrap(), numbers.collect());
        }
        all
    })
}

fn open_read_only(folder: &Path) -> Embedded {
    Embedded::open_read_only(folder, &Default::default()).unwrap()
}

/// What runs beside the owner.
struct Beside<'a> {
    data: &'a Path,
    root: &'a Path,
    acknowledged: &'a Mutex<Acknowledged>,
    is_done: &'a AtomicBool,
}

impl Beside<'_> {
    fn acknowledged(&self) -> Acknowledged {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Opens the store for reading again and again; returns how often.
    fn read(&self) -> usize {
        let mut views = 0;
        let mut last = Events::new();
        while !self.is_done.load(Ordering::Relaxed) {
            let acknowledged = self.acknowledged();
            let view = events(open_read_only(self.data));
            acknowledged.are_in(&view, "a reader");
            // A later view continues an earlier one.
            for (id, before) in &last {
                assert!(view[id].starts_with(before), "id {id}");
            }
            last = view;
            views += 1;
        }
        views
    }

    /// Backs up and restores again and again; returns how often.
    fn back_up(&self) -> usize {
        let copy = self.root.join("copy");
        let random = Random::seeded(5);
        let mut points: Vec<(u64, Acknowledged)> = Vec::new();
        while !self.is_done.load(Ordering::Relaxed) {
            let acknowledged = self.acknowledged();
            let report = backup(self.data, &copy, false).unwrap();
            points.push((report.position, acknowledged.clone()));
            let whole = self.restored(&copy, RestorePoint::End);
            acknowledged.are_in(&whole, "a restore");
            let (position, acknowledged) = &points[random.below(points.len() as u64) as usize];
            let earlier = self.restored(&copy, RestorePoint::Position(*position));
            acknowledged.are_in(&earlier, "a restore to an earlier position");
            for (id, events) in earlier {
                assert!(whole[&id].starts_with(&events), "id {id}");
            }
        }
        points.len()
    }

    fn restored(&self, copy: &Path, point: RestorePoint) -> Events {
        let to = self.root.join("restored");
        restore(copy, &to, point).unwrap();
        let events = events(Embedded::open(&to, &Default::default()).unwrap());
        std::fs::remove_dir_all(&to).unwrap();
        events
    }
}

/// Serves, appends and kills, until the time is over; returns how often.
fn kill_again_and_again(annals: &Annals, acknowledged: &Mutex<Acknowledged>) -> u64 {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let mut kills = 0;
    while kills < 3 || clock.monotonic() - start < limit() {
        let server = Server::start(annals);
        let (one, acknowledgements): (Sender<()>, Receiver<()>) = channel();
        let address = server.address.clone();
        std::thread::scope(|scope| {
            for id in 0..CLIENTS {
                let (address, one) = (&address, one.clone());
                let random = Random::seeded(kills << 8 | id);
                scope.spawn(move || append(address, id, &random, (acknowledged, one)));
            }
            let enough = 300 + Random::seeded(kills).below(1_500);
            for _ in 0..enough {
                acknowledgements.recv().unwrap();
            }
            server.kill();
        });
        kills += 1;
    }
    kills
}

#[test]
fn readers_and_backups_have_everything_acknowledged_while_the_owner_writes_and_is_killed() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let data = annals.folder().join("annals-data");
    let (acknowledged, is_done) = (Mutex::default(), AtomicBool::new(false));
    let beside = Beside {
        data: &data,
        root: annals.folder(),
        acknowledged: &acknowledged,
        is_done: &is_done,
    };
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| beside.read());
        let backing_up = scope.spawn(|| beside.back_up());
        let kills = kill_again_and_again(&annals, &acknowledged);
        is_done.store(true, Ordering::Relaxed);
        let (views, backups) = (reading.join().unwrap(), backing_up.join().unwrap());
        println!("{kills} kills, {views} views, {backups} backups");
        assert!(views > 0 && backups > 0, "{views} views, {backups} backups");
    });
    // The last owner was killed.
    let acknowledged = acknowledged.into_inner().unwrap();
    println!("{} events acknowledged", acknowledged.count());
    let view = events(open_read_only(&data));
    acknowledged.are_in(&view, "a reader after the kill");
    let report = backup(&data, &annals.folder().join("copy"), true).unwrap();
    assert!(report.files_copied + report.files_reused > 0, "{report:?}");
    let owned = events(Embedded::open(&data, &Default::default()).unwrap());
    assert_eq!(owned, view);
    // Nothing of the readers is left.
    let readers = std::fs::read_dir(data.join("readers")).unwrap().count();
    assert_eq!(readers, 0);
}

#[test]
fn commands_read_beside_a_server_and_write_through_it() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let event = r#"{"events":[{"payload":{"n":1}}]}"#;
    server.post("/v1/journal/a/events", event).json(201);
    assert_eq!(annals.run(&["replay", "a"]).ok().json().len(), 1);
    server.post("/v1/journal/a/events", event).json(201);
    assert_eq!(annals.run(&["replay", "a"]).ok().json().len(), 2);
    assert_eq!(annals.run(&["ids"]).ok().json().len(), 1);
    assert_eq!(annals.run(&["highest", "a"]).ok().json().len(), 1);
    assert_eq!(
        annals.run(&["export", "annals-journal"]).ok().json().len(),
        3
    );
    for args in [
        &["verify"][..],
        &["tables", "check"],
        &["log", "stats"],
        &["log", "horizon"],
        &["log", "dead-letters"],
        &["log", "playback", "--start", "0"],
        &["copy", "--from", "annals", "--to", "data=other"],
        &["backup", "copy"],
    ] {
        annals.run(args).ok();
    }
    assert_eq!(
        annals
            .run(&["--data", "other", "replay", "a"])
            .ok()
            .json()
            .len(),
        2
    );
    let process = format!(
        "or add --server URL if it is `annals serve`. process=`{}`",
        server.pid()
    );
    for args in [
        &["append", "a", "{}"][..],
        &["delete", "a", "--to", "1"],
        &["delete", "a", "--purge", "--yes"],
        &["snapshot", "save", "a", "--at", "1", "{}"],
        &["snapshot", "delete", "a", "--at", "1"],
        &["state", "put", "a", "--revision", "1", "{}"],
        &["state", "delete", "a"],
        &["tables", "create"],
        &["tables", "drop", "--yes"],
        &["verify", "--repair"],
        &["log", "sweep"],
        &["log", "pump", "--journal"],
        &["log", "dead-letters", "--forget", "a"],
        &["log", "horizon", "--set-back", "2026-11-15T00:00:00Z"],
        &["log", "playback", "--start", "0", "--follow"],
        &["import", "annals-journal"],
        &["copy", "--from", "data=other", "--to", "annals"],
    ] {
        annals.run(args).fails(4, &process);
    }
    assert_eq!(server.stop(), Some(0));
    annals.run(&["append", "a", "{}"]).ok();
}

#[test]
fn a_backup_and_a_restore_at_the_command_line() {
    let annals = Annals::embedded();
    for n in 1..=3 {
        annals.run(&["append", "a", &n.to_string()]).ok();
    }
    let first = annals.run(&["backup", "copy"]).ok().json();
    let position = first[0]["position"].as_u64().unwrap();
    assert_eq!(first[0]["files_copied"], 1, "{first:?}");
    assert!(first[0]["time"].as_u64() > Some(0), "{first:?}");
    annals.run(&["append", "a", "4"]).ok();
    annals.run(&["backup", "copy", "--verify"]).ok();
    let again = annals.run(&["backup", "copy"]).ok().json();
    assert_eq!(
        (&again[0]["files_reused"], &again[0]["bytes_copied"]),
        (&1.into(), &0.into())
    );

    let refused = annals.run(&["restore", "copy"]);
    refused.fails(2, "the folder to restore into is not empty");
    let restored = annals
        .run(&["restore", "copy", "--data", "whole"])
        .ok()
        .json();
    assert_eq!(restored[0]["position"], again[0]["position"]);
    let to = position.to_string();
    annals
        .run(&["restore", "copy", "--data", "part", "--to-position", &to])
        .ok();
    let time = first[0]["time"].to_string();
    annals
        .run(&["restore", "copy", "--data", "then", "--to-time", &time])
        .ok();
    for (data, events) in [("whole", 4), ("part", 3), ("then", 3)] {
        let replayed = annals.run(&["--data", data, "replay", "a"]).ok().json();
        assert_eq!(replayed.len(), events, "{data}");
        annals.run(&["--data", data, "verify"]).ok();
    }
    // Another history.
    annals.run(&["--data", "part", "append", "a", "9"]).ok();
    annals
        .run(&["--data", "part", "backup", "copy"])
        .fails(2, "use another folder");
    annals.run(&["--data", "part", "backup", "other"]).ok();
}

#[test]
fn a_point_with_snapshots_that_are_erased_is_restored_without_them() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    annals
        .run(&["snapshot", "save", "a", "--at", "1", "{}"])
        .ok();
    let first = annals.run(&["backup", "first"]).ok().json();
    assert_eq!(first[0]["restorable_from"], 0);
    annals.run(&["append", "a", "2"]).ok();
    annals
        .run(&["snapshot", "save", "a", "--at", "2", "{}"])
        .ok();
    annals.run(&["snapshot", "delete", "a", "--at", "1"]).ok();
    annals.run(&["append", "b", "1"]).ok();
    let with_b = annals.run(&["backup", "second"]).ok().json();
    annals
        .run(&["delete", "b", "--purge", "--erase", "--yes"])
        .ok();
    let report = annals.run(&["backup", "copy"]).ok().json();
    assert!(report[0]["restorable_from"].as_u64() > with_b[0]["position"].as_u64());

    let restore = |data: &str, position: &str| {
        annals.run(&["restore", "copy", "--data", data, "--to-position", position])
    };
    let to = first[0]["position"].to_string();
    let restored = restore("part", &to).ok().json();
    assert_eq!(restored[0]["snapshots_left_out"], 1, "{restored:?}");
    assert_eq!(
        annals
            .run(&["--data", "part", "replay", "a"])
            .ok()
            .json()
            .len(),
        1
    );
    annals
        .run(&["--data", "part", "snapshot", "load", "a"])
        .fails(1, "no such snapshot");
    annals.run(&["--data", "part", "verify"]).ok();
    // An event that is erased is never left out.
    let to = with_b[0]["position"].to_string();
    restore("other", &to).fails(2, "are erased from the backup; name a later one");
    assert!(!annals.folder().join("other").exists());

    // By a position of the feed, of this store only.
    let fed = annals.run(&["feed"]).ok().json();
    let position = fed[0]["position"].as_str().unwrap();
    restore("fed", position).ok();
    assert_eq!(
        annals
            .run(&["--data", "fed", "replay", "a"])
            .ok()
            .json()
            .len(),
        1
    );
    restore("foreign", "1.0:1").fails(2, "of another store's feed");
    restore("wrong", "1.0").fails(2, "a position is what the feed printed");
}

#[test]
fn wrong_backups_and_restores_are_refused() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    annals.run(&["backup", "copy"]).ok();
    annals
        .run(&["restore", "copy", "--data", "x", "--to-position", "999"])
        .fails(2, "the backup ends before this position");
    let late = "2999-01-01T00:00:00Z";
    let refused = annals.run(&["restore", "copy", "--data", "x", "--to-time", late]);
    let taken = refused
        .fails(2, "the backup was taken before this time")
        .err;
    let taken = taken.split("taken at=`").nth(1).unwrap();
    assert!(taken.starts_with("20") && taken.contains("Z`"), "{taken}");
    for args in [
        &["verify", "--deep"][..],
        &["verify"],
        &["replay", "a"],
        &["log", "sweep"],
    ] {
        annals.run(&[&["--data", "copy"], args].concat()).fails(
            2,
            "this is a backup; restore it first with `annals restore`. data=`copy`",
        );
    }
    annals
        .run(&["restore", "nowhere", "--data", "x"])
        .fails(2, "there is no complete backup");
    annals
        .run(&["backup", "copy", "--data", "nowhere"])
        .fails(2, "check --data: there is no store in this folder");
    annals
        .run(&["verify", "--deep", "--data", "nowhere"])
        .fails(2, "check --data: there is no store in this folder");
    assert!(!annals.folder().join("x").exists());
    let served = Annals::served(&[]);
    for command in ["backup", "restore"] {
        served.run(&[command, "copy"]).fails(
            2,
            "needs the folder of an embedded store; run it where the folder is",
        );
        annals
            .run(&[command, "copy", "--dynamodb"])
            .fails(2, "needs the folder of an embedded store; on DynamoDB");
    }
}
