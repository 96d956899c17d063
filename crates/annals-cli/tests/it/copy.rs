//! `annals copy` between layouts and stores.

use serde_json::{Value as Json, json};

use crate::run::{Annals, Outcome, dynamodb, on_every_store};

/// Writes events, a snapshot and a deletion with these flags.
fn fill(annals: &Annals, flags: &[&str]) {
    let run = |args: &[&str]| annals.run(&[flags, args].concat()).ok();
    for id in ["Cart-1", "Cart-2"] {
        run(&[
            "append",
            id,
            "{\"n\":1}",
            "{\"n\":2}",
            "--tag",
            "t",
            "--manifest",
            "Added",
        ]);
        run(&["append", id, "{\"n\":3}", "--metadata", "by=alice"]);
    }
    run(&["snapshot", "save", "Cart-2", "--at", "2", "\"two\""]);
    run(&["delete", "Cart-2", "--to", "2"]);
}

fn replay(annals: &Annals, flags: &[&str], id: &str) -> String {
    annals.run(&[flags, &["replay", id]].concat()).ok().out
}

fn last(outcome: &Outcome) -> Json {
    outcome.json().pop().unwrap()
}

#[test]
fn copies_to_every_layout_and_back_on_every_store() {
    on_every_store(|annals| {
        for layout in ["akka", "j5ik2o"] {
            let run = |args: &[&str]| annals.run(&[&["--layout", layout], args].concat());
            run(&["tables", "create"]);
        }
        annals.run(&["tables", "create"]);
        fill(annals, &["--layout", "akka"]);
        for (from, to) in [("akka", "annals"), ("annals", "j5ik2o")] {
            let copied = annals.run(&["copy", "--from", from, "--to", to]).ok();
            let copied = last(&copied)["copied"].clone();
            for (name, count) in [("ids", 2), ("events", 4), ("verified", 4), ("snapshots", 1)] {
                assert_eq!(copied[name], json!(count), "{from} to {to}: {copied}");
            }
            for id in ["Cart-1", "Cart-2"] {
                let there = replay(annals, &["--layout", to], id);
                assert_eq!(there, replay(annals, &["--layout", from], id));
                assert_eq!(there.lines().count(), if id == "Cart-1" { 3 } else { 1 });
            }
            let again = annals.run(&["copy", "--from", from, "--to", to]).ok();
            let again = last(&again)["copied"].clone();
            assert_eq!(
                (&again["events"], &again["present"]),
                (&json!(0), &json!(4))
            );
        }
    });
}

#[test]
fn copies_a_folder_to_dynamodb_and_adds_the_costs_of_both() {
    let annals = Annals::embedded();
    let endpoint = dynamodb();
    fill(&annals, &[]);
    let away = format!("dynamodb=true,endpoint={endpoint},region=eu-west-1");
    let to = [
        "--dynamodb",
        "--endpoint",
        &endpoint,
        "--region",
        "eu-west-1",
    ];
    let missing = annals.run(&["copy", "--from", "annals", "--to", &away]);
    missing.fails(2, "table=`annals-journal`");
    annals.run(&[&to[..], &["tables", "create"]].concat()).ok();
    let copied = annals.run(&[
        "copy",
        "--from",
        "data=./annals-data",
        "--to",
        &away,
        "--cost",
    ]);
    let cost = last(&copied.ok())["cost"].clone();
    assert!(cost["write_units"].as_u64().unwrap() >= 4, "{cost}");
    assert!(cost["read_units"].as_f64().unwrap() >= 4.0, "{cost}");
    for id in ["Cart-1", "Cart-2"] {
        assert_eq!(replay(&annals, &to, id), replay(&annals, &[], id));
    }
}

