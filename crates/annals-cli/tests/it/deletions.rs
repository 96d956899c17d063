//! Deletions report the numbers that they deleted, and exit with 1 if there was nothing to delete.

use serde_json::{Value as Json, json};

use crate::run::{Annals, Outcome, on_every_store};
use crate::serve_journal::on_every_server;

const LAYOUTS: [&str; 3] = ["annals", "akka", "j5ik2o"];

/// A journal of three events on every layout and store.
fn with_three(scenario: impl Fn(&dyn Fn(&[&str]) -> Outcome)) {
    on_every_store(|annals| {
        for layout in LAYOUTS {
            let run = |args: &[&str]| annals.run(&[&["--layout", layout], args].concat());
            run(&["tables", "create"]).ok();
            run(&["append", "Cart|1", "1", "2", "3"]).ok();
            scenario(&run);
        }
    });
}

fn deleted(to: u64) -> [Json; 1] {
    [json!({"persistence_id": "Cart|1", "deleted_to": to})]
}

#[test]
fn a_deletion_prints_how_far_it_deleted() {
    with_three(|run| {
        for (to, done) in [("2", 2), ("99", 3), ("99", 3), ("1", 1)] {
            let said = run(&["delete", "Cart|1", "--to", to]).ok();
            assert_eq!(said.json(), deleted(done), "--to {to}");
        }
        // No number after the last event is used up.
        let next = run(&["append", "Cart|1", "4"]).ok().json();
        assert_eq!(next[0]["sequence_number"], 4);
        let absent = run(&["delete", "Kart|1", "--to", "2"]);
        assert_eq!(absent.out, "");
        absent.fails(1, "there are no events to delete. id=`Kart|1`");
    });
}

#[test]
fn a_replay_without_events_says_why() {
    with_three(|run| {
        let replay = |args: &[&str]| {
            let outcome = run(&[&["replay", "Cart|1"], args].concat());
            assert_eq!(outcome.out, "", "{outcome:?}");
            outcome
        };
        let none = "annals: there are no events in this range; the last event is 3. id=`Cart|1`";
        for range in [
            &["--from", "5", "--to", "2"][..],
            &["--from", "9"],
            &["--max", "0"],
        ] {
            replay(range).fails(0, none);
        }
        run(&["delete", "Cart|1", "--to", "2"]).ok();
        replay(&["--to", "2"]).fails(0, none);
        run(&["delete", "Cart|1", "--to", "3"]).ok();
        for range in [&[][..], &["--from", "2"], &["--from", "5", "--to", "2"]] {
            replay(range).fails(0, "annals: all events up to 3 are deleted. id=`Cart|1`");
        }
    });
}

#[test]
fn a_deletion_of_a_value_prints_its_revision() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let put = ["state", "put", "a", "--revision"];
        annals.run(&[&put[..], &["1", "1"]].concat()).ok();
        let deleted = annals.run(&["state", "delete", "a"]).ok();
        let line = "{\"persistence_id\":\"a\",\"deleted\":true,\"revision\":2}\n";
        assert_eq!(deleted.out, line);
        annals.run(&[&put[..], &["3", "1"]].concat()).ok();
        let deleted = annals.run(&["state", "delete", "a", "--revision", "4"]);
        assert_eq!(deleted.ok().json()[0]["revision"], 4);
    });
}

#[test]
fn a_purge_of_an_unknown_id_is_not_found() {
    with_three(|run| {
        let purge = || run(&["delete", "Cart|1", "--purge"]);
        let done = |snapshots: u64| {
            [json!({"persistence_id": "Cart|1", "purged": true, "snapshots_deleted": snapshots})]
        };
        assert_eq!(purge().ok().json(), done(0));
        // Snapshots are a trace of the id, too.
        run(&["snapshot", "save", "Cart|1", "--at", "2", "{}"]).warns("this id has no events");
        assert_eq!(purge().ok().json(), done(1));
        let again = purge();
        assert_eq!(again.out, "");
        again.fails(1, "there are no events to delete. id=`Cart|1`");
    });
}

