//! What is fed of appends: each once, whole, in order, also to readers that resume and that filter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::TryStreamExt;
use futures::future::join_all;

use super::{
    all_events, append, batches, entries_of, events_of, id_of, number, open, read, stored, text,
    texts,
};
use crate::hooked::{Answered, Call, Hook, Hooked};
use crate::tck::{Setup, random_bytes};
use annals::feed::{Entry, Filter, Position, Reading, What, slice_of};
use annals::items::{Items, PageBudget};
use annals::journal::{Append, Expected};
use annals::memory::Memory;
use annals::{Annals, Error, ErrorKind, Event, NewEvent, PersistenceId};

/// Appends of one to seven events to five ids, in a random order; returns what should be fed.
async fn some_appends(setup: &Setup, annals: &Annals) -> Vec<(PersistenceId, Vec<Event>)> {
    let (journal, random) = (annals.journal(), &setup.random);
    let mut fed = Vec::new();
    for n in 0..40 {
        let category = ["Cart", "Order"][random.below(2) as usize];
        let id = id_of(category, random.below(3));
        let events = (0..1 + random.below(7)).map(|index| {
            let event = text(format!("{n}-{index}")).metadata("append", n.to_string());
            match random.below(3) {
                0 => event,
                tag => event.tag(format!("tag{tag}")),
            }
        });
        let events = Append::of(events.collect::<Vec<_>>()).causation(format!("command-{n}"));
        let appended = append(journal, &id, events).await;
        fed.push((id.clone(), stored(journal, &id, appended).await));
    }
    fed
}

/// The feed is exactly the acknowledged appends, one after the other.
pub(crate) async fn appends_are_fed_once_whole_and_in_order(setup: Setup) {
    let annals = open(&setup).await;
    let want = some_appends(&setup, &annals).await;
    for annals in [annals, open(&setup).await] {
        let (entries, end) = read(annals.feed()).await;
        let found = entries
            .iter()
            .map(|entry| (entry.id.clone(), events_of(entry)));
        assert_eq!(found.collect::<Vec<_>>(), want);
        assert_eq!(annals.feed().head().await.expect("the head"), end);
        assert!(read(annals.feed().after(end)).await.0.is_empty());
    }
}

/// Several writers at once: each event once, in the order of its id, and each append at one place.
pub(crate) async fn concurrent_appends_are_fed_in_the_order_of_each_id(setup: Setup) {
    let annals = open(&setup).await;
    let ids: Vec<PersistenceId> = (0..8).map(|n| id_of("Cart", n)).collect();
    let writers = ids.iter().map(async |id| {
        let mut appends = Vec::new();
        for n in 1..=15 {
            let appended = append(annals.journal(), id, texts("a", n % 4 + 1)).await;
            appends.push(stored(annals.journal(), id, appended).await);
        }
        appends
    });
    let appends = join_all(writers).await;
    let (entries, _) = read(annals.feed()).await;
    for (id, want) in ids.iter().zip(appends) {
        let found = entries_of(&entries, id);
        assert_eq!(found.iter().map(events_of).collect::<Vec<_>>(), want);
    }
    assert_eq!(entries.len(), 8 * 15);
}

/// The events of a reading, with the positions after them, as texts.
async fn events_at(reading: Reading) -> Vec<(Event, String)> {
    let batches = batches(reading).await;
    let events = batches.iter().flat_map(|batch| {
        let events = batch.events();
        let events = events.map(|(event, position)| (event.clone(), position.to_string()));
        events.collect::<Vec<_>>()
    });
    events.collect()
}

/// Also inside an append, and through the text of the position.
pub(crate) async fn a_reader_resumes_after_every_event_with_exactly_the_rest(setup: Setup) {
    let annals = open(&setup).await;
    some_appends(&setup, &annals).await;
    let all = events_at(annals.feed()).await;
    for (n, (_, position)) in all.iter().enumerate() {
        let position: Position = position.parse().expect("a position");
        let rest = events_at(annals.feed().after(position)).await;
        assert_eq!(rest, all[n + 1..], "after event {n}");
    }
}

/// Also pages of one change, as every page has at least one.
pub(crate) async fn small_pages_feed_the_same(setup: Setup) {
    let annals = open(&setup).await;
    some_appends(&setup, &annals).await;
    let all = events_at(annals.feed()).await;
    for (changes, bytes) in [(3, usize::MAX), (1, usize::MAX), (100, 0), (0, 0)] {
        let budget = PageBudget { changes, bytes };
        let batches = batches(annals.feed().budget(budget)).await;
        assert!(batches.len() > 10, "{budget:?} gives small batches");
        let mut found = Vec::new();
        for batch in &batches {
            let events = batch.events();
            found.extend(events.map(|(event, at)| (event.clone(), at.to_string())));
        }
        assert_eq!(found, all, "{budget:?}");
    }
}

