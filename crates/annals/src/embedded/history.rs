//! The changes of a table, read from the log in order.
//!
//! Guarantees: only what is on stable storage is read, so a change that was read is never lost. Memory
//! for one page. No file stays open between two reads: what is erased must leave the disk.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::catalog::Table;
use super::codec;
use super::forks::{self, Fork};
use super::log::{self, Frames, LogEnd, Place, Position};
use crate::items::{
    self, Change, ChangePage, Changed, Consistency, Cost, LastChange, Origin, PageBudget,
    after_the_end,
};
use crate::{Error, Result};

/// Places that are remembered for readers: each has one, where it goes on.
const PLACES_MAX: usize = 64;

/// The log, for those who read all of it.
#[derive(Debug)]
pub(super) struct History {
    folder: PathBuf,
    number: u32,
    origins: Vec<Origin>,
    end: watch::Receiver<LogEnd>,
    places: Mutex<Places>,
}

/// Places between frames.
#[derive(Debug, Default)]
struct Places {
    /// The first of each segment, without gaps.
    starts: Vec<Place>,
    /// Where reads ended lately.
    recent: VecDeque<Place>,
}

/// A page that is being read.
struct PageRead<'a> {
    table: &'a Table,
    changes: Vec<Change>,
    bytes: usize,
    budget: PageBudget,
}

impl PageRead<'_> {
    fn is_full(&self) -> bool {
        let has_enough_bytes = self.bytes >= self.budget.bytes && !self.changes.is_empty();
        self.changes.len() >= self.budget.changes || has_enough_bytes
    }
}

impl History {
    /// The history of a log with a mark and forks, whose end moves on if it has an owner.
    pub(super) fn new(
        folder: PathBuf,
        (mark, forks): (u64, &[Fork]),
        end: watch::Receiver<LogEnd>,
    ) -> Self {
        let (origins, number) = forks::lineage(number_of(mark), forks);
        Self {
            folder,
            number,
            origins,
            end,
            places: Mutex::default(),
        }
    }

    /// Which history this is, and how far it has come.
    pub(super) fn now(&self) -> items::History {
        let now = items::History::new(self.number, last_of(*self.end.borrow()));
        now.continuing(self.origins.clone())
    }

    /// Waits until there is a change after a position.
    pub(super) async fn wait(&self, after: u64) -> Result<()> {
        let mut end = self.end.clone();
        let moved = end.wait_for(|end| last_of(*end).position > after);
        match moved.await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unavailable("the store has stopped; open it again")),
        }
    }

    /// Reads the changes of a table after a position.
    pub(super) fn read(&self, table: &Table, after: u64, budget: PageBudget) -> Result<ChangePage> {
        let end = *self.end.borrow();
        let last = last_of(end);
        if after > last.position {
            return Err(after_the_end(after, last.position));
        }
        let mut page = PageRead {
            table,
            changes: Vec::new(),
            bytes: 0,
            budget,
        };
        let mut upto = last;
        if after < last.position {
            upto = self.fill(&mut page, Position(after + 1), end)?;
        }
        let cost = Cost::of_read(page.bytes, Consistency::Strong).in_requests(1);
        Ok(ChangePage::new(page.changes, upto, last, cost))
    }

    /// Fills a page from a position on; returns up to where.
    fn fill(&self, page: &mut PageRead<'_>, from: Position, end: LogEnd) -> Result<LastChange> {
        let table = page.table;
        let prefix = codec::items_prefix(table.number);
        let mut frames = Frames::open_live(&self.folder, self.place_before(from, end)?, end.place)?;
        let mut upto = LastChange::new(from.0 - 1, 0);
        while !page.is_full() {
            let before = frames.place();
            let Some(frame) = frames.next()? else { break };
            upto = LastChange::new(frame.after.position.0 - 1, frame.time_ms);
            for change in frame.changes()? {
                if change.position < from || !change.key.starts_with(&prefix) {
                    continue;
                }
                if page.is_full() {
                    // The rest of the frame is for the next page.
                    upto.position = change.position.0 - 1;
                    self.remember(before);
                    return Ok(upto);
                }
                let key = change.key.get(prefix.len()..).unwrap_or_default();
                let key = codec::decode_key(table.spec.key(), key)?;
                let now = match change.value {
                    None => Changed::Deleted,
                    Some(_) if change.is_erased() => Changed::Erased,
                    Some(value) => {
                        page.bytes += value.len();
                        Changed::Put(codec::read_item(Bytes::copy_from_slice(value))?)
                    }
                };
                let has_replaced = change.supersedes.is_some();
                let position = change.position.0;
                page.changes
                    .push(Change::new(position, key, has_replaced, now));
            }
        }
        self.remember(frames.place());
        Ok(upto)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, place: Place) {
        let recent = &mut self.places().recent;
        if recent.len() >= PLACES_MAX {
            recent.pop_front();
        }
        recent.push_back(place);
    }

    /// The nearest place at or before a position that is known.
    fn place_before(&self, position: Position, end: LogEnd) -> Result<Place> {
        let mut places = self.places();
        let known = places.starts.len() as u64;
        let new = known..=end.place.segment;
        places.starts.reserve(new.clone().count());
        for segment in new {
            places.starts.push(log::start(&self.folder, segment)?);
        }
        let after = places.starts.partition_point(|it| it.position <= position);
        let start = after.checked_sub(1).and_then(|at| places.starts.get(at));
        let recent = places.recent.iter().filter(|it| it.position <= position);
        let nearest = start.into_iter().chain(recent);
        let nearest = nearest.max_by_key(|it| (it.position, it.segment, it.offset));
        nearest.copied().ok_or_else(|| {
            Error::corrupt("the log does not begin at its first position")
                .fact("position", position)
        })
    }
}

/// The number of the first history of a store with this mark.
pub(super) fn number_of(mark: u64) -> u32 {
    // One of its halves would do; both are random.
    (mark ^ (mark >> 32)) as u32
}

/// The last change before the end of a log.
fn last_of(end: LogEnd) -> LastChange {
    LastChange::new(end.place.position.0.saturating_sub(1), end.time_ms)
}
