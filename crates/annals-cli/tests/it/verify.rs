//! `annals verify`: a line for each finding, and an exit code.

use serde_json::json;

use crate::run::{Annals, large_json, on_every_store};

const TABLE: [&str; 2] = ["annals-journal", "akka-persistence"];

/// A journal of five events on a layout.
fn with_five(annals: &Annals, layout: &str) {
    annals.run(&["--layout", layout, "tables", "create"]).ok();
    for n in 1..=5 {
        let event = format!("{{\"n\":{n}}}");
        annals
            .run(&[
                "--layout",
                layout,
                "append",
                "Cart|1",
                "--manifest",
                "Added",
                &event,
            ])
            .ok();
    }
}

#[test]
fn an_intact_journal_has_no_findings() {
    on_every_store(|annals| {
        for layout in ["annals", "akka"] {
            with_five(annals, layout);
            for args in [
                &["verify"][..],
                &["verify", "Cart|1"],
                &["verify", "--repair"],
            ] {
                let said = annals.run(&[&["--layout", layout], args].concat()).ok();
                assert_eq!(said.out, "");
            }
            annals
                .run(&["--layout", layout, "verify", "nobody"])
                .fails(1, "nothing is stored under this id");
        }
    });
}

#[test]
fn a_snapshot_beyond_the_last_event_gives_exit_code_5() {
    on_every_store(|annals| {
        for layout in ["annals", "akka", "j5ik2o"] {
            let run = |args: &[&str]| annals.run(&[&["--layout", layout], args].concat());
            with_five(annals, layout);
            let save = |id: &str, at: &str| run(&["snapshot", "save", id, "--at", at, "{}"]);
            save("Cart|1", "5").ok();
            // Some applications use snapshots alone.
            save("Alone|1", "9").warns("this id has no events");
            run(&["delete", "Cart|1", "--to", "5"]).ok();
            run(&["verify"]).ok();
            run(&["verify", "Alone|1"]).ok();
            assert_eq!(save("Cart|1", "8").code, Some(0));
            for args in [
                &["verify"][..],
                &["verify", "Cart|1"],
                &["verify", "--repair"],
            ] {
                let said = run(args);
                assert_eq!(said.code, Some(5), "{layout}: {said:?}");
                let lines = said.json();
                assert_eq!(lines.len(), 1, "{layout}: {said:?}");
                let found = &lines[0];
                assert_eq!(found["persistence_id"], "Cart|1");
                assert_eq!(
                    (&found["of"], &found["problem"]),
                    (&json!("snapshot"), &json!("beyond-end"))
                );
                assert_eq!((&found["from"], &found["to"]), (&json!(8), &json!(8)));
                assert_eq!(found["remedy"], "left");
                let why = found["why"].as_str().unwrap();
                assert!(why.contains("annals snapshot delete"), "{why}");
            }
            if let Some(server) = annals.server().filter(|_| layout == "annals") {
                let all = server.get("/v1/findings").lines();
                assert_eq!(all[0]["problem"], "beyond-end", "{all:?}");
                let one = server.get("/v1/journal/Cart%7C1/findings").json(200);
                assert_eq!(one["findings"].as_array().unwrap(), &all);
            }
            run(&["snapshot", "delete", "Cart|1", "--min-seq", "6"]).ok();
            run(&["verify"]).ok();
        }
    });
}

#[test]
fn a_lost_event_gives_exit_code_5() {
    for (layout, table) in ["annals", "akka"].into_iter().zip(TABLE) {
        let annals = Annals::embedded();
        with_five(&annals, layout);
        let all = annals.run(&["export", table]).ok().out;
        // The third event: number 3 on both layouts.
        let is_third = |line: &&str| line.contains("{\"N\":\"3\"}");
        let left: Vec<&str> = all.lines().filter(|line| !is_third(line)).collect();
        assert_eq!(left.len() + 1, all.lines().count());
        let damaged = Annals::embedded();
        damaged.run(&["--layout", layout, "tables", "create"]).ok();
        damaged.run_with(&["import", table], left.join("\n")).ok();
        for args in [&["verify"][..], &["verify", "Cart|1", "--repair"]] {
            let said = damaged.run(&[&["--layout", layout], args].concat());
            assert_eq!(said.code, Some(5), "{said:?}");
            let lines = said.json();
            assert_eq!(lines.len(), 1, "{said:?}");
            assert_eq!(lines[0]["problem"], "gap");
            assert_eq!((&lines[0]["from"], &lines[0]["to"]), (&3.into(), &3.into()));
            assert_eq!(lines[0]["remedy"], "left");
        }
        damaged
            .run(&["--layout", layout, "replay", "Cart|1"])
            .fails(5, "missing");
    }
}

