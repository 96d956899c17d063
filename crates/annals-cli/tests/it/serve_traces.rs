//! The content of spans at a collector, and of logs, which never have secrets.

use std::io::BufReader;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::Value as Json;

use crate::run::Annals;
use crate::serve_client::{JSON, Reply, Server, write_request};

const TOKEN: &str = "a-token-that-nobody-else-knows";
const EVENTS: &str = "/v1/journal/hidden-id/events";
const BODY: &[u8] = br#"{"events":[{"payload":"hidden-payload"}]}"#;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

type Received = Arc<Mutex<Vec<Bytes>>>;

/// A local collector that keeps what it receives.
struct Collector {
    address: String,
    received: Received,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    fn start() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let received = Received::default();
        let take = |State(received): State<Received>, body: Bytes| async move {
            received.lock().unwrap().push(body);
        };
        let router = Router::new().route("/v1/traces", post(take));
        let router = router.with_state(received.clone());
        let listening = tokio::net::TcpListener::bind("127.0.0.1:0");
        let listener = runtime.block_on(listening).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            received,
            _runtime: runtime,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.received.lock().unwrap().concat()
    }

    /// Every span, with its service.
    fn spans(&self) -> (Vec<Span>, String) {
        let received = self.received.lock().unwrap();
        let (mut spans, mut service) = (Vec::new(), String::new());
        for body in received.iter() {
            let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
            for resource in request.resource_spans {
                let attributes = resource.resource.unwrap().attributes;
                let name = attributes.into_iter().find(|it| it.key == "service.name");
                service = text(name.unwrap().value.unwrap().value.unwrap());
                let scopes = resource.scope_spans.into_iter();
                spans.extend(scopes.flat_map(|scope| scope.spans));
            }
        }
        (spans, service)
    }
}

