//! `annals group` and `/v1/groups`: consumer groups at the command line and over HTTP.

use std::io::BufReader;

use serde_json::{Value as Json, json};

use crate::run::{Annals, dynamodb};
use crate::serve_client::{Reply, Server, read_chunk, write_request};
use crate::serve_document::check;

fn append(annals: &Annals, id: &str, payloads: &[&str]) {
    let args: Vec<&str> = ["append", id].iter().chain(payloads).copied().collect();
    annals.run(&args).ok();
}

fn group(annals: &Annals, args: &[&str]) -> Vec<Json> {
    let args: Vec<&str> = ["group"].iter().chain(args).copied().collect();
    annals.run(&args).ok().json()
}

/// Which commits were handed out: the id and the sequence numbers of each.
fn names(deliveries: &[Json]) -> Vec<String> {
    let name = |delivery: &Json| {
        let events = delivery["events"].as_array().unwrap().iter();
        let numbers = events.map(|event| event["sequence_number"].to_string());
        let numbers: Vec<String> = numbers.collect();
        let id = delivery["persistence_id"].as_str().unwrap();
        format!("{id}#{}", numbers.join(","))
    };
    deliveries.iter().map(name).collect()
}

fn delivery(line: &Json) -> &str {
    line["delivery"].as_str().unwrap()
}

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
fn members_share_the_commits_and_ids_stay_in_order() {
    on_every_layout(|annals| {
        append(annals, "Cart|1", &["1", "2"]);
        append(annals, "Cart|1", &["3"]);
        append(annals, "Order|1", &["1"]);
        append(annals, "Cart|2", &["1"]);
        let created = group(annals, &["create", "mailer", "--category", "Cart"]);
        assert_eq!(created[0]["settings"]["categories"], json!(["Cart"]));
        assert_eq!(created[0]["lag_events"], 4);

        let first = group(annals, &["next", "mailer", "--max", "1"]);
        assert_eq!(names(&first), ["Cart|1#1,2"]);
        assert_eq!(first[0]["attempt"], 1);
        let replayed = annals.run(&["replay", "Cart|1", "--to", "2"]).ok().json();
        assert_eq!(first[0]["events"], json!(replayed), "as replay prints them");
        let second = group(annals, &["next", "mailer"]);
        assert_eq!(names(&second), ["Cart|2#1"], "one commit of an id");
        assert!(group(annals, &["next", "mailer"]).is_empty());

        let acked = group(annals, &["ack", "mailer", delivery(&first[0])]);
        assert_eq!(
            acked,
            [json!({"delivery": delivery(&first[0]), "outcome": "acked"})]
        );
        let again = group(annals, &["ack", "mailer", delivery(&first[0])]);
        assert_eq!(again[0]["outcome"], "already", "repeatable");
        let third = group(annals, &["next", "mailer"]);
        assert_eq!(names(&third), ["Cart|1#3"]);
        let rest = [delivery(&second[0]), delivery(&third[0])];
        group(annals, &["ack", "mailer", rest[0], rest[1]]);
        let status = group(annals, &["status", "mailer"]);
        assert_eq!(
            (&status[0]["lag_events"], &status[0]["in_flight"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(group(annals, &["list"]), status);
        let after = status[0]["floor"].as_str().unwrap();
        let rest = annals.run(&["feed", "--after", after]).ok().json();
        assert!(rest.is_empty(), "the floor is at the last event: {rest:?}");
    });
}

#[test]
fn refused_commits_become_dead_letters_that_are_retried_or_discarded() {
    on_every_layout(|annals| {
        append(annals, "Cart|1", &["1"]);
        append(annals, "Cart|1", &["2"]);
        append(annals, "Cart|2", &["1"]);
        group(annals, &["create", "mailer", "--retries", "1"]);
        for outcome in ["requeued", "dead_lettered"] {
            let taken = group(annals, &["next", "mailer", "--max", "1", "--member", "me"]);
            assert_eq!(names(&taken), ["Cart|1#1"]);
            let args = [
                "nack",
                "mailer",
                delivery(&taken[0]),
                "--reason",
                "no customer",
            ];
            assert_eq!(group(annals, &args)[0]["outcome"], outcome);
        }
        assert_eq!(names(&group(annals, &["next", "mailer"])), ["Cart|2#1"]);
        let dead = group(annals, &["dead-letters", "mailer"]);
        assert_eq!(dead.len(), 1);
        assert_eq!(
            (&dead[0]["commits"], &dead[0]["reason"]),
            (&json!(2), &json!("no customer"))
        );
        let after = dead[0]["after"].as_str().unwrap();
        let failed = annals
            .run(&["feed", "--after", after, "--max", "1"])
            .ok()
            .json();
        assert_eq!(failed[0]["sequence_number"], dead[0]["sequence_number"]);

        let retried = group(annals, &["retry", "mailer", "Cart|1"]);
        assert_eq!(retried, [json!({"group": "mailer", "retried": 2})]);
        let taken = group(annals, &["next", "mailer"]);
        assert_eq!(names(&taken), ["Cart|1#1"]);
        group(annals, &["ack", "mailer", delivery(&taken[0])]);
        let taken = group(annals, &["next", "mailer"]);
        assert_eq!(names(&taken), ["Cart|1#2"]);
        let discarded = group(annals, &["discard", "mailer"]);
        assert_eq!(discarded, [json!({"group": "mailer", "discarded": 1})]);
        assert!(group(annals, &["dead-letters", "mailer"]).is_empty());
        assert_eq!(group(annals, &["status", "mailer"])[0]["dead_letters"], 0);
    });
}

#[test]
fn an_unacknowledged_delivery_comes_again_and_the_old_one_is_a_conflict() {
    for annals in [Annals::embedded(), Annals::served(&[])] {
        append(&annals, "Cart|1", &["1"]);
        group(&annals, &["create", "mailer", "--ack-ms", "1"]);
        let first = group(&annals, &["next", "mailer"]);
        let second = group(&annals, &["next", "mailer"]);
        assert_eq!(names(&first), names(&second));
        assert_eq!(second[0]["attempt"], 2);
        let late = annals.run(&["group", "ack", "mailer", delivery(&first[0])]);
        let late = late.fails(3, "1 delivery too late or unknown");
        assert_eq!(late.json()[0]["outcome"], "expired");
        group(&annals, &["ack", "mailer", delivery(&second[0])]);
    }
}

#[test]
fn deleted_events_are_counted_as_missed() {
    let annals = Annals::embedded();
    append(&annals, "Cart|1", &["1"]);
    append(&annals, "Cart|1", &["2"]);
    group(&annals, &["create", "mailer"]);
    annals
        .run(&["delete", "Cart|1", "--to", "1", "--erase"])
        .ok();
    assert_eq!(names(&group(&annals, &["next", "mailer"])), ["Cart|1#2"]);
    assert_eq!(group(&annals, &["status", "mailer"])[0]["missed"], 1);
}

#[test]
fn wrong_calls_say_what_to_do() {
    for annals in [Annals::embedded(), Annals::served(&[])] {
        append(&annals, "Cart|1", &["1"]);
        for args in [
            vec!["status", "none"],
            vec!["next", "none"],
            vec!["ack", "none", "0-1-0000000000000001"],
            vec!["nack", "none", "0-1-0000000000000001"],
            vec!["dead-letters", "none"],
            vec!["retry", "none"],
            vec!["discard", "none", "Cart|1"],
            vec!["delete", "none"],
        ] {
            let args: Vec<&str> = ["group"].into_iter().chain(args).collect();
            annals
                .run(&args)
                .fails(1, "there is no such group. group=`none`");
        }
        assert!(group(&annals, &["list"]).is_empty());
        let create = |args: &[&str]| {
            let args: Vec<&str> = ["group", "create"].iter().chain(args).copied().collect();
            annals.run(&args)
        };
        create(&["a b"]).fails(2, "1 to 100 letters");
        create(&["g", "--in-flight", "0"]).fails(2, "in_flight must be 1 to 1000");
        create(&["g", "--ack-ms", "0"]).fails(2, "ack_ms must be 1 to");
        create(&["g", "--retries", "1001"]).fails(2, "retries must be 0 to 1000");
        create(&["g", "--start", "12"]).fails(2, "a group starts at");
        create(&["g", "--start", "1.0:1"]).fails(2, "another store's feed");
        create(&["g", "--slices", "9-3"]).fails(2, "like 0-511");
        create(&["g", "--category", "Cart", "--start", "now"]).ok();
        create(&["g", "--category", "Cart", "--start", "now"]).ok();
        create(&["g", "--retries", "3"]).ok();
        create(&["g", "--category", "Order"]).fails(2, "the filter of a group cannot be changed");
        create(&["g", "--start", "start"]).fails(2, "the start of a group cannot be changed");
        annals
            .run(&["group", "next", "g", "--max", "1001"])
            .fails(2, "take 1 to 1000");
        annals
            .run(&["group", "ack", "g", "12"])
            .fails(2, "copy it from `annals group next`");
        let unknown = annals.run(&["group", "ack", "g", "0-999999-0000000000000001"]);
        assert_eq!(unknown.fails(3, "unknown").json()[0]["outcome"], "unknown");
        assert!(group(&annals, &["next", "g"]).is_empty(), "it starts now");
        append(&annals, "Cart|1", &["2"]);
        assert_eq!(names(&group(&annals, &["next", "g"])), ["Cart|1#2"]);
        group(&annals, &["delete", "g"]);
        annals
            .run(&["group", "status", "g"])
            .fails(1, "no such group");
    }
}

#[test]
fn dynamodb_has_no_groups_yet() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create"]).ok();
    let created = annals.run(&["group", "create", "mailer"]);
    created.fails(2, "this store has no feed");
    assert!(group(&annals, &["list"]).is_empty());
}

/// A server with three commits.
fn served() -> (Annals, Server) {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    for (id, body) in [
        ("Cart%7C1", r#"{"events":[{"payload":1},{"payload":2}]}"#),
        ("Cart%7C1", r#"{"events":[{"payload":3}]}"#),
        ("Order%7C1", r#"{"events":[{"payload":4,"tags":["t"]}]}"#),
    ] {
        let path = format!("/v1/journal/{id}/events");
        server.post(&path, body).json(201);
    }
    (annals, server)
}

const G: &str = "/v1/groups/mailer";

fn next(server: &Server, query: &str) -> Vec<Json> {
    let path = format!("{G}/next{query}");
    server.send("POST", &path, &[]).lines()
}

fn settle(server: &Server, verb: &str, deliveries: &[&str]) -> Vec<String> {
    let body = json!({ "deliveries": deliveries });
    let path = format!("{G}/{verb}");
    let reply = server.post(&path, &body.to_string()).json(200);
    let outcomes = reply["deliveries"].as_array().unwrap().iter();
    let outcomes = outcomes.map(|it| it["outcome"].as_str().unwrap().to_owned());
    outcomes.collect()
}

/// After a dead letter, and nothing left.
#[track_caller]
fn check_metrics(server: &Server) {
    let metrics = server.get("/metrics");
    for line in [
        "annals_group_lag_events{group=\"mailer\"} 0",
        "annals_group_dead_letters{group=\"mailer\"} 1",
        "annals_group_in_flight{group=\"mailer\"} 0",
        "annals_group_lag_seconds{group=\"mailer\"} 0",
    ] {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
}

#[test]
fn groups_are_served() {
    let (_annals, server) = served();
    assert!(server.get("/v1/groups").lines().is_empty());
    let created = server.put(G, r#"{"in_flight":10,"retries":0}"#).json(200);
    assert_eq!(created["settings"]["in_flight"], 10);
    assert_eq!(created["lag_events"], 4);
    let document = server.get("/openapi.json").json(200);
    check(&document, "Group", &created);
    let settings = created["settings"].to_string();
    let repeated = server.put(G, &settings).json(200);
    assert_eq!(repeated["settings"], created["settings"], "repeatable");
    let problem = server
        .put(G, r#"{"category":"Cart"}"#)
        .problem(400, "invalid");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("the filter of a group cannot be changed"),
        "{detail}"
    );

    let taken = next(&server, "?max=5&member=m1");
    assert_eq!(names(&taken), ["Cart|1#1,2", "Order|1#1"]);
    check(&document, "Delivery", &taken[0]);
    let both = [
        delivery(&taken[0]),
        "nonsense",
        delivery(&taken[1]),
        "0-9999-0000000000000001",
    ];
    assert_eq!(
        settle(&server, "ack", &both),
        ["acked", "unknown", "acked", "unknown"]
    );
    let taken = next(&server, "");
    assert_eq!(names(&taken), ["Cart|1#3"]);
    assert_eq!(
        settle(&server, "nack", &[delivery(&taken[0])]),
        ["dead_lettered"]
    );
    assert_eq!(settle(&server, "ack", &[delivery(&taken[0])]), ["expired"]);
    let dead = server.get(&format!("{G}/dead-letters")).lines();
    assert_eq!(
        (&dead[0]["persistence_id"], &dead[0]["commits"]),
        (&json!("Cart|1"), &json!(1))
    );
    check(&document, "GroupDeadLetters", &dead[0]);
    check_metrics(&server);
    let retry = |path: &str| server.send("POST", &format!("{G}/dead-letters/{path}"), &[]);
    assert_eq!(
        retry("retry?persistence_id=Cart%7C9").json(200)["retried"],
        0
    );
    assert_eq!(
        retry("retry?persistence_id=Cart%7C1").json(200)["retried"],
        1
    );
    assert_eq!(names(&next(&server, "")), ["Cart|1#3"]);
    assert_eq!(retry("discard").json(200)["discarded"], 1);
    let status = server.get(G).json(200);
    assert_eq!(server.get("/v1/groups").lines()[0], status);
    assert_eq!(
        (&status["in_flight"], &status["dead_ids"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        server.delete(G).json(200),
        json!({"group": "mailer", "deleted": true})
    );
    server.get(G).problem(404, "absent");
}

#[test]
fn wrong_requests_are_problems() {
    let (_annals, server) = served();
    for (method, path) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/next"),
        ("POST", "/next?wait=100"),
        ("GET", "/dead-letters"),
        ("POST", "/dead-letters/retry"),
        ("POST", "/dead-letters/discard"),
    ] {
        let reply = server.send(method, &format!("{G}{path}"), &[]);
        reply.problem(404, "absent");
    }
    for verb in ["ack", "nack"] {
        let reply = server.post(&format!("{G}/{verb}"), r#"{"deliveries":[]}"#);
        reply.problem(404, "absent");
    }
    for body in [
        r#"{"in_flight":0}"#,
        r#"{"in_flight":1001}"#,
        r#"{"ack_ms":0}"#,
        r#"{"ack_ms":86400001}"#,
        r#"{"retries":99999999999}"#,
        r#"{"slices":"9-3"}"#,
        r#"{"start":"1.0:1"}"#,
        r#"{"start":"soon"}"#,
        r#"{"unknown":1}"#,
        r#"{"retries":null}"#,
    ] {
        server.put(G, body).problem(400, "invalid");
    }
    server.put("/v1/groups/a%20b", "{}").problem(400, "invalid");
    server.put(G, "{}").json(200);
    for query in ["max=0", "max=1001", "wait=300001", "wait=x", "other=1"] {
        let reply = server.send("POST", &format!("{G}/next?{query}"), &[]);
        reply.problem(400, "invalid");
    }
    let member = format!("{G}/next?member={}", "m".repeat(65));
    server.send("POST", &member, &[]).problem(400, "invalid");
    let many = json!({"deliveries": vec!["x"; 1001]}).to_string();
    server
        .post(&format!("{G}/ack"), &many)
        .problem(400, "invalid");
}

#[test]
fn a_member_waits_for_an_append_an_ack_and_a_deadline() {
    let (_annals, server) = served();
    server.put(G, r#"{"start":"now","ack_ms":400}"#).json(200);
    let append = || {
        let body = r#"{"events":[{"payload":5}]}"#;
        server.post("/v1/journal/Cart%7C1/events", body).json(201);
    };
    assert!(next(&server, "?wait=50").is_empty(), "the wait is over");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| next(&server, "?wait=60000"));
        append();
        let taken = waiting.join().unwrap();
        assert_eq!(names(&taken), ["Cart|1#4"]);
        append();
        // The same id is in flight: its deadline brings it again.
        let again = next(&server, "?wait=60000");
        assert_eq!(
            (names(&again), &again[0]["attempt"]),
            (names(&taken), &json!(2))
        );
        let waiting = scope.spawn(|| next(&server, "?wait=60000"));
        assert_eq!(settle(&server, "ack", &[delivery(&again[0])]), ["acked"]);
        assert_eq!(names(&waiting.join().unwrap()), ["Cart|1#5"]);
    });
}

#[test]
fn a_server_that_stops_ends_the_wait() {
    let (_annals, server) = served();
    server.put(G, r#"{"start":"now"}"#).json(200);
    let mut stream = server.connect();
    let path = format!("{G}/next?wait=300000");
    write_request(&mut stream, ("POST", &path), &[], b"");
    let mut stream = BufReader::new(stream);
    let head = Reply::read_head(&mut stream).unwrap();
    assert_eq!(head.status, 200, "the response begins at once");
    server.terminate();
    assert_eq!(
        read_chunk(&mut stream).unwrap(),
        None,
        "and ends as a whole"
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn groups_survive_a_restart() {
    let (annals, server) = served();
    server.put(G, "{}").json(200);
    let taken = next(&server, "?max=1");
    server.kill();
    let server = Server::start(&annals);
    assert_eq!(settle(&server, "ack", &[delivery(&taken[0])]), ["acked"]);
    assert_eq!(names(&next(&server, "")), ["Cart|1#3", "Order|1#1"]);
}