#[test]
fn the_summary_counts_ids_with_snapshots_only_and_says_from_where_to_where() {
    let annals = Annals::embedded();
    fill(&annals, &[]);
    for id in ["Alone-1", "Alone-2", "Alone-3"] {
        annals
            .run(&["snapshot", "save", id, "--at", "9", "9"])
            .warns("this id has no events");
    }
    annals
        .run(&["state", "put", "Cart-1", "--revision", "1", "1"])
        .ok();
    let copied = annals
        .run(&[
            "copy",
            "--from",
            "annals",
            "--to",
            "layout=j5ik2o,data=there",
        ])
        .ok();
    let copied = last(&copied)["copied"].clone();
    for (name, value) in [
        // An id with a value counts once more for it.
        ("ids", json!(6)),
        ("ids_with_events", json!(2)),
        ("ids_with_snapshots_only", json!(3)),
        ("other_journals", json!([])),
        (
            "from",
            json!({"layout": "annals", "store": "embedded", "location": "in annals-data", "journal_table": "annals-journal"}),
        ),
        (
            "to",
            json!({"layout": "j5ik2o", "store": "embedded", "location": "in there", "journal_table": "Journal"}),
        ),
    ] {
        assert_eq!(copied[name], value, "{name} of {copied}");
    }
}

#[test]
fn other_journals_in_the_same_table_are_mentioned() {
    let annals = Annals::embedded();
    let akka = |name: &str, id: &str| {
        let flags = ["--layout", "akka", "--journal-name", name];
        annals
            .run(&[&flags[..], &["append", id, "1", "2"]].concat())
            .ok();
    };
    akka("journal", "Cart-1");
    let copy = || annals.run(&["copy", "--from", "akka", "--to", "annals"]);
    copy().ok();
    akka("orders", "Order-P-1");
    akka("users", "User-1");
    let copied = copy();
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let says = "other journals, too, which are not copied; copy each with --from layout=akka,journal-name=NAME. journals=`orders`, `users`";
    assert!(copied.err.contains(says), "{copied:?}");
    let copied = last(&copied)["copied"].clone();
    assert_eq!(copied["other_journals"], json!(["orders", "users"]));
    assert_eq!(copied["ids_with_events"], 1);
    let orders = "layout=akka,journal-name=orders";
    let copied = annals.run(&["copy", "--from", orders, "--to", "annals"]);
    assert_eq!(last(&copied)["copied"]["events"], 2, "{copied:?}");
}

#[test]
fn copies_given_ids_or_a_prefix() {
    let annals = Annals::embedded();
    fill(&annals, &[]);
    let copy = |data: &str, more: &[&str]| {
        let to = format!("data={data}");
        annals.run(&[&["copy", "--from", "annals", "--to", &to], more].concat())
    };
    let ids = |data: &str| {
        let out = annals.run(&["--data", data, "ids"]).ok();
        out.json().len()
    };
    copy("one", &["Cart-1"]).ok();
    assert_eq!(ids("one"), 1);
    copy("two", &["--prefix", "Cart-2", "--no-snapshots"]).ok();
    assert_eq!(ids("two"), 1);
    let snapshot = annals.run(&["--data", "two", "snapshot", "load", "Cart-2"]);
    assert_eq!(snapshot.code, Some(1));
    let absent = copy("three", &["Cart-1", "Nobody"]);
    assert_eq!(absent.code, Some(1), "{absent:?}");
    assert_eq!(last(&absent)["copied"]["absent"], json!(1));
    copy("four", &["Cart-1", "--prefix", "Cart"]).fails(2, "cannot be used with");
}

#[test]
fn source_and_target_may_be_settings_files() {
    let annals = Annals::embedded();
    annals.write(
        "old.toml",
        "layout = \"akka\"\ndata = \"old\"\njournal-table = \"theirs\"\n",
    );
    fill(&annals, &["--config", "old.toml"]);
    annals
        .run(&["copy", "--from", "old.toml", "--to", "annals"])
        .ok();
    assert_eq!(
        replay(&annals, &[], "Cart-1"),
        replay(&annals, &["--config", "old.toml"], "Cart-1")
    );
    annals.write("bad.toml", "layot = \"akka\"\n");
    let bad = annals.run(&["copy", "--from", "bad.toml", "--to", "annals"]);
    bad.fails(2, "layot");
}

