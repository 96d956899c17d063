//! `annals log`: ingest, pump, sweep, link, stats, dead letters and playback, on every store.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::run::{Annals, on_every_own_store, on_every_store};

const LINES: &str = r#"{"event_id":"b","time":1521230163500,"payload":{"n":2}}
{"event_id":"a","time":"2018-03-16T19:56:03.217Z","payload":{"n":1}}
{"event_id":"c","time":"2018-03-16T19:56:05Z","payload":"three"}
"#;

fn with_log(scenario: impl Fn(&Annals)) {
    on_every_store(|annals| {
        annals.run(&["tables", "create", "--log"]).ok();
        scenario(annals);
    });
}

fn counts(stored: u64, present: u64, refused: u64) -> Vec<Json> {
    vec![json!({"stored": stored, "present": present, "refused": refused})]
}

#[test]
fn ingested_events_are_played_back_by_time() {
    with_log(|annals| {
        let ingested = annals.run_with(&["log", "ingest"], LINES).ok();
        assert_eq!(ingested.json(), counts(3, 0, 0));
        let again = annals.run_with(&["log", "ingest"], LINES).ok();
        assert_eq!(
            again.json(),
            counts(0, 3, 0),
            "the same lines are the same records"
        );
        let playback = ["log", "playback", "--start", "2018-03-16T00:00:00Z"];
        assert_eq!(
            annals.run(&playback).ok().out,
            "",
            "they wait in the buffer"
        );
        let swept = annals.run(&["log", "sweep"]);
        assert_eq!(swept.json()[0]["moved"], 3, "{swept:?}");
        let played = annals.run(&playback);
        assert_eq!(
            played.json(),
            [
                json!({"time": 1_521_230_163_217_u64, "event_id": "a", "payload": {"n": 1}}),
                json!({"time": 1_521_230_163_500_u64, "event_id": "b", "payload": {"n": 2}}),
                json!({"time": 1_521_230_165_000_u64, "event_id": "c", "payload": "three"}),
            ]
        );
        let report = "2018-03-16T19:56:03.000Z: 2018-03-16T19:56:03.217Z [2]\n\
                      2018-03-16T19:56:05.000Z: 2018-03-16T19:56:05.000Z [1]\n";
        assert_eq!(played.err, report);
        // The output of a playback can be ingested.
        let again = annals.run_with(&["log", "ingest"], &played.out);
        assert_eq!(
            again.json(),
            counts(3, 0, 0),
            "into the buffer, which is empty"
        );
        let swept = annals.run(&["log", "sweep"]);
        assert_eq!(swept.json()[0]["repeated"], 3, "{swept:?}");
    });
}

#[test]
fn a_span_is_half_open_and_follows_to_its_end() {
    with_log(|annals| {
        annals.run_with(&["log", "ingest"], LINES).ok();
        annals.run(&["log", "sweep"]);
        let play = |start: &str, end: &str, more: &[&str]| {
            let span = ["log", "playback", "--start", start, "--end", end];
            let played = annals.run(&[&span[..], more].concat());
            assert_eq!(played.code, Some(0), "{played:?}");
            played.json().len()
        };
        assert_eq!(play("1521230163217", "1521230163500", &[]), 1);
        assert_eq!(play("1521230163218", "1521230163501", &[]), 1);
        assert_eq!(
            play("1521230163000", "1521230165001", &["--speed", "1000"]),
            3
        );
        assert_eq!(play("1521230163000", "1521230165001", &["--follow"]), 3);
    });
}

