//! `annals tables`.

use serde_json::json;

use crate::run::{Annals, finish, on_every_own_store, on_every_store};

fn statuses(annals: &Annals, args: &[&str]) -> Vec<(String, String)> {
    let lines = annals.run(args).json();
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    lines
        .iter()
        .map(|line| (text(line, "table"), text(line, "status")))
        .collect()
}

#[test]
fn creates_checks_and_drops_the_tables_of_every_layout() {
    on_every_own_store(|annals| {
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
fn missing_tables_give_exit_code_1() {
    on_every_own_store(|annals| {
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
fn reports_a_table_with_another_schema_and_leaves_it() {
    on_every_store(|annals| {
        let name = ["--journal-table", "shared-table"];
        annals
            .run(&[&["tables", "create"][..], &name].concat())
            .ok();
        for verb in ["create", "check"] {
            let args = [&["tables", verb, "--layout", "j5ik2o"][..], &name].concat();
            let outcome = annals.run(&args);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            let output = format!("{}{}", outcome.out, outcome.err);
            assert!(
                output.contains("key differs: want `pkey S, skey S`, found `p S, n N`"),
                "{output}"
            );
        }
        annals.run(&[&["tables", "check"][..], &name].concat()).ok();
    });
}

#[test]
fn provisioned_capacity_needs_both_units() {
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
fn refuses_two_tables_of_the_same_name() {
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
fn the_cost_is_the_last_line() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let lines = annals.run(&["tables", "check", "--cost"]).ok().json();
    let want = json!({"cost": {"requests": 3, "write_units": 0, "read_units": 0}});
    assert_eq!(lines.last(), Some(&want));
}

#[test]
fn a_drop_needs_yes_without_a_terminal() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        for answer in ["", "y\n"] {
            let outcome = annals.run_with(&["tables", "drop"], answer);
            let outcome = outcome.fails(2, "needs --yes");
            assert!(outcome.err.contains("annals-journal"), "{outcome:?}");
            assert_eq!(outcome.out, "");
        }
        annals.run(&["tables", "check"]).ok();
    });
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_drop_asks_at_a_terminal() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let ask = |answer| annals.run_at_terminal(&["tables", "drop"], answer);
    let no = ask("n\n");
    assert_eq!(no.code, Some(0), "{no:?}");
    assert!(no.out.contains("with all their data? [y/N]"), "{no:?}");
    assert!(no.out.contains("nothing dropped"), "{no:?}");
    annals.run(&["tables", "check"]).ok();
    let yes = ask("y\n");
    assert_eq!(yes.code, Some(0), "{yes:?}");
    annals.run(&["tables", "check"]).fails(1, "missing");
}

/// Reading a missing store must not create it.
#[test]
fn only_writing_creates_a_store() {
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
        check.fails(
            1,
            "tables are missing in annals-data; create them with `annals tables create`",
        );
        assert_eq!(statuses(&annals, &["tables", "check"]), all("missing"));
        annals.run(&["config", "show"]).ok();
        for args in [
            &["export", "absent-table"][..],
            &["import", "absent-table"],
            &["tables", "drop"],
            &["tables", "drop", "--yes"],
            &["log", "sweep"],
            &["log", "link"],
            &["log", "horizon", "--set-back", "0"],
        ] {
            annals
                .run(args)
                .fails(2, "there is no store in this folder");
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

/// Without the index, snapshots of akka cannot be found by time, and DynamoDB cannot add it later.
#[test]
fn an_import_creates_a_table_of_the_layout_with_its_indexes() {
    let from = Annals::embedded().with_flags(&["--layout", "akka", "--journal-name", "orders"]);
    for at in ["1", "2"] {
        from.run(&["snapshot", "save", "a", "--at", at, at])
            .warns("this id has no events");
    }
    let table = "akka-persistence-snapshot";
    let items = from.run(&["export", table]).ok().out;
    on_every_own_store(|to| {
        let args = ["--layout", "akka", "import", table, "--key", "par:S,num:N"];
        to.run_with(&args, &items)
            .fails(2, "its key=`par S, seq N`, --key=`par S, num N`");
        let args = ["--layout", "akka", "import", table, "--key", "par:S,seq:N"];
        to.run_with(&args, &items).ok();
        to.run(&["--layout", "akka", "tables", "create"]).ok();
        to.run(&["--layout", "akka", "tables", "check"]).ok();
        let load = ["--layout", "akka", "--journal-name", "orders", "snapshot"];
        let newest = [&load[..], &["load", "a", "--min-time", "0"]].concat();
        assert_eq!(to.run(&newest).ok().json()[0]["sequence_number"], 2);
    });
}

#[test]
fn prints_a_template_as_json_or_yaml_without_a_store() {
    let annals = Annals::embedded();
    let json = annals.run(&["tables", "template"]).ok().out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let yaml = annals.run(&["tables", "template", "--format", "yaml"]);
    let yaml = yaml.ok().out;
    assert!(yaml.starts_with("AWSTemplateFormatVersion: "), "{yaml}");
    assert!(yaml.contains("\n  PumpFunction:\n"), "{yaml}");
    let parsed: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(parsed, json, "the same template in both formats");
    // YAML 1.1 would read this as a date without quotes.
    assert!(
        yaml.contains("\"2012-10-17\"") || yaml.contains("'2012-10-17'"),
        "{yaml}"
    );
    assert!(!annals.folder().join("annals-data").exists());
    let resources = &json["Resources"];
    let event = &resources["EventTable"]["Properties"];
    assert_eq!(event["TableName"], "annals-log");
    let without = annals.run(&["tables", "template", "--without-log", "--format", "json"]);
    let without: serde_json::Value = serde_json::from_str(&without.ok().out).unwrap();
    assert_eq!(without["Resources"].as_object().unwrap().len(), 4);
    let outcome = annals.run(&["tables", "template", "--stream", "annals-playback"]);
    outcome.fails(2, "name two streams");
}

/// The hints about wrong settings, of a check that fails with exit code 2.
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
fn reports_settings_that_do_not_match_the_data() {
    on_every_own_store(|annals| {
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

        let hints = wrong(annals, &["--layout", "akka", "--journal-name", "other"]);
        assert!(
            hints.contains("set journal-name to one of: journal"),
            "{hints}"
        );
        annals.write("few.toml", "layout = \"akka\"\nsequence-shards = 3\n");
        let hints = wrong(annals, &["--config", "few.toml"]);
        assert!(hints.contains("set sequence-shards to 10"), "{hints}");
        annals.write(
            "large.toml",
            "layout = \"akka\"\n[aws-api-limits]\nmax-item-size = 500000\n",
        );
        let hints = wrong(annals, &["--config", "large.toml"]);
        assert!(hints.contains("set it to 409600 or less"), "{hints}");
        let hints = wrong(annals, &["--journal-table", "akka-persistence"]);
        assert!(hints.contains("set layout to akka"), "{hints}");
    });
}

#[test]
fn reports_keys_of_other_resolvers() {
    on_every_own_store(|annals| {
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
        let hints = wrong(annals, &["--config", "other.toml"]);
        assert!(hints.contains("1 of 1 rows"), "{hints}");
    });
}

#[test]
fn reports_a_log_with_another_time_unit() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create", "--log"]).ok();
    annals.run_with(&["log", "ingest"], "{\"payload\":1}").ok();
    annals.run(&["log", "sweep"]).ok();
    annals.run(&["tables", "check", "--log"]).ok();
    annals.write("unit.toml", "[log]\ntime-unit-ms = 60000\n");
    let hints = wrong(&annals, &["--log", "--config", "unit.toml"]);
    assert!(hints.contains("set log.time-unit-ms to 1000"), "{hints}");
}

#[test]
fn reports_the_billing_mode_on_dynamodb() {
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
