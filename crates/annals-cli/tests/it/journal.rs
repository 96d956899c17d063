//! `annals append`, `replay`, `highest`, `ids`, `delete`, `snapshot` and `state`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value as Json, json};

use crate::run::{Annals, on_every_store, on_every_store_with};

pub(crate) const ANNALS: [&str; 2] = ["--layout", "annals"];
pub(crate) const AKKA: [&str; 2] = ["--layout", "akka"];

pub(crate) fn numbers(lines: &[Json]) -> Vec<u64> {
    let number = |line: &Json| line["sequence_number"].as_u64().unwrap();
    lines.iter().map(number).collect()
}

/// On every store and on each layout that has a journal, as [`with_five_on`].
pub(crate) fn with_five(scenario: impl Fn(&Annals)) {
    with_five_on(ANNALS, &scenario);
    with_five_on(AKKA, &scenario);
}

/// A store with tables, and five events: three one by one, two together.
pub(crate) fn with_five_on(layout: [&str; 2], scenario: impl Fn(&Annals)) {
    on_every_store_with(&layout, |annals| {
        annals.run(&["tables", "create"]).ok();
        for n in 1..=3 {
            let (expect, event) = ((n - 1).to_string(), format!("{{\"n\":{n}}}"));
            let lines = annals
                .run(&["append", "Cart|1", "--expect", &expect, &event])
                .ok();
            assert_eq!(numbers(&lines.json()), [n]);
        }
        let both = [
            "append",
            "Cart|1",
            "--tag",
            "t1",
            "--tag",
            "t2",
            "--manifest",
            "M",
        ];
        let both = [&both[..], &["{\"n\":4}", "{\"n\":5}"]].concat();
        assert_eq!(numbers(&annals.run(&both).ok().json()), [4, 5]);
        scenario(annals);
    });
}

#[test]
fn appended_events_are_replayed() {
    with_five(|annals| {
        let lines = annals.run(&["replay", "Cart|1"]).ok().json();
        assert_eq!(numbers(&lines), [1, 2, 3, 4, 5]);
        let last = &lines[4];
        assert_eq!(last["persistence_id"], "Cart|1");
        assert_eq!(last["manifest"], "M");
        assert_eq!(last["tags"], json!(["t1", "t2"]));
        assert_eq!(last["metadata"], json!({}));
        assert_eq!(last["codec"], "json");
        assert_eq!(last["payload"], json!({"n": 5}));
        assert!(last["time"].as_u64().unwrap() > 1_700_000_000_000);
        for (args, want) in [
            (&["--from", "3"][..], &[3, 4, 5][..]),
            (&["--to", "2"], &[1, 2]),
            (&["--from", "2", "--to", "4"], &[2, 3, 4]),
            (&["--max", "2"], &[1, 2]),
            (&["--from", "5"], &[5]),
            (&["--from", "9"], &[]),
        ] {
            let outcome = annals.run(&[&["replay", "Cart|1"], args].concat());
            // A range without events is noted.
            let outcome = match want {
                [] => outcome.fails(0, "there are no events in this range"),
                _ => outcome.ok(),
            };
            assert_eq!(numbers(&outcome.json()), want, "{args:?}");
        }
        let highest = annals.run(&["highest", "Cart|1"]).ok().json();
        assert_eq!(
            highest,
            [json!({"persistence_id": "Cart|1", "sequence_number": 5})]
        );
    });
}

#[test]
fn optional_fields_are_replayed_if_set() {
    with_five(|annals| {
        let known =
            "--causation c-1 --correlation d-1 --schema 7 --metadata by=alice --metadata k=";
        let args: Vec<&str> = known.split(' ').collect();
        let args = [
            &["append", "Cart|1"],
            &args[..],
            &["--metadata", "e=a=b", "{}", "{}"],
        ]
        .concat();
        annals.run(&args).ok();
        let lines = annals.run(&["replay", "Cart|1", "--from", "5"]).ok().json();
        assert_eq!(numbers(&lines), [5, 6, 7]);
        for name in ["causation", "correlation", "schema"] {
            assert_eq!(lines[0].get(name), None);
        }
        for line in &lines[1..] {
            assert_eq!(line["causation"], "c-1");
            assert_eq!(line["correlation"], "d-1");
            assert_eq!(line["schema"], 7);
            let metadata = json!({"by": "alice", "e": "a=b", "k": ""});
            assert_eq!(line["metadata"], metadata);
        }
        let long = "x".repeat(1_025);
        for (name, value, says) in [
            ("--metadata", "alice", "metadata is KEY=VALUE"),
            ("--schema", "-1", "--schema"),
            ("--causation", long.as_str(), "at most 1024 bytes"),
        ] {
            let said = format!("{name}={value}");
            annals
                .run(&["append", "Cart|1", &said, "{}"])
                .fails(2, says);
        }
        assert_eq!(annals.run(&["replay", "Cart|1"]).ok().json().len(), 7);
    });
}

