//! The feed, as a group reads it.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::{Commit, Found, Seen, SeenPage};
use super::state::State;
use crate::feed::{Entry, Feed, Filter, Lane, LanePosition, Place, Position, Reading, Shape, What};
use crate::items::{LastChange, PageBudget};
use crate::journal::Journal;
use crate::{Error, Event, PersistenceId, Result};

/// The events of the commits of a page, by place.
pub(super) type Events = HashMap<u64, Vec<Event>>;

/// A page of the feed.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) seen: SeenPage,
    pub(super) events: Events,
    /// When the end of the page was committed.
    pub(super) time_ms: u64,
    pub(super) head: LastChange,
}

/// The feed through the filter of a group.
#[derive(Debug)]
pub(super) struct Source {
    feed: Arc<dyn Feed>,
    filter: Filter,
    /// Where the group began in each lane.
    starts: Vec<LanePosition>,
}

/// The lanes of a journal's feed, and their shape.
///
/// # Errors
/// `Invalid` if the store or the layout has no feed.
pub(super) async fn open(journal: &Journal) -> Result<(Arc<dyn Feed>, Shape)> {
    let feed = Reading::new(journal).lanes()?;
    let shape = feed.shape().await?;
    Ok((feed, shape))
}

impl Source {
    /// The feed of a group. If the feed has a new generation since, as after the restore of a backup, the
    /// state gets it: the state was restored with the events, so it has no later places.
    ///
    /// # Errors
    /// `Invalid` if the group belongs to the feed of another store.
    pub(super) async fn open(
        journal: &Journal,
        filter: &Filter,
        state: &mut State,
    ) -> Result<Self> {
        let (feed, shape) = open(journal).await?;
        let located = shape.locate(&floor(state)).map_err(|cause| {
            Error::invalid(
                "the group belongs to the feed of another store; delete it and create it again",
            )
            .because(cause)
        })?;
        state.generation = located.generation();
        Ok(Self {
            feed,
            filter: filter.clone(),
            starts: state.starts(),
        })
    }

    /// Reads a lane after a place.
    pub(super) async fn page(&self, after: Place, changes: usize) -> Result<Page> {
        self.read(after, &self.filter, changes).await
    }

    /// The same, of one id only.
    pub(super) async fn page_of(
        &self,
        id: &PersistenceId,
        after: Place,
        changes: usize,
    ) -> Result<Page> {
        let filter = Filter {
            // Not narrower than the group's: that accepts the id.
            prefix: id.to_string(),
            ..self.filter.clone()
        };
        let mut page = self.read(after, &filter, changes).await?;
        page.seen.seen.retain(|seen| seen.id == *id);
        Ok(page)
    }

    /// The commit at a place; `None` if its events are deleted.
    pub(super) async fn commit(&self, at: Place) -> Result<Option<(Commit, Vec<Event>)>> {
        let before = at.lane.at(at.place.saturating_sub(1));
        let mut page = self.page(before, 1).await?;
        let mut seen = page.seen.seen.iter().filter(|seen| seen.place == at.place);
        Ok(match seen.next().map(|seen| seen.found) {
            Some(Found::Commit(commit)) => Some(commit).zip(page.events.remove(&at.place)),
            _ => None,
        })
    }

    async fn read(&self, after: Place, filter: &Filter, changes: usize) -> Result<Page> {
        let budget = PageBudget {
            changes,
            ..PageBudget::default()
        };
        let batch = self.feed.read(after, filter, budget).await?;
        let (mut seen, mut events) = (Vec::with_capacity(batch.entries.len()), Events::new());
        for entry in batch.entries {
            seen.extend(self.seen(after.lane, entry, &mut events));
        }
        let seen = SeenPage {
            lane: after.lane,
            after: after.place,
            upto: batch.upto.position.max(after.place),
            seen,
        };
        Ok(Page {
            seen,
            events,
            time_ms: batch.upto.time_ms,
            head: batch.head,
        })
    }

    /// What an entry is for a group; its events go to the others.
    fn seen(&self, lane: Lane, entry: Entry, events: &mut Events) -> Option<Seen> {
        let found = match entry.what {
            What::Missing(_) => Found::Missing,
            What::Purged => Found::Purged,
            What::Appended(fed) => {
                let fed = fed.into_iter().map(|fed| fed.event);
                let left: Vec<Event> = match self.starts.get(usize::from(lane.0)) {
                    // The group began inside this commit.
                    Some(start) if start.place + 1 == entry.place => {
                        let is_after = |event: &Event| event.sequence_number.get() > start.number;
                        fed.filter(is_after).collect()
                    }
                    _ => fed.collect(),
                };
                let commit = Commit {
                    first: left.first()?.sequence_number,
                    events: u32::try_from(left.len()).unwrap_or(u32::MAX),
                    bytes: left.iter().map(|event| event.data.payload.len()).sum(),
                };
                events.insert(entry.place, left);
                Found::Commit(commit)
            }
            // The events that a deletion concerns are commits or missing.
            What::Deleted(_) => return None,
        };
        Some(Seen {
            place: entry.place,
            id: entry.id,
            found,
        })
    }

    /// Waits until a lane has something after a place.
    pub(super) async fn moved(&self, after: &[Place]) -> Result<()> {
        let moved = after.iter().map(|after| self.feed.moved(*after));
        let (first, ..) = futures::future::select_all(moved).await;
        first
    }
}

/// The position of a place in a lane, for people and for `annals feed --after`.
pub(super) fn position(state: &State, after: Place) -> Position {
    let lanes = u16::try_from(state.lanes.len()).unwrap_or(u16::MAX);
    let mut position = Position::start(state.generation, lanes);
    for (lane, of_lane) in (0..).zip(&state.lanes) {
        let at = match lane == after.lane.0 {
            true => LanePosition::after(after.place),
            false => LanePosition::after(of_lane.handled.floor()),
        };
        position = position.with_lane(lane, at);
    }
    position
}

/// The floor of every lane.
pub(super) fn floor(state: &State) -> Position {
    let lane = Lane(0);
    let floor = state.lane(lane).map_or(0, |lane| lane.handled.floor());
    position(state, lane.at(floor))
}
