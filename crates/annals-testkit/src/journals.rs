//! Journals for tests, opened on any store as a new process opens them.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "for tests: a panic is how they fail"
)]

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::store;
use annals::items::Items;
use annals::journal::{Append, Expected, Journal, Window};
use annals::layout::Layout;
use annals::{Clock, Codec, Event, ManualClock, NewEvent, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use futures::TryStreamExt;

/// The id that these functions use.
pub fn id() -> PersistenceId {
    "Cart|0123456789abcdef".parse().unwrap()
}

/// A sequence number.
pub fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).unwrap()
}

/// The expectation of a writer that has seen everything up to `n`.
pub fn after(n: u64) -> Expected {
    SequenceNumber::new(n).map_or(Expected::Empty, Expected::Last)
}

/// A window; an invalid end means the largest sequence number.
pub fn window(range: RangeInclusive<u64>, max: u64) -> Window {
    let to = SequenceNumber::new(*range.end()).unwrap_or(SequenceNumber::LAST);
    Window::from(number(*range.start())).to(to).limit(max)
}

/// An event of text.
pub fn text(text: impl Into<String>) -> NewEvent {
    NewEvent::new(Codec::Text, text.into())
}

/// Creates the journal's table.
pub async fn create(items: &dyn Items) {
    let settings = AnyLayout::default();
    let table = settings.tables().unwrap().journal;
    items
        .create_table(&table, Default::default())
        .await
        .unwrap();
}

/// A journal with the test's own clock and seed.
pub async fn open_at(items: Arc<dyn Items>, clock: Arc<dyn Clock>, seed: u64) -> Journal {
    let settings = AnyLayout::default();
    let store = store(items, clock, Random::seeded(seed));
    let opened = settings.journal(&store);
    let journal = opened.await.unwrap();
    journal.prepare().await.unwrap();
    journal
}

/// A journal with these settings and a fixed time.
pub async fn open_as(items: &Arc<dyn Items>, settings: &AnyLayout) -> Journal {
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let random = Random::from_machine();
    let store = store(items.clone(), clock, random);
    let opened = settings.journal(&store);
    let journal = opened.await.unwrap();
    journal.prepare().await.unwrap();
    journal
}

/// A journal of the `annals` layout with a fixed time.
pub async fn open(items: &Arc<dyn Items>) -> Journal {
    open_as(items, &AnyLayout::default()).await
}

/// Appends after the event `last`.
pub async fn append(journal: &Journal, last: u64, events: Vec<NewEvent>) {
    let appended = journal.append(&id(), after(last), Append::of(events)).await;
    assert_eq!(appended.unwrap().first.get(), last + 1);
}

/// Replays a window.
pub async fn replay(journal: &Journal, window: Window) -> annals::Result<Vec<Event>> {
    journal.replay(&id(), window).try_collect().await
}
