//! The journal over HTTP.

use serde_json::json;

use crate::run::{Annals, on_every_own_store};
use crate::serve_client::{JSON, Server};

const EVENTS: &str = "/v1/journal/Cart%7C1/events";

/// A server on every store, with its tables.
pub(crate) fn on_every_server(scenario: impl Fn(&Annals, &Server)) {
    on_every_own_store(|annals| {
        let server = Server::start(annals);
        let made = server.send("POST", "/v1/tables", &[]).json(200);
        assert_eq!(made["tables"].as_array().unwrap().len(), 3, "{made}");
        scenario(annals, &server);
    });
}

fn one(payload: &str) -> String {
    format!(r#"{{"events":[{{"payload":{payload}}}]}}"#)
}

#[test]
fn the_address_that_is_printed_says_what_is_there() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let about = server.get("/");
    assert_eq!(about.status, 200);
    let media = about.header("content-type");
    assert_eq!(media, Some("text/plain; charset=utf-8"));
    let mut lines = about.text().lines();
    let version = format!("annals serve {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(lines.next(), Some(&*version));
    let paths = lines.filter_map(|line| line.split_whitespace().next());
    let paths: Vec<&str> = paths.collect();
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    server.get("/?x=1").problem(400, "invalid");
    server.post("/", "{}").problem(405, "invalid");
}

#[test]
fn an_append_is_replayed_unchanged() {
    on_every_server(|_, server| {
        let body = r#"{"events":[
            {"payload":{"n": 1.000, "big": 12345678901234567890123},"manifest":"Opened","tags":["a","b"],"metadata":{"by":"me"},"schema":3},
            {"payload":null},
            {"codec":"text","payload":"ü\n"},
            {"codec":"long","payload":-7},
            {"payload_base64":"AP8="},
            {"codec":"cbor","payload_base64":"oA=="}],
            "causation":"c1","correlation":"c2"}"#;
        let reply = server.post(EVENTS, body);
        assert_eq!(reply.header("etag"), Some("\"6\""));
        let appended = reply.json(201);
        assert_eq!(appended["first_sequence_number"], 1);
        assert_eq!(appended["sequence_number"], 6);
        let reply = server.get(EVENTS);
        assert!(
            reply
                .text()
                .contains(r#"{"n": 1.000, "big": 12345678901234567890123}"#),
            "{}",
            reply.text()
        );
        let lines = reply.lines();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0]["tags"], json!(["a", "b"]));
        assert_eq!(lines[0]["metadata"], json!({"by": "me"}));
        assert_eq!(lines[0]["schema"], 3);
        assert_eq!(lines[0]["causation"], "c1");
        assert_eq!(lines[1]["payload"], json!(null));
        assert_eq!(lines[2]["payload"], "ü\n");
        assert_eq!(lines[3]["payload"], -7);
        assert_eq!(lines[4]["payload_base64"], "AP8=");
        assert_eq!(lines[5]["codec"], "cbor");
    });
}

#[test]
fn a_replay_is_what_the_command_line_prints() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    server
        .post(EVENTS, r#"{"events":[{"payload":{"a": 1}},{"payload":2}]}"#)
        .json(201);
    let served = server.get(EVENTS).text().to_owned();
    assert_eq!(server.stop(), Some(0));
    assert_eq!(annals.run(&["replay", "Cart|1"]).ok().out, served);
}

