//! `--server`: commands beside a running server. Most scenarios of the other files run through a server,
//! too; here is what is special about it.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::run::Annals;
use crate::serve_client::{JSON, Server, Tail};

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn commands_see_what_the_server_wrote_and_the_other_way_round() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    let event = r#"{"events":[{"payload":{"n":1}}]}"#;
    server.post("/v1/journal/Cart%7C1/events", event).json(201);
    let lines = annals.run(&["replay", "Cart|1"]).ok().json();
    assert_eq!(lines[0]["payload"], json!({"n": 1}));
    annals
        .run(&["append", "Cart|1", "--expect", "1", "{\"n\":2}"])
        .ok();
    let events = server.get("/v1/journal/Cart%7C1/events").lines();
    assert_eq!(events.len(), 2);
    annals
        .run(&["append", "Cart|1", "--expect", "1", "{}"])
        .fails(3, "expected=`1`, last=`2`");
}

/// The folder belongs to the server, and the error says how to get at it.
#[test]
fn a_folder_that_is_in_use_is_reported() {
    let annals = Annals::embedded();
    let _server = Server::start(&annals);
    annals.run(&["append", "a", "1"]).fails(
        4,
        "stop it, or use another folder, or add --server URL if it is `annals serve`. process=`",
    );
    // A second server cannot use the first one.
    let second = annals.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(!second.err.contains("--server"), "{second:?}");
    second.fails(4, "stop it, or use another folder. process=`");
    let folder = annals.folder().join("annals-data");
    let error = annals::embedded::Embedded::open(&folder, &Default::default()).unwrap_err();
    let error = error.to_string();
    // An application has no such option.
    assert!(!error.contains("--server"), "{error}");
}

#[test]
fn the_layout_and_the_tables_are_those_of_the_server() {
    let annals = Annals::embedded().with_flags(&["--layout", "akka", "--journal-table", "mine"]);
    let server = Server::start(&annals);
    annals
        .run(&["--server", &url(&server), "tables", "check"])
        .ok();
    let elsewhere = Annals::embedded();
    let run = |args: &[&str]| elsewhere.run(&[&["--server", &url(&server)], args].concat());
    let shown = run(&["config", "show"]).ok().json();
    assert_eq!(shown[0]["layout"], "akka");
    assert_eq!(shown[0]["journal-table"], "mine");
    run(&["append", "a", "1"]).ok();
    let items = run(&["export", "mine"]).ok().out;
    assert!(items.contains("\"par\""), "{items}");
}

/// Otherwise the server would append after an event that is gone.
#[test]
fn the_server_forgets_a_purged_id() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    let event = r#"{"events":[{"payload":1}]}"#;
    for _ in 0..3 {
        server.post("/v1/journal/a/events", event).json(201);
    }
    let mut tail = Tail::begin(server, "/v1/journal/a/events?from=4", &[]);
    annals.run(&["delete", "a", "--purge", "--yes"]).ok();
    let appended = server.post("/v1/journal/a/events", event).json(201);
    assert_eq!(appended["sequence_number"], 1, "{appended}");
    assert_eq!(tail.next().unwrap().0, 1, "the tail starts again");
    annals.run(&["verify"]).ok();
}

/// A purge takes many requests. The tail must not get the events that are left in between.
#[test]
fn a_tail_gets_nothing_twice_during_a_purge() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    // Sixteen requests, each with 25 deletions.
    for _ in 0..400 {
        let event = r#"{"events":[{"payload":1}]}"#;
        server.post("/v1/journal/a/events", event).json(201);
    }
    let mut tail = Tail::begin(server, "/v1/journal/a/events?from=400", &[]);
    assert_eq!(tail.next().unwrap().0, 400);
    annals.run(&["delete", "a", "--purge", "--yes"]).ok();
    for n in 1..=3 {
        let event = json!({"events": [{"payload": {"new": n}}]}).to_string();
        server.post("/v1/journal/a/events", &event).json(201);
        let (number, event) = tail.next().unwrap();
        assert_eq!((number, &event["payload"]["new"]), (n, &json!(n)));
    }
}

/// What an append remembers while its id is purged must not outlive the purge. An append that was in
/// flight may be left after an empty bucket, where nobody finds it; the next one must not follow it.
#[test]
fn appends_after_a_purge_start_at_1_whatever_was_in_flight() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    let event = r#"{"events":[{"payload":1}]}"#;
    let bucket = vec![r#"{"payload":1}"#; 1_200].join(",");
    let bucket = format!(r#"{{"events":[{bucket}]}}"#);
    for round in 0..10 {
        let (id, is_purged) = (format!("a{round}"), AtomicBool::new(false));
        let path = format!("/v1/journal/{id}/events");
        server.post(&path, &bucket).json(201);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_purged.load(Ordering::Relaxed) {
                        server.post(&path, event);
                    }
                });
            }
            annals.run(&["delete", &id, "--purge", "--yes"]).ok();
            is_purged.store(true, Ordering::Relaxed);
        });
        let highest = annals.run(&["highest", &id]).json();
        let highest = highest
            .first()
            .map_or(0, |it| it["sequence_number"].as_u64().unwrap());
        let appended = server.post(&path, event).json(201);
        assert_eq!(appended["sequence_number"], highest + 1, "round {round}");
    }
}

#[test]
fn tails_get_what_commands_append() {
    let annals = Annals::served(&[]);
    let mut tail = Tail::begin(annals.server().unwrap(), "/v1/journal/a/events", &[]);
    for n in 1..=3 {
        annals.run(&["append", "a", "7"]).ok();
        assert_eq!(tail.next().unwrap().0, n);
    }
}