#[test]
fn an_option_that_a_settings_file_contradicts_is_an_error() {
    let annals = Annals::embedded();
    let endpoint = dynamodb();
    let file = format!(
        "store = \"dynamodb\"\nendpoint = \"{endpoint}\"\nregion = \"eu-west-1\"\njournal-table = \"new-journal\"\n"
    );
    annals.write("new.toml", &file);
    fill(&annals, &[]);
    let copy = |options: &[&str]| {
        let copy = ["copy", "--from", "data=annals-data", "--to", "new.toml"];
        annals.run(&[&copy[..], options].concat())
    };
    let refused = copy(&["--region", "us-east-1"]);
    refused.fails(
        2,
        "--region differs from the settings file of --to; leave out --region, or change the file. option=`us-east-1`, in the file=`eu-west-1`, file=`new.toml`",
    );
    let refused = copy(&["--dynamodb", "--endpoint", "http://127.0.0.1:1"]);
    refused.fails(2, "--endpoint differs from the settings file of --to");
    // The same value, and a variable, do not contradict it; the region is named.
    let missing = "region=`eu-west-1`";
    copy(&["--region", "eu-west-1"]).fails(2, missing);
    let annals = annals.with_variable("ANNALS_REGION", "us-east-1");
    let copy = ["copy", "--from", "data=annals-data", "--to", "new.toml"];
    annals.run(&copy).fails(2, missing);

    annals
        .run(&[
            "tables",
            "create",
            "--config",
            "new.toml",
            "--region",
            "eu-west-1",
        ])
        .ok();
    let copied = last(&annals.run(&copy).ok())["copied"].clone();
    let location = format!("on DynamoDB at {endpoint} in eu-west-1");
    assert_eq!(copied["to"]["location"], json!(location), "{copied}");
}

#[test]
fn an_error_about_a_missing_table_names_the_region() {
    let annals = Annals::at(&dynamodb());
    for args in [&["replay", "a"][..], &["export", "annals-journal"]] {
        let missing = annals.run(args);
        assert!(missing.err.contains("region=`eu-west-1`"), "{missing:?}");
        missing.fails(2, "table=`annals-journal`");
    }
}

#[test]
fn reports_and_keeps_other_data_in_the_target() {
    let annals = Annals::embedded();
    fill(&annals, &["--layout", "akka"]);
    annals.run(&["append", "Cart-1", "\"mine\""]).ok();
    let before = replay(&annals, &[], "Cart-1");
    let copied = annals.run(&["copy", "--from", "akka", "--to", "annals"]);
    let copied = copied.fails(3, "different events of this sequence number");
    assert!(copied.err.contains("id=`Cart-1`"), "{copied:?}");
    assert_eq!(last(&copied)["copied"]["failed"], json!(1));
    assert_eq!(replay(&annals, &[], "Cart-1"), before);
    assert_eq!(
        replay(&annals, &[], "Cart-2"),
        replay(&annals, &["--layout", "akka"], "Cart-2")
    );
}

#[test]
fn copies_deletions_with_the_option() {
    let annals = Annals::embedded();
    fill(&annals, &["--layout", "akka"]);
    annals
        .run(&["copy", "--from", "akka", "--to", "annals"])
        .ok();
    annals
        .run(&["--layout", "akka", "delete", "Cart-1", "--to", "2"])
        .ok();
    let kept = annals
        .run(&["copy", "--from", "akka", "--to", "annals"])
        .ok();
    assert_eq!(last(&kept)["copied"]["kept"], json!(2));
    assert_eq!(replay(&annals, &[], "Cart-1").lines().count(), 3);
    let with = ["copy", "--from", "akka", "--to", "annals", "--deletions"];
    annals.run(&with).ok();
    assert_eq!(replay(&annals, &[], "Cart-1").lines().count(), 1);
}