#[test]
fn an_append_repeated_with_its_key_is_stored_once() {
    with_five(|annals| {
        let append =
            |event| annals.run(&["append", "Cart|1", "--idempotency-key", "order-7", event]);
        for _ in 0..2 {
            assert_eq!(numbers(&append("{}").ok().json()), [6]);
        }
        append("[]").fails(3, "use a new key for new events");
        let highest = annals.run(&["highest", "Cart|1"]).ok().json();
        assert_eq!(numbers(&highest), [6]);
    });
}

#[test]
fn an_append_that_expects_something_else_is_a_conflict() {
    with_five(|annals| {
        for expect in ["0", "3", "4", "6", "1000000"] {
            let args = ["append", "Cart|1", "--expect", expect, "{}"];
            annals
                .run(&args)
                .fails(3, "see the new events with `annals replay`");
        }
        let lines = annals.run(&["replay", "Cart|1"]).ok().json();
        assert_eq!(lines.len(), 5);
    });
}

#[test]
fn an_invalid_event_or_id_fails_the_whole_append() {
    with_five(|annals| {
        let args = ["append", "Cart|1", "{\"good\":1}", "{bad"];
        annals
            .run(&args)
            .fails(2, "event 2 is not JSON; nothing was written");
        annals
            .run_with(&["append", "Cart|1"], "\n\n")
            .fails(2, "at least one event");
        let long = "x".repeat(2_001);
        for id in ["", long.as_str()] {
            let outcome = annals.run(&["append", id, "{}"]);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert!(outcome.err.contains("1 to 2000 bytes"), "{outcome:?}");
            assert!(outcome.err.len() < 300, "{outcome:?}");
        }
        annals
            .run(&["append", "a", "--expect", "9223372036854775808", "{}"])
            .fails(2, "must be a whole number from 0 to 9223372036854775807");
        assert_eq!(annals.run(&["replay", "Cart|1"]).ok().json().len(), 5);
    });
}

#[test]
fn events_are_read_as_lines_from_standard_input() {
    with_five(|annals| {
        let input = "{\"n\":6}\n\n  {\"n\": 7}\n";
        let lines = annals.run_with(&["append", "Cart|1"], input).ok().json();
        assert_eq!(numbers(&lines), [6, 7]);
    });
}

#[test]
fn missing_data_gives_exit_code_1() {
    with_five(|annals| {
        annals
            .run(&["highest", "nobody"])
            .fails(1, "there are no events");
        annals
            .run(&["replay", "nobody"])
            .fails(1, "there are no events");
        annals
            .run(&["snapshot", "load", "nobody"])
            .fails(1, "no such snapshot");
    });
    with_five_on(ANNALS, |annals| {
        annals
            .run(&["state", "get", "nobody"])
            .fails(1, "there is no value");
    });
}

#[test]
fn deleted_events_are_not_replayed_and_their_numbers_not_reused() {
    with_five(|annals| {
        annals.run(&["delete", "Cart|1", "--to", "4"]).ok();
        assert_eq!(numbers(&annals.run(&["replay", "Cart|1"]).ok().json()), [5]);
        annals
            .run(&["append", "Cart|1", "--expect", "0", "{}"])
            .fails(3, "see the new events with `annals replay`");
        annals
            .run(&["append", "Cart|1", "--expect", "2", "{}"])
            .fails(3, "see the new events with `annals replay`");
        let lines = annals
            .run(&["append", "Cart|1", "--expect", "5", "{}"])
            .ok()
            .json();
        assert_eq!(numbers(&lines), [6]);
        let ids = annals.run(&["ids", "--prefix", "Cart"]).ok().json();
        assert_eq!(ids, [json!({"persistence_id": "Cart|1"})]);
        assert_eq!(
            annals.run(&["ids", "--prefix", "x"]).ok().json(),
            [] as [Json; 0]
        );
    });
}

