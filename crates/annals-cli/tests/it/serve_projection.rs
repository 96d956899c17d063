//! `/v1/projections` and the metrics of projections. None runs in the server: it has their records.

use std::time::Duration;

use annals::{Clock, SystemClock};
use annals_jvm::LayoutName;
use serde_json::{Value as Json, json};

use crate::projection_programs::{LAYOUTS, fill, sleep_ms};
use crate::run::{Annals, dynamodb};
use crate::serve_client::{Reply, Server};
use crate::serve_document::check;

/// A server on a folder with the three projections of `projection_programs`.
fn serve(layout: LayoutName, name: &str) -> (Annals, Server) {
    let annals = Annals::embedded().with_flags(&["--layout", name]);
    fill(&annals, layout);
    let server = Server::start_with(&annals, &["--no-sweep"], None);
    (annals, server)
}

fn post(server: &Server, path: &str) -> Reply {
    server.send("POST", &format!("/v1/projections/{path}"), &[])
}

#[test]
fn answers_are_what_the_commands_print_and_as_the_document_says() {
    for (layout, name) in LAYOUTS {
        let (annals, server) = serve(layout, name);
        let document = server.get("/openapi.json").json(200);
        let printed = |args: &[&str]| {
            let url = format!("http://{}", server.address);
            let args = [&["--server", &url, "projection"], args].concat();
            annals.run(&args).ok().json()
        };
        // It grows while time passes.
        let without_time = |mut line: Json| {
            line["lag_ms"] = Json::Null;
            for build in line["builds"].as_array_mut().into_iter().flatten() {
                build["lag_ms"] = Json::Null;
                build["shares"][0]["lag_ms"] = Json::Null;
            }
            line
        };
        let all = server.get("/v1/projections").lines();
        assert_eq!(all.len(), 3);
        for (line, printed) in all.into_iter().zip(printed(&["list"])) {
            check(&document, "Projection", &line);
            assert_eq!(without_time(line), without_time(printed));
        }
        for projection in ["mails", "open-carts", "search"] {
            let status = server.get(&format!("/v1/projections/{projection}"));
            let status = status.json(200);
            check(&document, "ProjectionStatus", &status);
            let printed = printed(&["status", projection]).remove(0);
            assert_eq!(without_time(status), without_time(printed));
        }
        let letters = server.get("/v1/projections/mails/dead-letters").lines();
        assert_eq!(letters, printed(&["dead-letters", "mails"]));
        check(&document, "ProjectionDeadLetter", &letters[0]);
        let of_id = server.get("/v1/projections/mails/dead-letters?id=Cart%7C2");
        assert_eq!(of_id.lines(), letters);
    }
}

#[test]
fn projections_are_paused_rebuilt_switched_and_retried() {
    let (_annals, server) = serve(LayoutName::Annals, "annals");
    let document = server.get("/openapi.json").json(200);
    let answers = |path: &str, schema: &str, want: Json| {
        let answer = post(&server, path).json(200);
        check(&document, schema, &answer);
        assert_eq!(answer, want);
    };
    let state = || {
        let status = server.get("/v1/projections/open-carts").json(200);
        (status["state"].clone(), status["paused"].clone())
    };
    let want = json!({"projection": "open-carts", "paused": true});
    answers("open-carts/pause", "ProjectionPaused", want);
    assert_eq!(state(), (json!("paused"), json!(true)));
    let want = json!({"projection": "open-carts", "paused": false});
    answers("open-carts/resume", "ProjectionPaused", want);
    assert_eq!(state(), (json!("idle"), json!(false)));

    let want = json!({"projection": "open-carts", "build": 2});
    answers("open-carts/rebuild", "ProjectionBuildNumber", want);
    let again = post(&server, "open-carts/rebuild").problem(400, "invalid");
    assert!(again["detail"].as_str().unwrap().contains("already"));
    // Nobody makes it, so it is late.
    sleep_ms(1_100);
    let late = post(&server, "open-carts/switch").problem(400, "invalid");
    assert_eq!(late["facts"]["lag_events"], "7");
    post(&server, "mails/rebuild").problem(400, "invalid");
    post(&server, "mails/switch").problem(400, "invalid");

    let want = |requested: &str| json!({"projection": "mails", "requested": requested, "ids": 1, "events": 2});
    let retried = want("retry");
    answers("mails/dead-letters/retry", "DeadLettersRequested", retried);
    let path = "mails/dead-letters/discard?id=Cart%7C2";
    answers(path, "DeadLettersRequested", want("discard"));
    let none = json!({"projection": "search", "requested": "retry", "ids": 0, "events": 0});
    answers("search/dead-letters/retry", "DeadLettersRequested", none);
}