#[test]
fn a_wrong_expectation_is_a_conflict() {
    on_every_server(|_, server| {
        let send = |headers: &[(&str, &str)], body: &str| {
            let headers = [&[JSON], headers].concat();
            server.send_body(("POST", EVENTS), &headers, body.as_bytes())
        };
        send(&[("if-none-match", "*")], &one("1")).json(201);
        let conflict = send(&[("if-none-match", "*")], &one("2")).problem(409, "conflict");
        assert_eq!(conflict["found"][0]["payload"], 1, "{conflict}");
        send(&[("if-match", "\"1\"")], &one("2")).json(201);
        send(&[("if-match", "\"1\"")], &one("3")).problem(409, "conflict");
        send(&[], r#"{"events":[{"payload":3}],"expect":2}"#).json(201);
        send(&[], r#"{"events":[{"payload":4}],"expect":2}"#).problem(409, "conflict");
        send(&[], r#"{"events":[{"payload":4}],"expect":9}"#).problem(409, "conflict");
        let both = r#"{"events":[{"payload":4}],"expect":3}"#;
        send(&[("if-match", "\"2\"")], both).problem(409, "conflict");
        for bad in ["*", "x", "\"1\", \"2\"", "W/\"1\"", "\"\"", "\"-1\"", "\"1"] {
            send(&[("if-match", bad)], &one("4")).problem(400, "invalid");
        }
        assert_eq!(server.get(EVENTS).lines().len(), 3);
    });
}

#[test]
fn a_repeated_append_is_recognised_by_its_key() {
    on_every_own_store(|annals| {
        let server = Server::start(annals);
        server.send("POST", "/v1/tables", &[]).json(200);
        let send = |server: &Server, key: &str, body: &str| {
            server.send_body(
                ("POST", EVENTS),
                &[JSON, ("idempotency-key", key)],
                body.as_bytes(),
            )
        };
        let two = r#"{"events":[{"payload":1},{"payload":2}]}"#;
        let expecting = r#"{"events":[{"payload":3}],"expect":2}"#;
        let first = send(&server, "a", two).json(201);
        assert_eq!(first["sequence_number"], 2);
        assert_eq!(send(&server, "a", two).json(201), first);
        let second = send(&server, "b", expecting).json(201);
        assert_eq!(send(&server, "b", expecting).json(201), second);
        for (key, other) in [("a", &one("9")), ("b", &expecting.replace("3", "9"))] {
            let misused = send(&server, key, other).problem(409, "conflict");
            assert!(
                misused["detail"].as_str().unwrap().contains("key was used"),
                "{misused}"
            );
        }
        // After other appends, and by another server.
        server.post(EVENTS, &one("4")).json(201);
        assert_eq!(server.stop(), Some(0));
        let server = Server::start(annals);
        assert_eq!(send(&server, "a", two).json(201), first);
        assert_eq!(send(&server, "b", expecting).json(201), second);
        assert_eq!(server.get(EVENTS).lines().len(), 4);
        for bad in ["", "with space", &"k".repeat(256)] {
            send(&server, bad, two).problem(400, "invalid");
        }
    });
}

/// On each layout.
#[test]
fn a_repeated_append_is_recognised_after_its_deletion() {
    for layout in ["annals", "akka", "j5ik2o"] {
        let annals = Annals::embedded().with_flags(&["--layout", layout]);
        let server = Server::start(&annals);
        let send = |key: &str, body: &str| {
            let headers = [JSON, ("idempotency-key", key)];
            server.send_body(("POST", EVENTS), &headers, body.as_bytes())
        };
        let two = r#"{"events":[{"payload":1},{"payload":2}]}"#;
        let first = send("a", two).json(201);
        assert_eq!(first["sequence_number"], 2);
        server.delete(&format!("{EVENTS}?to=2")).json(200);
        assert_eq!(send("a", two).json(201), first, "{layout}");
        for number in 3..=6 {
            let sent = send(&format!("k{number}"), &one("1")).json(201);
            assert_eq!(sent["sequence_number"], number, "{layout}");
        }
        server.delete(&format!("{EVENTS}?to=4")).json(200);
        assert_eq!(send("a", two).json(201), first, "{layout}");
        assert_eq!(send("k6", &one("1")).json(201)["sequence_number"], 6);
        // Deleted, the key is still used.
        send("a", &one("9")).problem(409, "conflict");
        let highest = server.get("/v1/journal/Cart%7C1/highest").json(200);
        assert_eq!(highest["sequence_number"], 6, "{layout}");
    }
}

/// An append of more events than are checked.
#[test]
fn a_long_append_is_recognised_by_its_key() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let events = vec![r#"{"payload":1}"#; 300].join(",");
    let body = format!(r#"{{"events":[{events}]}}"#);
    let headers = [JSON, ("idempotency-key", "long")];
    let send = || server.send_body(("POST", EVENTS), &headers, body.as_bytes());
    let first = send().json(201);
    assert_eq!(first["sequence_number"], 300);
    assert_eq!(send().json(201), first);
    server.delete(&format!("{EVENTS}?to=300")).json(200);
    assert_eq!(send().json(201), first);
}

/// If tombstones have lost their tokens.
#[test]
fn a_key_that_cannot_be_checked_is_a_conflict() {
    let annals = Annals::embedded().with_flags(&["--layout", "akka"]);
    annals.write("annals.toml", "jvm-deletes = true\n");
    let server = Server::start(&annals);
    let send = |key: &str, body: &str| {
        let headers = [JSON, ("idempotency-key", key)];
        server.send_body(("POST", EVENTS), &headers, body.as_bytes())
    };
    send("a", &one("1")).json(201);
    send("b", &one("2")).json(201);
    server.delete(&format!("{EVENTS}?to=2")).json(200);
    let refused = send("a", &one("1")).problem(409, "conflict");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("expected sequence number"), "{detail}");
    let expecting = r#"{"events":[{"payload":3}],"expect":2}"#;
    assert_eq!(send("c", expecting).json(201)["sequence_number"], 3);
}

#[test]
fn a_key_with_another_expectation_is_a_conflict() {
    on_every_server(|_, server| {
        let send = |body: &str| {
            let headers = [JSON, ("idempotency-key", "kk")];
            server.send_body(("POST", EVENTS), &headers, body.as_bytes())
        };
        let first = r#"{"events":[{"payload":1}],"expect":0}"#;
        send(first).json(201);
        for other in [
            r#"{"events":[{"payload":1}],"expect":1}"#,
            r#"{"events":[{"payload":2}],"expect":1}"#,
            r#"{"events":[{"payload":1}]}"#,
        ] {
            let misused = send(other).problem(409, "conflict");
            let detail = misused["detail"].as_str().unwrap();
            assert!(detail.contains("key was used"), "{detail}");
        }
        server.delete(&format!("{EVENTS}?to=1")).json(200);
        send(r#"{"events":[{"payload":1}],"expect":1}"#).problem(409, "conflict");
        assert_eq!(send(first).json(201)["sequence_number"], 1);
    });
}

#[test]
fn concurrent_repetitions_append_once() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    std::thread::scope(|scope| {
        for key in 0..8 {
            for _ in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    let headers = [JSON, ("idempotency-key", &format!("k{key}"))];
                    let body = one(&key.to_string());
                    server
                        .send_body(("POST", EVENTS), &headers, body.as_bytes())
                        .json(201);
                });
            }
        }
    });
    let mut payloads: Vec<u64> = server
        .get(EVENTS)
        .lines()
        .iter()
        .map(|line| line["payload"].as_u64().unwrap())
        .collect();
    payloads.sort_unstable();
    assert_eq!(payloads, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn windows_ids_numbers_and_deletions() {
    on_every_server(|_, server| {
        for number in 1..=5 {
            server.post(EVENTS, &one(&number.to_string())).json(201);
        }
        let numbers = |query: &str| -> Vec<u64> {
            let lines = server.get(&format!("{EVENTS}{query}")).lines();
            lines
                .iter()
                .map(|line| line["sequence_number"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(numbers("?from=2&to=4"), [2, 3, 4]);
        assert_eq!(numbers("?from=2&max=2"), [2, 3]);
        assert!(numbers("?from=9").is_empty());
        assert!(numbers("?max=0").is_empty());
        for bad in [
            "?from=0",
            "?from=x",
            "?from=",
            "?from=1&from=1",
            "?form=1",
            "?from=%2B1",
            "?to=9223372036854775808",
        ] {
            server
                .get(&format!("{EVENTS}{bad}"))
                .problem(400, "invalid");
        }
        let highest = server.get("/v1/journal/Cart%7C1/highest");
        assert_eq!(highest.header("etag"), Some("\"5\""));
        assert_eq!(highest.json(200)["sequence_number"], 5);
        server
            .get("/v1/journal/none/highest")
            .problem(404, "absent");
        server.get("/v1/journal/none/events").problem(404, "absent");

        for id in ["Cart%7C2", "Other%7C1"] {
            server
                .post(&format!("/v1/journal/{id}/events"), &one("1"))
                .json(201);
        }
        let ids = |query: &str| -> Vec<String> {
            let lines = server.get(&format!("/v1/journal{query}")).lines();
            lines
                .iter()
                .map(|line| line["persistence_id"].as_str().unwrap().to_owned())
                .collect()
        };
        let mut pages = ids("?limit=2");
        assert_eq!(pages.len(), 2);
        let after = pages[1].replace('|', "%7C");
        pages.extend(ids(&format!("?after={after}&limit=2")));
        pages.sort();
        assert_eq!(pages, ["Cart|1", "Cart|2", "Other|1"]);
        assert_eq!(ids("?prefix=O"), ["Other|1"]);
        assert_eq!(ids("?prefix=O&limit=2"), ["Other|1"]);
        assert_eq!(ids("").len(), 3);

        server.delete(EVENTS).problem(400, "invalid");
        assert_eq!(
            server.delete(&format!("{EVENTS}?to=3")).json(200)["deleted_to"],
            3
        );
        assert_eq!(numbers(""), [4, 5]);
        let findings = server.get("/v1/journal/Cart%7C1/findings").json(200);
        assert_eq!(findings["findings"], json!([]));
        server
            .send("POST", "/v1/journal/Cart%7C1/repair", &[])
            .json(200);
        server.delete("/v1/journal/Cart%7C1").json(200);
        server.get(EVENTS).problem(404, "absent");
    });
}

#[test]
fn a_snapshot_is_stored_with_an_append() {
    on_every_server(|_, server| {
        let body = r#"{"events":[{"payload":1}],"snapshot":{"total":1}}"#;
        assert_eq!(server.post(EVENTS, body).json(201)["has_snapshot"], true);
        let riding = server.get("/v1/journal/Cart%7C1/snapshot").json(200);
        assert_eq!(riding["payload"], json!({"total": 1}));
        server.post(EVENTS, &one("2")).json(201);
        server
            .get("/v1/journal/Cart%7C1/snapshot")
            .problem(404, "absent");
    });
}

#[test]
fn a_long_journal_is_streamed_completely() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let filling = "x".repeat(200);
    for batch in 0..20 {
        let events: Vec<_> = (0..500)
            .map(|n| json!({"payload": {"n": batch * 500 + n, "filling": filling}}))
            .collect();
        server
            .post(EVENTS, &json!({ "events": events }).to_string())
            .json(201);
    }
    let lines = server.get(EVENTS).lines();
    assert_eq!(lines.len(), 10_000);
    for (place, line) in lines.iter().enumerate() {
        assert_eq!(line["payload"]["n"], place);
    }
}