/// By category, prefix, tag and slices. Positions pass over what a filter does not accept.
pub(crate) async fn a_filtered_feed_is_the_filter_of_the_whole_feed(setup: Setup) {
    let annals = open(&setup).await;
    some_appends(&setup, &annals).await;
    annals
        .journal()
        .delete_to(&id_of("Cart", 1), number(1))
        .await
        .expect("a deletion");
    let (all, end) = read(annals.feed()).await;
    let slice = slice_of(&id_of("Order", 2));
    let mut prefix = Filter::new();
    prefix.prefix = "Cart|p1".to_owned();
    let filters = [
        Filter::new(),
        Filter::new().category("Cart"),
        Filter::new().category("Cart").category("Order"),
        Filter::new().category("Car"),
        Filter::new().tag("tag1"),
        Filter::new().tag("tag1").tag("tag2").category("Order"),
        Filter::new().slices(slice..=slice),
        Filter::new().slices(0..=slice),
        prefix,
    ];
    for filter in filters {
        let want = all.iter().filter_map(|entry| filtered(entry, &filter));
        let want: Vec<Entry> = want.collect();
        let (found, upto) = read(annals.feed().filter(filter.clone())).await;
        assert_eq!(found, want, "{filter:?}");
        assert_eq!(upto, end, "{filter:?}");
    }
}

fn filtered(entry: &Entry, filter: &Filter) -> Option<Entry> {
    let mut entry = entry.clone();
    if !filter.accepts_id(&entry.id) {
        return None;
    }
    if let What::Appended(events) = &mut entry.what {
        events.retain(|fed| filter.accepts(&fed.event));
        if events.is_empty() {
            return None;
        }
    }
    Some(entry)
}

/// Conflicts, and repetitions by token and by key, in this process and another.
pub(crate) async fn refused_and_repeated_appends_feed_nothing(setup: Setup) {
    let annals = open(&setup).await;
    let (journal, id) = (annals.journal(), id_of("Cart", 1));
    append(journal, &id, text("a-1")).await;
    let three = Append::of(texts("b", 3)).token(journal.token());
    let keyed = Append::of(texts("c", 2)).idempotency_key("key".parse().expect("a key"));
    let after_one = Expected::Last(number(1));
    let appended = journal.append(&id, after_one, three.clone()).await;
    appended.expect("an append");
    append(journal, &id, keyed.clone()).await;
    let (want, _) = read(annals.feed()).await;
    assert_eq!(all_events(&want).len(), 6);

    for journal in [journal.clone(), setup.journal().await] {
        for expected in [Expected::Empty, after_one, Expected::Last(number(4))] {
            for events in [texts("x", 1), texts("x", 4)] {
                let refused = journal.append(&id, expected, events).await;
                let refused = Error::from(refused.expect_err("a conflict"));
                assert_eq!(refused.kind(), ErrorKind::Conflict);
            }
        }
        let again = journal.append(&id, after_one, three.clone()).await;
        assert_eq!(again.expect("it is stored").last, number(4));
        assert_eq!(append(&journal, &id, keyed.clone()).await.last, number(6));
    }
    assert_eq!(read(annals.feed()).await.0, want);
}

/// An append of 100 events, and payloads that do not fit one item together.
pub(crate) async fn long_and_large_appends_are_fed_whole(setup: Setup) {
    let annals = open(&setup).await;
    let (journal, id) = (annals.journal(), id_of("Cart", 1));
    let large = (0..4).map(|seed| {
        let bytes = random_bytes(150_000, seed);
        NewEvent::new(bytes.codec, bytes.bytes)
    });
    let large: Vec<NewEvent> = large.collect();
    let mut want = Vec::new();
    for events in [texts("a", 100), large.clone(), texts("b", 1), large] {
        let appended = append(journal, &id, events).await;
        want.push(stored(journal, &id, appended).await);
    }
    let (entries, _) = read(annals.feed()).await;
    let found = entries.iter().map(events_of);
    assert_eq!(found.collect::<Vec<_>>(), want);
}

/// Fails one put of a process, which then makes no other.
struct DiesAtPut {
    puts_left: AtomicUsize,
}

