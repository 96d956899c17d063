//! Snapshots, durable state, tables, health and metrics over HTTP.

use serde_json::json;

use crate::run::{Annals, on_every_store};
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
fn a_value_has_its_revision_as_tag() {
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
fn a_server_is_ready_when_its_tables_are_there() {
    on_every_store(|annals| {
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

#[test]
fn everything_is_counted() {
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
fn a_store_that_is_away_is_told_and_its_retries_are_counted() {
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
    let retries = r#"annals_dynamodb_retries_total{why="unreachable"} 2"#;
    assert!(metrics.text().contains(retries), "{}", metrics.text());
    assert_eq!(server.stop(), Some(0));
}
