//! Bad input: an error that says what to do, the right exit code, and nothing lost.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::run::{Annals, on_every_own_store_with, on_every_store};

const SHORT: &str = "[aws-client-config]\nclient-execution-timeout = 300\n";

#[test]
fn an_unknown_setting() {
    let annals = Annals::embedded();
    annals.write("annals.toml", "\njornal-table = \"x\"\n");
    let outcome = annals
        .run(&["tables", "create"])
        .fails(2, "unknown field `jornal-table`");
    assert!(
        outcome.err.contains("line=`2`, file=`annals.toml`"),
        "{outcome:?}"
    );
    assert!(
        !annals.folder().join("annals-data").exists(),
        "nothing was made"
    );
    annals.write("annals.toml", "store = \"cassandra\"\n");
    annals
        .run(&["tables", "create"])
        .fails(2, "unknown variant `cassandra`");
    annals.write("annals.toml", "this is not toml\n");
    annals
        .run(&["tables", "create"])
        .fails(2, "settings do not parse");
    annals
        .run(&["tables", "create", "--config", "absent.toml"])
        .fails(2, "file=`absent.toml`");
}

#[test]
fn an_unknown_option_layout_or_command() {
    let annals = Annals::embedded();
    let cases: [(&[&str], &str); 6] = [
        (
            &["tables", "create", "--layuot", "akka"],
            "unexpected argument '--layuot' found; tip: a similar argument exists: '--layout'",
        ),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (
            &["export"],
            "the following required arguments were not provided: <TABLE>",
        ),
        (
            &["tables", "create", "--layout", "cassandra"],
            "annals, akka or j5ik2o",
        ),
        (
            &["export", "my-table", "--segments", "0"],
            "0 is not in 1..=1024",
        ),
        (&["export", "my-\ntable"], "my- table"),
    ];
    for (args, says) in cases {
        let outcome = annals.run(args).fails(2, says);
        let [line] = &outcome.err.lines().collect::<Vec<_>>()[..] else {
            panic!("{outcome:?}");
        };
        assert!(line.starts_with("annals: "), "{line}");
        let (_, help) = line.rsplit_once("; see annals").unwrap();
        assert!(help.ends_with(" --help"), "{line}");
        assert_eq!(outcome.out, "");
    }
}

#[test]
fn an_error_about_a_value_names_the_help_of_its_command() {
    let annals = Annals::embedded();
    let cases: [(&[&str], &str); 6] = [
        (&["append", "a", "1", "--codec", "xml"], "annals append"),
        (&["append", ""], "annals append"),
        (&["append", "a", "1", "--expect", "-1"], "annals append"),
        (&["serve", "--listen", "7070"], "annals serve"),
        (
            &["log", "playback", "--start", "yesterday"],
            "annals log playback",
        ),
        (
            &["--data", "ids", "snapshot", "save", "a", "--at", "0", "1"],
            "annals snapshot save",
        ),
    ];
    for (args, command) in cases {
        let outcome = annals
            .run(args)
            .fails(2, &format!("; see {command} --help"));
        assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
    }
    let listen = annals.run(&["serve", "--listen", "7070"]);
    listen.fails(2, "such as 127.0.0.1:7070");
}

#[test]
fn a_number_or_a_time_that_does_not_parse_is_explained() {
    let annals = Annals::embedded();
    let number = |max: &str| format!("it must be a whole number from 0 to {max}; see");
    let (signed, unsigned) = (
        number("9223372036854775807"),
        number("18446744073709551615"),
    );
    let version = number("4294967295");
    let time = "or like 2026-01-31T12:00:00Z".to_owned();
    let cases: [(&[&str], &String); 11] = [
        (&["append", "a", "1", "--expect", "-1"], &signed),
        (&["append", "a", "1", "--expect", "abc"], &signed),
        (
            &["append", "a", "1", "--expect", "9223372036854775808"],
            &signed,
        ),
        (&["append", "a", "1", "--schema", "x"], &version),
        (&["append", "a", "1", "--schema", "4294967296"], &version),
        (&["replay", "a", "--max", "many"], &unsigned),
        (&["restore", "x", "--to-position", "abc"], &unsigned),
        (&["restore", "x", "--to-time", "2026-11-18"], &time),
        (&["log", "playback", "--start", "2026-11-18"], &time),
        (&["log", "link", "--end", "2026-11-18"], &time),
        (&["log", "horizon", "--set-back", "2026-11-18"], &time),
    ];
    for (args, says) in cases {
        annals.run(args).fails(2, says);
    }
    let far = ["log", "playback", "--start", "3001-01-01T00:00:00Z"];
    annals.run(&far).fails(2, "in the years 1970 to 2999");
}

