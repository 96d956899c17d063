//! Servers that are killed or shut down while many clients write.

use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value as Json;

use crate::run::Annals;
use crate::serve_client::{JSON, Reply, Server, connect, write_request};

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
