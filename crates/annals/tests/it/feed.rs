//! The feed of the embedded and the memory store: nothing missing, nothing twice, in order, wherever a
//! reader begins and whatever happens to the store meanwhile.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::feed::{Batch, Filter, Position, Reading, What, slice_of};
use annals::items::PageBudget;
use annals::journal::{Append, Expected};
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::{Annals, Codec, ErrorKind, Event, NewEvent, PersistenceId, Random, SequenceNumber};
use futures::TryStreamExt;

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn number(number: u64) -> SequenceNumber {
    SequenceNumber::new(number).unwrap()
}

async fn open(folder: &Path) -> Annals {
    Annals::embedded(folder).await.unwrap()
}

async fn in_memory() -> Annals {
    let layout = AnnalsLayout::default();
    Annals::create(Memory::new(), &layout).await.unwrap()
}

fn event(text: &str) -> NewEvent {
    NewEvent::new(Codec::Text, text.to_owned())
}

async fn append(annals: &Annals, to: &str, events: usize) -> Vec<String> {
    let (to_id, texts) = (id(to), (0..events).map(|n| format!("{to}/{n}")));
    let texts: Vec<String> = texts.collect();
    let new: Vec<NewEvent> = texts.iter().map(|text| event(text)).collect();
    let appended = annals
        .journal()
        .append(&to_id, Expected::Any, Append::of(new));
    let first = appended.await.unwrap().last.get() + 1 - events as u64;
    (0..events as u64)
        .map(|n| format!("{to}#{}", first + n))
        .collect()
}

fn name(event: &Event) -> String {
    format!("{}#{}", event.persistence_id, event.sequence_number)
}

async fn batches(reading: Reading) -> Vec<Batch> {
    reading.batches().try_collect().await.unwrap()
}

async fn names(reading: Reading) -> Vec<String> {
    let events: Vec<Event> = reading.events().try_collect().await.unwrap();
    events.iter().map(name).collect()
}

/// Every event with the position after it.
async fn positions(annals: &Annals) -> Vec<(String, Position)> {
    let all = batches(annals.feed()).await;
    let events = all.iter().flat_map(|batch| batch.events());
    events.map(|(event, at)| (name(event), at)).collect()
}

#[tokio::test]
async fn events_are_fed_in_the_order_of_their_acknowledgements() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let random = Random::seeded(1);
    let (mut want, mut annals) = (Vec::new(), open(&path).await);
    for n in 0..300 {
        let to = format!("Cart|{}", random.below(20));
        want.extend(append(&annals, &to, 1 + random.below(4) as usize).await);
        if n % 100 == 99 {
            // The log is sealed, compressed and read by another process.
            annals = open_again(annals, &path).await;
            assert_eq!(names(annals.feed()).await, want);
        }
    }
    let beside = Embedded::open_read_only(&path, &Default::default()).unwrap();
    let beside = Annals::open(beside, &AnnalsLayout::default())
        .await
        .unwrap();
    assert_eq!(names(beside.feed()).await, want);
}

async fn open_again(annals: Annals, path: &Path) -> Annals {
    drop(annals);
    let store = Embedded::open(path, &Default::default()).unwrap();
    // Compresses what is full, and begins a new segment.
    store.erase_now().await.unwrap();
    Annals::open(store, &AnnalsLayout::default()).await.unwrap()
}

#[tokio::test]
async fn a_reader_that_resumes_anywhere_sees_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        for n in 0..40 {
            append(&annals, &format!("Cart|{}", n % 7), 1 + n % 3).await;
        }
        let all = positions(&annals).await;
        for (at, (_, position)) in all.iter().enumerate() {
            let text = position.to_string();
            let rest = annals.feed().after(text.parse::<Position>().unwrap());
            let want: Vec<_> = all
                .iter()
                .skip(at + 1)
                .map(|(name, _)| name.clone())
                .collect();
            assert_eq!(names(rest).await, want, "after {position}");
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_have_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        let mut want = Vec::new();
        for n in 0..50 {
            want.extend(append(&annals, &format!("Cart|{}", n % 7), 1 + n % 3).await);
        }
        for (changes, bytes) in [(1, 1_000_000), (3, 1_000_000), (1_000, 1), (1_000, 500)] {
            let budget = PageBudget { changes, bytes };
            let mut found = Vec::new();
            let mut after = None;
            // Each batch by a reader of its own.
            loop {
                let mut one = annals.feed().budget(budget).after(after.clone()).batches();
                let Some(batch) = one.try_next().await.unwrap() else {
                    break;
                };
                if batch.upto.position == batch.head.position && batch.entries.is_empty() {
                    break;
                }
                after = Some(batch.position.clone());
                found.extend(batch.into_events().map(|event| name(&event)));
            }
            assert_eq!(found, want, "{budget:?}");
        }
    }
}

