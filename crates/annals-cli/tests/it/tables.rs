//! `annals tables`.

use serde_json::json;

use crate::run::{Annals, finish, on_every_store};

fn statuses(annals: &Annals, args: &[&str]) -> Vec<(String, String)> {
    let lines = annals.run(args).json();
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    lines
        .iter()
        .map(|line| (text(line, "table"), text(line, "status")))
        .collect()
}

#[test]
fn the_tables_of_every_layout_are_created_checked_and_dropped() {
    on_every_store(|annals| {
        let layouts: [(&str, &[&str]); 3] = [
            (
                "annals",
                &["annals-journal", "annals-snapshot", "annals-state"],
            ),
            ("akka", &["akka-persistence", "akka-persistence-snapshot"]),
            ("j5ik2o", &["Journal", "Snapshot", "State"]),
        ];
        for (layout, tables) in layouts {
            let want = |status: &str| -> Vec<(String, String)> {
                tables
                    .iter()
                    .map(|t| ((*t).to_owned(), status.to_owned()))
                    .collect()
            };
            let run = |verb: &str| statuses(annals, &["tables", verb, "--layout", layout]);
            assert_eq!(run("check"), want("missing"));
            assert_eq!(run("create"), want("created"));
            assert_eq!(run("create"), want("exists"));
            assert_eq!(run("check"), want("ok"));
            annals.run(&["tables", "check", "--layout", layout]).ok();
            let drop = || statuses(annals, &["tables", "drop", "--yes", "--layout", layout]);
            assert_eq!(drop(), want("dropped"));
            assert_eq!(drop(), want("missing"));
        }
    });
}

#[test]
fn missing_tables_are_answered_with_exit_code_1() {
    on_every_store(|annals| {
        let outcome = annals.run(&["tables", "check"]);
        outcome.fails(1, "create them with `annals tables create`");
    });
}

#[test]
fn names_come_from_flags_environment_and_file_in_that_order() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "journal-table = \"from-file\"\nsnapshot-table = \"from-file-2\"\n",
    );
    let mut command = annals.command(env!("CARGO_BIN_EXE_annals").as_ref());
    command.args(["tables", "create", "--journal-table", "from-flag"]);
    command.env("ANNALS_JOURNAL_TABLE", "from-env");
    command.env("ANNALS_STATE_TABLE", "from-env-2");
    let outcome = finish(command, "").ok();
    let tables: Vec<_> = outcome
        .json()
        .iter()
        .map(|line| line["table"].clone())
        .collect();
    assert_eq!(
        tables,
        [
            json!("from-flag"),
            json!("from-file-2"),
            json!("from-env-2")
        ]
    );
}

#[test]
fn a_table_with_another_schema_is_told_and_left_alone() {
    on_every_store(|annals| {
        let name = ["--journal-table", "shared-table"];
        annals
            .run(&[&["tables", "create"][..], &name].concat())
            .ok();
        for verb in ["create", "check"] {
            let args = [&["tables", verb, "--layout", "j5ik2o"][..], &name].concat();
            let outcome = annals.run(&args);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            let told = format!("{}{}", outcome.out, outcome.err);
            assert!(
                told.contains("key differs: want `pkey S, skey S`, found `p S, n N`"),
                "{told}"
            );
        }
        annals.run(&[&["tables", "check"][..], &name].concat()).ok();
    });
}

#[test]
fn capacity_is_reserved_with_both_units_or_not_at_all() {
    on_every_store(|annals| {
        let reserve = |read, write| {
            [
                "tables",
                "create",
                "--read-units",
                read,
                "--write-units",
                write,
            ]
        };
        annals.run(&reserve("5", "5")).ok();
        annals.run(&reserve("0", "5")).fails(2, "at least one unit");
        let half = annals.run(&["tables", "create", "--read-units", "5"]);
        assert_eq!(half.code, Some(2), "{half:?}");
    });
}

#[test]
fn two_tables_of_one_name_are_refused() {
    let annals = Annals::embedded();
    let names = ["--journal-table", "same", "--state-table", "same"];
    let outcome = annals.run(&[&["tables", "create"][..], &names].concat());
    outcome.fails(2, "two tables have the same name");
    assert!(
        !annals.folder().join("annals-data").exists(),
        "nothing was made"
    );
}