#[test]
fn what_is_not_there_is_404_and_what_is_not_understood_400() {
    let (_annals, server) = serve(LayoutName::Annals, "annals");
    let absent = |reply: Reply| {
        let problem = reply.problem(404, "absent");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("there is no such projection. projection=`orders`"));
    };
    absent(server.get("/v1/projections/orders"));
    absent(server.get("/v1/projections/orders/dead-letters"));
    for action in [
        "pause",
        "resume",
        "rebuild",
        "switch",
        "dead-letters/retry",
        "dead-letters/discard?id=Cart%7C2",
    ] {
        absent(post(&server, &format!("orders/{action}")));
    }
    for reply in [
        server.get("/v1/projections/mails/dead-letters?id=Cart%7C9"),
        post(&server, "mails/dead-letters/retry?id=Cart%7C9"),
        post(&server, "mails/dead-letters/discard?id=Cart%7C9"),
    ] {
        let problem = reply.problem(404, "absent");
        assert_eq!(problem["facts"]["id"], "Cart|9");
    }
    for reply in [
        server.get("/v1/projections?max=1"),
        server.get("/v1/projections/a%20b"),
        post(&server, "mails/pause?now=true"),
        post(&server, "mails/dead-letters/retry?id="),
    ] {
        reply.problem(400, "invalid");
    }
    server
        .get("/v1/projections/mails/pause")
        .problem(405, "invalid");
}

#[test]
fn who_may_not_write_may_not_steer() {
    let annals = Annals::embedded();
    fill(&annals, LayoutName::Annals);
    let token = "0123456789abcdef";
    let server = Server::start_with(&annals, &["--no-sweep"], Some(token));
    let path = "/v1/projections/mails/pause";
    post(&server, "mails/pause").problem(401, "unauthorized");
    server.get("/v1/projections").problem(401, "unauthorized");
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    server.send("POST", path, &headers).json(200);
    drop(server);
    let server = Server::start(&annals);
    let of_another_site = [("sec-fetch-site", "cross-site")];
    let refused = server.send("POST", path, &of_another_site);
    refused.problem(403, "unauthorized");
}

/// The lines of a metric of projections; on a busy machine the first request comes too early.
fn metric(server: &Server, name: &str) -> Vec<String> {
    for _ in 0..600 {
        let metrics = server.get("/metrics");
        assert_eq!(metrics.status, 200);
        let lines = metrics.text().lines();
        let lines = lines.filter(|line| line.starts_with(&format!("{name}{{")));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        if !lines.is_empty() {
            return lines;
        }
        sleep_ms(100);
    }
    panic!("there is no {name}");
}

#[test]
fn metrics_have_lag_dead_letters_stopped_shares_and_handled_events() {
    let (_annals, server) = serve(LayoutName::Annals, "annals");
    let lines = |name: &str, values: [u64; 3]| {
        let names = ["mails", "open-carts", "search"];
        let lines = names.iter().zip(values).map(|(projection, value)| {
            format!("{name}{{projection=\"{projection}\",build=\"1\"}} {value}")
        });
        assert_eq!(metric(&server, name), lines.collect::<Vec<_>>());
    };
    lines("annals_projection_lag_events", [0, 0, 4]);
    lines("annals_projection_dead_letters", [2, 0, 0]);
    lines("annals_projection_stopped_shares", [0, 0, 1]);
    lines("annals_projection_handled_total", [5, 7, 3]);
    let seconds = metric(&server, "annals_projection_lag_seconds");
    let value = |line: &String| -> f64 { line.rsplit_once(' ').unwrap().1.parse().unwrap() };
    assert_eq!((value(&seconds[0]), value(&seconds[1])), (0.0, 0.0));
    assert!(value(&seconds[2]) > 0.0, "{seconds:?}");
    let text = server.get("/metrics");
    for kind in ["lag_events gauge", "handled_total counter"] {
        let line = format!("# TYPE annals_projection_{kind}\n");
        assert!(text.text().contains(&line));
    }
}

/// Reading them again means reading the feed.
#[test]
fn metrics_are_read_again_after_a_few_seconds_only() {
    let (_annals, server) = serve(LayoutName::Annals, "annals");
    let clock = SystemClock::new();
    let name = "annals_projection_lag_events";
    let began = clock.monotonic();
    let before = metric(&server, name);
    let event = r#"{"events":[{"payload":"Added"}]}"#;
    server.post("/v1/journal/Cart%7C1/events", event).json(201);
    post(&server, "open-carts/rebuild").json(200);
    let mut now = metric(&server, name);
    assert!(now == before || clock.monotonic() - began >= Duration::from_secs(5));
    while now == before && clock.monotonic() - began < Duration::from_secs(60) {
        sleep_ms(100);
        now = metric(&server, name);
    }
    assert!(clock.monotonic() - began >= Duration::from_secs(5));
    let values = [
        ("mails", 1, 1),
        ("open-carts", 1, 1),
        ("open-carts", 2, 8),
        ("search", 1, 5),
    ];
    let want = values.map(|(projection, build, lag)| {
        format!("{name}{{projection=\"{projection}\",build=\"{build}\"}} {lag}")
    });
    assert_eq!(now, want);
}

#[test]
fn without_projections_or_tables_there_are_no_lines() {
    for annals in [Annals::embedded(), Annals::at(&dynamodb())] {
        let server = Server::start(&annals);
        let metrics = server.get("/metrics");
        assert_eq!(metrics.status, 200);
        assert!(!metrics.text().contains("annals_projection"));
    }
    let server = Server::start(&Annals::embedded());
    assert!(server.get("/v1/projections").lines().is_empty());
}
