//! `annals projection`: what operators see of projections, and what they do with them. The projections
//! run in this process (`projection_programs`), which closes the folder before a command writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use annals::projection::{OnPoison, ProjectionStatus};
use annals::{Clock, SystemClock};
use annals_jvm::LayoutName;
use serde_json::{Value as Json, json};

use crate::projection_programs::{
    CartEvent, LAYOUTS, OpenCarts, append, fill, in_store, run_program, settings, sleep_ms, until,
};
use crate::run::{Annals, Outcome, dynamodb};
use crate::serve_client::Server;

/// Runs commands in the folder itself, or beside a server.
struct Runs<'a> {
    annals: &'a Annals,
    server: Option<Server>,
}

impl Runs<'_> {
    fn run(&self, args: &[&str]) -> Outcome {
        let url = self.server.as_ref();
        let url = url.map(|server| format!("http://{}", server.address));
        let server = url.iter().flat_map(|url| ["--server", url.as_str()]);
        let args = server.chain(["projection"]).chain(args.iter().copied());
        self.annals.run(&args.collect::<Vec<_>>())
    }

    fn json(&self, args: &[&str]) -> Vec<Json> {
        self.run(args).ok().json()
    }

    fn status(&self, name: &str) -> Json {
        self.json(&["status", name]).remove(0)
    }
}

/// The scenario in a folder of every layout, and beside a server on one.
fn on_every_layout(scenario: impl Fn(&Runs<'_>)) {
    for (layout, name) in LAYOUTS {
        for is_served in [false, true] {
            let annals = Annals::embedded().with_flags(&["--layout", name]);
            fill(&annals, layout);
            let server = is_served.then(|| Server::start_with(&annals, &["--no-sweep"], None));
            scenario(&Runs {
                annals: &annals,
                server,
            });
        }
    }
}

fn named<'a>(lines: &'a [Json], name: &str) -> &'a Json {
    lines.iter().find(|line| line["name"] == name).unwrap()
}

#[test]
fn a_list_has_the_state_and_the_lag_of_every_projection() {
    on_every_layout(|runs| {
        let all = runs.json(&["list"]);
        let names: Vec<_> = all.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mails", "open-carts", "search"]);
        let of = |name: &str, member: &str| named(&all, name)[member].clone();
        let carts = json!({
            "name": "open-carts", "kind": "view", "state": "idle", "live": 1, "revision": 1,
            "building": null, "lag_events": 0, "lag_ms": 0, "dead_letters": 0, "stopped_shares": 0,
        });
        assert_eq!(*named(&all, "open-carts"), carts);
        assert_eq!(of("mails", "kind"), "handler");
        // The broken event, and the one after it.
        assert_eq!(of("mails", "dead_letters"), 2);
        assert_eq!(of("search", "state"), "stopped");
        assert_eq!(of("search", "stopped_shares"), 1);
        // It has handled three events before the broken one.
        assert_eq!(of("search", "lag_events"), 4);
        assert!(of("search", "lag_ms").as_u64().unwrap() > 0);
    });
}

#[test]
fn lag_grows_with_events_that_nobody_handles() {
    on_every_layout(|runs| {
        let before = runs.status("open-carts");
        assert_eq!(before["builds"][0]["lag_events"], 0);
        for n in 1..=3 {
            let append = ["append", "Cart|4", &n.to_string()];
            let server = runs.server.as_ref();
            let url = server.map(|it| format!("http://{}", it.address));
            let flags = url.iter().flat_map(|url| ["--server", url.as_str()]);
            let args: Vec<&str> = append.into_iter().chain(flags).collect();
            runs.annals.run(&args).ok();
        }
        let after = runs.status("open-carts");
        let build = &after["builds"][0];
        assert_eq!(build["lag_events"], 3);
        assert!(build["lag_ms"].as_u64().unwrap() > 0);
        let shares = build["shares"].as_array().unwrap();
        let lags = shares
            .iter()
            .map(|share| share["lag_events"].as_u64().unwrap());
        assert_eq!(lags.collect::<BTreeSet<_>>(), BTreeSet::from([0, 3]));
    });
}

