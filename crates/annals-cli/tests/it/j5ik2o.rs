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
        .fails(3, "see the new events with `annals replay`");
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
fn ids_that_share_a_key_are_an_error_that_names_both() {
    let annals = j5ik2o();
    annals.run(&["append", "order-2021-0001", "{}"]).ok();
    let collides = annals.run(&["append", "order-2021-0012", "{}"]);
    collides.fails(2, "other=`order-2021-0001`");
    let none = annals.run(&["append", "counter-", "{}"]);
    none.fails(2, "without prefix or body");
    assert_eq!(annals.run(&["ids"]).ok().json().len(), 1);
}

/// The columns a JVM reads: serializer id, manifest and payload.
#[test]
fn a_value_of_any_codec_has_the_serializer_of_the_jvm() {
    let annals = j5ik2o();
    for (n, (codec, typed, serializer, payload)) in [
        ("json", "{\"n\":1}", "31", "eyJuIjoxfQ=="),
        ("text", "as it is", "20", "YXMgaXQgaXM="),
        ("long", "7", "18", "BwAAAAAAAAA="),
        ("bytes", "AAH/gA==", "4", "AAH/gA=="),
        ("akka:70001", "AGE=", "70001", "AGE="),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("counter-{n}");
        let put = ["state", "put", &id, "--revision", "1", typed];
        let put = [&put[..], &["--codec", codec, "--manifest", "a.B"]].concat();
        annals.run(&put).ok();
        let got = annals.run(&["state", "get", &id]).ok().json().remove(0);
        assert_eq!(
            (&got["codec"], &got["manifest"]),
            (&codec.into(), &"a.B".into())
        );
        let items = annals.run(&["export", "State"]).ok().json();
        let item = items.iter().map(|line| &line["Item"]);
        let mut item = item.filter(|item| item["persistence-id"]["S"] == *id);
        let item = item.next().unwrap();
        assert_eq!(item["serializer-id"]["N"], serializer, "{item}");
        assert_eq!(item["payload"]["B"], payload, "{item}");
        if ["json", "akka:70001"].contains(&codec) {
            assert_eq!(item["serializer-manifest"]["S"], "a.B", "{item}");
        }
    }
    let put = ["state", "put", "counter-9", "--revision", "1", "7.5"];
    annals
        .run(&[&put[..], &["--codec", "long"]].concat())
        .fails(2, "nothing was written. codec=`long`");
    assert_eq!(annals.run(&["state", "get", "counter-9"]).code, Some(1));
}