#[async_trait]
impl Hook for DiesAtPut {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        if let Call::Put(..) = &call {
            let fewer = |left: usize| left.checked_sub(1);
            let left = self
                .puts_left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
            if left.is_err() {
                return Err(Error::unavailable("the process died").into());
            }
        }
        call.send(inner).await
    }
}

/// Appends five events in a process that dies at a put; returns whether it came so far.
async fn dies(setup: &Setup, puts: usize, id: &PersistenceId, events: Append) -> bool {
    let hook = DiesAtPut {
        puts_left: AtomicUsize::new(puts),
    };
    let items = Arc::new(Hooked::over(setup.items.clone(), hook));
    let journal = Setup {
        items,
        ..setup.clone()
    };
    let appended = journal.journal().await;
    let appended = appended.append(id, Expected::Empty, events).await;
    appended.is_err()
}

/// By a repetition of it, in another process. Before, it is not fed.
pub(crate) async fn an_interrupted_append_is_fed_once_it_is_completed(setup: Setup) {
    let annals = open(&setup).await;
    append(annals.journal(), &id_of("Cart", 0), text("a-1")).await;
    for puts in 0..6 {
        let id = id_of("Order", puts as u64);
        let events = Append::of(texts("a", 5)).token(annals.journal().token());
        if !dies(&setup, puts, &id, events.clone()).await {
            continue;
        }
        let (before, _) = read(annals.feed()).await;
        assert_eq!(entries_of(&before, &id), [], "after {puts} puts");
        let completed = annals.journal().append(&id, Expected::Empty, events).await;
        let want = stored(annals.journal(), &id, completed.expect("an append")).await;
        let (entries, _) = read(annals.feed()).await;
        let found = entries_of(&entries, &id);
        let found = found.iter().map(events_of).collect::<Vec<_>>();
        assert_eq!(found, [want], "after {puts} puts");
    }
}

/// Another writer appends after it. What is left of it has no place, not even as a notice.
pub(crate) async fn an_abandoned_append_is_not_fed(setup: Setup) {
    let annals = open(&setup).await;
    append(annals.journal(), &id_of("Cart", 0), text("a-1")).await;
    for puts in 0..6 {
        let id = id_of("Order", puts as u64);
        if !dies(&setup, puts, &id, Append::of(texts("x", 5))).await {
            continue;
        }
        for events in [texts("a", 1), texts("b", 3)] {
            append(annals.journal(), &id, events).await;
        }
        let want = annals.journal().replay(&id, annals::journal::Window::ALL);
        let want: Vec<Event> = want.try_collect().await.expect("a replay");
        assert_eq!(want.len(), 4);
        let (entries, _) = read(annals.feed()).await;
        let found = entries_of(&entries, &id);
        assert_eq!(found.len(), 2, "after {puts} puts: {found:?}");
        assert_eq!(all_events(&found), want, "after {puts} puts");
    }
}

/// Single ones and batches.
pub(crate) async fn followers_get_new_events(setup: Setup) {
    let annals = open(&setup).await;
    let id = id_of("Cart", 1);
    append(annals.journal(), &id, texts("a", 2)).await;
    let mut follower = annals.feed().follow();
    let mut found = Vec::new();
    for n in 1..=4 {
        let next = async {
            while found.len() < 2 * n {
                let batch = follower.try_next().await.expect("the feed");
                found.extend(batch.expect("it is endless").into_events());
            }
        };
        let more = async {
            if n > 1 {
                append(annals.journal(), &id, texts("b", 2)).await;
            }
        };
        futures::join!(next, more);
    }
    assert_eq!(found, all_events(&read(annals.feed()).await.0));
}

/// And one that is after the end.
pub(crate) async fn a_position_of_another_store_is_refused(setup: Setup) {
    let annals = open(&setup).await;
    append(annals.journal(), &id_of("Cart", 1), text("a")).await;
    let other = Setup::new(Arc::new(Memory::new()), setup.variant).await;
    let other = open(&other.expect("another store")).await;
    append(other.journal(), &id_of("Cart", 1), text("a")).await;
    let head = annals.feed().head().await.expect("the head").to_string();
    let (generation, _) = head.split_once('.').expect("a position");
    let late: Position = format!("{generation}.0:1000000000")
        .parse()
        .expect("a position");
    for position in [other.feed().head().await.expect("the head"), late] {
        let refused = annals
            .feed()
            .after(position)
            .events()
            .try_collect::<Vec<_>>();
        let refused = refused.await.expect_err("another history");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}