#[test]
fn a_status_has_builds_and_shares_and_why_one_is_stopped() {
    on_every_layout(|runs| {
        let search = runs.status("search");
        assert_eq!(search["state"], "stopped");
        assert_eq!(search["paused"], false);
        let share = &search["builds"][0]["shares"][0];
        assert_eq!(share["handled"], 3);
        assert_eq!(share["owner"], Json::Null);
        let why = share["stopped"].as_str().unwrap();
        for part in ["the cart is broken", "id=`Cart|2`", "number=`2`"] {
            assert!(why.contains(part), "{why}");
        }
        let carts = runs.status("open-carts");
        let build = &carts["builds"][0];
        assert_eq!(build["handled"], 7);
        assert_eq!(build["stage"], "live");
        let shares = build["shares"].as_array().unwrap();
        assert_eq!(shares.len(), 2);
        let position = shares[0]["position"].as_str().unwrap();
        assert!(position.contains(".0:"), "{position}");
        assert!(!carts.to_string().contains("stopped\":"), "{carts}");
    });
}

#[test]
fn an_unknown_projection_is_absent() {
    on_every_layout(|runs| {
        for args in [
            &["status", "orders"][..],
            &["pause", "orders"],
            &["resume", "orders"],
            &["rebuild", "orders"],
            &["switch", "orders"],
            &["dead-letters", "orders"],
            &["dead-letters", "orders", "--retry"],
            &["dead-letters", "orders", "--discard", "--id", "Cart|1"],
        ] {
            let outcome = runs.run(args);
            assert_eq!(outcome.out, "");
            outcome.fails(
                1,
                "there is no such projection; see `annals projection list`",
            );
        }
        let misspelt = runs.run(&["status", "a b"]);
        misspelt.fails(2, "a name has 1 to 100 letters");
    });
}

/// Before the first start there is no table of projections.
#[test]
fn a_store_without_projections_has_an_empty_list() {
    let annals = Annals::embedded();
    annals
        .run(&["projection", "list"])
        .fails(2, "there is no store in this folder");
    annals.run(&["tables", "create"]).ok();
    assert_eq!(annals.run(&["projection", "list"]).ok().out, "");
    annals
        .run(&["projection", "pause", "carts"])
        .fails(1, "there is no such projection");
}

#[test]
fn a_paused_projection_handles_nothing_until_it_is_resumed() {
    on_every_layout(|runs| {
        let paused = runs.json(&["pause", "open-carts"]);
        assert_eq!(
            paused,
            [json!({"projection": "open-carts", "paused": true})]
        );
        let again = runs.json(&["pause", "open-carts"]);
        assert_eq!(again, paused);
        let status = runs.status("open-carts");
        assert_eq!(
            (&status["state"], &status["paused"]),
            (&json!("paused"), &json!(true))
        );
        assert_eq!(
            named(&runs.json(&["list"]), "open-carts")["state"],
            "paused"
        );
        let resumed = runs.json(&["resume", "open-carts"]);
        assert_eq!(
            resumed,
            [json!({"projection": "open-carts", "paused": false})]
        );
        assert_eq!(runs.status("open-carts")["state"], "idle");
    });
}