#[test]
fn a_pump_names_both_of_its_sources() {
    let annals = Annals::embedded();
    let pump = annals.run(&["log", "pump"]);
    pump.fails(2, "<--journal|--kinesis <STREAM>>");
    let both = ["log", "pump", "--journal", "--kinesis", "stream"];
    annals.run(&both).fails(2, "cannot be used with");
}

#[test]
fn help_is_an_error_only_without_a_command() {
    let annals = Annals::embedded();
    for args in [
        &["--help"][..],
        &["--version"],
        &["tables", "drop", "--help"],
    ] {
        let outcome = annals.run(args).ok();
        assert!(!outcome.out.is_empty(), "{outcome:?}");
    }
    for args in [&[][..], &["tables"]] {
        let outcome = annals.run(args);
        assert_eq!((outcome.code, &*outcome.out), (Some(2), ""));
        assert!(outcome.err.contains("Commands:"), "{outcome:?}");
    }
}

#[test]
fn a_missing_table() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        for verb in ["export", "import"] {
            let outcome = annals.run(&[verb, "absent-table"]);
            outcome.fails(
                2,
                "create it with `annals tables create` (--log for the log's), or name another. table=`absent-table`",
            );
        }
        annals.run(&["export", "x"]).fails(2, "3 to 255");
        annals
            .run(&["import", "absent-table", "--key", "p:X"])
            .fails(2, "a key is NAME:S");
    });
}

/// FR1 and FR4 of the plugin's own tests: with nothing set, only the missing table is reported.
#[test]
fn fr4_default_settings_need_only_their_tables() {
    for (layout, table) in [
        ("akka", "akka-persistence"),
        ("annals", "annals-journal"),
        ("j5ik2o", "Journal"),
    ] {
        on_every_own_store_with(&["--layout", layout], |annals| {
            for verb in ["highest", "replay"] {
                let outcome = annals.run(&[verb, "order-1"]);
                let missing = match annals.is_dynamodb() {
                    true => format!(" table=`{table}`"),
                    false => "there is no store in this folder".to_owned(),
                };
                let outcome = outcome.fails(2, &missing);
                let [line] = &outcome.err.lines().collect::<Vec<_>>()[..] else {
                    panic!("{outcome:?}");
                };
                assert!(line.contains("`annals tables create`"), "{line}");
            }
            annals.run(&["tables", "create"]).ok();
            let outcome = annals.run(&["replay", "order-1"]);
            outcome.fails(1, "there are no events");
        });
    }
}

#[test]
fn an_unreachable_endpoint() {
    // Nothing listens on port 1 of this machine.
    let annals = Annals::at("http://127.0.0.1:1");
    annals.write("annals.toml", SHORT);
    let outcome = annals
        .run(&["tables", "check"])
        .fails(4, "cannot reach DynamoDB");
    assert_eq!(outcome.out, "");
    Annals::at("nonsense")
        .run(&["tables", "check"])
        .fails(2, "endpoint=`nonsense`");
}

#[test]
fn an_endpoint_without_dynamodb() {
    let annals = Annals::embedded();
    let outcome = annals.run(&["tables", "create", "--endpoint", "http://127.0.0.1:1"]);
    outcome.fails(2, "add --dynamodb");
    assert!(
        !annals.folder().join("annals-data").exists(),
        "nothing was made"
    );
}

/// The events would be written to a folder instead.
#[test]
fn a_region_without_dynamodb() {
    let annals = Annals::embedded();
    let region = ["--region", "eu-west-1"];
    let run = |args: &[&str]| annals.run(&[args, &region].concat());
    run(&["append", "x", "1"]).fails(2, "add --dynamodb, or leave --region out");
    run(&["--data", "x", "append", "x", "1"]).fails(2, "leave --region out");
    assert!(
        !annals.folder().join("annals-data").exists(),
        "nothing was made"
    );
    // An empty option counts as not given.
    annals.run(&["append", "x", "1", "--region", ""]).ok();
    // These call AWS themselves, in this region.
    run(&["copy", "--from", "annals", "--to", "data=./copy"]).ok();
    let kinesis = "[kinesis]\nendpoint = \"http://127.0.0.1:1\"\n";
    annals.write("annals.toml", &format!("{kinesis}{SHORT}"));
    let pumped = run(&["log", "pump", "--kinesis", "events"]);
    assert_eq!(pumped.code, Some(4), "{pumped:?}");
    // A region that is not typed is for whatever calls AWS.
    annals.write("annals.toml", "region = \"eu-west-1\"\n");
    annals.run(&["append", "x", "2"]).ok();
    let annals = annals.with_variable("ANNALS_REGION", "eu-west-1");
    annals.run(&["append", "x", "3"]).ok();
}

