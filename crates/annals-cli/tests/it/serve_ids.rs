//! Listing ids over HTTP: sorted pages by the built-in view on the embedded store, a scan elsewhere.

use crate::run::{Annals, dynamodb};
use crate::serve_client::Server;

const ONE: &str = r#"{"events":[{"payload":1}]}"#;

fn encoded(id: &str) -> String {
    id.replace('|', "%7C")
}

fn append(server: &Server, id: &str) {
    let path = format!("/v1/journal/{}/events", encoded(id));
    server.post(&path, ONE).json(201);
}

fn list(server: &Server, query: &str) -> Vec<String> {
    let lines = server.get(&format!("/v1/journal{query}")).lines();
    let ids = lines.iter().map(|line| line["persistence_id"].as_str());
    ids.map(|id| id.unwrap().to_owned()).collect()
}

/// All ids with a prefix, page by page.
fn pages(server: &Server, prefix: &str, limit: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().map(|id| format!("&after={}", encoded(id)));
        let after = after.unwrap_or_default();
        let query = format!("?prefix={}&limit={limit}{after}", encoded(prefix));
        let page = list(server, &query);
        assert!(page.len() <= limit);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn carts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("Cart|{n:04}")).collect()
}

#[test]
fn ids_are_listed_in_order_with_prefix_after_and_limit() {
    for layout in ["annals", "akka", "j5ik2o"] {
        let annals = Annals::embedded().with_flags(&["--layout", layout]);
        let server = Server::start(&annals);
        assert!(list(&server, "").is_empty());
        let mut all = Vec::new();
        for n in [7, 3, 9, 1, 5] {
            for id in [format!("Cart|p-{n}"), format!("Order|p-{n}")] {
                append(&server, &id);
                all.push(id);
            }
        }
        all.sort();
        assert_eq!(list(&server, ""), all, "{layout}");
        for limit in [1, 3, 100] {
            assert_eq!(pages(&server, "", limit), all);
            assert_eq!(pages(&server, "Order|", limit), all[5..]);
        }
        // After ids that do not exist, or are purged between two pages.
        assert_eq!(list(&server, "?after=Cart%7Cp-4&limit=1"), ["Cart|p-5"]);
        server.delete("/v1/journal/Cart%7Cp-5").json(200);
        assert_eq!(list(&server, "?after=Cart%7Cp-5&limit=1"), ["Cart|p-7"]);
        assert!(list(&server, "?after=Z").is_empty());
        assert!(list(&server, "?prefix=A&after=B").is_empty());
        assert_eq!(list(&server, "?prefix=Order&after=A"), all[5..]);
        assert!(list(&server, "?limit=0").is_empty());
        server.get("/v1/journal?after=").problem(400, "invalid");
        server.get("/v1/journal?limit=-1").problem(400, "invalid");
    }
}

#[test]
fn a_list_has_what_was_acknowledged_before() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..50 {
                    let id = format!("c{client}-{n}");
                    append(server, &id);
                    let query = format!("?prefix={id}&limit=1");
                    assert_eq!(list(server, &query), [id.as_str()]);
                    server.delete(&format!("/v1/journal/{id}")).json(200);
                    assert!(list(server, &format!("?prefix={id}")).is_empty());
                    append(server, &id);
                }
            });
        }
    });
    assert_eq!(list(&server, "").len(), 200);
}

#[test]
fn a_server_that_was_killed_lists_at_once_when_it_is_back() {
    let annals = Annals::embedded();
    let mut all = Vec::new();
    for round in 0..4 {
        let server = Server::start(&annals);
        assert_eq!(list(&server, ""), all, "round {round}");
        for n in 0..30 {
            let id = format!("r{round}-{n:02}");
            append(&server, &id);
            all.push(id);
        }
        if round % 2 == 0 {
            assert_eq!(list(&server, ""), all);
        }
        server.delete(&format!("/v1/journal/{}", all[0])).json(200);
        all.remove(0);
        server.kill();
    }
}

/// As after an upgrade, or after commands that ran without a server.
#[test]
fn ids_of_a_store_without_the_view_are_listed() {
    let annals = Annals::embedded();
    let all = carts(25);
    for id in all.iter().rev() {
        annals.run(&["append", id, "1"]).ok();
    }
    let server = Server::start(&annals);
    assert_eq!(pages(&server, "", 10), all);
    server.kill();
    annals.run(&["append", "Aaa|1", "1"]).ok();
    annals
        .run(&["delete", "Cart|0000", "--purge", "--yes"])
        .ok();
    let server = Server::start(&annals);
    let now = list(&server, "");
    assert_eq!((now[0].as_str(), &now[1..]), ("Aaa|1", &all[1..]));
}

#[test]
fn a_journal_that_is_dropped_and_created_again_lists_new_ids_only() {
    let annals = Annals::served(&[]);
    let server = annals.server().unwrap();
    append(server, "old");
    assert_eq!(list(server, ""), ["old"]);
    annals.run(&["tables", "drop", "--yes"]).ok();
    annals.run(&["tables", "create"]).ok();
    assert!(list(server, "").is_empty());
    append(server, "new");
    assert_eq!(list(server, ""), ["new"]);
}

#[test]
fn writes_through_the_store_are_listed() {
    let annals = Annals::served(&[]);
    annals.run(&["append", "remote", "1"]).ok();
    let server = annals.server().unwrap();
    assert_eq!(list(server, ""), ["remote"]);
    annals.run(&["delete", "remote", "--purge", "--yes"]).ok();
    assert!(list(server, "").is_empty());
}

#[test]
fn the_view_is_not_among_the_projections() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    append(&server, "a");
    assert_eq!(list(&server, ""), ["a"]);
    assert!(server.get("/v1/projections").lines().is_empty());
    let metrics = server.get("/metrics");
    assert!(!metrics.text().contains("annals_projection_lag"));
}

/// DynamoDB has no feed: it is scanned, and the order is the store's.
#[test]
fn a_store_without_a_feed_is_scanned() {
    let annals = Annals::at(&dynamodb());
    annals.run(&["tables", "create"]).ok();
    let server = Server::start(&annals);
    let all = carts(12);
    for id in &all {
        append(&server, id);
    }
    for prefix in ["", "Cart|000"] {
        let mut found = pages(&server, prefix, 5);
        found.sort();
        let wanted = all.iter().filter(|id| id.starts_with(prefix));
        assert_eq!(found, wanted.cloned().collect::<Vec<_>>());
    }
    // Nothing is written for the list.
    let exported = annals.run(&["export", "annals-projection"]);
    exported.fails(2, "annals-projection");
}
