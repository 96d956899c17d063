//! Events of any codec, purged ids, and the tables of the JVM's plugin under other names.

use serde_json::{Value as Json, json};

use crate::journal::{AKKA, numbers, with_five, with_five_on};
use crate::run::{Annals, on_every_own_store_with, on_every_store_with};

/// The input of each codec, and its output.
const TYPED: [(&str, &str, &str); 9] = [
    ("json", r#" {"n": 1} "#, r#"{"n":1}"#),
    ("text", " as it is ", r#"" as it is ""#),
    ("long", "-9223372036854775808", "-9223372036854775808"),
    ("int", "-2", "-2"),
    ("boolean", "true", "true"),
    ("bytes", "AAH/gA==", ""),
    ("cbor", "oA==", ""),
    ("protobuf", "CgFh", ""),
    ("akka:70001", "AGE=", ""),
];

#[test]
fn events_of_any_codec_are_appended_and_shown() {
    with_five(|annals| {
        for (codec, typed, shown) in TYPED {
            let args = [
                "append",
                codec,
                "--codec",
                codec,
                "--manifest",
                "a.B",
                typed,
            ];
            annals.run(&args).ok();
            let piped = ["append", codec, "--codec", codec, "--manifest", "a.B"];
            annals.run_with(&piped, format!("{typed}\n\n{typed}")).ok();
            let lines = annals.run(&["replay", codec]).ok().json();
            assert_eq!(lines.len(), 3);
            for line in lines {
                assert_eq!(
                    (&line["codec"], &line["manifest"]),
                    (&codec.into(), &"a.B".into())
                );
                match shown {
                    "" => assert_eq!(line["payload_base64"], typed),
                    shown => assert_eq!(line["payload"], shown.parse::<Json>().unwrap()),
                }
            }
        }
    });
}

#[test]
fn payloads_that_do_not_match_their_codec_are_rejected() {
    with_five(|annals| {
        for (codec, good, bad, says) in [
            (
                "long",
                "1",
                "9223372036854775808",
                "event 2 is not a whole number from -9223372036854775808 to",
            ),
            ("long", "1", "one", "event 2 is not a whole number"),
            (
                "int",
                "1",
                "-2147483649",
                "event 2 is not a whole number from -2147483648 to 2147483647; nothing",
            ),
            ("boolean", "true", "1", "event 2 is not true or false"),
            ("bytes", "AA==", "AA=", "event 2 is not base64"),
            ("akka:7", "AA==", "{}", "event 2 is not base64"),
        ] {
            let args = ["append", "Cart|1", "--codec", codec, good, bad];
            annals.run(&args).fails(2, says);
        }
        assert_eq!(annals.run(&["replay", "Cart|1"]).ok().json().len(), 5);
    });
    with_five_on(AKKA, |annals| {
        let args = ["append", "Cart|1", "--codec", "other:mine", "AA=="];
        annals.run(&args).fails(2, "no serializer for the codec");
    });
}

#[test]
fn a_purged_id_restarts_at_1() {
    with_five(|annals| {
        let purged = annals.run(&["delete", "Cart|1", "--purge"]).ok().json();
        assert_eq!(
            purged,
            [json!({"persistence_id": "Cart|1", "purged": true, "snapshots_deleted": 0})]
        );
        annals
            .run(&["highest", "Cart|1"])
            .fails(1, "there are no events");
        assert_eq!(annals.run(&["ids"]).ok().out, "");
        let again = ["append", "Cart|1", "--expect", "0", "{}"];
        assert_eq!(numbers(&annals.run(&again).ok().json()), [1]);
        annals
            .run(&["delete", "nobody", "--purge"])
            .fails(1, "there are no events to delete");
        let both = ["delete", "Cart|1", "--purge", "--to", "1"];
        annals.run(&both).fails(2, "cannot be used with");
        annals
            .run(&["delete", "Cart|1"])
            .fails(2, "<--to <N>|--purge>");
        assert_eq!(annals.run(&["replay", "Cart|1"]).ok().json().len(), 1);
    });
}

/// A journal of a JVM application with a custom table name.
#[test]
fn tables_of_akka_can_have_other_names() {
    on_every_own_store_with(&AKKA, |annals| {
        let named = |args: &[&str]| {
            let names = [
                "--journal-table",
                "theirs",
                "--snapshot-table",
                "theirs-too",
            ];
            annals.run(&[args, &names, &["--journal-name", "shop"]].concat())
        };
        named(&["tables", "create"]).ok();
        named(&["append", "Cart|1", "--codec", "text", "opened"]).ok();
        named(&["snapshot", "save", "Cart|1", "--at", "1", "{}"]).ok();
        assert_eq!(
            named(&["replay", "Cart|1"]).ok().json()[0]["payload"],
            "opened"
        );
        let items = named(&["export", "theirs"]).ok().json();
        let event = items
            .iter()
            .find(|line| line["Item"]["seq"]["N"] == "1")
            .unwrap();
        assert_eq!(event["Item"]["par"]["S"], "shop-P-Cart|1-0");
        assert_eq!(event["Item"]["ev_ser_id"]["N"], "20");
        annals
            .run(&["replay", "Cart|1"])
            .fails(2, "table does not exist");
    });
}

/// The golden items of the plugin's tables, as exported lines.
#[test]
fn tables_of_the_jvm_are_imported_and_read() {
    let golden = |name: &str| {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let file = format!("annals-jvm/tests/fixtures/pekko/{name}.jsonl");
        crates.unwrap().join(file).to_str().unwrap().to_owned()
    };
    on_every_store_with(&AKKA, |annals| {
        annals.run(&["tables", "create"]).ok();
        for (table, file) in [
            ("akka-persistence", golden("journal")),
            ("akka-persistence-snapshot", golden("snapshot")),
        ] {
            assert_eq!(annals.run(&["import", table, &file]).code, Some(0));
        }
        let lines = annals.run(&["replay", "payloads"]).ok().json();
        assert_eq!(lines.len(), 22);
        assert_eq!(lines[9]["payload"], json!(i64::MAX));
        assert_eq!(lines[15]["manifest"], "interop.Events$Json");
        assert_eq!(
            lines[15]["payload"],
            json!({"text": "json ünïcödé 😀", "number": 1})
        );
        assert_eq!(lines[19]["codec"], "akka:70001");
        assert_eq!(
            numbers(&annals.run(&["highest", "wrapped"]).ok().json()),
            [1_210]
        );
        assert_eq!(annals.run(&["ids"]).ok().json().len(), 44);
        let other = [
            "snapshot",
            "load",
            "three-shards",
            "--journal-name",
            "other",
        ];
        assert_eq!(annals.run(&other).ok().json()[0]["payload"], "at 300");
    });
}

#[test]
fn text_that_is_not_json_is_refused_with_the_codec_to_use() {
    let annals = Annals::embedded();
    let hint = "is not JSON; nothing was written. For plain text, use --codec text";
    let append = ["append", "a", "not json"];
    annals.run(&append).fails(2, &format!("event 1 {hint}"));
    let put = ["state", "put", "a", "--revision", "1", "not json"];
    annals.run(&put).fails(2, &format!("the value {hint}"));
    annals
        .run(&[&append[..], &["--codec", "text"]].concat())
        .ok();
    annals.run(&[&put[..], &["--codec", "text"]].concat()).ok();
    let save = ["snapshot", "save", "a", "--at", "1", "not json"];
    annals.run(&save).fails(2, &format!("the state {hint}"));
    annals.run(&[&save[..], &["--codec", "text"]].concat()).ok();
    let loaded = annals.run(&["snapshot", "load", "a"]).ok().json();
    assert_eq!(loaded[0]["codec"], "text", "{loaded:?}");
    assert_eq!(loaded[0]["payload"], "not json", "{loaded:?}");
}

/// Bodies with a codec and base64, and whether they are accepted.
const SENT: [(&str, &str, bool); 15] = [
    ("jsn", "aGk=", false),
    ("", "aGk=", false),
    ("other:", "aGk=", false),
    ("akka:x", "aGk=", false),
    ("json", "aGk=", false),
    ("other:json", "aGk=", false),
    ("json", "/w==", false),
    ("text", "/w==", false),
    ("int", "AA==", false),
    ("boolean", "Ag==", false),
    ("json", "WzFd", true),
    ("text", "aGk=", true),
    ("boolean", "AQ==", true),
    ("akka:7", "/w==", true),
    ("other:mine", "/w==", true),
];

#[test]
fn codecs_are_checked_over_http_and_in_bulk_as_at_the_command_line() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    let mut accepted = 0;
    for (codec, base64, is_good) in SENT {
        let body = json!({"payload_base64": base64, "codec": codec});
        let events = json!({"events": [body]}).to_string();
        let line = json!({"persistence_id": "b", "events": [body]}).to_string();
        let replies = [
            server.post("/v1/journal/a/events", &events),
            server.put("/v1/snapshots/a/1", &body.to_string()),
            server.put(
                &format!("/v1/state/a?revision={}", accepted + 1),
                &body.to_string(),
            ),
        ];
        let bulk = annals
            .run_with(&["append", "--bulk"], line)
            .json()
            .remove(0);
        if is_good {
            accepted += 1;
            let statuses = replies.map(|reply| reply.status);
            assert_eq!(statuses, [201, 200, 200], "{codec}");
            assert_eq!(bulk["status"], 201, "{codec}");
            continue;
        }
        for problem in replies
            .map(|reply| reply.problem(400, "invalid"))
            .iter()
            .chain([&bulk])
        {
            let detail = problem["detail"].as_str().unwrap();
            let is_unknown = detail.contains("or other:NAME for a codec of your own");
            let is_wrong = detail.contains("has bytes that its codec cannot read");
            assert!(is_unknown || is_wrong, "{codec}: {detail}");
        }
    }
    for id in ["a", "b"] {
        let lines = annals.run(&["replay", id]).ok().json();
        assert_eq!(lines.len(), accepted);
        assert_eq!(lines[accepted - 1]["codec"], "mine", "without the prefix");
    }
}