#[test]
fn a_folder_beside_dynamodb() {
    let annals = Annals::at("http://127.0.0.1:1");
    annals.write("annals.toml", SHORT);
    for args in [&["ids"][..], &["append", "a", "1"], &["config", "show"]] {
        annals
            .run(&[&["--data", "x"], args].concat())
            .fails(2, "leave out --data, or --dynamodb");
    }
    // An empty option counts as not given, and the source of a copy may be in the folder.
    annals
        .run(&["--data", "", "ids"])
        .fails(4, "cannot reach DynamoDB");
    let copy = ["copy", "--from", "store=embedded", "--to", "layout=annals"];
    annals
        .run(&[&["--data", "x"], &copy[..]].concat())
        .fails(2, "data=`x`");
    // A variable only says where the embedded store is.
    let annals = annals.with_variable("ANNALS_DATA", "x");
    annals.run(&["ids"]).fails(4, "cannot reach DynamoDB");
}

#[test]
fn no_credentials_and_no_region() {
    let annals = Annals::at("http://127.0.0.1:1").with_access_key("");
    annals
        .run(&["tables", "check"])
        .fails(2, "AWS_ACCESS_KEY_ID");
    let annals = Annals::embedded();
    annals
        .run(&["tables", "check", "--dynamodb"])
        .fails(2, "set --region");
}

/// The response of AWS to an unknown access key.
#[test]
fn wrong_credentials() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let body = r#"{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}"#;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 4096];
            if connection.read(&mut request).unwrap_or(0) > 0 {
                let _ = connection.write_all(answer.as_bytes());
            }
        }
    });
    let outcome = Annals::at(&endpoint).run(&["tables", "check"]);
    let outcome = outcome.fails(2, "AWS refused the credentials");
    assert!(!outcome.err.contains("secret"), "{outcome:?}");
}

#[test]
fn an_unreadable_folder() {
    let annals = Annals::embedded();
    annals.write("a-file", "mine");
    let outcome = annals.run(&["--data", "a-file/data", "tables", "create"]);
    outcome.fails(
        2,
        "check that the folder exists and can be read and written",
    );
    annals
        .run(&["--data", "a-file", "tables", "create"])
        .fails(2, "folder=`a-file`");
    annals.run(&["--data", ".", "tables", "create"]).fails(
        2,
        "check --data: folder has other files and is not an annals store",
    );
    let kept = std::fs::read_to_string(annals.folder().join("a-file")).unwrap();
    assert_eq!(kept, "mine");
}

#[test]
fn a_store_that_another_process_has_open() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let folder = annals.folder().join("annals-data");
    let store = annals::embedded::Embedded::open(&folder, &Default::default()).unwrap();
    annals
        .run(&["append", "a", "1"])
        .fails(4, "another process has this store open");
    // Reading needs no folder of its own.
    annals.run(&["tables", "check"]).ok();
    drop(store);
    annals.run(&["append", "a", "1"]).ok();
}

#[test]
fn a_store_of_a_newer_annals() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    annals.write("annals-data/FORMAT", "annals embedded format 9\n");
    annals.run(&["tables", "check"]).fails(2, "update annals");
}

/// Codecs are open; one with a typo would be stored.
#[test]
fn an_unknown_codec() {
    let annals = Annals::embedded();
    for codec in ["txt", "", "akka:", "akka:x", "other:", "JSON"] {
        for command in [
            &["append", "a"][..],
            &["state", "put", "a", "--revision", "1"],
        ] {
            let outcome = annals.run(&[command, &["--codec", codec, "AA=="]].concat());
            outcome.fails(2, "unknown codec; use json, text");
        }
    }
    for codec in ["bytes", "akka:7", "other:avro"] {
        annals.run(&["append", "a", "--codec", codec, "AA=="]).ok();
    }
    let codecs = annals.run(&["replay", "a"]).ok().json();
    let codecs: Vec<_> = codecs.iter().map(|event| &event["codec"]).collect();
    assert_eq!(codecs, ["bytes", "akka:7", "avro"]);
}

#[test]
fn verifying_an_unknown_id() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        annals
            .run(&["state", "put", "b", "--revision", "1", "{}"])
            .ok();
        annals
            .run(&["verify", "a"])
            .fails(1, "nothing is stored under this id. id=`a`");
        annals.run(&["verify", "b"]).ok();
        annals.run(&["append", "a", "1"]).ok();
        annals.run(&["delete", "a", "--to", "1"]).ok();
        annals.run(&["verify", "a"]).ok();
    });
}