/// Otherwise an entity would recover from them, and their numbers hide the next events.
#[test]
fn a_purge_deletes_snapshots() {
    with_three(|run| {
        for at in ["1", "3"] {
            run(&["snapshot", "save", "Cart|1", "--at", at, "{}"]).ok();
        }
        run(&["snapshot", "save", "Cart|2", "--at", "1", "{}"]).warns("this id has no events");
        let purged = run(&["delete", "Cart|1", "--purge"]).ok().json();
        assert_eq!(purged[0]["snapshots_deleted"], 2, "{purged:?}");
        run(&["snapshot", "load", "Cart|1"]).fails(1, "no such snapshot");
        run(&["snapshot", "load", "Cart|2"]).ok();
        run(&["append", "Cart|1", "--expect", "0", "1"]).ok();
        run(&["verify", "Cart|1"]).ok();
    });
}

#[test]
fn snapshots_that_do_not_exist_are_not_found() {
    with_three(|run| {
        run(&["snapshot", "save", "Cart|1", "--at", "2", "{}"]).ok();
        let delete = |args: &[&str]| run(&[&["snapshot", "delete", "Cart|1"], args].concat());
        for bounds in [
            &["--at", "1"][..],
            &["--min-seq", "3"],
            &["--min-seq", "2", "--max-seq", "1"],
            &["--max-time", "2001-01-01T00:00:00Z"],
        ] {
            let absent = delete(bounds);
            assert_eq!(absent.out, "");
            absent.fails(1, "there is no such snapshot to delete. id=`Cart|1`");
        }
        let done = [json!({"persistence_id": "Cart|1", "deleted": true})];
        assert_eq!(delete(&["--at", "2"]).ok().json(), done);
        delete(&["--at", "2"]).fails(1, "no such snapshot");
    });
}

#[test]
fn a_value_that_does_not_exist_is_not_found() {
    on_every_store(|annals| {
        for layout in ["annals", "j5ik2o"] {
            let run = |args: &[&str]| annals.run(&[&["--layout", layout, "state"], args].concat());
            annals.run(&["--layout", layout, "tables", "create"]).ok();
            let delete = || run(&["delete", "Theme|1"]);
            delete().fails(1, "there is no value to delete. id=`Theme|1`");
            run(&["put", "Theme|1", "--revision", "1", "\"dark\""]).ok();
            let done = [json!({"persistence_id": "Theme|1", "deleted": true, "revision": 2})];
            assert_eq!(delete().ok().json(), done);
            let again = delete();
            assert_eq!(again.out, "");
            again.fails(1, "there is no value to delete");
            // Nothing was written.
            run(&["put", "Theme|1", "--revision", "3", "\"light\""]).ok();
        }
    });
}

#[test]
fn a_dead_letter_that_does_not_exist_is_not_found() {
    on_every_store(|annals| {
        if annals.is_dynamodb() {
            annals.run(&["tables", "create", "--log"]).ok();
        } else {
            annals.run(&["tables", "create"]).ok();
        }
        let forget = annals.run(&["log", "dead-letters", "--forget", "none"]);
        assert_eq!(forget.out, "");
        forget.fails(1, "there is no such dead letter. name=`none`");
    });
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn people_read_what_was_deleted() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1", "2", "3"]).ok();
    for at in ["1", "2", "3"] {
        annals
            .run(&["snapshot", "save", "a", "--at", at, "{}"])
            .ok();
    }
    for (args, says) in [
        (&["delete", "a", "--to", "2"][..], "a is deleted up to 2\r"),
        (
            &["delete", "a", "--to", "99"],
            "a is deleted up to 3, its last event\r",
        ),
        (
            &["snapshot", "delete", "a", "--at", "1"],
            "1 snapshot of a is deleted",
        ),
        (
            &["snapshot", "delete", "a", "--min-seq", "1"],
            "2 snapshots of a are deleted",
        ),
    ] {
        let shown = annals.run_at_terminal(args, "");
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.out.contains(says), "{shown:?}");
    }
    for at in ["1", "2"] {
        let save = ["snapshot", "save", "a", "--at", at, "{}"];
        annals.run(&save).ok();
    }
    let purged = annals.run_at_terminal(&["delete", "a", "--purge"], "y\n");
    for says in [
        "remove every event and 2 snapshots of a ",
        "a is purged with 2 snapshots; its numbering restarts at 1",
    ] {
        assert!(purged.out.contains(says), "{purged:?}");
    }
}

