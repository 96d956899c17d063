//! A copy that is killed and started again, there and back.
//!
//! `ANNALS_EVENTS` sets the number of events (default 10,000; `scripts/conformance` uses 100,000).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::journal::{Append, Expected, Window};
use annals::snapshot::{Criteria, Snapshot};
use annals::{Annals as Library, Codec, Event, NewEvent, Payload, Random, SequenceNumber, Token};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value as Json;

use crate::run::Annals;

const EVENTS: u64 = 10_000;
/// Events of an id.
const EACH: u64 = 250;
/// How often a copy is killed on its way there, and on its way back.
const KILLS: u64 = 5;
/// The maximum number of attempts to kill a copy: one that ended before proves nothing.
const TRIES_MAX: usize = 10;

fn events() -> u64 {
    let said = std::env::var("ANNALS_EVENTS");
    said.map_or(EVENTS, |said| {
        said.parse().expect("ANNALS_EVENTS is a number")
    })
}

async fn open(folder: &Path, layout: LayoutName) -> Library {
    let settings = AnyLayout {
        layout,
        ..AnyLayout::default()
    };
    let items = Embedded::open(folder, &Default::default()).unwrap();
    Library::create(Arc::new(items), &settings).await.unwrap()
}

/// Ids of 250 events, appended in twos and threes; of some the first are deleted.
async fn fill(library: &Library, events: u64) {
    let one = |n: u64| async move {
        let id = format!("Cart-{n}").parse().unwrap();
        let random = Random::seeded(n);
        let journal = library.journal();
        let mut last = 0;
        while last < EACH {
            let count = (1 + random.below(4)).min(EACH - last);
            let event = |place| {
                let payload = format!("{{\"of\":{n},\"number\":{}}}", last + place + 1);
                NewEvent::new(Codec::Json, payload)
                    .manifest("Counted")
                    .tag(format!("t{}", random.below(3)))
                    .metadata("drawn", random.bits().to_string())
            };
            let append = Append::of((0..count).map(event).collect::<Vec<_>>());
            let expected = SequenceNumber::new(last).map_or(Expected::Empty, Expected::Last);
            last = journal
                .append(&id, expected, append)
                .await
                .unwrap()
                .last
                .get();
        }
        if n.is_multiple_of(4) {
            let to = SequenceNumber::new(1 + random.below(EACH)).unwrap();
            let state = Payload::new(Codec::Text, "state");
            library.snapshots().save(&id, to, state).await.unwrap();
            journal.delete_to(&id, to).await.unwrap();
        }
    };
    let all = stream::iter(0..events / EACH).map(one);
    all.buffer_unordered(64).collect::<Vec<()>>().await;
}

type Seen = BTreeMap<String, (Option<SequenceNumber>, Vec<Event>, Vec<Snapshot>)>;

/// Everything that must be the same.
async fn seen(folder: &Path, layout: LayoutName) -> Seen {
    let library = open(folder, layout).await;
    let ids = library.journal().persistence_ids("");
    let ids: Vec<annals::PersistenceId> = ids.try_collect().await.unwrap();
    let mut seen = Seen::new();
    for id in ids {
        let replayed = library.journal().replay(&id, Window::ALL);
        let mut events: Vec<Event> = replayed.try_collect().await.unwrap();
        for event in &mut events {
            event.token = Token::from_bytes([0; 8]);
        }
        let highest = library.journal().highest(&id).await.unwrap();
        let found = library.snapshots().find(&id, Criteria::ALL);
        let snapshots = found.try_collect().await.unwrap();
        seen.insert(id.to_string(), (highest, events, snapshots));
    }
    seen
}

/// Starts a copy and kills it after this many events. Returns whether it was killed before its end.
fn kill_after(annals: &Annals, args: &[&str], events: u64) -> bool {
    let mut command = annals.binary(args);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut is_killed = false;
    for line in lines.by_ref() {
        let line: Json = serde_json::from_str(&line.unwrap()).unwrap();
        if line.get("copied").is_some() {
            break;
        }
        if line["progress"]["events"].as_u64() >= Some(events) {
            child.kill().unwrap();
            is_killed = true;
            break;
        }
    }
    // Its output before it was killed. The last line may be incomplete.
    let has_ended = lines.any(|line| line.is_ok_and(|line| line.contains("\"copied\":{")));
    let status = child.wait().unwrap();
    is_killed && !has_ended && status.code().is_none()
}

/// Copies from one folder to another, killed on the way. Returns the output of the last copy.
fn copy_killed(annals: &Annals, sides: [&str; 2], to: &Path, seed: u64) -> Json {
    let [from, target] = sides;
    let args = ["copy", "--from", from, "--to", target];
    let random = Random::seeded(seed);
    let most = events() / 16;
    for _ in 0..TRIES_MAX {
        let kills = (0..KILLS).filter(|_| kill_after(annals, &args, 1 + random.below(most)));
        if kills.count() as u64 == KILLS {
            let copied = annals.run(&args).ok();
            return copied.json().pop().unwrap()["copied"].clone();
        }
        std::fs::remove_dir_all(to).unwrap();
    }
    panic!("the copy ends before it is killed");
}

#[test]
fn a_copy_there_and_back_that_is_killed_ten_times_gives_the_same_replay() {
    let annals = Annals::embedded();
    let folder = |name: &str| annals.folder().join(name);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let wanted = runtime.block_on(async {
        let library = open(&folder("a"), LayoutName::Akka).await;
        fill(&library, events()).await;
        drop(library);
        seen(&folder("a"), LayoutName::Akka).await
    });
    let total: u64 = wanted
        .values()
        .map(|(_, events, _)| events.len() as u64)
        .sum();

    let sides = [
        "layout=akka,data=a",
        "layout=annals,data=b",
        "layout=akka,data=c",
    ];
    for (from, to, name, layout) in [
        (sides[0], sides[1], "b", LayoutName::Annals),
        (sides[1], sides[2], "c", LayoutName::Akka),
    ] {
        let copied = copy_killed(&annals, [from, to], &folder(name), total);
        println!("{from} to {to}, killed {KILLS} times: {copied}");
        assert_eq!(copied["verified"].as_u64(), Some(total), "{copied}");
        // The last copy resumed where the others were killed.
        assert!(copied["present"].as_u64() > Some(0), "{copied}");
        assert!(copied["events"].as_u64() < Some(total), "{copied}");
        let arrived = runtime.block_on(seen(&folder(name), layout));
        // One by one: all of them would be too much to read.
        assert!(arrived.keys().eq(wanted.keys()), "{from} to {to}");
        for (id, arrived) in arrived {
            assert_eq!(arrived, wanted[&id], "{id}, {from} to {to}");
        }
        let verified = annals.run(&["--data", name, "--layout", &layout.to_string(), "verify"]);
        verified.ok();
    }
}