#[tokio::test]
async fn a_filtered_feed_is_the_filter_of_the_feed() {
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        for n in 0..60u64 {
            let category = ["Cart", "Order", "Cartoon"][n as usize % 3];
            let to = id(&format!("{category}|{}", n % 11));
            let events = (0..=n % 3).map(|m| event("x").tag(["a", "b", "c"][(n + m) as usize % 3]));
            let events = Append::of(events.collect::<Vec<_>>());
            annals
                .journal()
                .append(&to, Expected::Any, events)
                .await
                .unwrap();
        }
        let all: Vec<Event> = annals.feed().events().try_collect().await.unwrap();
        let filters = [
            Filter::new().category("Cart"),
            Filter::new().category("Cart").category("Order").tag("b"),
            Filter::new().prefix("Cart"),
            Filter::new().tag("a").tag("c"),
            Filter::new().slices(0..=511),
            Filter::new().category("Nothing"),
        ];
        for filter in filters {
            let want = all.iter().filter(|event| filter.accepts(event)).map(name);
            let want: Vec<String> = want.collect();
            let reading = || annals.feed().filter(filter.clone());
            assert_eq!(names(reading()).await, want, "{filter:?}");
            // Progress over what is not accepted.
            let last = batches(reading()).await.pop().unwrap();
            assert_eq!(last.upto, last.head, "{filter:?}");
        }
        assert!(slice_of(&all[0].persistence_id) < 1024);
    }
}

/// The notices, and the number of events, by id.
async fn notices(annals: &Annals) -> Vec<String> {
    let mut found = Vec::new();
    for batch in batches(annals.feed()).await {
        for entry in batch.entries {
            found.push(match entry.what {
                What::Appended(events) => format!("{} +{}", entry.id, events.len()),
                What::Deleted(to) => format!("{} -{to}", entry.id),
                What::Purged => format!("{} purged", entry.id),
                What::Missing(number) => format!("{} missing {number}", entry.id),
                other => panic!("{other:?}"),
            });
        }
    }
    found
}

#[tokio::test]
async fn deletions_and_purges_are_notices_after_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let annals = open(folder.path()).await;
    let a = id("A|1");
    append(&annals, "A|1", 2).await;
    append(&annals, "A|1", 3).await;
    append(&annals, "B|1", 1).await;
    annals.journal().delete_to(&a, number(3)).await.unwrap();
    annals.purge(&id("B|1")).await.unwrap();
    append(&annals, "B|1", 1).await;
    let found = notices(&annals).await;
    assert_eq!(found[..3], ["A|1 +2", "A|1 +3", "B|1 +1"]);
    let rest = &found[3..];
    assert_eq!(rest[rest.len() - 2..], ["B|1 purged", "B|1 +1"]);
    let deleted = &rest[..rest.len() - 2];
    assert!(
        deleted.iter().all(|it| it.starts_with("A|1 -")),
        "{deleted:?}"
    );
    assert!(deleted.contains(&"A|1 -3".to_owned()), "{deleted:?}");
}

#[tokio::test]
async fn erased_events_are_missing_and_what_is_left_of_an_append_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let annals = open(&path).await;
    for to in ["A|1", "A|1", "B|1", "C|1"] {
        append(&annals, to, 3).await;
    }
    // The first commit and a part of the second; a purged id that begins again.
    annals
        .journal()
        .delete_to(&id("A|1"), number(4))
        .await
        .unwrap();
    annals.purge(&id("B|1")).await.unwrap();
    append(&annals, "B|1", 2).await;
    let before = positions(&annals).await;
    let annals = open_again(annals, &path).await;

    let found = notices(&annals).await;
    assert_eq!(
        found[..4],
        ["A|1 missing 1", "A|1 +2", "B|1 missing 1", "C|1 +3"]
    );
    assert_eq!(found[found.len() - 2..], ["B|1 purged", "B|1 +2"]);
    // What is left has its old position.
    let after = positions(&annals).await;
    assert!(
        after.iter().all(|found| before.contains(found)),
        "{before:?} {after:?}"
    );
    let want = [
        "A|1#5", "A|1#6", "C|1#1", "C|1#2", "C|1#3", "B|1#1", "B|1#2",
    ];
    let names: Vec<_> = after.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, want);
}

