//! Commands that read take no lock and change nothing: of a closed store, of one whose owner was killed,
//! and of one with a damaged index.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::journal::numbers;
use crate::run::Annals;
use crate::serve_client::Server;

const EVENT: &str = r#"{"events":[{"payload":{"n":1}}]}"#;
const RECORD: &str = r#"{"event_id":"e1","time":1700000000000,"payload":{}}"#;

/// Every command that only reads.
const READING: &[&[&str]] = &[
    &["replay", "a"],
    &["ids"],
    &["highest", "a"],
    &["verify", "a"],
    &["verify"],
    &["verify", "--deep"],
    &["export", "annals-journal"],
    &["snapshot", "load", "a"],
    &["snapshot", "list", "a"],
    &["state", "get", "a"],
    &["log", "playback", "--start", "0"],
    &["log", "stats"],
    &["log", "horizon"],
    &["log", "dead-letters"],
    &["tables", "check"],
    &["copy", "--from", "annals", "--to", "data=other"],
    &["backup", "copy"],
];

/// The files and folders of a store with their bytes, without the folder of its readers.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("readers") {
                continue;
            }
            let bytes = match path.is_dir() {
                true => {
                    folders.push(path.clone());
                    None
                }
                false => Some(fs::read(&path).unwrap()),
            };
            found.insert(path, bytes);
        }
    }
    found
}

/// A closed store with something of every kind.
fn store() -> (Annals, PathBuf) {
    let annals = Annals::embedded();
    annals.run(&["tables", "create", "--log"]).ok();
    annals.run(&["append", "a", "1", "2"]).ok();
    annals
        .run(&["snapshot", "save", "a", "--at", "1", "{}"])
        .ok();
    annals
        .run(&["state", "put", "a", "--revision", "1", "{}"])
        .ok();
    annals.run_with(&["log", "ingest"], RECORD).ok();
    annals.run(&["log", "sweep"]).ok();
    let data = annals.folder().join("annals-data");
    (annals, data)
}

/// Runs every command that reads, each of which must exit with the code that `code` wants.
fn read_all(annals: &Annals, data: &Path, code: impl Fn(&[&str]) -> i32) {
    let before = content(data);
    for args in READING {
        let outcome = annals.run(args);
        assert_eq!(outcome.code, Some(code(args)), "{args:?}: {outcome:?}");
        let after = content(data);
        let changed: Vec<_> = before
            .iter()
            .filter(|(path, bytes)| after.get(*path) != Some(bytes))
            .map(|(path, _)| path)
            .chain(after.keys().filter(|path| !before.contains_key(*path)))
            .collect();
        assert!(changed.is_empty(), "{args:?} changed {changed:?}");
    }
    let left = fs::read_dir(data.join("readers")).unwrap().count();
    assert_eq!(left, 0, "readers leave nothing");
}

#[test]
fn reading_a_closed_store_changes_nothing() {
    let (annals, data) = store();
    read_all(&annals, &data, |_| 0);
}

#[test]
fn reading_a_store_whose_owner_was_killed_changes_nothing() {
    let (annals, data) = store();
    let server = Server::start(&annals);
    server.post("/v1/journal/a/events", EVENT).json(201);
    server.kill();
    read_all(&annals, &data, |_| 0);
    assert_eq!(annals.run(&["replay", "a"]).ok().json().len(), 3);
}

#[test]
fn reading_a_store_with_a_damaged_index_changes_nothing() {
    let (annals, data) = store();
    fs::write(data.join("index/current"), "damaged").unwrap();
    read_all(&annals, &data, |args| match args {
        ["verify", ..] => 5,
        _ => 0,
    });
    let replayed = annals.run(&["replay", "a"]);
    assert_eq!(replayed.json().len(), 2, "{replayed:?}");
    assert!(
        replayed.err.contains("the index is damaged"),
        "{replayed:?}"
    );
    let finding = |args: &[&str], code: i32, remedy: &str| {
        let found = annals.run(args);
        assert_eq!(found.code, Some(code), "{found:?}");
        let lines = found.json();
        assert_eq!(lines.len(), 1, "{found:?}");
        assert_eq!(
            (&lines[0]["of"], &lines[0]["remedy"]),
            (&"file".into(), &remedy.into())
        );
        let detail = lines[0]["detail"].as_str().unwrap();
        assert!(detail.contains("the index is damaged"), "{detail}");
        assert!(detail.ends_with("annals-data/index`"), "{detail}");
    };
    finding(&["verify"], 5, "repairable");
    finding(&["verify", "--repair"], 0, "repaired");
    assert_eq!(annals.run(&["verify"]).ok().out, "");
}

#[test]
fn reading_a_store_without_an_index_changes_nothing() {
    let (annals, data) = store();
    fs::remove_dir_all(data.join("index")).unwrap();
    read_all(&annals, &data, |_| 0);
}

#[test]
fn a_store_of_format_1_is_not_converted_by_reading_it() {
    let (annals, data) = store();
    fs::write(data.join("FORMAT"), "annals embedded format 1\n").unwrap();
    let before = content(&data);
    for args in READING {
        annals
            .run(args)
            .fails(2, "format 1")
            .fails(2, "`annals tables create` converts it");
        assert!(content(&data) == before, "{args:?}");
    }
    assert!(!data.join("readers").exists());
}

/// Its output fills the pipe, so it has the store open until the test reads on.
#[test]
fn a_replay_that_nobody_reads_keeps_no_process_from_writing() {
    const EVENTS: usize = 2_000;
    let annals = Annals::embedded();
    let payload = "x".repeat(500);
    let line = format!("{{\"persistence_id\":\"a\",\"events\":[{{\"payload\":\"{payload}\"}}]}}\n");
    annals
        .run_with(&["append", "--bulk"], line.repeat(EVENTS))
        .ok();
    let mut replay = annals.binary(&["replay", "a"]);
    let mut replay = replay.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(replay.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    // More than a pipe holds is left.
    assert_eq!(replay.try_wait().unwrap(), None);

    annals.run(&["append", "a", "1"]).ok();
    let server = Server::start(&annals);
    server.post("/v1/journal/a/events", EVENT).json(201);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(replay.try_wait().unwrap(), None);

    let rest = out.lines().map(|line| line.unwrap());
    let lines: Vec<serde_json::Value> = std::iter::once(first)
        .chain(rest)
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    let all: Vec<u64> = (1..=EVENTS as u64).collect();
    assert_eq!(numbers(&lines), all, "the store as it was");
    assert!(replay.wait().unwrap().success());
    let highest = annals.run(&["highest", "a"]).ok().json();
    assert_eq!(highest[0]["sequence_number"], EVENTS + 2);
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn people_are_told_of_a_living_owner_only() {
    let (annals, data) = store();
    let notes = || {
        let shown = annals.run_at_terminal(&["ids"], "");
        assert_eq!(shown.code, Some(0), "{shown:?}");
        shown.out.contains("has the store open")
    };
    assert!(!notes(), "it is closed");
    assert_eq!(fs::read_to_string(data.join("LOCK")).unwrap(), "");
    let server = Server::start(&annals);
    assert!(notes());
    server.kill();
    assert!(!notes(), "its owner was killed");
}