/// A parser would round the numbers and drop one of the members.
#[test]
fn json_is_printed_as_it_was_appended() {
    let annals = Annals::embedded();
    let typed = [
        "12345678901234567890123",
        "0.10000000000000000000001",
        "1e400",
        r#"{"a":1,"a":2}"#,
        r#"{"b":"\u00e9\n","a":[]}"#,
    ];
    annals.run(&[&["append", "n"][..], &typed].concat()).ok();
    annals
        .run(&["snapshot", "save", "n", "--at", "1", typed[0]])
        .ok();
    annals
        .run(&["state", "put", "n", "--revision", "1", typed[0]])
        .ok();
    let check = |args: &[&str], want: &[&str]| {
        let out = annals.run(args).ok().out;
        assert_eq!(out.lines().count(), want.len());
        for (line, want) in out.lines().zip(want) {
            let end = format!(r#","codec":"json","payload":{want}}}"#);
            assert!(line.ends_with(&end), "{line}");
        }
    };
    check(&["replay", "n"], &typed);
    check(&["snapshot", "load", "n"], &typed[..1]);
    check(&["state", "get", "n"], &typed[..1]);
    // In one line, however it was typed.
    annals.run(&["append", "lines", "{\n\"a\":\r\n1}"]).ok();
    check(&["replay", "lines"], &[r#"{ "a":  1}"#]);
}

#[test]
fn snapshots_are_saved_loaded_listed_and_deleted() {
    with_five(|annals| {
        for n in ["2", "4", "5"] {
            let state = format!("{{\"at\":{n}}}");
            annals
                .run(&["snapshot", "save", "Cart|1", "--at", n, &state])
                .ok();
        }
        let load = |args: &[&str]| annals.run(&[&["snapshot", "load", "Cart|1"], args].concat());
        let newest = load(&[]).ok().json();
        assert_eq!(newest[0]["payload"], json!({"at": 5}));
        assert_eq!(numbers(&load(&["--max-seq", "4"]).ok().json()), [4]);
        load(&["--max-time", "2001-01-01T00:00:00Z"]).fails(1, "no such snapshot");
        load(&["--max-time", "soon"]).fails(2, "a time is milliseconds");
        load(&["--min-seq", "6"]).fails(1, "no such snapshot");
        assert_eq!(numbers(&load(&["--min-seq", "5"]).ok().json()), [5]);
        load(&["--min-time", "2999-01-01T00:00:00Z"]).fails(1, "no such snapshot");
        for bound in ["--min-seq", "--max-seq", "--min-time", "--max-time"] {
            load(&["--riding", bound, "1"]).fails(2, "cannot be used with");
        }
        let list = || numbers(&annals.run(&["snapshot", "list", "Cart|1"]).ok().json());
        assert_eq!(list(), [5, 4, 2]);
        let listed = ["snapshot", "list", "Cart|1", "--min-seq", "3"];
        assert_eq!(numbers(&annals.run(&listed).ok().json()), [5, 4]);
        let delete =
            |args: &[&str]| annals.run(&[&["snapshot", "delete", "Cart|1"], args].concat());
        delete(&["--min-time", "2999-01-01T00:00:00Z"]).fails(1, "no such snapshot");
        delete(&["--at", "5", "--min-time", "2999-01-01T00:00:00Z"]).fails(1, "no such snapshot");
        delete(&["--at", "5", "--min-seq", "1"]).fails(2, "cannot be used with");
        delete(&["--min-seq", "3", "--max-seq", "1"]).fails(1, "no such snapshot");
        assert_eq!(list(), [5, 4, 2]);
        annals
            .run(&["snapshot", "delete", "Cart|1"])
            .fails(2, "choose some");
        annals
            .run(&["snapshot", "delete", "Cart|1", "--at", "5"])
            .ok();
        assert_eq!(list(), [4, 2]);
        annals
            .run(&["snapshot", "delete", "Cart|1", "--max-seq", "3"])
            .ok();
        assert_eq!(list(), [4]);
        delete(&["--min-seq", "4"]).ok();
        assert_eq!(list(), [0; 0]);
        let bad = ["snapshot", "save", "Cart|1", "--at", "6", "{bad"];
        annals.run(&bad).fails(2, "the state is not JSON");
    });
}

#[test]
fn a_snapshot_that_does_not_decode_is_reported_and_an_older_one_loaded() {
    let from = Annals::embedded();
    for n in ["2", "5"] {
        from.run(&["snapshot", "save", "Cart|1", "--at", n, n])
            .warns("this id has no events");
    }
    let items = from.run(&["export", "annals-snapshot"]).ok().out;
    // Under another key, it does not match its checksum.
    let items = items.replace(r#""N":"5""#, r#""N":"6""#);
    let to = Annals::embedded();
    to.run(&["tables", "create"]).ok();
    to.run_with(&["import", "annals-snapshot"], items).ok();
    let load = |args: &[&str]| to.run(&[&["snapshot", "load", "Cart|1"], args].concat());
    let found = load(&[]);
    assert_eq!(found.code, Some(0));
    assert_eq!(numbers(&found.json()), [2]);
    assert!(found.err.contains("does not decode"), "{}", found.err);
    load(&["--max-seq", "5"]).ok();
    to.run(&["snapshot", "delete", "Cart|1", "--at", "2"]).ok();
    load(&[]).fails(1, "does not decode");
    to.run(&["snapshot", "list", "Cart|1"])
        .fails(5, "does not match its checksum");
}

#[test]
fn durable_state_has_revisions() {
    with_five_on(ANNALS, |annals| {
        let put = |revision: &str, value: &str| {
            annals.run(&[
                "state",
                "put",
                "a",
                "--revision",
                revision,
                value,
                "--tag",
                "red",
            ])
        };
        put("1", "{\"v\":1}").ok();
        put("1", "{\"v\":9}").fails(3, "reload it and write the next revision");
        put("2", "{\"v\":2}").ok();
        let found = annals.run(&["state", "get", "a"]).ok().json();
        assert_eq!(found[0]["revision"], json!(2));
        assert_eq!(found[0]["tag"], "red");
        assert_eq!(found[0]["payload"], json!({"v": 2}));
        annals
            .run(&["state", "delete", "a", "--revision", "2"])
            .fails(3, "reload it and write the next revision");
        annals.run(&["state", "delete", "a"]).ok();
        annals
            .run(&["state", "get", "a"])
            .fails(1, "deleted at revision 3; the next is 4");
        put("3", "{\"v\":9}").fails(3, "found=`3`");
        put("4", "{\"v\":4}").ok();
    });
}

#[test]
fn a_first_append_creates_the_local_store() {
    let annals = Annals::embedded();
    annals.run(&["append", "Cart|1", "{}"]).ok();
    assert_eq!(annals.run(&["replay", "Cart|1"]).ok().json().len(), 1);
    let elsewhere = Annals::embedded();
    elsewhere
        .run(&["replay", "Cart|1"])
        .fails(2, "check --data: there is no store in this folder");
    assert!(
        !elsewhere.folder().join("annals-data").exists(),
        "reading makes nothing"
    );
}

/// Follows until it gets an event that was appended later.
#[test]
fn following_prints_new_events() {
    let annals = Annals::at(&crate::run::dynamodb());
    annals.run(&["tables", "create"]).ok();
    annals.run(&["append", "Cart|1", "{\"n\":1}"]).ok();
    let mut child = annals
        .command(env!("CARGO_BIN_EXE_annals").as_ref())
        .args(annals.store_args())
        .args(["replay", "Cart|1", "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=3u64 {
        let line: Json = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["sequence_number"], json!(n));
        annals.run(&["append", "Cart|1", "{}"]).ok();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_snapshot_in_an_append_is_loaded() {
    with_five_on(ANNALS, |annals| {
        let load = || annals.run(&["snapshot", "load", "Cart|1", "--riding", "--cost"]);
        load().fails(1, "no such snapshot");
        let append = |state: &str| annals.run(&["append", "Cart|1", "--snapshot", state, "{}"]);
        let appended = append("{\"items\":5}").ok();
        let line = "{\"persistence_id\":\"Cart|1\",\"sequence_number\":6,\"has_snapshot\":true}\n";
        assert_eq!(appended.out, line);
        let lines = load().ok().json();
        assert_eq!(lines[0]["payload"], json!({"items": 5}));
        assert_eq!(numbers(&lines[..1]), [6]);
        assert_eq!(lines[1]["cost"]["requests"], 1);
        let large = append(&format!("\"{}\"", "x".repeat(1_100)));
        assert_eq!(large.code, Some(0));
        assert_eq!(large.json()[0]["has_snapshot"], false);
        assert!(large.err.contains("does not fit"), "{}", large.err);
        load().fails(1, "no such snapshot");
        annals
            .run(&["append", "Cart|1", "--snapshot", "{", "{}"])
            .fails(2, "the state");
    });
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_purge_asks_at_a_terminal() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    let ask = |answer| annals.run_at_terminal(&["delete", "a", "--purge"], answer);
    let no = ask("n\n");
    assert_eq!(no.code, Some(0), "{no:?}");
    assert!(no.out.contains("[y/N]"), "{no:?}");
    assert!(no.out.contains("nothing purged"), "{no:?}");
    annals.run(&["highest", "a"]).ok();
    let yes = ask("y\n");
    assert!(yes.out.contains("a is purged"), "{yes:?}");
    annals
        .run(&["highest", "a"])
        .fails(1, "there are no events");

    annals.run(&["append", "a", "1"]).ok();
    let sure = annals.run_at_terminal(&["delete", "a", "--purge", "--yes"], "");
    assert!(!sure.out.contains("[y/N]"), "{sure:?}");
    annals
        .run(&["highest", "a"])
        .fails(1, "there are no events");
}

#[test]
fn a_snapshot_beyond_the_last_event_is_warned_about() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        annals.run(&["append", "a", "1"]).ok();
        let save = |id: &str, at: &str| annals.run(&["snapshot", "save", id, "--at", at, "{}"]);
        save("a", "1").ok();
        let beyond = save("a", "3").warns("this snapshot is beyond the last event");
        assert!(beyond.err.contains("last=`1`"), "{beyond:?}");
        save("b", "5").warns("this id has no events; if it gets some, recovery skips them up to 5");
    });
}

#[test]
fn a_conflict_names_the_last_event_also_if_it_was_not_found() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        for n in 1..=4 {
            annals.run(&["append", "a", &n.to_string()]).ok();
        }
        let late = annals.run(&["append", "a", "--expect", "1", "{}"]);
        assert!(late.err.contains(", last=`4`"), "{late:?}");
        late.fails(3, "expected=`1`, last=`");
    });
}