/// The program reads what the command wrote.
#[test]
fn programs_do_as_the_commands_say() {
    for (layout, name) in LAYOUTS {
        let annals = Annals::embedded().with_flags(&["--layout", name]);
        fill(&annals, layout);
        let run = |args: &[&str]| annals.run(&[&["projection"], args].concat());
        run(&["pause", "open-carts"]).ok();
        in_store(&annals, layout, async |library| {
            let view = library.projections().view::<OpenCarts>();
            let view = view.settings(settings(OnPoison::Stop)).start();
            let view = view.await.unwrap();
            append(library, "Cart|5", &[CartEvent::Added]).await;
            // A few of its ticks.
            SystemClock::new().sleep(Duration::from_millis(500)).await;
            until(library, "open-carts", |it| it.builds[0].lag_events == 1).await;
            view.stop().await;
        });
        run(&["resume", "open-carts"]).ok();

        let rebuilt = run(&["rebuild", "open-carts"]).ok().json();
        assert_eq!(rebuilt, [json!({"projection": "open-carts", "build": 2})]);
        run(&["rebuild", "open-carts"]).fails(2, "a build is being made already");
        // Less than a second late counts as caught up.
        sleep_ms(1_100);
        run(&["switch", "open-carts"]).fails(2, "the build has not caught up yet");
        let list = run(&["list"]).ok().json();
        let carts = named(&list, "open-carts");
        assert_eq!((&carts["live"], &carts["building"]), (&json!(1), &json!(2)));
        run(&["dead-letters", "mails", "--retry"]).ok();
        in_store(&annals, layout, async |library| {
            run_program(library, true).await
        });
        let switched = run(&["switch", "open-carts"]).ok().json();
        assert_eq!(switched, rebuilt);
        run(&["switch", "open-carts"]).fails(2, "no build is being made");
        let status = run(&["status", "open-carts"]).ok().json();
        let stages = status[0]["builds"].as_array().unwrap();
        let stages: Vec<_> = stages
            .iter()
            .map(|it| (&it["stage"], &it["handled"]))
            .collect();
        let want = [(&json!("retired"), &json!(8)), (&json!("live"), &json!(8))];
        assert_eq!(stages, want);
        assert_eq!(run(&["dead-letters", "mails"]).ok().out, "");
        let all = run(&["list"]).ok().json();
        assert_eq!(named(&all, "mails")["dead_letters"], 0);
        assert_eq!(named(&all, "search")["state"], "idle");
    }
}

#[test]
fn a_handler_is_not_rebuilt_and_a_view_without_a_new_build_is_not_switched() {
    on_every_layout(|runs| {
        runs.run(&["rebuild", "mails"])
            .fails(2, "only views are rebuilt");
        runs.run(&["switch", "mails"])
            .fails(2, "no build is being made");
    });
}

#[test]
fn dead_letters_are_listed_by_id_and_retried_or_discarded() {
    on_every_layout(|runs| {
        let letters = runs.json(&["dead-letters", "mails"]);
        assert_eq!(letters.len(), 1);
        let letter = &letters[0];
        for (member, want) in [
            ("build", json!(1)),
            ("share", json!(0)),
            ("persistence_id", json!("Cart|2")),
            ("from", json!(2)),
            ("to", json!(3)),
            ("events", json!(2)),
        ] {
            assert_eq!(letter[member], want, "{letter}");
        }
        let reason = letter["reason"].as_str().unwrap();
        assert!(reason.contains("the cart is broken"), "{reason}");
        assert!(letter["since_ms"].as_u64().unwrap() > 0);
        let of_id = runs.json(&["dead-letters", "mails", "--id", "Cart|2"]);
        assert_eq!(of_id, letters);
        for args in [&["--id", "Cart|9"][..], &["--id", "Cart|9", "--retry"]] {
            let outcome = runs.run(&[&["dead-letters", "mails"], args].concat());
            outcome.fails(1, "there are no dead letters of this id. id=`Cart|9`");
        }
        assert_eq!(runs.run(&["dead-letters", "open-carts"]).ok().out, "");
        let none = runs.json(&["dead-letters", "open-carts", "--discard"]);
        let want =
            json!({"projection": "open-carts", "requested": "discard", "ids": 0, "events": 0});
        assert_eq!(none, [want]);
        let both = runs.run(&["dead-letters", "mails", "--retry", "--discard"]);
        both.fails(2, "cannot be used with");
        let discard = ["dead-letters", "mails", "--discard", "--id", "Cart|2"];
        let want = json!({"projection": "mails", "requested": "discard", "ids": 1, "events": 2});
        assert_eq!(runs.json(&discard), [want]);
        // It was asked of the programs that run it; here is none.
        assert_eq!(runs.json(&["dead-letters", "mails"]), letters);
    });
}

