//! `--cost` of every command: the numbers of the library's cost tests
//! (`crates/annals/tests/it/journal_cost.rs`), on every store.
//!
//! Events as there: the id `Cart|0123456789abcdef`, the manifest `ItemAdded`, schema 1, a JSON
//! payload of 200 B.

use std::sync::Arc;

use annals::items::{Items, Scan, item_to_json, scan_all};
use annals::journal::Expected;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{Codec, ManualClock, NewEvent, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::TryStreamExt;
use serde_json::json;

use crate::journal::{ANNALS, with_five_on};
use crate::run::{Annals, on_every_store};

const ID: &str = "Cart|0123456789abcdef";
const PAYLOAD_BYTES: usize = 200;

fn payload(text: &str) -> String {
    let mut payload = format!(r#"{{"t":"{text}"#);
    payload.truncate(PAYLOAD_BYTES - 2);
    payload.push_str(r#""}"#);
    assert_eq!(payload.len(), PAYLOAD_BYTES);
    payload
}

/// Incompressible base64.
fn plain(random: &Random) -> String {
    let noise: Vec<u8> = (0..24).flat_map(|_| random.bits().to_le_bytes()).collect();
    payload(&BASE64.encode(noise))
}

/// Equal to the next one except for a number.
fn alike(n: u64) -> String {
    let text = "article of the catalogue, ".repeat(10);
    payload(&format!("{n:08}{text}"))
}

/// Requests, write units and read units from the last line.
fn cost(annals: &Annals, args: &[&str], input: &str) -> (u64, u64, u64) {
    let lines = annals.run_with(&[args, &["--cost"]].concat(), input);
    let line = lines.ok().json().pop().unwrap();
    let of = |name: &str| line["cost"][name].as_u64().unwrap();
    (of("requests"), of("write_units"), of("read_units"))
}

/// The lines of an `annals export` of a journal with these events, `each` to an append. Made in
/// memory, which is faster than on a disk.
async fn journal_of(events: Vec<String>, each: usize) -> String {
    let settings = AnyLayout::default();
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let table = settings.tables().unwrap().journal;
    let created = items.create_table(&table, Default::default());
    created.await.unwrap();
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let store = store(items.clone(), clock, Random::seeded(1));
    let journal = settings.journal(&store);
    let journal = journal.await.unwrap();
    let (id, mut last): (PersistenceId, u64) = (ID.parse().unwrap(), 0);
    for chunk in events.chunks(each) {
        let event = |payload: &String| {
            let event = NewEvent::new(Codec::Json, payload.clone());
            event.manifest("ItemAdded").schema(1)
        };
        let chunk: Vec<NewEvent> = chunk.iter().map(event).collect();
        let expected = SequenceNumber::new(last).map_or(Expected::Empty, Expected::Last);
        let appended = journal.append(&id, expected, chunk).await.unwrap();
        last = appended.last.get();
    }
    let all = scan_all(items, Arc::new(table), Scan::whole());
    let line = |item| format!("{}\n", json!({"Item": item_to_json(&item)}));
    all.map_ok(line).try_collect().await.unwrap()
}

/// Every store in turn, holding a journal of these events, `each` to an append.
fn with_journal(events: Vec<String>, each: usize, check: impl Fn(&Annals)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let lines = runtime.unwrap().block_on(journal_of(events, each));
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let import = ["import", "annals-journal", "--replace"];
        annals.run_with(&import, &lines).ok();
        check(annals);
    });
}

fn plains(count: u64) -> Vec<String> {
    let random = Random::seeded(1);
    (0..count).map(|_| plain(&random)).collect()
}

#[test]
fn costs_are_those_of_the_operation() {
    with_five_on(ANNALS, |annals| {
        let check = |args: &[&str], want| assert_eq!(cost(annals, args, ""), want, "{args:?}");
        check(&["append", "new", "--expect", "0", "{}"], (1, 1, 0));
        check(&["replay", "Cart|1"], (1, 0, 1));
        check(&["highest", "Cart|1"], (1, 0, 1));
        check(&["snapshot", "save", "new", "--at", "1", "{}"], (1, 1, 0));
        check(&["snapshot", "load", "new"], (1, 0, 1));
        check(&["state", "put", "a", "--revision", "1", "{}"], (1, 1, 0));
        check(&["state", "get", "a"], (1, 0, 1));
    });
}

#[test]
fn reads_without_a_result_have_a_cost() {
    with_five_on(ANNALS, |annals| {
        for (args, requests) in [
            (&["highest", "nobody"][..], 1),
            // Nothing found, and nothing ever appended.
            (&["replay", "nobody"], 2),
            (&["snapshot", "load", "nobody"], 1),
            (&["state", "get", "nobody"], 1),
        ] {
            let outcome = annals.run(&[args, &["--cost"]].concat());
            assert_eq!(outcome.code, Some(1));
            let cost = &outcome.json()[0]["cost"];
            assert_eq!(cost["requests"], requests, "{args:?}");
        }
    });
}

#[test]
fn appending_ten_costs_one_request_and_two_units_or_one() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let check = |expect: &str, events: Vec<String>, want| {
            let known = ["--manifest", "ItemAdded", "--schema", "1"];
            let args = [&["append", ID, "--expect", expect], &known[..]].concat();
            assert_eq!(cost(annals, &args, &events.join("\n")), want);
        };
        check("0", plains(10), (1, 2, 0));
        // A new process must read the end first.
        check("10", (0..10).map(alike).collect(), (2, 1, 1));
        check("20", plains(1), (2, 1, 1));
    });
}

#[test]
fn recovering_a_hundred_costs_what_it_reads() {
    with_journal(plains(100), 1, |annals| {
        let check = |args: &[&str], want| assert_eq!(cost(annals, args, ""), want, "{args:?}");
        check(&["replay", ID], (1, 0, 7));
        check(&["replay", ID, "--max", "1"], (1, 0, 2));
        // As after a snapshot.
        check(&["replay", ID, "--from", "91"], (1, 0, 1));
        check(&["highest", ID], (1, 0, 1));
    });
}

/// The cost of an empty query: a unit, but nothing on DynamoDB Local.
fn of_nothing(annals: &Annals) -> u64 {
    let is_on_dynamodb = annals.store_args().iter().any(|arg| arg == "--dynamodb");
    let is_server = std::env::var("ANNALS_TEST_DYNAMODB").is_ok();
    u64::from(!(is_on_dynamodb && is_server))
}

#[test]
fn recovering_ten_thousand_costs_what_it_reads() {
    with_journal(plains(10_000), 1, |annals| {
        let nothing = of_nothing(annals);
        assert_eq!(cost(annals, &["replay", ID], ""), (11, 0, 660 + nothing));
        // As after a snapshot; the last bucket is full, so the next one is read too.
        let tail = ["replay", ID, "--from", "9991"];
        assert_eq!(cost(annals, &tail, ""), (2, 0, 1 + nothing));
        let tail = ["replay", ID, "--from", "9981", "--to", "9990"];
        assert_eq!(cost(annals, &tail, ""), (1, 0, 1));
    });
    with_journal((0..10_000).map(alike).collect(), 10, |annals| {
        let want = (11, 0, 50 + of_nothing(annals));
        assert_eq!(cost(annals, &["replay", ID], ""), want);
    });
}