#[test]
fn invalid_lines_are_reported_and_the_others_ingested() {
    with_log(|annals| {
        let lines = [
            r#"{"payload":1}"#,
            "not JSON",
            "[1]",
            r#"{"event_id":"","payload":1}"#,
            r#"{"event_id":7,"payload":1}"#,
            r#"{"event_id":"x","time":"0001-01-01T00:00:00Z","payload":1}"#,
            r#"{"event_id":"x","time":"9999-12-31T00:00:00Z","payload":1}"#,
            r#"{"event_id":"x","time":-5,"payload":1}"#,
            r#"{"event_id":"x","time":true,"payload":1}"#,
            r#"{"event_id":"x","time":0}"#,
            r#"{"event_id":"x","tim":0,"payload":1}"#,
            "",
            r#"{"event_id":"y","time":0,"payload":null}"#,
        ];
        let large = format!(
            r#"{{"event_id":"z","payload":{}}}"#,
            crate::run::large_json()
        );
        let input = [lines.join("\n"), large].join("\n");
        let outcome = annals.run_with(&["log", "ingest"], input);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert_eq!(outcome.json(), counts(2, 0, 11));
        for line in (2..=11).chain([14]) {
            assert!(
                outcome.err.contains(&format!("line=`{line}`")),
                "{line}: {}",
                outcome.err
            );
        }
        // The same id with other content: the stored event stays.
        let other = r#"{"event_id":"y","time":0,"payload":"other"}"#;
        annals
            .run_with(&["log", "ingest"], other)
            .fails(3, "line was not ingested. line=`1`");
        annals.run(&["log", "sweep"]);
        let played = annals.run(&["log", "playback", "--start", "0", "--end", "1"]);
        assert_eq!(
            played.json(),
            [json!({"time": 0, "event_id": "y", "payload": null})]
        );
        let outcome = annals.run(&["log", "playback", "--start", "5", "--end", "4"]);
        outcome.fails(2, "a span ends before it starts");
    });
}

#[test]
fn lines_before_an_endless_one_are_ingested_and_counted() {
    with_log(|annals| {
        let input = format!("{LINES}\n{}", "x".repeat(4 * 1024 * 1024 + 1));
        let outcome = annals.run_with(&["log", "ingest"], input);
        let outcome = outcome.fails(2, "line is longer than any item");
        assert_eq!(outcome.json(), counts(3, 0, 0));
        let swept = annals.run(&["log", "sweep"]);
        assert_eq!(swept.json()[0]["moved"], 3, "{swept:?}");
    });
}

