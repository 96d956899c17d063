//! The time-ordered log over HTTP: pixels, records, playback, the sweeper in the background.

use std::io::BufReader;

use serde_json::{Value as Json, json};

use crate::run::{Annals, dynamodb, on_every_own_store};
use crate::serve_client::{JSON, Reply, Server, read_chunk, rest, write_request};

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");
const ALL: &str = "/v1/log/events?start=0";

fn on_every_server(scenario: impl Fn(&Server)) {
    on_every_own_store(|annals| {
        annals.run(&["tables", "create", "--log"]).ok();
        scenario(&Server::start_with(annals, &["--no-sweep"], None));
    });
}

fn ids(reply: &Reply) -> Vec<Json> {
    let lines = reply.lines();
    lines.iter().map(|line| line["event_id"].clone()).collect()
}

#[test]
fn a_pixel_is_an_event() {
    on_every_server(|server| {
        let headers = [
            ("user-agent", "test/1"),
            ("referer", "http://a.test/"),
            ("cookie", "secret"),
        ];
        for n in 0..3 {
            let path = format!("/track.gif?page=%2Fhome&n={n}");
            let pixel = server.send("GET", &path, &headers);
            assert_eq!(pixel.status, 200);
            assert_eq!(pixel.header("content-type"), Some("image/gif"));
            assert!(pixel.header("cache-control").unwrap().contains("no-store"));
            assert!(pixel.body.starts_with(b"GIF89a") && pixel.body.ends_with(b";"));
        }
        assert_eq!(server.get("/v1/log").json(200)["buffered"], 3);
        let swept = server.send("POST", "/v1/log/sweep", &[]).json(200);
        assert_eq!(swept["moved"], 3);
        let played = server.get(ALL).lines();
        assert_eq!(played.len(), 3, "each request is a separate event");
        let payload = &played[0]["payload"];
        assert_eq!(payload["query"], json!({"page": "/home", "n": "0"}));
        assert_eq!(payload["user_agent"], "test/1");
        assert_eq!(payload["referer"], "http://a.test/");
        assert!(!played.iter().any(|it| it.to_string().contains("secret")));
    });
}

#[test]
fn a_pixel_keeps_every_parameter_and_head_stores_no_event() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    assert_eq!(server.send("HEAD", "/track.gif", &[]).status, 200);
    assert_eq!(server.get("/v1/log").json(200)["buffered"], 0);
    server.get("/track.gif?a=1&b=2&a=3&a=4");
    server.send("POST", "/v1/log/sweep", &[]).json(200);
    let played = server.get(ALL).lines();
    let query = &played[0]["payload"]["query"];
    assert_eq!(query, &json!({"a": ["1", "3", "4"], "b": "2"}));
}

#[test]
fn records_are_ingested_one_or_many_and_played_back_in_order() {
    on_every_server(|server| {
        // An integer in any JSON notation.
        let one = r#"{"event_id":"b","time":2000.0,"payload":{"n":2}}"#;
        let report = server.post("/events", one).json(200);
        assert_eq!(
            (&report["stored"], &report["present"]),
            (&json!(1), &json!(0))
        );
        assert_eq!(server.post("/events", one).json(200)["present"], 1);
        let other = one.replace('2', "3").replace("3000", "2000");
        server.post("/events", &other).problem(409, "conflict");
        server.post("/events", "[]").problem(400, "invalid");
        let many = "{\"event_id\":\"a\",\"time\":1000,\"payload\":1}\nno\n\n{\"event_id\":\"c\",\"time\":\"1970-01-01T00:00:03Z\",\"payload\":\"x\"}";
        let report = server
            .send_body(("POST", "/events"), &[LINES], many.as_bytes())
            .json(200);
        assert_eq!(
            (&report["stored"], &report["refused"]),
            (&json!(2), &json!(1))
        );
        assert_eq!(report["problems"][0]["line"], 2);
        let text = [("content-type", "text/plain")];
        let refused = server.send_body(("POST", "/events"), &text, b"x");
        refused.problem(415, "invalid");
        assert_eq!(server.get(ALL).lines().len(), 0, "they are in the buffer");
        server.send("POST", "/v1/log/sweep", &[]).json(200);
        assert_eq!(ids(&server.get(ALL)), ["a", "b", "c"]);
        let span = server.get("/v1/log/events?start=1000&end=3000");
        assert_eq!(ids(&span), ["a", "b"]);
        for bad in [
            "",
            "?start=x",
            "?start=2&end=1",
            "?start=0&speed=0",
            "?start=0&follow=2",
        ] {
            server
                .get(&format!("/v1/log/events{bad}"))
                .problem(400, "invalid");
        }
    });
}

