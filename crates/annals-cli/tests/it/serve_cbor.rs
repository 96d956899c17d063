//! Replays over HTTP as a sequence of CBOR.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minicbor::Decoder;
use minicbor::data::Type;
use serde_json::{Value as Json, json};

use crate::run::on_every_own_store;
use crate::serve_client::{Reply, Server};

const EVENTS: &str = "/v1/journal/Cart%7C1/events";
const CBOR: &str = "application/cbor-seq";
const LINES: &str = "application/x-ndjson";

/// A value as JSON; a byte string as its base64.
fn as_json(input: &mut Decoder<'_>) -> Json {
    match input.datatype().unwrap() {
        Type::String => input.str().unwrap().into(),
        Type::Bytes => BASE64.encode(input.bytes().unwrap()).into(),
        Type::Array => {
            let members = input.array().unwrap().unwrap();
            (0..members).map(|_| as_json(input)).collect()
        }
        Type::Map => {
            let members = input.map().unwrap().unwrap();
            let members = (0..members).map(|_| (input.str().unwrap().to_owned(), as_json(input)));
            Json::Object(members.collect())
        }
        _ => input.u64().unwrap().into(),
    }
}

/// The events of a body.
fn events(reply: &Reply) -> Vec<Json> {
    assert_eq!(reply.header("content-type"), Some(CBOR));
    let mut input = Decoder::new(&reply.body);
    let mut events = Vec::new();
    while input.position() < reply.body.len() {
        events.push(as_json(&mut input));
    }
    events
}

fn get(server: &Server, path: &str, accept: &str) -> Reply {
    server.send("GET", path, &[("accept", accept)])
}

#[test]
fn a_replay_as_cbor_has_the_events_of_the_lines() {
    on_every_own_store(|annals| {
        for layout in ["annals", "akka", "j5ik2o"] {
            let server = Server::start_with(annals, &["--layout", layout], None);
            server.send("POST", "/v1/tables", &[]).json(200);
            let body = r#"{"events":[
                {"payload":{"n": 1.000},"manifest":"Opened","tags":["a","b"],"metadata":{"by":"me"},"schema":3},
                {"codec":"text","payload":"ü\n"},
                {"payload_base64":"AP8="}],
                "causation":"c1","correlation":"c2"}"#;
            server.post(EVENTS, body).json(201);
            server
                .post(EVENTS, r#"{"events":[{"payload":7}]}"#)
                .json(201);
            let payloads = [
                "{\"n\": 1.000}".as_bytes(),
                "ü\n".as_bytes(),
                &[0, 255],
                b"7",
            ];

            let mut lines = server.get(EVENTS).lines();
            assert_eq!(lines.len(), payloads.len(), "{layout}");
            for (line, payload) in lines.iter_mut().zip(payloads) {
                let members = line.as_object_mut().unwrap();
                members.remove("payload_base64");
                members.insert("payload".to_owned(), BASE64.encode(payload).into());
            }
            assert_eq!(events(&get(&server, EVENTS, CBOR)), lines, "{layout}");
            let some = get(&server, &format!("{EVENTS}?from=2&max=2"), CBOR);
            assert_eq!(events(&some), lines[1..3], "{layout}");
            let none = get(&server, &format!("{EVENTS}?from=5"), CBOR);
            assert_eq!((none.status, events(&none)), (200, vec![]), "{layout}");
            let absent = get(&server, "/v1/journal/none/events", CBOR);
            absent.problem(404, "absent");
            assert_eq!(server.stop(), Some(0));
        }
    });
}

#[test]
fn cbor_is_sent_to_clients_that_name_it() {
    on_every_own_store(|annals| {
        let server = Server::start(annals);
        server.send("POST", "/v1/tables", &[]).json(200);
        server
            .post(EVENTS, r#"{"events":[{"payload":7}]}"#)
            .json(201);
        for (accept, media) in [
            (CBOR, CBOR),
            ("application/json, Application/CBOR-seq; q=0.5", CBOR),
            ("application/cbor-seq;q=0", LINES),
            ("application/cbor", LINES),
            ("application/xml", LINES),
            ("*/*", LINES),
        ] {
            let reply = get(&server, EVENTS, accept);
            assert_eq!(reply.header("content-type"), Some(media), "{accept}");
            let found = match media {
                CBOR => events(&reply),
                _ => reply.lines(),
            };
            assert_eq!(found[0]["sequence_number"], json!(1), "{accept}");
        }
    });
}