#[test]
fn discarded_dead_letters_are_missed_and_later_events_are_handled() {
    let annals = Annals::embedded();
    fill(&annals, LayoutName::Annals);
    let args = ["projection", "dead-letters", "mails", "--discard"];
    annals.run(&args).ok();
    in_store(&annals, LayoutName::Annals, async |library| {
        run_program(library, true).await;
        append(library, "Cart|2", &[CartEvent::Added]).await;
        run_program(library, true).await;
    });
    let status = annals.run(&["projection", "status", "mails"]).ok().json();
    let build = &status[0]["builds"][0];
    let counts = ["handled", "missed", "dead_letters"].map(|name| build[name].clone());
    assert_eq!(counts, [json!(6), json!(2), json!(0)]);
}

/// The files of a folder with their bytes, without those that readers make for themselves.
fn files(folder: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("readers") => {}
            true => files(&path, all),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                all.insert(path.display().to_string(), bytes);
            }
        }
    }
}

#[test]
fn commands_that_read_change_nothing_and_need_no_lock() {
    let annals = Annals::embedded();
    fill(&annals, LayoutName::Annals);
    let read = |annals: &Annals| {
        let all = annals.run(&["projection", "list"]).ok().json();
        assert_eq!(all.len(), 3);
        annals.run(&["projection", "status", "search"]).ok();
        let letters = annals.run(&["projection", "dead-letters", "mails"]).ok();
        assert_eq!(letters.json().len(), 1);
    };
    let data = annals.folder().join("annals-data");
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    files(&data, &mut before);
    read(&annals);
    files(&data, &mut after);
    assert!(before == after);
    // Beside a program that has the folder open, which need not be a server.
    in_store(&annals, LayoutName::Annals, async |library| {
        let status = || {
            annals
                .run(&["projection", "status", "open-carts"])
                .ok()
                .json()
        };
        append(library, "Cart|1", &[CartEvent::Added]).await;
        tokio::task::block_in_place(|| {
            read(&annals);
            assert_eq!(status()[0]["builds"][0]["lag_events"], 1);
        });
        let view = library.projections().view::<OpenCarts>();
        let view = view.settings(settings(OnPoison::Stop)).start();
        let view = view.await.unwrap();
        view.caught_up().await.unwrap();
        let is_saved = |it: &ProjectionStatus| it.builds[0].lag_events == 0;
        until(library, "open-carts", is_saved).await;
        tokio::task::block_in_place(|| {
            let status = status();
            assert_eq!(status[0]["state"], "running");
            for share in status[0]["builds"][0]["shares"].as_array().unwrap() {
                assert_eq!(share["lag_events"], 0);
                assert!(share["owner"].is_string(), "{share}");
            }
            annals
                .run(&["projection", "pause", "mails"])
                .fails(4, "another process has this store open");
        });
        view.stop().await;
    });
}

#[test]
fn the_cost_is_the_last_line() {
    on_every_layout(|runs| {
        for args in [
            &["list"][..],
            &["status", "mails"],
            &["pause", "mails"],
            &["dead-letters", "mails"],
            &["dead-letters", "mails", "--retry"],
        ] {
            let lines = runs.json(&[args, &["--cost"]].concat());
            let cost = &lines.last().unwrap()["cost"];
            assert!(cost["requests"].as_u64().unwrap() > 0, "{lines:?}");
        }
    });
}

