//! Clients that are wrong, slow, large or malicious: clear errors, and nothing lost.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc;

use crate::run::Annals;
use crate::serve_client::{JSON, Reply, Server, Tail, rest, write_request};
use crate::serve_journal::on_every_server;

const EVENTS: &str = "/v1/journal/a/events";
const ONE: &str = r#"{"events":[{"payload":1}]}"#;
const TOKEN: &str = "a-token-of-some-length";

#[test]
fn a_wrong_body_is_refused() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "\u{0}",
        r#"{"events":[]}"#,
        r#"{"events":[{}]}"#,
        r#"{"events":[{"payload":1,"payload_base64":"AA=="}]}"#,
        r#"{"events":[{"payload":1}],"expected":1}"#,
        r#"{"events":[{"payload":1,"manifest":null}]}"#,
        r#"{"events":[{"payload":1}],"expect":-1}"#,
        r#"{"events":[{"payload":1}],"expect":1.5}"#,
        r#"{"events":[{"payload":1}],"expect":null}"#,
        r#"{"events":[{"payload":1}],"expect":18446744073709551616}"#,
        r#"{"events":[{"payload":1,"codec":"bytes"}]}"#,
        r#"{"events":[{"payload":1,"codec":"text"}]}"#,
        r#"{"events":[{"payload":"x","codec":"int"}]}"#,
        r#"{"events":[{"payload":2147483648,"codec":"int"}]}"#,
        r#"{"events":[{"payload_base64":"A"}]}"#,
        r#"{"events":[{"payload_base64":"aGk=","codec":"jsn"}]}"#,
        r#"{"events":[{"payload":1,"tags":[""]}]}"#,
        r#"{"events":[{"payload":1}],"events":[{"payload":1}]}"#,
        r#"{"events":[{"payload":1}]} {}"#,
    ] {
        server.post(EVENTS, body).problem(400, "invalid");
    }
    let invalid = server.send_body(
        ("POST", EVENTS),
        &[JSON],
        b"{\"events\":[{\"payload\":\"\xff\"}]}",
    );
    invalid.problem(400, "invalid");
    let deep = format!(r#"{{"events":[{{"payload":{}}}]}}"#, "[".repeat(100_000));
    server.post(EVENTS, &deep).problem(400, "invalid");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
    ] {
        let headers = [("content-type", kind)];
        let refused = server.send_body(("POST", EVENTS), &headers, ONE.as_bytes());
        refused.problem(415, "invalid");
    }
    server.get(EVENTS).problem(404, "absent");
}

#[test]
fn a_body_over_the_limit_is_refused_and_the_server_continues() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--body-limit", "1000"], None);
    let large = format!(r#"{{"events":[{{"payload":"{}"}}]}}"#, "x".repeat(2000));
    server.post(EVENTS, &large).problem(413, "invalid");
    // Without a length its size is unknown until it is received.
    let mut stream = server.connect();
    let head = format!(
        "POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    stream.write_all((head + &chunk).as_bytes()).unwrap();
    Reply::read(&mut BufReader::new(stream), "POST").problem(413, "invalid");
    server.get(EVENTS).problem(404, "absent");
    server.post(EVENTS, ONE).json(201);
}

#[test]
fn an_append_of_the_largest_body_is_stored() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let large = "x".repeat(5_000_000);
    let body = format!(r#"{{"events":[{{"payload":"{large}"}}]}}"#);
    server.post(EVENTS, &body).json(201);
    assert_eq!(server.get(EVENTS).lines()[0]["payload"], large);
}

#[test]
fn an_id_may_be_any_text() {
    on_every_server(|_, server| {
        let long = "%C3%BC".repeat(1000);
        let ids = [
            ("a%2Fb", "a/b"),
            ("%2E%2E", ".."),
            ("..", ".."),
            ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", "../../etc/passwd"),
            ("a%00b", "a\0b"),
            ("%F0%9F%A6%80%20%7C", "🦀 |"),
            ("a%25b", "a%b"),
            ("%22%0A%0D", "\"\n\r"),
            ("a+b", "a+b"),
            ("a;b=c", "a;b=c"),
            (long.as_str(), &"ü".repeat(1000)),
        ];
        for (path, id) in ids {
            let path = format!("/v1/journal/{path}/events");
            let body = serde_json::json!({"events": [{"payload": id}]}).to_string();
            assert_eq!(server.post(&path, &body).json(201)["persistence_id"], id);
            for line in server.get(&path).lines() {
                assert_eq!(line["payload"], id);
            }
        }
        for bad in ["%FF", &"x".repeat(2001), "%C3"] {
            let path = format!("/v1/journal/{bad}/events");
            server.post(&path, ONE).problem(400, "invalid");
            server.get(&path).problem(400, "invalid");
        }
        server.get("/v1/journal//events").problem(400, "invalid");
        for none in ["/v1/journal/a/b/events", "//v1/journal", "/v1"] {
            server.get(none).problem(404, "absent");
        }
        let mut found: Vec<String> = server
            .get("/v1/journal")
            .lines()
            .iter()
            .map(|line| line["persistence_id"].as_str().unwrap().to_owned())
            .collect();
        found.sort();
        let mut wanted: Vec<&str> = ids.iter().map(|(_, id)| *id).collect();
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(found, wanted);
    });
}

#[test]
fn a_request_that_is_not_http_is_refused() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    for bytes in [
        "\r\n\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nbad header: \u{1}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        "POST /v1/journal/a/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = rest(stream);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{bytes:?}: {answer}"
        );
    }
    let huge = "x".repeat(100_000);
    assert_eq!(
        server.send("GET", "/healthz", &[("x-huge", &huge)]).status,
        431
    );
    let twice = [("if-match", "\"1\""), ("if-match", "\"1\""), JSON];
    let refused = server.send_body(("POST", EVENTS), &twice, ONE.as_bytes());
    refused.problem(400, "invalid");
    let refused = server.send("PATCH", EVENTS, &[]);
    refused.problem(405, "invalid");
    assert_eq!(refused.header("allow"), Some("GET,HEAD,POST,DELETE"));
    server.get("/healthz").json(200);
}

