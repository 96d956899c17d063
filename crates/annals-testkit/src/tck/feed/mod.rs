//! The feed's properties, on stores that keep their changes.
//!
//! A store may have erased values that were replaced or deleted (the memory store does so at once), or
//! still have them: the properties hold in both cases.

mod appends;
mod deletions;

pub(crate) use appends::*;
pub(crate) use deletions::*;

use futures::{StreamExt, TryStreamExt};

use super::{Setup, properties};
use annals::feed::{Batch, Entry, Position, Reading, What};
use annals::journal::{Append, Appended, Expected, Journal, Window};
use annals::{Annals, Codec, Event, NewEvent, PersistenceId, SequenceNumber};

properties! {
    appends_are_fed_once_whole_and_in_order,
    concurrent_appends_are_fed_in_the_order_of_each_id,
    a_reader_resumes_after_every_event_with_exactly_the_rest,
    small_pages_feed_the_same,
    a_filtered_feed_is_the_filter_of_the_whole_feed,
    refused_and_repeated_appends_feed_nothing,
    long_and_large_appends_are_fed_whole,
    an_interrupted_append_is_fed_once_it_is_completed,
    an_abandoned_append_is_not_fed,
    followers_get_new_events,
    a_position_of_another_store_is_refused,
    a_deletion_is_fed_after_the_events,
    a_deletion_of_everything_is_fed,
    a_reader_resumes_inside_an_append_that_is_deleted_in_part,
    a_purge_is_fed_once_and_numbering_restarts,
    a_purge_after_a_deletion_is_fed_once,
    a_batch_that_replaces_a_purged_one_is_fed_once,
    a_batch_that_replaces_a_purged_one_is_fed_once_after_a_deletion,
    a_purge_of_nothing_is_not_fed,
}

/// More than any check has.
const BATCHES_MAX: usize = 10_000;

/// A text that every layout takes as an id, with a category.
fn id_of(category: &str, n: u64) -> PersistenceId {
    format!("{category}|p{n}-{n}").parse().expect("an id")
}

fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).expect("a sequence number")
}

fn text(text: impl Into<String>) -> NewEvent {
    NewEvent::new(Codec::Text, text.into())
}

fn texts(name: &str, count: u64) -> Vec<NewEvent> {
    (1..=count).map(|n| text(format!("{name}-{n}"))).collect()
}

/// A journal and its feed, of a new process.
async fn open(setup: &Setup) -> Annals {
    let opened = Annals::open(setup.store(), &*setup.layout).await;
    opened.expect("journal and feed")
}

async fn append(journal: &Journal, id: &PersistenceId, append: impl Into<Append>) -> Appended {
    let appended = journal.append(id, Expected::Any, append).await;
    appended.expect("an append")
}

/// The events of an append, from a replay.
async fn stored(journal: &Journal, id: &PersistenceId, appended: Appended) -> Vec<Event> {
    let window = Window::from(appended.first).to(appended.last);
    let events = journal.replay(id, window).try_collect().await;
    events.expect("a replay")
}

async fn batches(reading: Reading) -> Vec<Batch> {
    // A reader that does not move on fails the check, and does not run for ever.
    let batches = reading.batches().take(BATCHES_MAX);
    batches.try_collect().await.expect("the feed")
}

/// What a reading has up to the end, and the position there.
async fn read(reading: Reading) -> (Vec<Entry>, Position) {
    let batches = batches(reading).await;
    let last = batches.last().expect("a batch, even if it is empty");
    assert_eq!(last.upto, last.head, "it is read to the end");
    let end = last.position.clone();
    let entries = batches.into_iter().flat_map(|batch| batch.entries);
    let entries: Vec<Entry> = entries.collect();
    assert!(
        entries.is_sorted_by(|one, next| one.place < next.place),
        "each has a place of its own: {entries:?}"
    );
    (entries, end)
}

/// The events of an entry; none of a notice.
fn events_of(entry: &Entry) -> Vec<Event> {
    match &entry.what {
        What::Appended(events) => events.iter().map(|fed| fed.event.clone()).collect(),
        _ => Vec::new(),
    }
}

fn all_events(entries: &[Entry]) -> Vec<Event> {
    entries.iter().flat_map(events_of).collect()
}

/// The entries of an id.
fn entries_of(entries: &[Entry], id: &PersistenceId) -> Vec<Entry> {
    let entries = entries.iter().filter(|entry| entry.id == *id);
    entries.cloned().collect()
}