/// Without limits of its own: it ends long before the deadline of 15 s, which would be an hour here.
#[test]
fn an_endpoint_that_never_answers_is_given_up_soon() {
    let annals = Annals::at("http://127.0.0.1:1");
    let hour = "[aws-client-config]\nclient-execution-timeout = 3600000\n";
    annals.write("annals.toml", hour);
    let outcome = annals.run(&["highest", "a"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let lines: Vec<&str> = outcome.err.lines().collect();
    assert!(
        lines[0].contains("cannot reach DynamoDB; trying"),
        "{outcome:?}"
    );
    assert!(
        lines[1].contains("cannot reach DynamoDB; check"),
        "{outcome:?}"
    );
}

/// The limits are in this process, so the notice comes first on a slow machine, too.
#[test]
fn an_endpoint_that_accepts_and_never_answers_is_noticed_before_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let annals = Annals::at(&format!("http://{}", listener.local_addr().unwrap()));
    let limits = "request-timeout = 1500\nclient-execution-timeout = 1500\n";
    annals.write("annals.toml", &format!("[aws-client-config]\n{limits}"));
    let outcome = annals.run(&["highest", "a"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let lines: Vec<&str> = outcome.err.lines().collect();
    assert!(
        lines[0].contains("DynamoDB does not answer; waiting for another"),
        "{outcome:?}"
    );
    assert!(lines[1].contains("DynamoDB did not answer"), "{outcome:?}");
}

#[test]
fn damaged_data_is_reported_with_its_id_and_number_and_what_to_do() {
    let from = Annals::embedded();
    from.run(&["append", "a", "1"]).ok();
    from.run(&["append", "a", "2"]).ok();
    from.run(&["state", "put", "a", "--revision", "1", "1"])
        .ok();
    let to = Annals::embedded();
    to.run(&["tables", "create"]).ok();
    for table in ["annals-journal", "annals-state"] {
        let items = from.run(&["export", table]).ok().out;
        // Each under the key of another one: events 2, and the value of `b`.
        let items: String = items
            .lines()
            .filter(|line| !line.contains(r#""N":"1"},"p""#) || table == "annals-state")
            .map(|line| line.replace("a\"}", "b\"}") + "\n")
            .collect();
        to.run_with(&["import", table], items).ok();
    }
    let advice = "; run `annals verify` for this id to see all that is damaged, and restore that from a backup. ";
    let event = format!("{advice}id=`b`, number=`2`, operation=`replay`");
    let replay = ["replay", "b", "--from", "2"];
    let outcome = to.run(&replay).fails(5, &event);
    assert!(!outcome.err.contains("key="), "{outcome:?}");
    to.run(&["state", "get", "b"])
        .fails(5, &format!("{advice}id=`b`, operation=`get state`"));
}

#[test]
fn an_unreachable_store_is_reported_with_the_persistence_id() {
    let annals = Annals::at("http://127.0.0.1:1");
    let limits = "max-error-retry = 0\n";
    annals.write("annals.toml", &format!("[aws-client-config]\n{limits}"));
    let outcome = annals.run(&["snapshot", "list", "Cart|1"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let facts = "sort key=`1 or more`, operation=`find snapshots`, id=`Cart|1`";
    assert!(outcome.err.contains(facts), "{outcome:?}");
    let outcome = annals.run(&["state", "get", "Cart|1"]);
    let facts = "operation=`get state`, id=`Cart|1`";
    assert!(outcome.err.contains(facts), "{outcome:?}");
}

/// The event is stored, as it may be for Rust only.
#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_json_event_that_the_jvm_cannot_read() {
    const ADVICE: &str = "without --manifest";
    for layout in ["akka", "j5ik2o"] {
        let annals = Annals::embedded().with_flags(&["--layout", layout]);
        let warned = annals.run_at_terminal(&["append", "Cart-1", "{}"], "");
        assert!(warned.out.contains(ADVICE), "{warned:?}");
        for args in [
            &["append", "Cart-1", "{}", "--manifest", "com.example.Opened"][..],
            &["append", "Cart-1", "opened", "--codec", "text"],
        ] {
            let quiet = annals.run_at_terminal(args, "");
            assert_eq!(quiet.code, Some(0), "{quiet:?}");
            assert!(!quiet.out.contains(ADVICE), "{quiet:?}");
        }
    }
    let quiet = Annals::embedded().run_at_terminal(&["append", "Cart|1", "{}"], "");
    assert!(!quiet.out.contains(ADVICE), "{quiet:?}");
}