#[test]
fn requests_without_the_token_are_refused() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &[], Some(TOKEN));
    let get = |value: &str| server.send("GET", "/v1/journal", &[("authorization", value)]);
    assert_eq!(get(&format!("Bearer {TOKEN}")).status, 200);
    for wrong in [
        "Bearer",
        "Bearer x",
        "Basic x",
        "",
        &format!("Bearer {TOKEN}x"),
        TOKEN,
    ] {
        let refused = get(wrong);
        refused.problem(401, "unauthorized");
        assert!(
            refused
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
        assert!(!refused.text().contains(TOKEN));
    }
    for path in [
        "/",
        "/metrics",
        "/openapi.json",
        EVENTS,
        "/v1/tables",
        "/none",
    ] {
        server.get(path).problem(401, "unauthorized");
    }
    server.post(EVENTS, ONE).problem(401, "unauthorized");
    for path in ["/healthz", "/readyz"] {
        server.get(path).json(200);
    }
}

#[test]
fn remote_clients_need_a_token() {
    let annals = Annals::embedded();
    let serve = ["serve", "--listen", "0.0.0.0:0"];
    annals.run(&serve).fails(2, "--token-file or ANNALS_TOKEN");
    annals.write("token", "short\n");
    let short = [&serve[..], &["--token-file", "token"]].concat();
    annals.run(&short).fails(2, "a token has at least 16 bytes");
    let missing = [&serve[..], &["--token-file", "none"]].concat();
    annals.run(&missing).fails(2, "cannot read the token");
    annals.write("token", &format!("{TOKEN}\n"));
    let server = Server::start_with(&annals, &["--token-file", "token"], None);
    server.get("/v1/journal").problem(401, "unauthorized");
    let bearer = format!("Bearer {TOKEN}");
    let let_in = server.send("GET", "/v1/journal", &[("authorization", &bearer)]);
    assert_eq!(let_in.status, 200);
}

/// A page of another site, in a browser on this machine.
#[test]
fn pages_of_other_sites_are_refused() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let rebound = server.send("GET", "/v1/journal", &[("host", "evil.example")]);
    rebound.problem(403, "unauthorized");
    let rebound = server.send("GET", "/", &[("host", "evil.example")]);
    rebound.problem(403, "unauthorized");
    let origin = ("origin", "https://evil.example");
    let asked = server.send(
        "OPTIONS",
        EVENTS,
        &[origin, ("access-control-request-method", "POST")],
    );
    asked.problem(405, "invalid");
    let read = server.send("GET", "/v1/journal", &[origin]);
    for reply in [asked, read] {
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    // A form can send this without a preflight.
    let headers = [origin, ("content-type", "text/plain")];
    server
        .send_body(("POST", EVENTS), &headers, ONE.as_bytes())
        .problem(403, "unauthorized");
    server
        .send_body(("POST", EVENTS), &headers[1..], ONE.as_bytes())
        .problem(415, "invalid");
}

#[test]
fn connections_over_the_limit_are_refused() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--max-connections", "3"], None);
    let tails: Vec<Tail> = (0..3).map(|_| Tail::begin(&server, EVENTS, &[])).collect();
    let refused = server.get("/healthz");
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    tails.into_iter().for_each(Tail::hang_up);
    // Their permits are free as soon as the server has noticed.
    while server.get("/healthz").status != 200 {}
}