#[test]
fn an_event_that_is_too_large_for_its_slot_is_rejected_with_the_reason() {
    with_log(|annals| {
        let text = "x".repeat(250_000);
        let line = format!(r#"{{"event_id":"big","time":0,"payload":"{text}"}}"#);
        let outcome = annals.run_with(&["log", "ingest"], line);
        let outcome = outcome.fails(2, "line was not ingested. line=`1`");
        assert!(outcome.err.contains("at most about 200 KB"), "{outcome:?}");
        assert!(outcome.err.contains("event id=`big`"), "{outcome:?}");
    });
}

#[test]
fn late_events_are_counted_and_listed() {
    with_log(|annals| {
        annals.run(&["log", "sweep"]).ok();
        annals.run_with(&["log", "ingest"], LINES).ok();
        let swept = annals.run(&["log", "sweep"]);
        assert_eq!(swept.code, Some(0), "{swept:?}");
        let told = &swept.json()[0];
        assert_eq!((&told["moved"], &told["late"]), (&json!(3), &json!(3)));
        for id in ["a", "b", "c"] {
            let says = format!("an event is late. event id=`{id}`");
            assert!(swept.err.contains(&says), "{swept:?}");
        }
        // Once each.
        assert_eq!(swept.err.matches("event is late").count(), 3, "{swept:?}");
    });
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_short_playback_at_a_terminal_shows_no_progress() {
    let annals = Annals::embedded();
    annals.run_with(&["log", "ingest"], LINES).ok();
    annals.run(&["log", "sweep"]);
    let play = ["log", "playback", "--start", "0"];
    let shown = annals.run_at_terminal(&play, "");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let slot = "slot 2018-03-16T19:56:03.000Z: 2 events, first 2018-03-16T19:56:03.217Z";
    assert!(shown.out.contains(slot), "{shown:?}");
    let help = annals.run(&["log", "playback", "--help"]).ok().out;
    assert!(help.contains("SLOT: FIRST [COUNT]"), "{help}");
    // The header and the rows come before the report.
    let (header, slots) = (shown.out.find("EVENT ID"), shown.out.find("slot "));
    assert!(header.is_some() && header < slots, "{shown:?}");
    assert!(!shown.out.contains("% of the span"), "{shown:?}");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn an_empty_playback_at_a_terminal_says_how_events_get_into_the_log() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    let play = ["log", "playback", "--start", "0"];
    let shown = annals.run_at_terminal(&play, "");
    assert!(shown.out.contains("annals log pump --journal"), "{shown:?}");
    let piped = annals.run(&play).ok();
    assert_eq!((piped.out.as_str(), piped.err.as_str()), ("", ""));
}

/// A test cannot set the sweeper's clock, but it can set the horizon.
#[test]
fn a_horizon_is_set_back() {
    with_log(|annals| {
        annals.run(&["log", "sweep"]).ok();
        let shown = annals.run(&["log", "horizon"]).ok().json();
        let before = shown[0]["horizon"].as_str().unwrap().to_owned();
        let day = "2020-01-01T00:00:00.000Z";
        let set = annals.run(&["log", "horizon", "--set-back", day]).ok();
        assert_eq!(set.json(), [json!({"horizon": day, "is_set_back": true})]);
        // Only back: events after the swept time may still arrive.
        let set = annals.run(&["log", "horizon", "--set-back", &before]).ok();
        assert_eq!(set.json(), [json!({"horizon": day, "is_set_back": false})]);
        let swept = annals.run(&["log", "sweep"]).ok().json();
        assert!(swept[0]["horizon"].as_str().unwrap() >= before.as_str());
    });
}

#[test]
fn a_record_with_other_content_becomes_a_dead_letter() {
    with_log(|annals| {
        let line = |n: u32| format!(r#"{{"event_id":"a","time":1000,"payload":{n}}}"#);
        annals.run_with(&["log", "ingest"], line(1)).ok();
        annals.run(&["log", "sweep"]);
        annals.run_with(&["log", "ingest"], line(2)).ok();
        let swept = annals.run(&["log", "sweep"]);
        assert_eq!(swept.json()[0]["set_aside"], 1, "{swept:?}");
        let letters = annals.run(&["log", "dead-letters"]).ok().json();
        assert_eq!(letters.len(), 1);
        let reason = letters[0]["reason"].as_str().unwrap();
        assert!(reason.contains("event id=`a`"), "{letters:?}");
        // The old name of the command works, and help does not list it.
        assert_eq!(annals.run(&["log", "aside"]).ok().json(), letters);
        let help = annals.run(&["log", "--help"]).ok().out;
        assert!(
            help.contains("dead-letters") && !help.contains("aside"),
            "{help}"
        );
        let played = annals.run(&["log", "playback", "--start", "0"]).json();
        assert_eq!(played[0]["payload"], 1, "the stored event stays");
        let name = letters[0]["name"].as_str().unwrap();
        annals.run(&["log", "dead-letters", "--forget", name]).ok();
        annals
            .run(&["log", "dead-letters", "--forget", name])
            .fails(1, "there is no such dead letter");
        assert_eq!(annals.run(&["log", "dead-letters"]).ok().out, "");
    });
}

/// The embedded store creates the tables of the log with its first write, a server when it starts.
#[test]
fn a_log_without_tables_is_empty_as_on_a_server() {
    let (own, served) = (Annals::embedded(), Annals::served(&[]));
    own.run(&["log", "stats"]).fails(2, "there is no store");
    own.run(&["append", "a", "1"]).ok();
    for args in [
        &["log", "stats"][..],
        &["log", "horizon"],
        &["log", "dead-letters"],
        &["log", "playback", "--start", "0"],
    ] {
        let (own, served) = (own.run(args), served.run(args));
        assert_eq!((own.code, served.code), (Some(0), Some(0)), "{own:?}");
        assert_eq!(own.out, served.out, "{args:?}");
    }
    let stats = own.run(&["log", "stats"]).ok().json();
    assert_eq!(stats[0]["buffered"], 0, "{stats:?}");
    // Reading creates nothing.
    let tables = own.run(&["tables", "check", "--log"]);
    assert_eq!(tables.code, Some(1), "{tables:?}");
}

#[test]
fn journals_are_pumped_once() {
    with_log(|annals| {
        annals
            .run(&["append", "Cart|1", "{\"n\":1}", "{\"n\":2}"])
            .ok();
        annals.run(&["append", "Cart|2", "{\"n\":3}"]).ok();
        let pumped = annals.run(&["log", "pump", "--journal"]).ok().json();
        assert_eq!(
            (&pumped[0]["ids"], &pumped[0]["events"]),
            (&json!(2), &json!(3))
        );
        let again = annals.run(&["log", "pump", "--journal"]).ok().json();
        assert_eq!(again[0]["events"], 0);
        annals.run(&["append", "Cart|1", "{\"n\":4}"]).ok();
        let more = annals.run(&["log", "pump", "--journal"]).ok().json();
        assert_eq!(more[0]["events"], 1);
        annals.run(&["log", "sweep"]);
        let played = annals.run(&["log", "playback", "--start", "0"]).json();
        assert_eq!(played.len(), 4, "{played:?}");
        let of_cart_one = |line: &&Json| line["event_id"].as_str().unwrap().contains("Cart|1");
        assert_eq!(played.iter().filter(of_cart_one).count(), 3);
    });
}

#[test]
fn stats_and_links_report_the_state_of_the_log() {
    with_log(|annals| {
        annals.run_with(&["log", "ingest"], LINES).ok();
        let stats = annals.run(&["log", "stats"]).ok().json();
        assert_eq!(stats[0]["buffered"], 3);
        assert_eq!(stats[0]["oldest_buffered"], "2018-03-16T19:56:03.217Z");
        assert_eq!(stats[0]["is_indexed"], true, "a new table is");
        annals.run(&["log", "sweep"]);
        let stats = annals.run(&["log", "stats"]).ok().json();
        assert_eq!(stats[0]["buffered"], 0);
        assert_eq!(stats[0]["first_slot"], "2018-03-16T19:56:03.000Z");
        assert_eq!(stats[0]["last_slot"], "2018-03-16T19:56:05.000Z");
        assert!(stats[0]["horizon"].is_string());
        let linked = annals.run(&["log", "link"]).ok().json();
        assert_eq!(
            (&linked[0]["slots"], &linked[0]["linked"]),
            (&json!(2), &json!(1))
        );
    });
}

#[test]
fn an_error_about_missing_tables_names_the_command_that_creates_them() {
    on_every_own_store(|annals| {
        let outcome = annals.run(&["log", "stats"]);
        outcome.fails(2, "`annals tables create`");
        annals.run(&["tables", "create"]).ok();
        // A command that waits for events does not wait for a log that nobody can write.
        let waits = ["log", "playback", "--start", "0", "--follow"];
        let mut reads = vec![&waits[..]];
        // On DynamoDB, somebody has to create the tables before a log is used.
        if annals.is_dynamodb() {
            reads.extend([&["log", "stats"][..], &["log", "horizon"]]);
        }
        for args in reads {
            annals
                .run(args)
                .fails(2, "`annals tables create` (--log for the log's)");
        }
    });
}

#[test]
fn a_continuous_sweep_ends_at_a_signal() {
    let annals = Annals::embedded();
    annals.run_with(&["log", "ingest"], LINES).ok();
    for refused in ["60", "0s", "soon"] {
        annals
            .run(&["log", "sweep", "--every", refused])
            .fails(2, "at least 1ms");
    }
    let mut sweep = annals.binary(&["log", "sweep", "--every", "1ms"]);
    let mut sweep = sweep.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let out = std::io::BufReader::new(sweep.stdout.take().unwrap());
    let lines = std::io::BufRead::lines(out).take(3).map(Result::unwrap);
    let moved: Vec<Json> = lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    assert_eq!(moved[0]["moved"], 3);
    assert_eq!(moved[2]["moved"], 0);
    let kill = std::process::Command::new("kill")
        .args(["-TERM", &sweep.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    // Its reader may be gone too; either way it ends.
    let ended = sweep.wait().unwrap();
    assert!([Some(143), Some(0)].contains(&ended.code()), "{ended}");
}

/// Numbers with more digits than a parser keeps, and duplicate members, are returned as they were sent.
#[test]
fn payloads_are_played_back_as_they_were_sent() {
    with_log(|annals| {
        let payload = r#"{"wei":123456789012345678901,"f":0.12345678901234567,"d":1,"d":2}"#;
        let line = format!(r#"{{"event_id":"a","time":1521230163500,"payload":{payload}}}"#);
        annals.run_with(&["log", "ingest"], &line).ok();
        annals.run(&["log", "sweep"]).ok();
        let played = annals.run(&["log", "playback", "--start", "0"]);
        let expected = format!(r#"{{"time":1521230163500,"event_id":"a","payload":{payload}}}"#);
        assert_eq!(played.out.trim(), expected);
        // The same with blanks is the same record; with another digit it is not.
        let again = line.replace(r#"":"#, r#"": "#);
        annals.run_with(&["log", "ingest"], &line).ok();
        let again = annals.run_with(&["log", "ingest"], &again);
        assert_eq!(again.json()[0]["present"], 0, "not exact, so byte for byte");
        let other = annals.run_with(&["log", "ingest"], line.replace("678901,", "678902,"));
        assert_eq!(other.json()[0]["refused"], 1);
    });
}

/// An imported table of the original is played back, and link reads all of it.
#[test]
fn imported_tables_are_played_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../annals/tests/fixtures/log");
    let lines = std::fs::read_to_string(format!("{folder}/events.jsonl")).unwrap();
    let events = lines.lines().count();
    with_log(|annals| {
        let imported = annals.run_with(&["import", "annals-log"], &lines).ok();
        assert_eq!(imported.json()[0]["imported"], events);
        let played = annals.run(&["log", "playback", "--start", "0"]);
        assert_eq!(played.json().len(), events);
        assert_eq!(
            annals.run(&["log", "stats"]).ok().json()[0]["is_indexed"],
            true
        );
        let linked = annals.run(&["log", "link"]).ok();
        assert_eq!(linked.json()[0]["read"], events, "it reads everything");
    });
}

/// A playback resumes after the position where another ended.
#[test]
fn a_playback_resumes_after_a_position() {
    with_log(|annals| {
        annals.run_with(&["log", "ingest"], LINES).ok();
        annals.run(&["log", "sweep"]).ok();
        let after = ["--after", "1521230163217/a"];
        let playback = [&["log", "playback", "--start", "0"][..], &after].concat();
        let played = annals.run(&playback).json();
        assert_eq!((&played[0]["event_id"], played.len()), (&json!("b"), 2));
        let wrong = annals.run(&["log", "playback", "--start", "0", "--after", "b"]);
        assert!(
            wrong.err.contains("a position must be milliseconds"),
            "{wrong:?}"
        );
    });
}

/// A follower that is ended by a signal prints its position.
#[test]
fn an_interrupted_follower_prints_its_position() {
    with_log(|annals| {
        annals.run_with(&["log", "ingest"], LINES).ok();
        annals.run(&["log", "sweep"]).ok();
        let mut follow = annals.binary(&["log", "playback", "--start", "0", "--follow"]);
        let piped = follow.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.stdin(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines: Vec<String> = out.lines().take(3).map(Result::unwrap).collect();
        assert!(lines[2].contains(r#""event_id":"c""#), "{lines:?}");
        let pid = child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status();
        assert!(killed.unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(130), "{told}");
        assert!(told.contains("last=`1521230165000/c`"), "{told}");
    });
}
