//! Journals for tests: opened on any store, as a process that has just started opens them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use annals::items::Items;
use annals::journal::{Append, Expected, Journal, Window};
use annals::settings::Settings;
use annals::{Clock, Codec, Event, ManualClock, NewEvent, PersistenceId, Random, SequenceNumber};
use futures::TryStreamExt;

pub(crate) fn id() -> PersistenceId {
    "Cart|0123456789abcdef".parse().unwrap()
}

pub(crate) fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).unwrap()
}

/// What a writer believes that has seen everything up to `n`.
pub(crate) fn after(n: u64) -> Expected {
    SequenceNumber::new(n).map_or(Expected::Empty, Expected::Last)
}

/// A window; numbers past the last there can be mean that.
pub(crate) fn window(range: RangeInclusive<u64>, max: u64) -> Window {
    Window {
        from: number(*range.start()),
        to: SequenceNumber::new(*range.end()).unwrap_or(SequenceNumber::LAST),
        max,
        ..Window::ALL
    }
}

pub(crate) fn text(text: impl Into<String>) -> NewEvent {
    NewEvent::new(Codec::Text, text.into())
}

/// Creates the journal's table.
pub(crate) async fn create(items: &dyn Items) {
    let settings = Settings::default();
    let table = settings.layout.tables(&settings).unwrap().journal;
    items
        .create_table(&table, Default::default())
        .await
        .unwrap();
}

pub(crate) async fn open_at(items: Arc<dyn Items>, clock: Arc<dyn Clock>, seed: u64) -> Journal {
    let settings = Settings::default();
    let opened = Journal::open(items, &settings, clock, Random::seeded(seed));
    let journal = opened.await.unwrap();
    journal.prepare().await.unwrap();
    journal
}

/// A journal with these settings, at a time that stands still.
pub(crate) async fn open_as(items: &Arc<dyn Items>, settings: &Settings) -> Journal {
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let random = Random::from_machine();
    let opened = Journal::open(items.clone(), settings, clock, random);
    let journal = opened.await.unwrap();
    journal.prepare().await.unwrap();
    journal
}

pub(crate) async fn open(items: &Arc<dyn Items>) -> Journal {
    open_as(items, &Settings::default()).await
}

pub(crate) async fn append(journal: &Journal, last: u64, events: Vec<NewEvent>) {
    let appended = journal.append(&id(), after(last), Append::of(events)).await;
    assert_eq!(appended.unwrap().first.get(), last + 1);
}

pub(crate) async fn replay(journal: &Journal, window: Window) -> annals::Result<Vec<Event>> {
    journal.replay(&id(), window).try_collect().await
}