#[test]
fn cost_is_the_last_line_when_asked_for() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let lines = annals.run(&["tables", "check", "--cost"]).ok().json();
    let want = json!({"cost": {"requests": 3, "write_units": 0, "read_units": 0}});
    assert_eq!(lines.last(), Some(&want));
}

#[test]
fn nothing_is_dropped_without_a_word_or_a_terminal() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        for answer in ["", "y\n"] {
            let outcome = annals.run_with(&["tables", "drop"], answer);
            let outcome = outcome.fails(2, "say --yes to drop");
            assert!(outcome.err.contains("annals-journal"), "{outcome:?}");
            assert_eq!(outcome.out, "");
        }
        annals.run(&["tables", "check"]).ok();
    });
}

#[test]
fn a_person_is_asked_before_a_drop() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let ask = |answer| annals.run_at_terminal(&["tables", "drop"], answer);
    let Some(no) = ask("n\n") else {
        return;
    };
    assert_eq!(no.code, Some(0), "{no:?}");
    assert!(no.out.contains("with everything in them? [y/N]"), "{no:?}");
    assert!(no.out.contains("nothing dropped"), "{no:?}");
    annals.run(&["tables", "check"]).ok();
    let yes = ask("y\n").unwrap();
    assert_eq!(yes.code, Some(0), "{yes:?}");
    annals.run(&["tables", "check"]).fails(1, "missing");
}