#[tokio::test]
async fn an_append_that_is_refused_or_repeated_is_fed_once() {
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        let (cart, journal) = (id("Cart|1"), annals.journal());
        let append = Append::from(event("one")).token(journal.token());
        for _ in 0..3 {
            journal
                .append(&cart, Expected::Empty, append.clone())
                .await
                .unwrap();
        }
        journal
            .append(&cart, Expected::Empty, event("two"))
            .await
            .unwrap_err();
        assert_eq!(names(annals.feed()).await, ["Cart|1#1"]);
    }
}

#[tokio::test]
async fn a_large_append_is_fed_whole() {
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        let random = Random::seeded(7);
        let noise = |len: usize| {
            (0..len / 8)
                .flat_map(|_| random.bits().to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let events: Vec<_> = (0..5)
            .map(|_| NewEvent::new(Codec::Bytes, noise(300_000)))
            .collect();
        let (cart, append) = (id("Cart|1"), Append::of(events.clone()));
        annals
            .journal()
            .append(&cart, Expected::Empty, append)
            .await
            .unwrap();
        let all = batches(annals.feed()).await;
        let fed: Vec<_> = all.iter().flat_map(|batch| batch.events()).collect();
        assert_eq!(fed.len(), 5);
        assert!(
            fed.iter()
                .zip(&events)
                .all(|((fed, _), event)| fed.data == *event)
        );
        let places: Vec<u64> = all
            .iter()
            .flat_map(|it| &it.entries)
            .map(|it| it.place)
            .collect();
        assert_eq!(places.len(), 1, "one append has one place: {places:?}");
    }
}

#[tokio::test]
async fn a_position_of_another_store_is_refused() {
    let (one, other) = (in_memory().await, in_memory().await);
    append(&one, "Cart|1", 1).await;
    let (_, position) = positions(&one).await.pop().unwrap();
    let error = other
        .feed()
        .after(position.clone())
        .events()
        .try_next()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Of the same store, but beyond its end.
    let text = position.to_string();
    let (before, _) = text.rsplit_once(':').unwrap();
    let beyond: Position = format!("{before}:1000000").parse().unwrap();
    let error = one
        .feed()
        .after(beyond)
        .events()
        .try_next()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Followers that begin anywhere, while writers append: each sees exactly what is acknowledged, the
/// events of an id in order, from where it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn followers_see_what_writers_append() {
    const WRITERS: usize = 8;
    const APPENDS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    for annals in [in_memory().await, open(folder.path()).await] {
        let annals = Arc::new(annals);
        let total: usize = (0..WRITERS)
            .map(|_| (0..APPENDS).map(|n| 1 + n % 3).sum::<usize>())
            .sum();
        let follow = |annals: Arc<Annals>, after: Option<Position>, count: usize| {
            tokio::spawn(async move {
                let mut found = Vec::new();
                let mut batches = annals.feed().after(after).follow();
                while found.len() < count {
                    let batch = batches.try_next().await.unwrap().unwrap();
                    let events = batch.events();
                    found.extend(events.map(|(event, at)| (name(event), at)));
                }
                found
            })
        };
        let first = follow(annals.clone(), None, total);
        let writers = (0..WRITERS).map(|writer| {
            let annals = annals.clone();
            tokio::spawn(async move {
                for n in 0..APPENDS {
                    append(&annals, &format!("Cart|{}", (writer + n) % 5), 1 + n % 3).await;
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let first = first.await.unwrap();
        let mut last: HashMap<&str, u64> = HashMap::new();
        for (name, _) in &first {
            let (id, number) = name.split_once('#').unwrap();
            let last = last.entry(id).or_default();
            *last += 1;
            assert_eq!(number, last.to_string(), "{id}");
        }
        let random = Random::seeded(3);
        for _ in 0..8 {
            let at = random.below(total as u64) as usize;
            let rest = follow(annals.clone(), Some(first[at].1.clone()), total - at - 1);
            assert_eq!(rest.await.unwrap(), first[at + 1..]);
        }
        assert_eq!(positions(&annals).await, first);
    }
}
