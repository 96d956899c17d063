//! Checks a journal at the end of a test run against the record of outcomes: all events, the highest
//! number, and windows.
//!
//! A contradiction is a line in the record's violations, not a panic. There must be no more writers
//! and no store failures.

use futures::TryStreamExt;

use super::record::Record;
use annals::journal::{Journal, Window};
use annals::{Event, PersistenceId, Random, Result, SequenceNumber};

/// How many windows are replayed.
const WINDOWS: usize = 16;
/// The maximum length of a random window.
const REACH: u64 = 200;

/// One id of a record, at the end of a test run.
///
/// ```
/// use annals::journal::Expected;
/// use annals::memory::Memory;
/// use annals_testkit::tck::record::{Record, label};
/// use annals_testkit::tck::{ANNALS, Setup, aftermath::Aftermath};
/// use annals::{Codec, NewEvent, Random};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let setup = Setup::new(Arc::new(Memory::new()), ANNALS).await?;
/// let (id, mut record) = ("Cart|42".parse()?, Record::of(1, false));
/// let attempt = record.begin(0, 1);
/// let event = NewEvent::new(Codec::Text, label(attempt, 0, 1));
/// let appended = setup.journal().await.append(&id, Expected::Empty, event).await?;
/// record.acked(attempt, appended.first.get(), appended.last.get());
///
/// let aftermath = Aftermath { index: 0, id: &id, random: &Random::seeded(7) };
/// aftermath.check(&mut record, async || setup.journal().await).await;
/// assert!(record.violations.is_empty(), "{:?}", record.violations);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Aftermath<'a> {
    /// Its index in the record.
    pub index: usize,
    /// The id.
    pub id: &'a PersistenceId,
    /// Chooses the windows.
    pub random: &'a Random,
}

impl Aftermath<'_> {
    /// Checks the events, repeats an interrupted deletion, and checks again. `open` opens a journal
    /// as a new process does.
    pub async fn check(&self, record: &mut Record, open: impl AsyncFn() -> Journal) {
        let journal = open().await;
        self.check_cut_off(record, &journal).await;
        let to = SequenceNumber::new(record.deletion_tried[self.index]);
        if let Some(to) = to
            && let Err(error) = journal.delete_to(self.id, to).await
        {
            record.violated(format!("{error:?}"));
        }
        self.check_windows(record, open).await;
    }

    async fn replay(&self, journal: &Journal, range: (u64, u64)) -> Result<Vec<Event>> {
        let window = Window::from(SequenceNumber::new(range.0).unwrap_or(SequenceNumber::FIRST))
            .to(SequenceNumber::new(range.1).unwrap_or(SequenceNumber::LAST));
        journal.replay(self.id, window).try_collect().await
    }

    /// Before an interrupted deletion is repeated, it may be partly done.
    async fn check_cut_off(&self, record: &mut Record, journal: &Journal) {
        let index = self.index;
        let (deleted, tried) = (record.deleted[index], record.deletion_tried[index]);
        let anywhere = || 1 + self.random.below(tried + 1);
        for from in [1, 1, anywhere(), anywhere()] {
            match self.replay(journal, (from, u64::MAX)).await {
                Ok(events) => {
                    record.saw_all(index, &events);
                    let first = events.first().map(|event| event.sequence_number.get());
                    let is_late = |first| match record.may_skip {
                        false => first > from.max(tried + 1),
                        true => {
                            let begin = from.max(tried + 1);
                            first > begin && !record.follows(index, begin - 1, first)
                        }
                    };
                    if first.is_some_and(|first| first <= deleted || is_late(first)) {
                        record.violated(format!("id {index}: from {from} begins at {first:?}"));
                    }
                }
                Err(error) => record.violated(format!("{error:?}")),
            }
        }
    }

    async fn check_windows(&self, record: &mut Record, open: impl AsyncFn() -> Journal) {
        let journal = open().await;
        let highest = journal.highest(self.id).await;
        let all = self.replay(&journal, (1, u64::MAX)).await;
        let (highest, all) = match (highest, all) {
            (Ok(highest), Ok(all)) => (highest.map_or(0, SequenceNumber::get), all),
            (highest, all) => {
                let what = format!("id {}: {highest:?}, {:?}", self.index, all.err());
                return record.violated(what);
            }
        };
        record.check_all(self.index, &all, highest);
        for turn in 0..WINDOWS {
            let range = self.draw_window(highest, turn.is_multiple_of(2));
            let found = self.replay(&open().await, range).await;
            let numbers = range.0..=range.1;
            let want = all
                .iter()
                .filter(|e| numbers.contains(&e.sequence_number.get()));
            let is_right = found.as_ref().is_ok_and(|found| found.iter().eq(want));
            if !is_right {
                let numbers = found.map(|found| found.iter().map(number).collect::<Vec<_>>());
                let what = format!("id {}: window {range:?} is {numbers:?}", self.index);
                record.violated(what);
            }
        }
    }

    /// A window near the end, which may be empty or reversed, or anywhere.
    fn draw_window(&self, highest: u64, is_at_end: bool) -> (u64, u64) {
        let below = |end| self.random.below(end);
        if is_at_end {
            let near = |n: u64| (n + 6).saturating_sub(below(16)).max(1);
            (near(highest), near(highest))
        } else {
            let from = 1 + below(highest + 1);
            (from, from + below(REACH))
        }
    }
}

fn number(event: &Event) -> u64 {
    event.sequence_number.get()
}