/// HTTP has the same rule: absent is 404.
#[test]
fn a_deletion_of_nothing_is_404() {
    on_every_server(|_, server| {
        for path in [
            "/v1/journal/a/events?to=1",
            "/v1/journal/a",
            "/v1/snapshots/a",
            "/v1/snapshots/a/1",
            "/v1/state/a",
        ] {
            server.delete(path).problem(404, "absent");
        }
        let append = r#"{"events":[{"payload":1},{"payload":2}]}"#;
        server.post("/v1/journal/a/events", append).json(201);
        for (to, done) in [(1, 1), (99, 2), (99, 2)] {
            let path = format!("/v1/journal/a/events?to={to}");
            assert_eq!(server.delete(&path).json(200)["deleted_to"], done);
        }
        let put = |path: &str| server.put(path, r#"{"payload":1}"#).json(200);
        put("/v1/snapshots/a/1");
        put("/v1/state/a?revision=1");
        for path in ["/v1/snapshots/a/1", "/v1/state/a", "/v1/journal/a"] {
            server.delete(path).json(200);
            server.delete(path).problem(404, "absent");
        }
    });
}

#[test]
fn a_purge_over_http_deletes_snapshots() {
    on_every_server(|_, server| {
        let append = r#"{"events":[{"payload":1},{"payload":2}]}"#;
        server.post("/v1/journal/a/events", append).json(201);
        for at in [1, 2] {
            let path = format!("/v1/snapshots/a/{at}");
            server.put(&path, r#"{"payload":1}"#).json(200);
        }
        let purged = server.delete("/v1/journal/a").json(200);
        assert_eq!(purged["snapshots_deleted"], 2, "{purged}");
        let latest = server.get("/v1/snapshots/a/latest");
        latest.problem(404, "absent");
    });
}

/// The files in a folder that contain a text.
fn files_with(folder: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path);
        }
    }
    found
}

/// Whoever mistyped an id would confirm a question about it, and only then learn that it does not exist.
#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_purge_of_nothing_asks_nothing() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    let purge = |id: &str| annals.run_at_terminal(&["delete", id, "--purge"], "y\n");
    let nothing = purge("nope");
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    let says = "annals: there are no events to delete. id=`nope`";
    assert!(nothing.out.contains(says), "{nothing:?}");
    assert!(!nothing.out.contains("[y/N]"), "{nothing:?}");
    // Deleted events and snapshots are traces, too.
    annals.run(&["delete", "a", "--to", "1"]).ok();
    annals
        .run(&["snapshot", "save", "b", "--at", "1", "{}"])
        .warns("this id has no events");
    for id in ["a", "b"] {
        let asked = purge(id);
        assert_eq!(asked.code, Some(0), "{asked:?}");
        assert!(asked.out.contains("[y/N]"), "{asked:?}");
        assert!(asked.out.contains(&format!("{id} is purged")), "{asked:?}");
    }
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_purge_that_is_declined_changes_nothing() {
    let annals = Annals::embedded();
    let text = "secret-9217-4418";
    let event = format!("\"{text}\"");
    annals.run(&["append", "a", &event, "2"]).ok();
    annals.run(&["delete", "a", "--to", "1"]).ok();
    let declined = annals.run_at_terminal(&["delete", "a", "--purge", "--erase"], "n\n");
    assert_eq!(declined.code, Some(0), "{declined:?}");
    assert!(declined.out.contains("nothing purged"), "{declined:?}");
    assert_eq!(annals.run(&["replay", "a"]).ok().json().len(), 1);
    let data = annals.folder().join("annals-data");
    assert!(!files_with(&data, text).is_empty(), "nothing is erased");
}

#[test]
fn erase_returns_when_the_bytes_are_gone() {
    let annals = Annals::embedded();
    let text = "secret-8301-7739";
    annals
        .run(&["append", "Cart|1", &format!("\"{text}\"")])
        .ok();
    annals.run(&["append", "Cart|2", "\"other-5521\""]).ok();
    let data = annals.folder().join("annals-data");
    annals.run(&["delete", "Cart|1", "--purge"]).ok();
    assert!(!files_with(&data, text).is_empty(), "in the background");
    annals
        .run(&["delete", "Cart|2", "--to", "1", "--erase"])
        .ok();
    assert!(files_with(&data, text).is_empty());
    assert!(files_with(&data, "other-5521").is_empty());
    annals.run(&["verify", "--deep"]).ok();
    let served = Annals::served(&[]);
    served
        .run(&["delete", "Cart|1", "--purge", "--erase"])
        .fails(2, "on this machine");
}