/// Items that refer to chunks are left out, so that the chunks are orphans.
#[test]
fn orphaned_chunks_of_snapshots_and_values_are_found_and_deleted() {
    let (from, to) = (Annals::embedded(), Annals::embedded());
    from.run_with(&["snapshot", "save", "Cart|1", "--at", "7"], large_json())
        .warns("this id has no events");
    from.run_with(&["state", "put", "Cart|2", "--revision", "1"], large_json())
        .ok();
    assert_eq!(from.run(&["verify"]).ok().out, "");
    to.run(&["tables", "create"]).ok();
    for table in ["annals-snapshot", "annals-state"] {
        let all = from.run(&["export", table]).ok().out;
        let parts = all.lines().filter(|line| line.contains("\"S\":\"p:"));
        // Old enough that they are not in flight.
        let old = parts.map(|line| {
            let mut item: serde_json::Value = serde_json::from_str(line).unwrap();
            item["Item"]["t"]["N"] = "1000".into();
            item.to_string()
        });
        let old: Vec<String> = old.collect();
        assert_eq!(old.len(), 2);
        to.run_with(&["import", table], old.join("\n")).ok();
    }
    let seen = to.run(&["verify"]);
    assert_eq!(seen.code, Some(5), "{seen:?}");
    let repaired = to.run(&["verify", "--repair"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    for (told, remedy) in [(seen, "repairable"), (repaired, "repaired")] {
        let told = told.json();
        let told: Vec<_> = told
            .iter()
            .map(|line| {
                assert_eq!(
                    (&line["problem"], &line["remedy"]),
                    (&json!("orphan"), &json!(remedy))
                );
                (
                    line["persistence_id"].as_str().unwrap(),
                    line["from"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [("Cart|1", 7), ("Cart|1", 7), ("Cart|2", 1), ("Cart|2", 1)]
        );
    }
    assert_eq!(to.run(&["verify"]).ok().out, "");
    assert_eq!(to.run(&["export", "annals-snapshot"]).ok().out, "");
}

/// Missing tables of snapshots and durable state are not an error.
#[test]
fn a_journal_alone_is_verified() {
    let annals = Annals::embedded();
    with_five(&annals, "annals");
    let absent = ["--snapshot-table", "not-there", "--state-table", "neither"];
    let said = annals.run(&[&absent[..], &["verify"]].concat()).ok();
    assert_eq!(said.out, "");
}

/// Items of a table, altered, in another store.
fn altered(annals: &Annals, table: &str, alter: impl Fn(&mut serde_json::Value)) -> Annals {
    let other = Annals::embedded();
    other.run(&["tables", "create"]).ok();
    other.run(&["--layout", "akka", "tables", "create"]).ok();
    let all = annals.run(&["export", table]).ok().out;
    let lines = all.lines().map(|line| {
        let mut item: serde_json::Value = serde_json::from_str(line).unwrap();
        alter(&mut item["Item"]);
        item.to_string()
    });
    let lines: Vec<String> = lines.collect();
    other.run_with(&["import", table], lines.join("\n")).ok();
    other
}

/// A lost marker is repaired with exit code 0; a flipped byte is left with exit code 5 and a reason.
#[test]
fn reports_repairs_and_why_other_findings_are_left() {
    let annals = Annals::embedded();
    with_five(&annals, "akka");
    annals
        .run(&["--layout", "akka", "delete", "Cart|1", "--to", "2"])
        .ok();
    let lost = altered(&annals, "akka-persistence", |item| {
        if item["par"]["S"].as_str().unwrap().contains("-SL-") {
            *item =
                json!({"par": {"S": "journal-SL-another-0"}, "num": {"N": "0"}, "seq": {"N": "1"}});
        }
    });
    let verify = ["--layout", "akka", "verify"];
    let seen = lost.run(&verify);
    assert_eq!(seen.code, Some(5), "{seen:?}");
    let told = lost.run(&[&verify[..], &["--repair"]].concat()).ok().json();
    let told: Vec<_> = told
        .iter()
        .map(|line| (&line["problem"], &line["remedy"]))
        .collect();
    let repaired = (&json!("low-mark"), &json!("repaired"));
    assert_eq!(told, [repaired, repaired]);
    lost.run(&verify).ok();

    let flipped = altered(&annals, "akka-persistence", |item| {
        if item["num"]["N"] == "4" {
            item["event"]["B"] = json!("eyJuIjo1fQ==");
        }
    });
    let left = flipped.run(&[&verify[..], &["--repair"]].concat());
    assert_eq!(left.code, Some(5), "{left:?}");
    let line = &left.json()[0];
    assert_eq!(
        (&line["problem"], &line["from"]),
        (&json!("unreadable"), &json!(4))
    );
    assert_eq!(
        (&line["remedy"], &line["of"]),
        (&json!("left"), &json!("event"))
    );
    assert!(line["why"].as_str().is_some_and(|why| !why.is_empty()));
    flipped
        .run(&["--layout", "akka", "replay", "Cart|1"])
        .fails(5, "an event is damaged");
}

/// Snapshots, values and stray items are checked too.
#[test]
fn damaged_snapshots_values_and_strays_are_found() {
    let annals = Annals::embedded();
    annals
        .run(&["snapshot", "save", "Cart|1", "--at", "7", "1"])
        .warns("this id has no events");
    annals
        .run(&["state", "put", "Cart|2", "--revision", "1", "1"])
        .ok();
    for (table, of) in [("annals-snapshot", "snapshot"), ("annals-state", "value")] {
        let damaged = altered(&annals, table, |item| item["c"]["B"] = json!("AQID"));
        let said = damaged.run(&["verify"]);
        assert_eq!(said.code, Some(5), "{said:?}");
        let lines = said.json();
        assert_eq!(
            (&lines[0]["of"], &lines[0]["problem"]),
            (&json!(of), &json!("unreadable"))
        );
        let strays = altered(&annals, table, |item| item["p"]["S"] = json!("?"));
        let lines = strays.run(&["verify"]).json();
        assert_eq!(
            (&lines[0]["problem"], &lines[0]["persistence_id"]),
            (&json!("stray"), &json!(null))
        );
    }
}

/// A reader that starts at 1 finds an empty bucket, and would never get there.
#[test]
fn events_after_an_empty_bucket_are_found() {
    let (from, to) = (Annals::embedded(), Annals::embedded());
    let thousand = vec!["1"; 1_000].join("\n");
    from.run_with(&["append", "a"], thousand).ok();
    from.run(&["append", "a", "2"]).ok();
    from.run(&["verify"]).ok();
    let items = from.run(&["export", "annals-journal"]).ok().out;
    let last = items.lines().find(|line| line.contains("{\"N\":\"1001\"}"));
    to.run(&["tables", "create"]).ok();
    to.run_with(&["import", "annals-journal"], last.unwrap())
        .ok();
    let found = to.run(&["verify"]);
    assert_eq!(found.code, Some(5), "{found:?}");
    assert_eq!(found.json()[0]["problem"], "stray", "{found:?}");
}

#[test]
fn a_deep_check_reads_the_files_of_a_closed_store() {
    on_every_store(|annals| {
        with_five(annals, "annals");
        let deep = annals.run(&["verify", "--deep"]);
        if annals.server().is_some() {
            deep.fails(
                2,
                "stop the server, or restore a backup with `annals restore DIR --data copy` and check that; leave out --server",
            );
            return;
        }
        if annals.is_dynamodb() {
            deep.fails(2, "files of the embedded store");
            return;
        }
        assert_eq!(deep.ok().out, "");
        let log = annals.folder().join("annals-data/log/0000000000000000.log");
        let mut bytes = std::fs::read(&log).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let damaged = annals.run(&["verify", "--deep"]);
        assert_eq!(damaged.code, Some(5), "{damaged:?}");
        let found = damaged.json();
        assert_eq!(found[0]["of"], "file");
        let detail = found[0]["detail"].as_str().unwrap();
        assert!(detail.contains("0000000000000000.log"), "{detail}");
        assert!(std::fs::read(&log).unwrap() == bytes, "nothing is changed");
    });
}
