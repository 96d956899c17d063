//! Snapshots, durable state, tables, health and metrics over HTTP.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::json;

use crate::run::{Annals, dynamodb, on_every_own_store};
use crate::serve_client::{JSON, Server};
use crate::serve_journal::on_every_server;

#[test]
fn snapshots_are_saved_loaded_listed_and_deleted() {
    on_every_server(|_, server| {
        for number in [3, 7] {
            let path = format!("/v1/snapshots/a/{number}");
            let body = format!(r#"{{"payload":{{"n":{number}}},"manifest":"S"}}"#);
            assert_eq!(
                server.put(&path, &body).json(200)["sequence_number"],
                number
            );
        }
        let latest = server.get("/v1/snapshots/a/latest").json(200);
        assert_eq!(latest["payload"], json!({"n": 7}));
        assert_eq!(latest["manifest"], "S");
        let older = server.get("/v1/snapshots/a/latest?max_seq=6").json(200);
        assert_eq!(older["sequence_number"], 3);
        assert_eq!(server.get("/v1/snapshots/a/3").json(200), older);
        assert_eq!(server.get("/v1/snapshots/a").lines().len(), 2);
        assert_eq!(server.get("/v1/snapshots/a?max_time=5").lines().len(), 0);
        server.get("/v1/snapshots/a/4").problem(404, "absent");
        for bad in ["0", "x", "-1", "+1", "9223372036854775808"] {
            server
                .get(&format!("/v1/snapshots/a/{bad}"))
                .problem(400, "invalid");
        }
        server.delete("/v1/snapshots/a/7").json(200);
        assert_eq!(
            server.get("/v1/snapshots/a/latest").json(200)["sequence_number"],
            3
        );
        server.delete("/v1/snapshots/a").json(200);
        server.get("/v1/snapshots/a/latest").problem(404, "absent");
    });
}

#[test]
fn a_value_has_its_revision_as_etag() {
    on_every_server(|_, server| {
        let put = |headers: &[(&str, &str)], query: &str, payload: u64| {
            let headers = [&[JSON], headers].concat();
            let body = format!(r#"{{"payload":{payload},"tag":"t"}}"#);
            server.send_body(
                ("PUT", &format!("/v1/state/a{query}")),
                &headers,
                body.as_bytes(),
            )
        };
        assert_eq!(
            server.get("/v1/state/a").problem(404, "absent")["revision"],
            0
        );
        put(&[], "", 1).problem(428, "invalid");
        let first = put(&[("if-none-match", "*")], "", 1);
        assert_eq!(first.header("etag"), Some("\"1\""));
        put(&[("if-none-match", "*")], "", 2).problem(409, "conflict");
        let second = put(&[("if-match", "\"1\"")], "", 2).json(200);
        assert_eq!(second["revision"], 2);
        let conflict = put(&[("if-match", "\"1\"")], "", 3).problem(409, "conflict");
        assert_eq!(conflict["revision"], 2);
        put(&[], "?revision=3", 3).json(200);
        put(&[("if-match", "\"1\"")], "?revision=4", 4).problem(409, "conflict");
        let found = server.get("/v1/state/a");
        assert_eq!(found.header("etag"), Some("\"3\""));
        assert_eq!(found.json(200)["payload"], 3);
        assert_eq!(found.json(200)["tag"], "t");
        let known = server.send("GET", "/v1/state/a", &[("if-none-match", "\"3\"")]);
        assert_eq!((known.status, known.body.len()), (304, 0));
        let other = server.send("GET", "/v1/state/a", &[("if-none-match", "\"2\"")]);
        assert_eq!(other.status, 200);
        let delete = |tag| server.send("DELETE", "/v1/state/a", &[("if-match", tag)]);
        delete("\"2\"").problem(409, "conflict");
        delete("\"3\"").json(200);
        assert_eq!(
            server.get("/v1/state/a").problem(404, "absent")["revision"],
            4
        );
        put(&[("if-match", "\"4\"")], "", 5).json(200);
        server.delete("/v1/state/a").json(200);
    });
}

#[test]
fn a_server_is_ready_when_its_tables_exist() {
    on_every_own_store(|annals| {
        let server = Server::start(annals);
        server.get("/healthz").json(200);
        let is_embedded = annals.store_args().is_empty();
        if !is_embedded {
            server.get("/readyz").problem(503, "unavailable");
            assert_eq!(server.get("/readyz").header("retry-after"), Some("1"));
            let tables = server.get("/v1/tables").json(200);
            assert_eq!(tables["tables"][0]["status"], "missing");
            server.get("/v1/journal/a/highest").problem(400, "invalid");
        }
        server.send("POST", "/v1/tables", &[]).json(200);
        server.get("/readyz").json(200);
        assert_eq!(
            server.get("/v1/tables").json(200)["tables"][0]["status"],
            "ok"
        );
        let again = server.send("POST", "/v1/tables", &[]).json(200);
        assert_eq!(again["tables"][0]["status"], "exists");
        server.get("/v1/journal/a/highest").problem(404, "absent");
    });
}

/// Before the first request fails.
#[test]
fn a_server_without_tables_reports_it_at_the_start() {
    let annals = Annals::at(&dynamodb());
    let mut command = annals.binary(&["serve", "--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let log = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut warnings = log.map_while(Result::ok).filter(|it| it.contains("WARN"));
    let warning = warnings.next().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    for says in ["not ready", "annals tables check", "annals-journal"] {
        assert!(warning.contains(says), "{warning}");
    }
}

/// The schema number is returned by the server and by the command line.
#[test]
fn a_schema_number_is_returned() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let body = r#"{"payload":1,"schema":7}"#;
    server.put("/v1/snapshots/a/1", body).json(200);
    server.put("/v1/state/a?revision=1", body).json(200);
    server
        .put("/v1/state/b?revision=1", r#"{"payload":1}"#)
        .json(200);
    let snapshot = server.get("/v1/snapshots/a/1").json(200);
    let state = server.get("/v1/state/a").json(200);
    assert_eq!(
        (&snapshot["schema"], &state["schema"]),
        (&json!(7), &json!(7))
    );
    assert!(server.get("/v1/state/b").json(200).get("schema").is_none());
    assert_eq!(server.stop(), Some(0));
    for args in [["snapshot", "load", "a"], ["state", "get", "a"]] {
        assert_eq!(annals.run(&args).ok().json()[0]["schema"], 7, "{args:?}");
    }
}

#[test]
fn the_tables_of_the_log_are_optional() {
    on_every_own_store(|annals| {
        let server = Server::start(annals);
        server.send("POST", "/v1/tables", &[]).json(200);
        let statuses = |path: &str| -> Vec<serde_json::Value> {
            let tables = server.get(path).json(200);
            let tables = tables["tables"].as_array().unwrap().iter();
            tables.map(|table| table["status"].clone()).collect()
        };
        assert_eq!(statuses("/v1/tables").len(), 3);
        let all = statuses("/v1/tables?log=true");
        assert!(all.len() > 3, "{all:?}");
        let is_embedded = annals.store_args().is_empty();
        let log = if is_embedded { "ok" } else { "missing" };
        assert!(all[3..].iter().all(|status| status == log), "{all:?}");
        assert_eq!(server.get("/readyz").json(200)["log"], is_embedded);
        server.send("POST", "/v1/tables?log=true", &[]).json(200);
        let all = statuses("/v1/tables?log=true");
        assert!(all.iter().all(|status| status == "ok"), "{all:?}");
        assert_eq!(server.get("/readyz").json(200)["log"], true);
        server.get("/v1/log").json(200);
        server.get("/v1/tables?log=2").problem(400, "invalid");
    });
}

#[test]
fn tables_have_hints_about_the_settings() {
    let annals = Annals::embedded();
    annals.write("annals.toml", "[log]\ntime-unit-ms = 60000\n");
    annals.run(&["tables", "create", "--log"]).ok();
    annals.run_with(&["log", "ingest"], r#"{"payload":1}"#).ok();
    annals.run(&["log", "sweep"]).ok();
    let told = annals
        .run(&["--json", "tables", "check", "--log"])
        .ok()
        .json();
    let server = Server::start(&annals);
    let served = server.get("/v1/tables?log=true").json(200);
    assert_eq!(served["tables"], json!(told));
}

#[test]
fn requests_conflicts_and_store_calls_are_counted() {
    on_every_server(|_, server| {
        let events = "/v1/journal/secret-id/events";
        let body = r#"{"events":[{"payload":1}],"expect":0}"#;
        server.post(events, body).json(201);
        server.post(events, body).problem(409, "conflict");
        let metrics = server.get("/metrics");
        let text = metrics.text();
        for line in [
            r#"annals_http_requests_total{method="POST",path="/v1/journal/{persistence_id}/events",status="201"} 1"#,
            r#"annals_http_requests_total{method="POST",path="/v1/journal/{persistence_id}/events",status="409"} 1"#,
            "annals_http_conflicts_total 1",
            "annals_refused_total 1",
            r#"annals_requests_total{verb="put"}"#,
            "annals_write_units_total",
            "annals_read_units_total",
            "annals_http_request_seconds_bucket",
            "annals_http_connections ",
            "annals_http_tails 0",
        ] {
            assert!(text.contains(line), "{line} is missing:\n{text}");
        }
        assert!(!text.contains("secret-id"), "ids are no labels");
    });
}

#[test]
fn an_unreachable_store_is_unavailable_and_its_retries_are_counted() {
    let annals = Annals::at("http://127.0.0.1:1");
    annals.write("annals.toml", "[aws-client-config]\nmax-error-retry = 2\n");
    let server = Server::start(&annals);
    let refused = server.get("/v1/journal/a/highest");
    let told = refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("cannot reach DynamoDB"), "{detail}");
    server.get("/healthz").json(200);
    let metrics = server.get("/metrics");
    let retries = r#"annals_dynamodb_retries_total{why="unreachable"} "#;
    let line = metrics
        .text()
        .lines()
        .find_map(|it| it.strip_prefix(retries));
    // The server's own check of its tables at the start is retried, too.
    let count: u64 = line.unwrap().parse().unwrap();
    assert!((2..=4).contains(&count), "{}", metrics.text());
    assert_eq!(server.stop(), Some(0));
}