/// A client that sends nothing, or only a part, is disconnected and does not block others.
#[test]
fn half_sent_requests_end() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--patience", "1"], None);
    let silent = server.connect();
    let mut half_head = server.connect();
    half_head
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: loc")
        .unwrap();
    let mut half_body = server.connect();
    let head = format!(
        "POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{\"ev"
    );
    half_body.write_all(head.as_bytes()).unwrap();
    server.post(EVENTS, ONE).json(201);
    assert_eq!(rest(silent), "");
    assert!(!rest(half_head).contains("200 OK"));
    Reply::read(&mut BufReader::new(half_body), "POST").problem(408, "invalid");
    // A connection that ends inside a body has appended nothing.
    let mut cut = server.connect();
    cut.write_all(head.as_bytes()).unwrap();
    cut.shutdown(Shutdown::Both).unwrap();
    assert_eq!(server.get(EVENTS).lines().len(), 1);
}

/// And it can detect that its response is incomplete.
#[test]
fn a_stalled_reader_is_disconnected() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--patience", "1"], None);
    let large = "x".repeat(1_000_000);
    for _ in 0..24 {
        let body = format!(r#"{{"events":[{{"payload":"{large}"}}]}}"#);
        server.post(EVENTS, &body).json(201);
    }
    let mut lazy = server.connect();
    write_request(&mut lazy, ("GET", EVENTS), &[], b"");
    // It reads nothing until the server has closed the connection, which its metrics show.
    while !server
        .get("/metrics")
        .text()
        .contains("annals_http_connections 1\n")
    {}
    let mut lazy = BufReader::new(lazy);
    assert!(
        Reply::try_read(&mut lazy, "GET").is_err(),
        "it is incomplete"
    );
    assert_eq!(server.get(EVENTS).lines().len(), 24);
}

#[test]
fn requests_over_the_limit_are_refused() {
    let annals = Annals::embedded();
    let server = Server::start_with(&annals, &["--max-requests", "1"], None);
    let mut slow = server.connect();
    let (begun, rest) = ONE.split_at(5);
    let head = format!(
        "POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        ONE.len()
    );
    slow.write_all(head.as_bytes()).unwrap();
    // Once the server asks for the body, it is in flight.
    let mut asked = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    slow.read_exact(&mut asked).unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100 "), "{asked:?}");
    slow.write_all(begun.as_bytes()).unwrap();
    let refused = server.get("/v1/tables");
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    server.get("/healthz").json(200);
    slow.write_all(rest.as_bytes()).unwrap();
    Reply::read(&mut BufReader::new(slow), "POST").json(201);
    assert_eq!(server.get("/v1/tables").status, 200);
}

/// A store that never responds, and a message for each request.
fn silent_store() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    // A server looks at its tables when it starts, which is not the request to wait for.
                    let head = String::from_utf8_lossy(&bytes[..read]);
                    if !head.contains("DescribeTable") {
                        // The test may have ended.
                        let _ = tell.send(());
                    }
                }
            });
        }
    });
    (address, told)
}

/// Disconnecting frees no capacity: the write is still in flight.
#[test]
fn writes_of_disconnected_clients_are_still_in_flight() {
    let (store, has_come) = silent_store();
    let annals = Annals::at(&store);
    let flags = ["--max-requests", "1", "--max-connections", "1"];
    let server = Server::start_with(&annals, &flags, None);
    let mut leaving = server.connect();
    write_request(&mut leaving, ("POST", EVENTS), &[JSON], ONE.as_bytes());
    has_come.recv().unwrap();
    leaving.shutdown(Shutdown::Both).unwrap();
    // There is one connection, and it is free as soon as the server has noticed.
    while server.get("/healthz").status != 200 {}
    let refused = loop {
        let reply = server.get("/openapi.json");
        if !reply.text().contains("too many connections") {
            break reply;
        }
    };
    let told = refused.problem(503, "unavailable");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("requests are in flight"), "{detail}");
}

/// A browser sends these for a page of another site without a preflight.
#[test]
fn pages_of_other_sites_change_nothing() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    for path in ["/v1/tables", "/v1/log/sweep", "/v1/journal/a/repair"] {
        for header in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let refused = server.send("POST", path, &[header]);
            refused.problem(403, "unauthorized");
        }
        let own = [("sec-fetch-site", "same-origin")];
        server.send("POST", path, &own).json(200);
        server.send("POST", path, &[]).json(200);
    }
    // A pixel is made to be shown by other sites.
    let shown = server.send("GET", "/track.gif", &[("sec-fetch-site", "cross-site")]);
    assert_eq!(shown.status, 200);
}

/// A supervisor may try again; and nothing is created meanwhile.
#[test]
fn an_address_in_use_is_unavailable() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let annals = Annals::embedded();
    annals
        .run(&["serve", "--listen", &address])
        .fails(4, "another program listens on this address");
    assert!(!annals.folder().join("annals-data").exists());
}
