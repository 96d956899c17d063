//! Live tails over HTTP.

use crate::run::{Annals, dynamodb};
use crate::serve_client::{Server, Tail};
use crate::serve_journal::on_every_server;

const EVENTS: &str = "/v1/journal/a/events";

fn append(server: &Server, payload: u64) {
    let body = format!(r#"{{"events":[{{"payload":{payload}}}]}}"#);
    server.post(EVENTS, &body).json(201);
}

#[test]
fn a_tail_has_old_events_and_then_new_ones() {
    on_every_server(|_, server| {
        append(server, 1);
        append(server, 2);
        let mut tail = Tail::begin(server, EVENTS, &[]);
        for number in 1..=5 {
            if number > 2 {
                append(server, number);
            }
            let (id, event) = tail.next().unwrap();
            assert_eq!(id, number);
            assert_eq!(event["sequence_number"], number);
            assert_eq!(event["payload"], number);
        }
        tail.hang_up();
        append(server, 6);
        let mut resumed = Tail::begin(server, EVENTS, &[("last-event-id", "4")]);
        assert_eq!(resumed.next().unwrap().0, 5);
        assert_eq!(resumed.next().unwrap().0, 6);
        let mut later = Tail::begin(server, &format!("{EVENTS}?from=6"), &[]);
        assert_eq!(later.next().unwrap().0, 6);
    });
}

#[test]
fn an_id_can_be_followed_before_it_has_events() {
    on_every_server(|_, server| {
        let mut tail = Tail::begin(server, EVENTS, &[]);
        append(server, 1);
        assert_eq!(tail.next().unwrap().0, 1);
    });
}

#[test]
fn a_tail_has_the_appends_of_other_processes() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create"]).ok();
    let server = Server::start(&annals);
    let mut tail = Tail::begin(&server, EVENTS, &[]);
    for number in 1..=3 {
        annals.run(&["append", "a", "1"]).ok();
        assert_eq!(tail.next().unwrap().0, number);
    }
}

#[test]
fn many_tails_get_every_event_once_in_order_while_many_write() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    std::thread::scope(|scope| {
        for from in 1..=20_u64 {
            let server = &server;
            scope.spawn(move || {
                let mut tail = Tail::begin(server, &format!("{EVENTS}?from={from}"), &[]);
                for number in from..=400 {
                    assert_eq!(tail.next().unwrap().0, number);
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|n| append(&server, n)));
        }
    });
    assert!(server.get("/metrics").text().contains("annals_http_tails"));
}

/// Events are not buffered for a slow reader, and still delivered when it reads.
#[test]
fn a_slow_tail_misses_nothing() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let mut slow = Tail::begin(&server, EVENTS, &[]);
    let large = "x".repeat(100_000);
    for number in 0..700 {
        let body = format!(r#"{{"events":[{{"payload":"{number}{large}"}}]}}"#);
        server.post(EVENTS, &body).json(201);
    }
    for number in 1..=700 {
        assert_eq!(slow.next().unwrap().0, number);
    }
}

#[test]
fn tails_end_with_the_server() {
    on_every_server(|_, server| {
        append(server, 1);
        let mut tail = Tail::begin(server, EVENTS, &[]);
        assert_eq!(tail.next().unwrap().0, 1);
        server.terminate();
        assert!(tail.next().is_none(), "the stream ends regularly");
    });
}

#[test]
fn a_tail_has_no_end_and_resumes_after_a_number() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let stream = [("accept", "text/event-stream")];
    for path in ["?to=3", "?max=3", "?from=0"] {
        let refused = server.send("GET", &format!("{EVENTS}{path}"), &stream);
        refused.problem(400, "invalid");
    }
    for bad in ["x", "0", "-1", "9223372036854775807"] {
        let headers = [stream[0], ("last-event-id", bad)];
        server.send("GET", EVENTS, &headers).problem(400, "invalid");
    }
}

/// The numbering of a purged id restarts at 1, and so does its tail.
#[test]
fn a_tail_across_a_purge_misses_nothing() {
    on_every_server(|_, server| {
        for payload in 1..=3 {
            append(server, payload);
        }
        let mut tail = Tail::begin(server, EVENTS, &[]);
        for number in 1..=3 {
            assert_eq!(tail.next().unwrap().0, number);
        }
        server.delete("/v1/journal/a").json(200);
        for payload in 10..=14 {
            append(server, payload);
        }
        for number in 1..=5 {
            let (id, event) = tail.next().unwrap();
            assert_eq!((id, &event["payload"]), (number, &(9 + number).into()));
        }
    });
}

/// Otherwise it would wait for events with numbers that were used before the purge.
#[test]
fn resuming_after_a_purged_event_is_a_conflict() {
    on_every_server(|_, server| {
        for payload in 1..=3 {
            append(server, payload);
        }
        server.delete("/v1/journal/a").json(200);
        let headers = [("accept", "text/event-stream"), ("last-event-id", "3")];
        let gone = server.send("GET", EVENTS, &headers);
        gone.problem(409, "conflict");
        append(server, 1);
        let gone = server.send("GET", EVENTS, &headers);
        gone.problem(409, "conflict");
    });
}

#[test]
fn a_client_that_refuses_server_sent_events_gets_lines() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    append(&server, 1);
    let headers = [("accept", "text/event-stream;q=0, application/x-ndjson")];
    assert_eq!(server.send("GET", EVENTS, &headers).lines().len(), 1);
}
