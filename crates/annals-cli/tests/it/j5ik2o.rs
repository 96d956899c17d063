//! j5ik2o's tables at the command line.

use serde_json::json;

use crate::run::Annals;

fn j5ik2o() -> Annals {
    let annals = Annals::embedded();
    std::fs::write(annals.folder().join("annals.toml"), "layout = \"j5ik2o\"\n").unwrap();
    annals
}

#[test]
fn everything_of_an_entity_is_kept_in_its_tables() {
    let annals = j5ik2o();
    let args = [
        "append",
        "counter-1",
        "{\"n\":1}",
        "{\"n\":2}",
        "--tag",
        "red",
    ];
    annals.run(&args).ok();
    let read = annals.run(&["replay", "counter-1", "--from", "2"]).ok();
    assert_eq!(read.json()[0]["payload"], json!({"n": 2}));
    assert_eq!(read.json()[0]["tags"], json!(["red"]));
    annals
        .run(&["append", "counter-1", "{}", "--expect", "1"])
        .fails(3, "decide again");
    annals.run(&["delete", "counter-1", "--to", "1"]).ok();
    assert_eq!(annals.run(&["replay", "counter-1"]).ok().json().len(), 1);
    let highest = annals.run(&["highest", "counter-1"]).ok();
    assert_eq!(highest.json()[0]["sequence_number"], json!(2));

    let save = ["snapshot", "save", "counter-1", "--at", "2", "{\"sum\":3}"];
    annals.run(&save).ok();
    let loaded = annals.run(&["snapshot", "load", "counter-1"]).ok();
    assert_eq!(loaded.json()[0]["payload"], json!({"sum": 3}));
    let put = [
        "state",
        "put",
        "counter-1",
        "--revision",
        "1",
        "{\"sum\":3}",
    ];
    annals.run(&put).ok();
    let got = annals.run(&["state", "get", "counter-1"]).ok();
    assert_eq!(got.json()[0]["revision"], json!(1));
    annals.run(&put).fails(3, "another revision");
    assert!(annals.run(&["verify"]).ok().json().is_empty());
    assert_eq!(annals.run(&["ids"]).ok().json().len(), 1);
}

#[test]
fn ids_that_share_a_key_are_refused_by_name() {
    let annals = j5ik2o();
    annals.run(&["append", "order-2021-0001", "{}"]).ok();
    let collides = annals.run(&["append", "order-2021-0012", "{}"]);
    collides.fails(2, "other=`order-2021-0001`");
    let none = annals.run(&["append", "counter-", "{}"]);
    none.fails(2, "without prefix or body");
    assert_eq!(annals.run(&["ids"]).ok().json().len(), 1);
}
