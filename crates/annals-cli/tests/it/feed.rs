//! `annals feed` and `GET /v1/feed`: the events of all ids in commit order.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value as Json, json};

use crate::run::{Annals, dynamodb};
use crate::serve_client::{Server, Tail};

fn append(annals: &Annals, id: &str, tag: &str, payloads: &[&str]) {
    let mut args = vec!["append", id, "--tag", tag];
    args.extend(payloads);
    annals.run(&args).ok();
}

fn feed(annals: &Annals, args: &[&str]) -> Vec<Json> {
    let args: Vec<&str> = ["feed"].iter().chain(args).copied().collect();
    annals.run(&args).ok().json()
}

/// What identifies a line: id and sequence number, or the notice.
fn names(lines: &[Json]) -> Vec<String> {
    let name = |line: &Json| {
        let id = line["persistence_id"].as_str().unwrap();
        match line["notice"].as_str() {
            Some(notice) => format!("{id} {notice} {}", line["sequence_number"]),
            None => format!("{id}#{}", line["sequence_number"]),
        }
    };
    lines.iter().map(name).collect()
}

fn position(line: &Json) -> &str {
    line["position"].as_str().unwrap()
}

fn fill(annals: &Annals) {
    append(annals, "Cart|1", "a", &["1", "2"]);
    append(annals, "Order|1", "b", &["1"]);
    append(annals, "Cart|2", "b", &["1", "2", "3"]);
    append(annals, "Cart|1", "a", &["3"]);
}

const ALL: [&str; 7] = [
    "Cart|1#1",
    "Cart|1#2",
    "Order|1#1",
    "Cart|2#1",
    "Cart|2#2",
    "Cart|2#3",
    "Cart|1#3",
];

/// The layouts, each in a folder of its own and beside a server.
fn on_every_layout(scenario: impl Fn(&Annals)) {
    for layout in ["annals", "akka", "j5ik2o"] {
        let flags = ["--layout", layout];
        for annals in [
            Annals::embedded().with_flags(&flags),
            Annals::served(&flags),
        ] {
            annals.run(&["tables", "create"]).ok();
            scenario(&annals);
        }
    }
}

#[test]
fn the_feed_has_all_events_in_commit_order_and_resumes_anywhere() {
    on_every_layout(|annals| {
        fill(annals);
        let all = feed(annals, &[]);
        assert_eq!(names(&all), ALL);
        let first = annals.run(&["replay", "Cart|1", "--max", "1"]).ok().json();
        let mut line = all[0].clone();
        line.as_object_mut().unwrap().remove("position");
        assert_eq!(
            line, first[0],
            "a line is as replay prints it, and its position"
        );
        for (at, line) in all.iter().enumerate() {
            let rest = feed(annals, &["--after", position(line)]);
            assert_eq!(rest, all[at + 1..]);
        }
        assert_eq!(feed(annals, &["--max", "2"]), all[..2]);
    });
}

#[test]
fn a_filter_selects_by_category_prefix_tag_and_slice() {
    on_every_layout(|annals| {
        fill(annals);
        let carts = feed(annals, &["--category", "Cart"]);
        assert_eq!(carts.len(), 6);
        assert_eq!(feed(annals, &["--prefix", "Order|"]).len(), 1);
        assert_eq!(
            feed(annals, &["--category", "Cart", "--category", "Order"]).len(),
            7
        );
        let (low, high) = (["--slices", "0-511"], ["--slices", "512-1023"]);
        assert_eq!(feed(annals, &low).len() + feed(annals, &high).len(), 7);
        let tagged = feed(annals, &["--tag", "b"]);
        // Events of akka have no tags.
        let has_tags = carts[0]["tags"]
            .as_array()
            .is_some_and(|tags| !tags.is_empty());
        assert_eq!(tagged.len(), if has_tags { 4 } else { 0 });
    });
}

#[test]
fn deletions_and_purges_are_lines_of_their_own() {
    on_every_layout(|annals| {
        fill(annals);
        annals.run(&["delete", "Cart|2", "--to", "2"]).ok();
        annals.run(&["delete", "Order|1", "--purge"]).ok();
        let all = feed(annals, &[]);
        let names = names(&all);
        assert!(names.contains(&"Cart|2 deleted 2".to_owned()), "{names:?}");
        assert!(
            names.contains(&"Order|1 purged null".to_owned()),
            "{names:?}"
        );
    });
}

#[test]
fn a_position_that_is_not_of_this_feed_is_refused() {
    on_every_layout(|annals| {
        fill(annals);
        let foreign = annals.run(&["feed", "--after", "1.0:1"]);
        foreign.fails(2, "another store's feed");
        annals
            .run(&["feed", "--after", "12"])
            .fails(2, "3735928559.0:912");
        let all = feed(annals, &[]);
        let (generation, _) = position(&all[0]).split_once('.').unwrap();
        let beyond = format!("{generation}.0:99999999");
        let beyond = annals.run(&["feed", "--after", &beyond]);
        beyond.fails(2, "after the last change");
    });
    let slices = Annals::embedded().run(&["feed", "--slices", "9-3"]);
    slices.fails(2, "like 0-511");
}

#[test]
fn dynamodb_has_no_feed_yet() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create"]).ok();
    annals.run(&["feed"]).fails(2, "this store has no feed");
}

