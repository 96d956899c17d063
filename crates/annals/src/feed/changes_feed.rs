//! The feed of a store that keeps its changes: one lane, and a place is the position of a change.
//!
//! Guarantees: an append has the place of the item that completes it.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::purges::Purges;
use super::{Entry, FedEvent, Feed, Filter, LaneBatch, LanePosition, Place, Position, Shape, What};
use crate::items::{Change, ChangePage, Changed, Changes, PageBudget};
use crate::journal::{FeedLayout, Fetched, Journal, Meaning};
use crate::{Error, Event, PersistenceId, Result};

/// The feed of a journal in a store with changes.
#[derive(Clone, Debug)]
pub(super) struct ChangesFeed {
    journal: Journal,
    purges: Arc<Mutex<Purges>>,
}

impl ChangesFeed {
    /// # Errors
    /// `Invalid` if the store keeps no changes, or the layout has no feed.
    pub(super) fn open(journal: &Journal) -> Result<Self> {
        let feed = Self {
            journal: journal.clone(),
            purges: Arc::default(),
        };
        feed.changes()?;
        feed.layout()?;
        Ok(feed)
    }

    /// The position at the end.
    pub(super) async fn head(&self) -> Result<Position> {
        let history = self.changes()?.history().await?;
        let end = LanePosition::after(history.last.position);
        Ok(Position::start(history.number, 1).with_lane(0, end))
    }

    pub(super) fn changes(&self) -> Result<&dyn Changes> {
        let missing = || Error::invalid("this store has no feed; use the embedded store");
        self.journal.store().changes().ok_or_else(missing)
    }

    pub(super) fn layout(&self) -> Result<&dyn FeedLayout> {
        let missing = || Error::invalid("this layout has no feed; use annals, akka or j5ik2o");
        self.journal.layout().feed().ok_or_else(missing)
    }

    /// What a change is in the feed; `None` if it is nothing, or nothing that the filter accepts.
    async fn entry(&self, change: Change, filter: &Filter) -> Result<Option<Entry>> {
        let place = change.position;
        let Some((id, meaning)) = self.meaning(change, filter).await? else {
            return Ok(None);
        };
        let what = match meaning {
            Meaning::Nothing => return Ok(None),
            Meaning::Deleted(to) => What::Deleted(to),
            Meaning::Purged => What::Purged,
            Meaning::Appended(events) => What::Appended(fed(place, events, filter)),
            Meaning::Elsewhere(number, token) => {
                let fetched = self.layout()?.fetch(&id, number, token).await;
                match fetched.map_err(during(&id))? {
                    // What is left of an append; or of one from after a purge, which has another place.
                    Fetched::Events(_)
                        if token.is_none() && self.is_purged_since(&id, place).await? =>
                    {
                        What::Missing(number)
                    }
                    Fetched::Events(events) => What::Appended(fed(place, events, filter)),
                    Fetched::Deleted => What::Missing(number),
                    Fetched::Nothing => return Ok(None),
                }
            }
        };
        let is_empty = matches!(&what, What::Appended(events) if events.is_empty());
        Ok((!is_empty).then_some(Entry { place, id, what }))
    }

    /// Whether an id was purged after a place.
    async fn is_purged_since(&self, id: &PersistenceId, place: u64) -> Result<bool> {
        let read = (self.changes()?, self.layout()?);
        self.purges.lock().await.has_since(id, place, read).await
    }

    /// The id and the meaning of a change; `None` if the filter does not accept the id.
    async fn meaning(
        &self,
        change: Change,
        filter: &Filter,
    ) -> Result<Option<(PersistenceId, Meaning)>> {
        let layout = self.layout()?;
        let Some(id) = layout.id_of(&change) else {
            let is_new = change.now == Changed::Erased && !change.has_replaced;
            let found = match is_new {
                true => layout.look_up(&change.key).await?,
                false => None,
            };
            return Ok(found.filter(|(id, _)| filter.accepts_id(id)));
        };
        if !filter.accepts_id(&id) {
            return Ok(None);
        }
        let meaning = layout.meaning(&id, change).map_err(during(&id))?;
        Ok(Some((id, meaning)))
    }
}

fn during(id: &PersistenceId) -> impl Fn(Error) -> Error {
    |error| error.during("read the feed", id)
}

/// The events of an append that the filter accepts, with their positions.
fn fed(place: u64, events: Vec<Event>, filter: &Filter) -> Vec<FedEvent> {
    let last = events.last().map(|event| event.sequence_number);
    let wanted = events.into_iter();
    let wanted = wanted.filter(|event| filter.accepts_tags(&event.data.tags));
    let mut fed = Vec::with_capacity(wanted.size_hint().1.unwrap_or(0));
    fed.extend(wanted.map(|event| FedEvent {
        at: match Some(event.sequence_number) == last {
            true => LanePosition::after(place),
            false => LanePosition::within(place, event.sequence_number),
        },
        event,
    }));
    fed
}

#[async_trait]
impl Feed for ChangesFeed {
    async fn shape(&self) -> Result<Shape> {
        let history = self.changes()?.history().await?;
        Ok(Shape {
            generation: history.number,
            lanes: 1,
            origins: history.origins,
        })
    }

    async fn read(&self, after: Place, filter: &Filter, budget: PageBudget) -> Result<LaneBatch> {
        let page = self.page(after, budget).await?;
        self.batch(page, filter).await
    }

    async fn moved(&self, after: Place) -> Result<()> {
        self.changes()?.wait_for_change(after.place).await
    }
}

impl ChangesFeed {
    /// Reads changes, without finding out what they mean.
    pub(super) async fn page(&self, after: Place, budget: PageBudget) -> Result<ChangePage> {
        let table = self.layout()?.table();
        let page = self.changes()?.read_changes(table, after.place, budget);
        page.await
    }

    /// What the changes of a page mean.
    pub(super) async fn batch(&self, page: ChangePage, filter: &Filter) -> Result<LaneBatch> {
        let mut entries = Vec::with_capacity(page.changes.len());
        for change in page.changes {
            entries.extend(self.entry(change, filter).await?);
        }
        Ok(LaneBatch {
            entries,
            upto: page.upto,
            head: page.last,
            cost: page.cost,
        })
    }
}