#[test]
fn a_record_with_other_content_is_a_dead_letter_until_it_is_deleted() {
    on_every_server(|server| {
        for payload in [1, 2] {
            let record = format!(r#"{{"event_id":"a","time":1000,"payload":{payload}}}"#);
            server.post("/events", &record).json(200);
            server.send("POST", "/v1/log/sweep", &[]).json(200);
        }
        let dead_letters = server.get("/v1/log/dead-letters").lines();
        assert_eq!(dead_letters.len(), 1);
        let reason = dead_letters[0]["reason"].as_str().unwrap();
        assert!(reason.contains("event id=`a`"), "{reason}");
        let name = dead_letters[0]["name"].as_str().unwrap();
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/v1/log/dead-letters/{name}");
        server.delete(&path).json(200);
        server.delete(&path).problem(404, "absent");
        // The path of older versions.
        assert!(server.get("/v1/log/aside").lines().is_empty());
        assert_eq!(server.get(ALL).lines()[0]["payload"], 1);
    });
}

#[test]
fn playback_resumes_after_the_last_event_received() {
    on_every_server(|server| {
        for (id, time) in [("a", 1000), ("b", 1000), ("c", 2000)] {
            let record = format!(r#"{{"event_id":"{id}","time":{time},"payload":1}}"#);
            server.post("/events", &record).json(200);
        }
        server.send("POST", "/v1/log/sweep", &[]).json(200);
        let played = |headers: &[(&str, &str)]| {
            let mut stream = server.connect();
            let all = [
                &[("accept", "text/event-stream"), ("connection", "close")],
                headers,
            ];
            write_request(&mut stream, ("GET", ALL), &all.concat(), b"");
            let text = rest(stream);
            let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
            ids.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(played(&[]), ["1000/a", "1000/b", "2000/c"]);
        assert_eq!(played(&[("last-event-id", "1000/a")]), ["1000/b", "2000/c"]);
    });
}

#[test]
fn the_buffer_is_swept_in_the_background() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--sweep-every", "1ms"], None);
    let record = r#"{"event_id":"a","time":1000,"payload":1}"#;
    server
        .send_body(("POST", "/events"), &[JSON], record.as_bytes())
        .json(200);
    // Loops for ever if no sweep runs.
    while server.get(ALL).lines().is_empty() {}
    let told = |what: &str| server.get("/metrics").text().contains(what);
    while !told("annals_log_swept_total 1") || !told("annals_log_sweep_lag_seconds") {}
    assert_eq!(server.stop(), Some(0));
}

/// The ids of the server-sent events after the given one.
fn played(server: &Server, last: Option<&str>) -> Vec<String> {
    let mut stream = server.connect();
    let mut headers = vec![("accept", "text/event-stream"), ("connection", "close")];
    headers.extend(last.map(|last| ("last-event-id", last)));
    write_request(&mut stream, ("GET", ALL), &headers, b"");
    let text = rest(stream);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(str::to_owned).collect()
}

#[test]
fn playback_resumes_after_any_event_id() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    let ids = [
        "a\nid: 9/forged\ndata: {}\n\n",
        "b\r",
        "c\0",
        "d ü🦀",
        "e%41%",
        "f/g/",
    ];
    for id in ids {
        let record = json!({"event_id": id, "time": 1000, "payload": 1}).to_string();
        server.post("/events", &record).json(200);
    }
    server.send("POST", "/v1/log/sweep", &[]).json(200);
    let all = played(&server, None);
    assert_eq!(all.len(), ids.len(), "{all:?}");
    for at in 0..ids.len() {
        assert_eq!(played(&server, Some(&all[at])), all[at + 1..]);
    }
}

#[test]
fn a_batch_without_a_stored_record_is_an_error() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    let send = |text: &str| server.send_body(("POST", "/events"), &[LINES], text.as_bytes());
    let told = send("no\n{}\n").problem(400, "invalid");
    assert_eq!((&told["stored"], &told["refused"]), (&json!(0), &json!(2)));
    assert_eq!(told["problems"][1]["line"], 2);
    let record = |payload: u64| format!(r#"{{"event_id":"a","time":1000,"payload":{payload}}}"#);
    assert_eq!(send(&record(1)).json(200)["stored"], 1);
    assert_eq!(send(&record(2)).problem(409, "conflict")["refused"], 1);
    assert_eq!(send(&record(1)).json(200)["present"], 1);
    assert_eq!(send("\n\n").json(200)["refused"], 0);
    let mixed = send(&format!("{}\nno", record(1))).json(200);
    assert_eq!(
        (&mixed["present"], &mixed["refused"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn a_batch_is_unavailable_if_the_store_fails() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create", "--log"]).ok();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    let lines = "no\n{\"event_id\":\"a\",\"time\":1000,\"payload\":1}";
    let send = || server.send_body(("POST", "/events"), &[LINES], lines.as_bytes());
    send().json(200);
    // The log stays open, and its tables are gone.
    annals.run(&["tables", "drop", "--log", "--yes"]).ok();
    let failed = send();
    assert_ne!(failed.status, 200, "{}", failed.text());
    let told: Json = serde_json::from_slice(&failed.body).unwrap();
    assert_eq!((&told["stored"], &told["refused"]), (&json!(0), &json!(2)));
}

#[test]
fn a_follower_gets_a_heartbeat_at_once() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    let mut stream = server.connect();
    let path = format!("{ALL}&follow=true");
    let accept = [("accept", "text/event-stream")];
    write_request(&mut stream, ("GET", &path), &accept, b"");
    let mut stream = BufReader::new(stream);
    Reply::read_head(&mut stream).unwrap();
    assert_eq!(read_chunk(&mut stream).unwrap().unwrap(), b":\n\n");
    server.terminate();
    assert!(
        read_chunk(&mut stream).unwrap().is_none(),
        "it ends regularly"
    );
}

/// A playback at full speed is finished; one with a pace is aborted.
#[test]
fn a_paced_playback_is_aborted_by_a_shutdown() {
    let large = "x".repeat(150_000);
    for (query, is_whole) in [("", true), ("&speed=1", false)] {
        let annals = Annals::embedded();
        let server = Server::start_with(&annals, &["--no-sweep"], None);
        for batch in 0..4 {
            let record = |n: u64| {
                let time = 1_000 + (40 * batch + n) * 1_000_000;
                format!(r#"{{"event_id":"{time}","time":{time},"payload":"{large}"}}"#)
            };
            let lines: Vec<String> = (0..40).map(record).collect();
            let body = lines.join("\n");
            server
                .send_body(("POST", "/events"), &[LINES], body.as_bytes())
                .json(200);
        }
        server.send("POST", "/v1/log/sweep", &[]).json(200);
        let mut stream = server.connect();
        let path = format!("{ALL}&end=200000000{query}");
        write_request(&mut stream, ("GET", &path), &[], b"");
        let mut stream = BufReader::new(stream);
        // The first event arrives before the shutdown.
        let head = Reply::read_head(&mut stream).unwrap();
        assert_eq!(head.status, 200);
        server.terminate();
        let mut bytes = Vec::new();
        let ended = loop {
            match read_chunk(&mut stream) {
                Ok(Some(chunk)) => bytes.extend(chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        assert_eq!(ended, is_whole, "{query}");
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines == 160, is_whole, "{query}: {lines}");
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn journals_are_pumped_slots_linked_and_the_horizon_set_back() {
    on_every_server(|server| {
        server.send("POST", "/v1/tables?log=true", &[]).json(200);
        let body = r#"{"events":[{"payload":1},{"payload":2}]}"#;
        server.post("/v1/journal/a/events", body).json(201);
        let pumped = server.send("POST", "/v1/log/pump", &[]).json(200);
        assert_eq!(
            (&pumped["ids"], &pumped["events"]),
            (&json!(1), &json!(2)),
            "{pumped}"
        );
        let again = server.send("POST", "/v1/log/pump", &[]).json(200);
        assert_eq!(again["events"], 0);
        server.send("POST", "/v1/log/sweep", &[]).json(200);
        assert_eq!(server.get(ALL).lines().len(), 2);
        let linked = server.send("POST", "/v1/log/link", &[]).json(200);
        assert_eq!(linked["slots"], 1, "{linked}");
        server
            .send("POST", "/v1/log/link?start=2&end=1", &[])
            .problem(400, "invalid");
        let back = server.send("POST", "/v1/log/horizon?set_back=5000", &[]);
        let back = back.json(200);
        assert_eq!(back["is_set_back"], true);
        assert_eq!(back["horizon"], "1970-01-01T00:00:05.000Z");
        server
            .send("POST", "/v1/log/horizon", &[])
            .problem(400, "invalid");
    });
}

/// The horizon's lag in the metrics.
fn lag(server: &Server) -> Option<f64> {
    let metrics = server.get("/metrics");
    let mut lines = metrics.text().lines();
    lines.find_map(|line| {
        let lag = line.strip_prefix("annals_log_sweep_lag_seconds ")?;
        Some(lag.parse().unwrap())
    })
}

#[test]
fn the_lag_grows_while_sweeps_fail_or_nobody_sweeps() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create", "--log"]).ok();
    let server = Server::start_with(&annals, &["--sweep-every", "1ms"], None);
    let first = loop {
        if let Some(lag) = lag(&server) {
            break lag;
        }
    };
    annals.run(&["tables", "drop", "--log", "--yes"]).ok();
    let has_failed = || {
        let metrics = server.get("/metrics");
        !metrics
            .text()
            .contains("annals_log_sweep_failures_total 0\n")
    };
    while !has_failed() {}
    let now = lag(&server).unwrap();
    // Loops for ever if the lag does not grow.
    while lag(&server).unwrap() <= now.max(first) {}
}

#[test]
fn the_lag_follows_the_sweeps_of_other_processes() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    assert_eq!(lag(&server), None, "nobody has swept yet");
    server.send("POST", "/v1/log/sweep", &[]).json(200);
    assert!(lag(&server).is_some());
    server
        .send("POST", "/v1/log/horizon?set_back=1000", &[])
        .json(200);
    assert!(lag(&server).unwrap() > 1_000_000_000.0);
}