fn text(value: Value) -> String {
    match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    Some(text(found.value.clone()?.value?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    match (found.next(), found.next()) {
        (Some(span), None) => span,
        other => panic!("{name}: {other:?} in {spans:?}"),
    }
}

/// The spans of an append with a caller's span, of a replay, and of rejected calls.
fn spans_of_calls(collector: &Collector) -> Vec<Span> {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--otlp", &collector.address], Some(TOKEN));
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [JSON, ("traceparent", &*parent), ("authorization", &*bearer)];
    server.send_body(("POST", EVENTS), &headers, BODY).json(201);
    let bearer = ("authorization", &*bearer);
    server.send("GET", EVENTS, &[bearer]).lines();
    let absent = server.send("GET", "/v1/journal/other/highest", &[bearer]);
    absent.problem(404, "absent");
    server.get("/v1/journal").problem(401, "unauthorized");
    assert_eq!(
        server.stop(),
        Some(0),
        "what is left is sent before the end"
    );
    let (spans, service) = collector.spans();
    assert_eq!(service, "annals");
    spans
}

#[test]
fn a_request_span_is_the_child_of_the_callers_and_the_parent_of_the_stores() {
    let collector = Collector::start();
    let spans = spans_of_calls(&collector);
    let append = named(&spans, "POST /v1/journal/{persistence_id}/events");
    assert_eq!(hex(&append.trace_id), TRACE);
    assert_eq!(hex(&append.parent_span_id), PARENT);
    assert_eq!(append.kind, 2, "a server span");
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/journal/{persistence_id}/events"),
        ("http.response.status_code", "201"),
    ] {
        assert_eq!(attribute(append, key).as_deref(), Some(value), "{key}");
    }
    let put = named(&spans, "put annals-journal");
    assert_eq!(hex(&put.trace_id), TRACE);
    assert_eq!(put.parent_span_id, append.span_id);
    let table = attribute(put, "db.collection.name");
    assert_eq!(table.as_deref(), Some("annals-journal"));

    let replay = named(&spans, "GET /v1/journal/{persistence_id}/events");
    assert_ne!(hex(&replay.trace_id), TRACE, "a trace of its own");
    let mut below = spans.iter();
    let is_below = below.any(|span| span.parent_span_id == replay.span_id);
    assert!(is_below, "the reads of a stream belong to its request");
    let refused = named(&spans, "GET /v1/journal");
    let status = attribute(refused, "http.response.status_code");
    assert_eq!(status.as_deref(), Some("401"));
    let failure = attribute(refused, "error.type");
    assert_eq!(failure, None, "a client error is not a server failure");
    let mut roots = spans.iter().filter(|span| span.parent_span_id.is_empty());
    assert!(roots.all(|span| span.kind == 2), "{spans:?}");
}

#[test]
fn no_span_has_a_secret() {
    let collector = Collector::start();
    let spans = spans_of_calls(&collector);
    assert!(spans.len() > 5, "{spans:?}");
    let sent = collector.bytes();
    for hidden in [TOKEN, "hidden-payload", "hidden-id"] {
        let mut windows = sent.windows(hidden.len());
        let is_there = windows.any(|it| it == hidden.as_bytes());
        assert!(!is_there, "{hidden} is sent");
    }
}

#[test]
fn without_a_collector_nothing_is_sent() {
    let (annals, collector) = (Annals::embedded(), Collector::start());
    let server = Server::start(&annals);
    server
        .post(EVENTS, "{\"events\":[{\"payload\":1}]}")
        .json(201);
    assert_eq!(server.stop(), Some(0));
    assert!(collector.bytes().is_empty());
    // The standard variable.
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address.as_str())];
    let server = Server::start_in(&annals, &[], &environment);
    server.get(EVENTS).lines();
    assert_eq!(server.stop(), Some(0));
    let (spans, _) = collector.spans();
    named(&spans, "GET /v1/journal/{persistence_id}/events");
    // An invalid address is an error.
    for wrong in ["https://127.0.0.1:4318", "nowhere", "http://"] {
        let outcome = annals.run(&["serve", "--listen", "127.0.0.1:0", "--otlp", wrong]);
        outcome.fails(2, "cannot use this collector");
        // In the environment it is for every program, and only a warning.
        let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)];
        let server = Server::start_in(&annals, &[], &environment);
        server.get(EVENTS).lines();
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_collector_that_is_down_or_hangs_delays_no_request() {
    // The system accepts its connections, but no one responds.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("http://{}", listener.local_addr().unwrap());
    for address in ["http://127.0.0.1:1", &hanging] {
        let annals = Annals::embedded();
        let server = Server::start_with(&annals, &["--otlp", address], None);
        // More than the queue of spans holds: spans are dropped, requests are not.
        let mut stream = BufReader::new(server.connect());
        for _ in 0..1_500 {
            write_request(stream.get_mut(), ("POST", EVENTS), &[JSON], BODY);
            Reply::read(&mut stream, "POST").json(201);
        }
        assert_eq!(server.get(EVENTS).lines().len(), 1_500);
        assert_eq!(
            server.stop(),
            Some(0),
            "the end waits for so long and no longer"
        );
    }
}

#[test]
fn logs_have_a_line_for_a_request_and_no_secrets() {
    let annals = Annals::embedded();
    let flags = ["--log", "debug", "--log-format", "json"];
    let (server, log) = Server::start_logging(&annals, &flags, TOKEN);
    let bearer = format!("Bearer {TOKEN}");
    let headers = [JSON, ("authorization", &*bearer)];
    server.send_body(("POST", EVENTS), &headers, BODY).json(201);
    let wrong = ("authorization", "Bearer a-token-that-is-wrong");
    server
        .send("GET", EVENTS, &[wrong])
        .problem(401, "unauthorized");
    assert_eq!(server.stop(), Some(0));
    let log = log.join().unwrap();
    let lines: Vec<Json> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answered: Vec<&Json> = lines
        .iter()
        .filter(|line| line["fields"]["message"] == "answered")
        .collect();
    let statuses: Vec<&Json> = answered.iter().map(|it| &it["fields"]["status"]).collect();
    assert_eq!(statuses, [201, 401]);
    assert_eq!(answered[0]["target"], "annals::requests");
    assert_eq!(
        answered[0]["fields"]["path"],
        "/v1/journal/{persistence_id}/events"
    );
    for hidden in [
        TOKEN,
        "a-token-that-is-wrong",
        "hidden-payload",
        "hidden-id",
    ] {
        assert!(!log.contains(hidden), "{hidden} is logged:\n{log}");
    }
}