#[test]
fn the_feed_is_served_as_lines_and_as_events_that_resume() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    server.send("POST", "/v1/tables", &[]).json(200);
    let post = |id: &str, body: &str| {
        let path = format!("/v1/journal/{id}/events");
        server.post(&path, body).json(201);
    };
    post("Cart%7C1", r#"{"events":[{"payload":1},{"payload":2}]}"#);
    post("Order%7C1", r#"{"events":[{"payload":3,"tags":["t"]}]}"#);
    let all = server.get("/v1/feed").lines();
    assert_eq!(names(&all), ["Cart|1#1", "Cart|1#2", "Order|1#1"]);
    assert_eq!(all[2]["payload"], json!(3));
    for (at, line) in all.iter().enumerate() {
        let rest = server.get(&format!(
            "/v1/feed?after={}",
            position(line).replace('+', "%2B")
        ));
        assert_eq!(rest.lines(), all[at + 1..]);
    }
    let filters = ["category=Order", "prefix=Order", "tag=t"];
    for filter in filters {
        assert_eq!(server.get(&format!("/v1/feed?{filter}")).lines(), all[2..]);
    }
    assert_eq!(server.get("/v1/feed?max=1").lines(), all[..1]);
    server.get("/v1/feed?after=1.0:1").problem(400, "invalid");
    server.get("/v1/feed?slices=x").problem(400, "invalid");

    // Old events, then new ones; also those that the filter passes over.
    let mut tail = Tail::begin(&server, "/v1/feed", &[]);
    for line in &all {
        assert_eq!(
            tail.next_text().unwrap(),
            (position(line).to_owned(), line.clone())
        );
    }
    let after = [("last-event-id", position(&all[0]))];
    let mut resumed = Tail::begin(&server, "/v1/feed?category=Cart", &after);
    assert_eq!(resumed.next_text().unwrap().1, all[1]);
    post("Order%7C1", r#"{"events":[{"payload":4}]}"#);
    post("Cart%7C1", r#"{"events":[{"payload":5}]}"#);
    assert_eq!(tail.next_text().unwrap().1["payload"], json!(4));
    let (id, last) = tail.next_text().unwrap();
    assert_eq!((&last["payload"], position(&last)), (&json!(5), &*id));
    assert_eq!(resumed.next_text().unwrap(), (id, last));

    let accept = ("accept", "text/event-stream");
    let beyond = position(&all[0]).split_once('.').unwrap().0.to_owned() + ".0:99999999";
    for foreign in ["1.0:1", &beyond] {
        let headers = [accept, ("last-event-id", foreign)];
        server
            .send("GET", "/v1/feed", &headers)
            .problem(400, "invalid");
    }
    server
        .send("GET", "/v1/feed?max=1", &[accept])
        .problem(400, "invalid");
}

#[test]
fn a_follower_beside_a_server_sees_what_the_server_writes() {
    let annals = Annals::served(&[]);
    annals.run(&["tables", "create"]).ok();
    append(&annals, "Cart|1", "t", &["1"]);
    let server = annals.server().unwrap();
    std::thread::scope(|scope| {
        let followed = scope.spawn(|| feed(&annals, &["--follow", "--max", "3"]));
        for n in 2..=3 {
            let body = format!(r#"{{"events":[{{"payload":{n}}}]}}"#);
            server.post("/v1/journal/Cart%7C1/events", &body).json(201);
        }
        let want = ["Cart|1#1", "Cart|1#2", "Cart|1#3"];
        assert_eq!(names(&followed.join().unwrap()), want);
    });
}

#[test]
fn a_follower_of_the_folder_sees_events_of_its_owner_and_never_keeps_it_from_starting() {
    let annals = Annals::embedded();
    append(&annals, "Cart|1", "t", &["1"]);
    let mut replay = annals.binary(&["replay", "Cart|1", "--follow"]);
    let mut replay = replay.stdout(Stdio::piped()).spawn().unwrap();
    let mut replayed = BufReader::new(replay.stdout.take().unwrap()).lines();
    std::thread::scope(|scope| {
        let followed = scope.spawn(|| feed(&annals, &["--follow", "--max", "5"]));
        for n in [2, 4] {
            // While it is followed, an owner starts, writes and stops, and commands write between.
            let server = Server::start(&annals);
            let body = format!(r#"{{"events":[{{"payload":{n}}}]}}"#);
            server.post("/v1/journal/Cart%7C1/events", &body).json(201);
            assert_eq!(server.stop(), Some(0));
            append(&annals, "Cart|1", "t", &[&(n + 1).to_string()]);
        }
        let payloads = |lines: &[Json]| lines.iter().map(|it| it["payload"].clone()).collect();
        let want: Vec<Json> = (1..=5).map(Json::from).collect();
        let fed: Vec<Json> = payloads(&followed.join().unwrap());
        assert_eq!(fed, want);
        let lines = replayed.by_ref().take(5).map(|line| line.unwrap());
        let lines: Vec<Json> = lines.map(|it| serde_json::from_str(&it).unwrap()).collect();
        let lines: Vec<Json> = payloads(&lines);
        assert_eq!(lines, want);
    });
    replay.kill().unwrap();
    replay.wait().unwrap();
}