/// A look at what is not there must not make it.
#[test]
fn a_store_is_made_by_what_writes_to_it_alone() {
    let annals = Annals::embedded();
    let data = annals.folder().join("annals-data");
    let all = |status: &str| -> Vec<(String, String)> {
        let tables = ["annals-journal", "annals-snapshot", "annals-state"];
        tables
            .map(|table| (table.to_owned(), status.to_owned()))
            .to_vec()
    };
    for is_there in [false, true] {
        let check = annals.run(&["tables", "check"]);
        check.fails(1, "create them with `annals tables create`");
        assert_eq!(statuses(&annals, &["tables", "check"]), all("missing"));
        let drop = ["tables", "drop", "--yes"];
        assert_eq!(statuses(&annals, &drop), all("missing"));
        annals.run(&["config", "show"]).ok();
        for args in [&["export", "absent-table"][..], &["import", "absent-table"]] {
            annals.run(args).fails(2, "table=`absent-table`");
        }
        if is_there {
            assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
        } else {
            assert!(!data.exists(), "nothing was made");
            std::fs::create_dir(&data).unwrap();
        }
    }
    let refused = annals.run(&["import", "my-table", "--key", "p:S,p:S"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(!data.join("FORMAT").exists(), "nothing was made");
    annals.run(&["import", "my-table", "--key", "p:S"]).ok();
    assert!(data.join("FORMAT").exists());
}

#[test]
fn a_template_is_yaml_or_json_and_touches_no_store() {
    let annals = Annals::embedded();
    let yaml = annals.run(&["tables", "template"]).ok().out;
    assert!(yaml.starts_with("AWSTemplateFormatVersion: "), "{yaml}");
    assert!(yaml.contains("\n  PumpFunction:\n"), "{yaml}");
    let json = annals.run(&["tables", "template", "--json"]).ok().out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let resources = &json["Resources"];
    let event = &resources["EventTable"]["Properties"];
    assert_eq!(event["TableName"], "annals-log");
    let without = annals.run(&["tables", "template", "--without-log", "--format", "json"]);
    let without: serde_json::Value = serde_json::from_str(&without.ok().out).unwrap();
    assert_eq!(without["Resources"].as_object().unwrap().len(), 4);
    let outcome = annals.run(&["tables", "template", "--stream", "annals-playback"]);
    outcome.fails(2, "name two streams");
}

/// AWS's own linter, where `ANNALS_TEST_CFN_LINT` names it.
#[test]
fn the_template_of_every_layout_passes_cfn_lint() {
    let Ok(linter) = std::env::var("ANNALS_TEST_CFN_LINT") else {
        println!("skipped: cfn-lint (ANNALS_TEST_CFN_LINT is not set)");
        return;
    };
    let annals = Annals::embedded();
    let reserved = ["--read-units", "5", "--write-units", "5"];
    for layout in ["annals", "akka", "j5ik2o"] {
        for (n, more) in [&[][..], &["--without-log"], &["--json"], &reserved]
            .iter()
            .enumerate()
        {
            let args = [&["tables", "template", "--layout", layout], *more].concat();
            let name = format!("{layout}-{n}.template");
            annals.write(&name, &annals.run(&args).ok().out);
            let path = annals.folder().join(&name);
            let linted = std::process::Command::new(&linter)
                .arg(&path)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&linted.stdout);
            assert!(linted.status.success(), "{args:?}: {told}");
        }
    }
}

/// The hints of a check that fails with exit code 2, those that say that something is wrong.
fn wrong(annals: &Annals, args: &[&str]) -> String {
    let outcome = annals.run(&[&["tables", "check"], args].concat());
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let lines = outcome.json();
    let hints = lines.iter().filter_map(|line| line["hints"].as_array());
    let wrong = hints.flatten().filter(|hint| hint["wrong"] == true);
    let wrong: Vec<&str> = wrong.map(|hint| hint["detail"].as_str().unwrap()).collect();
    wrong.join("; ")
}

#[test]
fn what_the_settings_would_get_wrong_is_told() {
    on_every_store(|annals| {
        let akka = ["--layout", "akka"];
        annals
            .run(&[&akka[..], &["tables", "create"]].concat())
            .ok();
        let appended = annals.run(&[&akka[..], &["append", "a", "1"]].concat());
        appended.ok();
        let checked = annals.run(&[&["tables", "check"], &akka[..]].concat()).ok();
        let advice = &checked.json()[0]["hints"][0];
        assert_eq!(advice["wrong"], false, "{checked:?}");
        assert!(advice["detail"].as_str().unwrap().contains("whole table"));

        let told = wrong(annals, &["--layout", "akka", "--journal-name", "other"]);
        assert!(
            told.contains("set journal-name to what is there: journal"),
            "{told}"
        );
        annals.write("few.toml", "layout = \"akka\"\nsequence-shards = 3\n");
        let told = wrong(annals, &["--config", "few.toml"]);
        assert!(told.contains("set sequence-shards to 10"), "{told}");
        annals.write(
            "large.toml",
            "layout = \"akka\"\n[aws-api-limits]\nmax-item-size = 500000\n",
        );
        let told = wrong(annals, &["--config", "large.toml"]);
        assert!(told.contains("set it to 409600 or less"), "{told}");
        let told = wrong(annals, &["--journal-table", "akka-persistence"]);
        assert!(told.contains("set layout to akka"), "{told}");
    });
}

#[test]
fn keys_that_other_resolvers_made_are_told() {
    on_every_store(|annals| {
        let j5ik2o = ["--layout", "j5ik2o"];
        annals
            .run(&[&j5ik2o[..], &["tables", "create"]].concat())
            .ok();
        annals
            .run(&[&j5ik2o[..], &["append", "a-1", "1"]].concat())
            .ok();
        annals
            .run(&[&["tables", "check"], &j5ik2o[..]].concat())
            .ok();
        annals.write(
            "other.toml",
            "layout = \"j5ik2o\"\n[j5ik2o.dynamo-db-journal]\nshard-count = 7\n",
        );
        let told = wrong(annals, &["--config", "other.toml"]);
        assert!(told.contains("1 of 1 rows"), "{told}");
    });
}

#[test]
fn a_log_of_another_time_unit_is_told() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create", "--log"]).ok();
    annals.run_with(&["log", "ingest"], "{\"payload\":1}").ok();
    annals.run(&["log", "sweep"]).ok();
    annals.run(&["tables", "check", "--log"]).ok();
    annals.write("unit.toml", "[log]\ntime-unit-ms = 60000\n");
    let told = wrong(&annals, &["--log", "--config", "unit.toml"]);
    assert!(told.contains("set log.time-unit-ms to 1000"), "{told}");
}

#[test]
fn how_a_table_is_paid_for_is_told_on_dynamodb() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let line = annals.run(&["tables", "check"]).ok().json().remove(0);
        let billing = line["billing"].as_str();
        assert!(
            billing.is_none_or(|billing| billing == "on-demand"),
            "{line}"
        );
        assert_eq!(billing.is_some(), annals.is_dynamodb(), "{line}");
    });
}