/// The check for the warning must not keep anybody from saving.
#[test]
fn a_snapshot_is_saved_next_to_a_damaged_journal() {
    let from = Annals::embedded();
    from.run(&["append", "a", "1"]).ok();
    let items = from.run(&["export", "annals-journal"]).ok().out;
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    // Under another key, the commit does not match its checksum.
    let commit = items.lines().find(|line| line.contains(r#""c":"#)).unwrap();
    let moved = commit.replace(r#""N":"1""#, r#""N":"2""#);
    let items = items.replace(commit, &moved);
    annals.run_with(&["import", "annals-journal"], items).ok();
    assert_eq!(annals.run(&["highest", "a"]).code, Some(5));
    annals
        .run(&["snapshot", "save", "a", "--at", "9", "{}"])
        .ok();
}

/// With escape sequences for colours, unless `NO_COLOR` is set.
#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_replay_at_a_terminal_has_aligned_columns() {
    let annals = Annals::embedded();
    let append = |manifest: &str, event: &str| {
        let args = ["append", "a", "--manifest", manifest, event];
        annals.run(&args).ok();
    };
    append("ItemAdded", r#"{"item":"book"}"#);
    append("Paid", r#""\u001b[2Jtwo\nlines""#);
    let shown = annals.run_at_terminal(&["replay", "a"], "");
    assert!(shown.out.contains('\u{1b}'), "{shown:?}");

    let annals = annals.with_variable("NO_COLOR", "1");
    let plain = |args: &[&str]| {
        let shown = annals.run_at_terminal(args, "");
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(!shown.out.contains('\u{1b}'), "{shown:?}");
        shown.out.replace('\r', "")
    };
    let shown = plain(&["replay", "a"]);
    let lines: Vec<&str> = shown.lines().collect();
    let [header, first, second] = &lines[..] else {
        panic!("{shown}");
    };
    for (name, cells) in [
        ("NUMBER", ["1", "2"]),
        ("TYPE", ["ItemAdded", "Paid"]),
        ("PAYLOAD", [r#"{"item":"book"}"#, r"\u{1b}[2Jtwo\nlines"]),
    ] {
        let at = header.find(name).unwrap();
        assert!(first[at..].starts_with(cells[0]), "{shown}");
        assert!(second[at..].starts_with(cells[1]), "{shown}");
    }
    let pretty = plain(&["replay", "a", "--pretty", "--max", "1"]);
    assert!(
        pretty.contains("ItemAdded\n    {\n      \"item\": \"book\"\n    }"),
        "{pretty}"
    );
}
