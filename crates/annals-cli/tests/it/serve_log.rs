//! The time-ordered log over HTTP: pixels, records, playback, the sweeper in the background.

use serde_json::{Value as Json, json};

use crate::run::{Annals, on_every_store};
use crate::serve_client::{JSON, Reply, Server, rest, write_request};

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");
const ALL: &str = "/v1/log/events?start=0";

fn on_every_server(scenario: impl Fn(&Server)) {
    on_every_store(|annals| {
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
        assert_eq!(played.len(), 3, "each request is an event of its own");
        let payload = &played[0]["payload"];
        assert_eq!(payload["query"], json!({"page": "/home", "n": "0"}));
        assert_eq!(payload["user_agent"], "test/1");
        assert_eq!(payload["referer"], "http://a.test/");
        assert!(!played.iter().any(|it| it.to_string().contains("secret")));
    });
}

#[test]
fn records_are_ingested_one_or_many_and_played_back_in_order() {
    on_every_server(|server| {
        // A whole number, however JSON has it.
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
        assert_eq!(server.get(ALL).lines().len(), 0, "they wait in the buffer");
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
fn a_record_that_says_something_else_is_set_aside_and_forgotten() {
    on_every_server(|server| {
        for payload in [1, 2] {
            let record = format!(r#"{{"event_id":"a","time":1000,"payload":{payload}}}"#);
            server.post("/events", &record).json(200);
            server.send("POST", "/v1/log/sweep", &[]).json(200);
        }
        let aside = server.get("/v1/log/aside").lines();
        assert_eq!(aside.len(), 1);
        let reason = aside[0]["reason"].as_str().unwrap();
        assert!(reason.contains("event id=`a`"), "{reason}");
        let name = aside[0]["name"].as_str().unwrap();
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        server.delete(&format!("/v1/log/aside/{name}")).json(200);
        assert!(server.get("/v1/log/aside").lines().is_empty());
        assert_eq!(server.get(ALL).lines()[0]["payload"], 1);
    });
}

#[test]
fn playback_goes_on_behind_the_event_that_was_received_last() {
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
    // It comes when its turn does; a sweep that never came would keep this here.
    while server.get(ALL).lines().is_empty() {}
    let told = |what: &str| server.get("/metrics").text().contains(what);
    while !told("annals_log_swept_total 1") || !told("annals_log_sweep_lag_seconds") {}
    assert_eq!(server.stop(), Some(0));
}
