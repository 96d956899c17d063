//! `POST /v1/append`: many appends in one request.

use std::io::BufReader;
use std::net::Shutdown;

use serde_json::{Value as Json, json};

use crate::run::Annals;
use crate::serve_client::{Reply, Server, Tail, read_chunk, write_request};
use crate::serve_journal::on_every_server;

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");
const APPEND: (&str, &str) = ("POST", "/v1/append");

fn append(server: &Server, lines: &[String]) -> Vec<Json> {
    let body = lines.join("\n");
    server.send_body(APPEND, &[LINES], body.as_bytes()).lines()
}

fn line(id: &str, payload: &str) -> String {
    json!({"persistence_id": id, "events": [{"payload": payload}]}).to_string()
}

fn keyed(id: &str, key: &str) -> String {
    let events = json!([{"payload": key}]);
    json!({"persistence_id": id, "idempotency_key": key, "events": events}).to_string()
}

fn statuses(results: &[Json]) -> Vec<u64> {
    let status = |line: &Json| line["status"].as_u64().unwrap();
    results.iter().map(status).collect()
}

fn payloads(server: &Server, id: &str) -> Vec<String> {
    let events = server.get(&format!("/v1/journal/{id}/events")).lines();
    let payload = |event: &Json| event["payload"].as_str().unwrap().to_owned();
    events.iter().map(payload).collect()
}

#[test]
fn every_line_gets_its_own_result_in_order() {
    on_every_server(|_, server| {
        let lines = [
            line("a", "a1"),
            r#"{"persistence_id":"a","expect":1,"events":[{"payload":"a2"},{"payload":"a3"}]}"#.into(),
            r#"{"persistence_id":"a","expect":1,"events":[{"payload":"x"}]}"#.into(),
            "no JSON".into(),
            String::new(),
            r#"{"persistence_id":"","events":[{"payload":"x"}]}"#.into(),
            r#"{"persistence_id":"b","events":[]}"#.into(),
            r#"{"persistence_id":"b","event":[]}"#.into(),
            r#"{"persistence_id":"b","expect":0,"events":[{"payload":"b1","manifest":"M","tags":["t"]}],"causation":"c","correlation":"d","snapshot":{"n":1}}"#.into(),
            r#"{"persistence_id":"b","idempotency_key":"two words","events":[{"payload":"x"}]}"#.into(),
            line("a", "a4"),
        ];
        let results = append(server, &lines);
        let want = [201, 201, 409, 400, 400, 400, 400, 201, 400, 201];
        assert_eq!(statuses(&results), want, "{results:#?}");
        let (first, both) = (&results[0], &results[1]);
        assert_eq!(
            (&first["persistence_id"], &first["sequence_number"]),
            (&json!("a"), &json!(1))
        );
        assert_eq!(
            (&both["first_sequence_number"], &both["sequence_number"]),
            (&json!(2), &json!(3))
        );
        assert_eq!(both["has_snapshot"], false);
        assert!(both["time"].as_u64().unwrap() > 1_700_000_000_000);
        // As the problem of a single append.
        let single = r#"{"expect":1,"events":[{"payload":"x"}]}"#;
        let single = server
            .post("/v1/journal/a/events", single)
            .problem(409, "conflict");
        let detail = format!("{}, line=`3`", single["detail"].as_str().unwrap());
        assert_eq!(results[2]["detail"], detail);
        // Empty lines count.
        assert_eq!(results[4]["facts"]["line"], "6");
        assert_eq!(results[2]["found"][0]["payload"], "a2");
        assert!(results[3]["causes"][0].as_str().unwrap().contains("column"));
        assert_eq!(results[9]["sequence_number"], 4);
        assert_eq!(payloads(server, "a"), ["a1", "a2", "a3", "a4"]);
        let b = server.get("/v1/journal/b/events").lines();
        assert_eq!(
            (&b[0]["manifest"], &b[0]["tags"][0]),
            (&json!("M"), &json!("t"))
        );
        assert_eq!(
            (&b[0]["causation"], &b[0]["correlation"]),
            (&json!("c"), &json!("d"))
        );
        let has_snapshot = results[7]["has_snapshot"].as_bool().unwrap();
        let snapshot = server.get("/v1/journal/b/snapshot");
        assert_eq!(snapshot.status, if has_snapshot { 200 } else { 404 });
    });
}

#[test]
fn a_repeated_key_is_appended_once() {
    on_every_server(|_, server| {
        let mut lines = ["k1", "k2", "k1", "k3"].map(|key| keyed("a", key));
        for _ in 0..2 {
            let results = append(server, &lines);
            assert_eq!(statuses(&results), [201; 4]);
            let numbers: Vec<_> = results.iter().map(|it| &it["sequence_number"]).collect();
            assert_eq!(numbers, [1, 2, 1, 3]);
        }
        assert_eq!(payloads(server, "a"), ["k1", "k2", "k3"]);
        lines[1] = lines[1].replace(r#""payload":"k2""#, r#""payload":"other""#);
        assert_eq!(statuses(&append(server, &lines)), [201, 409, 201, 201]);
    });
}

#[test]
fn a_body_of_many_lines_is_answered_line_by_line() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let id = |n: usize| format!("id{}", n % 100);
    let mut lines: Vec<_> = (0..5_000).map(|n| line(&id(n), &n.to_string())).collect();
    lines[3_000] = "no JSON".to_owned();
    let body = lines.join("\n");
    let reply = server.send_body(APPEND, &[LINES], body.as_bytes());
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    let results = reply.lines();
    assert_eq!(results.len(), lines.len());
    for (n, result) in results.iter().enumerate() {
        if n == 3_000 {
            assert_eq!(result["status"], 400);
            assert_eq!(result["facts"]["line"], "3001");
            continue;
        }
        assert_eq!(result["persistence_id"], id(n));
        let before = (n / 100) as u64 - u64::from(n > 3_000 && n % 100 == 0);
        assert_eq!(result["sequence_number"], before + 1, "line {n}");
    }
    assert_eq!(payloads(&server, "id7")[..3], ["7", "107", "207"]);
    let none = server.send_body(APPEND, &[LINES], b"\n \n");
    assert!(none.lines().is_empty());
}