#[test]
fn reports_removed_ids_and_snapshots_and_deletes_them_with_the_option() {
    let annals = Annals::embedded();
    fill(&annals, &["--layout", "akka"]);
    let akka = |args: &[&str]| annals.run(&[&["--layout", "akka"], args].concat()).ok();
    for id in ["Gone-7", "Only-8"] {
        let save = ["snapshot", "save", id, "--at", "3", "{}"];
        annals
            .run(&[&["--layout", "akka"], &save[..]].concat())
            .warns("this id has no events");
    }
    akka(&["append", "Gone-7", "{}"]);
    let copy = ["copy", "--from", "akka", "--to", "annals"];
    annals.run(&copy).ok();
    let only = annals.run(&["snapshot", "list", "Only-8"]).ok();
    assert_eq!(only.json().len(), 1, "{only:?}");
    akka(&["delete", "Gone-7", "--purge"]);
    let kept = last(&annals.run(&copy).ok());
    assert_eq!(kept["copied"]["ids_kept"], json!(1), "{kept}");
    assert_eq!(kept["copied"]["snapshots_kept"], json!(1), "{kept}");
    assert_eq!(replay(&annals, &[], "Gone-7").lines().count(), 1);
    let with = ["copy", "--from", "akka", "--to", "annals", "--deletions"];
    let gone = last(&annals.run(&with).ok());
    assert_eq!(gone["copied"]["ids_purged"], json!(1), "{gone}");
    assert_eq!(gone["copied"]["snapshots_deleted"], json!(1), "{gone}");
    let ids = annals.run(&["ids"]).ok();
    assert!(!ids.out.contains("Gone-7"), "{ids:?}");
}

#[test]
fn copies_durable_state_or_says_that_the_layout_has_none() {
    let annals = Annals::embedded();
    annals
        .run(&["state", "put", "Cart-1", "--revision", "1", "\"open\""])
        .ok();
    annals
        .run(&["copy", "--from", "annals", "--to", "j5ik2o"])
        .ok();
    let state = annals
        .run(&["--layout", "j5ik2o", "state", "get", "Cart-1"])
        .ok();
    assert_eq!(state.json()[0]["payload"], json!("open"), "{state:?}");
    let copied = annals.run(&["copy", "--from", "annals", "--to", "akka"]);
    assert_eq!(copied.code, Some(0), "{copied:?}");
    assert!(copied.err.contains("layout akka has none"), "{copied:?}");
    annals
        .run(&["copy", "--from", "annals", "--to", "akka", "--no-states"])
        .ok();
}

#[test]
fn refuses_a_bad_source_or_target_before_creating_anything() {
    let annals = Annals::embedded();
    let copy = |from: &str, to: &str| annals.run(&["copy", "--from", from, "--to", to]);
    copy("annals", "annals").fails(2, "source and target use the same table");
    copy("annals", "layout=annals,data=./annals-data")
        .fails(2, "source and target use the same table");
    copy("annals", "annals,x").fails(2, "a source or target is");
    copy("annals", "nolayout").fails(2, "no such file");
    copy("akka", "jornal-table=x").fails(2, "key=`jornal-table`");
    copy("akka", "").fails(2, "a source or target is");
    copy("akka", "annals").fails(2, "there is no store in this folder");
    annals.run(&["copy", "--from", "akka"]).fails(2, "--to");
    assert_eq!(std::fs::read_dir(annals.folder()).unwrap().count(), 0);

    fill(&annals, &[]);
    copy("annals", "journal-table=other").fails(2, "table=`annals-snapshot`");
    copy("akka", "annals").fails(2, "table=`akka-persistence`");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn prints_a_summary_at_a_terminal() {
    let annals = Annals::embedded();
    fill(&annals, &[]);
    let args = ["copy", "--from", "annals", "--to", "akka", "--no-states"];
    let shown = annals.run_at_terminal(&args, "");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let says = "from annals in annals-data to akka in annals-data: 2 ids with events; 4 events copied, 0 already there, 4 verified; 1 snapshot, 0 values copied";
    assert!(shown.out.contains(says), "{shown:?}");
    assert!(!shown.out.contains("persistence_id"), "{shown:?}");
}