#[test]
fn a_dropped_table_can_be_created_again() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    let event = r#"{"events":[{"payload":1}]}"#;
    server.post("/v1/journal/a/events", event).json(201);
    annals.run(&["tables", "drop", "--yes"]).ok();
    server
        .post("/v1/journal/a/events", event)
        .problem(400, "invalid");
    annals.run(&["tables", "create"]).ok();
    let appended = server.post("/v1/journal/a/events", event).json(201);
    assert_eq!(appended["sequence_number"], 1);
}

#[test]
fn a_copy_goes_from_the_server_to_a_folder_and_back() {
    let annals = Annals::served(&[]);
    annals.run(&["append", "a", "1", "2"]).ok();
    let to = [
        "copy",
        "--from",
        "annals",
        "--to",
        "layout=akka,data=./copy",
    ];
    let copied = annals.run(&to).ok().json();
    assert_eq!(copied.last().unwrap()["copied"]["events"], 2);
    let other = Annals::served(&[]);
    let folder = annals.folder().join("copy");
    let from = format!("layout=akka,data={}", folder.display());
    other.run(&["copy", "--from", &from, "--to", "annals"]).ok();
    assert_eq!(other.run(&["replay", "a"]).ok().json().len(), 2);
}

#[test]
fn a_server_with_a_token_gets_it_from_a_file_or_the_environment() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &[], Some("0123456789abcdef"));
    let client = Annals::embedded();
    let at = url(&server);
    client
        .run(&["--server", &at, "ids"])
        .fails(2, "give its token with --token-file or ANNALS_TOKEN");
    client.write("token", "0123456789abcdef\n");
    client
        .run(&["--server", &at, "--token-file", "token", "ids"])
        .ok();
    client.write("token", "another-token-than-that");
    client
        .run(&["ids", "--token-file", "token", "--server", &at])
        .fails(2, "refuses this client");
    let client = client.with_variable("ANNALS_TOKEN", "0123456789abcdef");
    client.run(&["--server", &at, "ids"]).ok();
}

#[test]
fn wrong_servers_are_reported() {
    let annals = Annals::embedded();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    annals
        .run(&["--server", &nobody, "ids"])
        .fails(4, "no server answers");
    annals
        .run(&["--server", &nobody.replace("http", "https"), "ids"])
        .fails(4, "`annals serve` has none, so use http");
    annals
        .run(&["--server", "127.0.0.1:7070", "ids"])
        .fails(2, "--server takes the URL of a running server");
    annals
        .run(&["--server", &nobody, "--data", "x", "ids"])
        .fails(2, "leave out --data");
    annals
        .run(&["--server", &nobody, "--dynamodb", "ids"])
        .fails(2, "leave out --dynamodb");
    let region = ["--server", &nobody, "--region", "eu-west-1"];
    annals
        .run(&[&region[..], &["ids"]].concat())
        .fails(2, "leave out --region");
    // These call AWS themselves, in this region.
    for args in [
        &["log", "pump", "--kinesis", "stream"][..],
        &["log", "playback", "--start", "0", "--to", "kinesis:stream"],
        &["copy", "--from", "annals", "--to", "store=dynamodb"],
    ] {
        annals
            .run(&[&region[..], args].concat())
            .fails(4, "no server answers");
    }
    annals
        .run(&["--server", "", "ids"])
        .fails(2, "--server is empty");
    annals
        .run(&["--server", &nobody, "serve"])
        .fails(2, "needs a store of its own");
    assert!(!annals.folder().join("annals-data").exists());
}

#[test]
fn another_server_is_recognised() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        stream.write_all(reply.as_bytes()).unwrap();
    });
    Annals::embedded()
        .run(&["--server", &address, "ids"])
        .fails(2, "does not parse");
    answering.join().unwrap();
}

/// A folder on the command line overrides the variable, as it overrides the settings file.
#[test]
fn the_variable_names_a_server_unless_a_store_is_named() {
    let annals = Annals::embedded().with_variable("ANNALS_SERVER", "http://127.0.0.1:9");
    annals.run(&["ids"]).fails(4, "no server answers");
    annals.run(&["--data", "here", "append", "a", "1"]).ok();
    // Refused before anything is sent to the server, and by the name of what was given.
    for args in [
        &["serve"][..],
        &["bench", "store"],
        &["backup", "copy"],
        &["restore", "copy"],
        &["verify", "--deep"],
    ] {
        annals.run(args).fails(
            2,
            "; unset the variable ANNALS_SERVER, or name the store with --data",
        );
        let typed = [args, &["--server", "http://127.0.0.1:9"]].concat();
        annals.run(&typed).fails(2, "; leave out --server");
    }
    annals.run(&["--data", "here", "backup", "copy"]).ok();
}

#[test]
fn the_store_refuses_wrong_calls() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let call = |body: &str| server.send_body(("POST", "/v1/items"), &[JSON], body.as_bytes());
    call("{}").problem(400, "invalid");
    call(r#"{"nothing":{}}"#).problem(400, "invalid");
    call(r#"{"describe_table":{"name":"a b"}}"#).problem(400, "invalid");
    let table =
        r#""table":{"name":"annals-journal","key":{"partition":["p","S"],"sort":["n","S"]}}"#;
    let put = format!(r#"{{"put":{{{table},"item":{{}},"condition":"absent"}}}}"#);
    call(&put).problem(400, "invalid");
    let described = call(r#"{"describe_table":{"name":"annals-journal"}}"#).json(200);
    assert_eq!(
        described["described"]["table"]["key"]["partition"],
        json!(["p", "S"])
    );
}
