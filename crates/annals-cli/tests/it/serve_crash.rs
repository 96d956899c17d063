//! Servers that are killed or shut down while many clients write.

use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value as Json;

use crate::run::Annals;
use crate::serve_client::{JSON, Reply, Server, Tail, connect, write_request};

const CLIENTS: usize = 16;

/// Runs clients that append until the server is gone; returns the acknowledged events by id, number
/// and payload.
fn append_until_gone(
    address: &str,
    enough: &AtomicUsize,
    gone: &AtomicBool,
) -> Vec<(String, u64, String)> {
    let told = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let told = &told;
            scope.spawn(move || {
                // Some ids have many writers.
                let id = format!("id{}", client % 5);
                let path = format!("/v1/journal/{id}/events");
                let stream = connect(address);
                let (mut out, mut back) = (stream.try_clone().unwrap(), BufReader::new(stream));
                for n in 0.. {
                    let payload = format!("{client}-{n}");
                    let body = format!(r#"{{"events":[{{"payload":"{payload}"}}]}}"#);
                    write_request(&mut out, ("POST", &path), &[JSON], body.as_bytes());
                    let Ok(reply) = Reply::try_read(&mut back, "POST") else {
                        break;
                    };
                    if reply.status == 503 {
                        break;
                    }
                    let number = reply.json(201)["sequence_number"].as_u64().unwrap();
                    told.lock().unwrap().push((id.clone(), number, payload));
                    enough.fetch_add(1, Ordering::Relaxed);
                    if gone.load(Ordering::Relaxed) && reply.header("connection") == Some("close") {
                        break;
                    }
                }
            });
        }
    });
    told.into_inner().unwrap()
}

/// Runs clients against a server, ends it with `end` after some appends, and checks that a new one has
/// every acknowledged event.
fn check(end: impl FnOnce(Server) + Send) {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let address = server.address.clone();
    let (enough, gone) = (AtomicUsize::new(0), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let clients = scope.spawn(|| append_until_gone(&address, &enough, &gone));
        while enough.load(Ordering::Relaxed) < 500 {
            std::thread::yield_now();
        }
        gone.store(true, Ordering::Relaxed);
        end(server);
        clients.join().unwrap()
    });
    assert!(told.len() >= 500, "{}", told.len());
    let server = Server::start(&annals);
    for id in 0..5 {
        let id = format!("id{id}");
        let stored = server.get(&format!("/v1/journal/{id}/events")).lines();
        let mine = told.iter().filter(|(of, _, _)| *of == id);
        for (_, number, payload) in mine {
            let event: &Json = &stored[usize::try_from(*number).unwrap() - 1];
            assert_eq!(event["sequence_number"], *number);
            assert_eq!(
                event["payload"], *payload,
                "an acknowledged event is stored"
            );
        }
        // There are no duplicates and no gaps.
        let mut payloads: Vec<&str> = stored
            .iter()
            .map(|it| it["payload"].as_str().unwrap())
            .collect();
        payloads.sort_unstable();
        payloads.dedup();
        assert_eq!(payloads.len(), stored.len());
        let findings = server.get(&format!("/v1/journal/{id}/findings")).json(200);
        assert_eq!(findings["findings"], serde_json::json!([]));
    }
}

#[test]
fn a_killed_server_loses_no_acknowledged_event() {
    for _ in 0..3 {
        check(Server::kill);
    }
}

#[test]
fn a_shutdown_finishes_the_requests_in_flight() {
    check(|server| assert_eq!(server.stop(), Some(0)));
}

/// Whether the store notes that it was closed: the newer of the two slots of `log/reached`.
fn is_closed(data: &Path) -> bool {
    let bytes = std::fs::read(data.join("log/reached")).unwrap();
    let field = |slot: usize, at: usize| {
        let field = bytes[slot + at..].first_chunk().unwrap();
        u64::from_le_bytes(*field)
    };
    let (count, closed) = (16, 88);
    let newer = [0, 512].into_iter().max_by_key(|slot| field(*slot, count));
    field(newer.unwrap(), closed) == 1
}

/// Appends many events in each request until the server is gone.
fn append_bulk_until_gone(address: &str) {
    const LINES: (&str, &str) = ("content-type", "application/x-ndjson");
    let stream = connect(address);
    let (mut out, mut back) = (stream.try_clone().unwrap(), BufReader::new(stream));
    // Long enough to be answered as results come.
    let body = "{\"persistence_id\":\"bulk\",\"events\":[{\"payload\":1}]}\n".repeat(400);
    loop {
        write_request(&mut out, ("POST", "/v1/append"), &[LINES], body.as_bytes());
        match Reply::try_read(&mut back, "POST") {
            Ok(reply) if reply.status == 200 => {}
            _ => return,
        }
    }
}

#[test]
fn a_shutdown_under_load_closes_the_store() {
    const ROUNDS: usize = 10;
    let annals = Annals::embedded();
    let data = annals.folder().join("annals-data");
    for round in 0..ROUNDS {
        let server = Server::start(&annals);
        assert!(!is_closed(&data) || round == 0, "round {round}: it is open");
        let address = server.address.clone();
        let mut tail = Tail::begin(&server, "/v1/journal/id0/events", &[]);
        let (enough, gone) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| append_until_gone(&address, &enough, &gone));
            scope.spawn(|| append_bulk_until_gone(&address));
            scope.spawn(|| while tail.next().is_some() {});
            while enough.load(Ordering::Relaxed) < 100 {
                std::thread::yield_now();
            }
            gone.store(true, Ordering::Relaxed);
            assert_eq!(server.stop(), Some(0), "round {round}");
        });
        assert!(is_closed(&data), "round {round}: the store was not closed");
    }
}