/// Copies the table of projections from an embedded store to one that has no feed.
fn without_a_feed() -> Annals {
    let from = Annals::embedded();
    fill(&from, LayoutName::Annals);
    let items = from.run(&["export", "annals-projection"]).ok().out;
    let call = |server: &Server, body: &str| server.post("/v1/items", body).json(200);
    let server = Server::start(&from);
    let describe = r#"{"describe_table":{"name":"annals-projection"}}"#;
    let described = call(&server, describe);
    let table = &described["described"]["table"];
    let to = Annals::at(&dynamodb());
    to.run(&["tables", "create"]).ok();
    let create = json!({"create_table": {"table": table, "billing": "on_demand"}});
    call(&Server::start(&to), &create.to_string());
    to.run_with(&["import", "annals-projection"], items).ok();
    to
}

#[test]
fn without_a_feed_projections_are_paused_and_resumed_but_have_no_lag() {
    let annals = without_a_feed();
    let run = |args: &[&str]| annals.run(&[&["projection"], args].concat());
    let paused = run(&["pause", "mails"]).ok().json();
    assert_eq!(paused, [json!({"projection": "mails", "paused": true})]);
    run(&["resume", "mails"]).ok();
    run(&["pause", "orders"]).fails(1, "there is no such projection");
    assert_eq!(run(&["dead-letters", "mails"]).ok().json().len(), 1);
    run(&["dead-letters", "mails", "--discard"]).ok();
    for args in [
        &["list"][..],
        &["status", "mails"],
        &["rebuild", "open-carts"],
    ] {
        run(args).fails(2, "this store has no feed");
    }
    let server = Server::start(&annals);
    let paused = server.post("/v1/projections/mails/pause", "").json(200);
    assert_eq!(paused["paused"], true);
    let problem = server.get("/v1/projections").problem(400, "invalid");
    assert!(problem.to_string().contains("no feed"), "{problem}");
    let metrics = server.get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(!metrics.text().contains("annals_projection"));
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn people_see_tables() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    let shown = |args: &[&str]| -> Vec<String> {
        let args = [&["projection"], args].concat();
        let shown = annals.run_at_terminal(&args, "");
        let lines = shown.out.lines();
        lines.map(|line| line.trim_end().to_owned()).collect()
    };
    annals.run(&["tables", "create"]).ok();
    let none = "annals: there are no projections; the first start of one registers it";
    assert_eq!(shown(&["list"]), [none]);
    fill(&annals, LayoutName::Annals);
    let list = shown(&["list"]);
    let header = "PROJECTION  KIND     STATE    BUILD  REVISION  LAG  TIME LAG  DEAD LETTERS";
    assert_eq!(list[0], header);
    assert_eq!(
        list[2],
        "open-carts  view     idle     1      1         0    0 s       0"
    );
    let status = shown(&["status", "open-carts"]);
    assert_eq!(status[0], "open-carts (view) is idle: no program runs it");
    let build = "1      1         live   7        0    0 s       0             0";
    assert_eq!(status[3], build);
    assert_eq!(status.len(), 8, "{status:?}");
    let status = shown(&["status", "search"]);
    let why = "share 0 of build 1 is stopped, and tries again from time to time: an event cannot be handled";
    assert!(status.last().unwrap().starts_with(why), "{status:?}");
    let letters = shown(&["dead-letters", "mails"]);
    let header = [
        "BUILD",
        "SHARE",
        "EVENTS",
        "NUMBERS",
        "SINCE",
        "PERSISTENCE",
        "ID",
        "REASON",
    ];
    let words: Vec<&str> = letters[0].split_whitespace().collect();
    assert_eq!(words, header);
    assert!(
        letters[1].starts_with("1      0      2       2-3"),
        "{letters:?}"
    );
    let retried = shown(&["dead-letters", "mails", "--retry"]);
    let text = "2 dead letters of 1 id will be retried by the programs that run mails";
    assert_eq!(retried, [text]);
    let none = shown(&["dead-letters", "open-carts"]);
    assert_eq!(none, ["annals: there are no dead letters"]);
}