/// Its results fill every buffer on the way; other clients append to the same ids meanwhile.
#[test]
fn a_client_that_reads_no_results_blocks_nobody() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let mut stream = server.connect();
    // A refused line is short, and its result long.
    let body = "x\n".repeat(200_000) + &line("a", "after them");
    write_request(&mut stream, APPEND, &[LINES], body.as_bytes());
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    assert_eq!(Reply::read_head(&mut reader).unwrap().status, 200);
    let results = append(&server, &[line("a", "one"), line("b", "two")]);
    assert_eq!(statuses(&results), [201, 201]);
    assert_eq!(payloads(&server, "a"), ["one"]);
    // Nobody wants the results any more, and the last line is appended all the same.
    let mut tail = Tail::begin(&server, "/v1/journal/a/events?from=2", &[]);
    stream.shutdown(Shutdown::Both).unwrap();
    drop((reader, stream));
    assert_eq!(tail.next().unwrap().1["payload"], "after them");
}

#[test]
fn a_whole_body_is_refused_as_elsewhere() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let plain = ("content-type", "application/json");
    let body = line("a", "1");
    let send = |headers: &[(&str, &str)], path, body: &str| {
        server.send_body(("POST", path), headers, body.as_bytes())
    };
    send(&[plain], "/v1/append", &body).problem(415, "invalid");
    send(&[LINES], "/v1/append?x=1", &body).problem(400, "invalid");
    server.get("/v1/append").problem(405, "invalid");
    let large = line("a", &"x".repeat(9 * 1024 * 1024));
    send(&[LINES], "/v1/append", &large).problem(413, "invalid");
    server.get("/v1/journal/a/highest").problem(404, "absent");
}

#[test]
fn conflicts_are_counted_and_tails_are_woken() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    append(&server, &[line("a", "1")]);
    let mut tail = Tail::begin(&server, "/v1/journal/a/events", &[]);
    assert_eq!(tail.next().unwrap().1["payload"], "1");
    let late = r#"{"persistence_id":"a","expect":0,"events":[{"payload":"x"}]}"#;
    let results = append(&server, &[late.into(), line("a", "2"), late.into()]);
    assert_eq!(statuses(&results), [409, 201, 409]);
    assert_eq!(tail.next().unwrap().1["payload"], "2");
    let metrics = server.get("/metrics");
    assert!(
        metrics.text().contains("annals_http_conflicts_total 2"),
        "{}",
        metrics.text()
    );
}

/// Sends the lines in one body, and kills the server after the first results; returns those that
/// arrived.
fn append_until_killed(server: Server, lines: &[String]) -> Vec<Json> {
    let body = lines.join("\n");
    let mut stream = server.connect();
    write_request(&mut stream, APPEND, &[LINES], body.as_bytes());
    let mut reader = BufReader::new(stream);
    assert_eq!(Reply::read_head(&mut reader).unwrap().status, 200);
    let (mut server, mut bytes) = (Some(server), Vec::new());
    while let Ok(Some(chunk)) = read_chunk(&mut reader) {
        bytes.extend(chunk);
        if bytes.len() > 10_000
            && let Some(server) = server.take()
        {
            server.kill();
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let results = text.lines().map(serde_json::from_str);
    results.map(Result::unwrap).collect()
}

#[test]
fn a_killed_server_loses_no_acknowledged_line_and_a_repeat_appends_each_once() {
    const LINES: usize = 6_000;
    const IDS: usize = 200;
    let annals = Annals::embedded();
    let (id, key) = (|n: usize| format!("id{}", n % IDS), |n| format!("k{n}"));
    let lines: Vec<_> = (0..LINES).map(|n| keyed(&id(n), &key(n))).collect();
    let told = append_until_killed(Server::start(&annals), &lines);
    assert!(told.len() > 20, "{}", told.len());
    let server = Server::start(&annals);
    let stored: Vec<_> = (0..IDS)
        .map(|n| server.get(&format!("/v1/journal/{}/events", id(n))))
        .collect();
    for (n, result) in told.iter().enumerate() {
        assert_eq!(
            (&result["status"], &result["persistence_id"]),
            (&json!(201), &json!(id(n)))
        );
        let place = result["sequence_number"].as_u64().unwrap() as usize - 1;
        assert_eq!(stored[n % IDS].lines()[place]["payload"], key(n));
    }
    for result in append(&server, &lines) {
        assert_eq!(result["status"], 201, "{result}");
    }
    for n in 0..IDS {
        let want: Vec<_> = (n..LINES).step_by(IDS).map(key).collect();
        assert_eq!(payloads(&server, &id(n)), want);
    }
}
