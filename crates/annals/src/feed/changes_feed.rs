//! The feed of a store that keeps its changes: one lane, and a place is the position of a change.
//!
//! Guarantees: an append has the place of the item that completes it.

use async_trait::async_trait;

use super::{Entry, FedEvent, Feed, Filter, Lane, LaneBatch, LanePosition, Shape, What};
use crate::items::{Changes, PageBudget};
use crate::journal::{FeedLayout, Journal, Meaning};
use crate::{Error, Event, PersistenceId, Result};

/// The feed of a journal in a store with changes.
#[derive(Clone, Debug)]
pub(super) struct ChangesFeed(Journal);

impl ChangesFeed {
    /// # Errors
    /// `Invalid` if the store keeps no changes, or the layout has no feed.
    pub(super) fn open(journal: &Journal) -> Result<Self> {
        let feed = Self(journal.clone());
        feed.changes()?;
        feed.layout()?;
        Ok(feed)
    }

    fn changes(&self) -> Result<&dyn Changes> {
        let missing = || Error::invalid("this store has no feed; use the embedded store");
        self.0.store().changes().ok_or_else(missing)
    }

    fn layout(&self) -> Result<&dyn FeedLayout> {
        let missing = || Error::invalid("this layout has no feed; use annals, akka or j5ik2o");
        self.0.layout().feed().ok_or_else(missing)
    }

    async fn what(
        &self,
        id: &PersistenceId,
        meaning: Meaning,
        is_wanted: impl Fn(&Event) -> bool,
        place: u64,
    ) -> Result<Option<What>> {
        let events = match meaning {
            Meaning::Nothing => return Ok(None),
            Meaning::Deleted(to) => return Ok(Some(What::Deleted(to))),
            Meaning::Purged => return Ok(Some(What::Purged)),
            Meaning::Appended(events) => events,
            Meaning::Elsewhere(number, token) => {
                let events = self.layout()?.fetch(id, number, token).await?;
                if events.is_empty() {
                    return Ok(Some(What::Missing(number)));
                }
                events
            }
        };
        let count = events.len();
        let fed = events
            .into_iter()
            .zip(1u32..)
            .map(|(event, read)| FedEvent {
                event,
                at: match read as usize == count {
                    true => LanePosition::after(place),
                    false => LanePosition::within(place, read),
                },
            });
        let wanted: Vec<_> = fed.filter(|fed| is_wanted(&fed.event)).collect();
        Ok((!wanted.is_empty()).then_some(What::Appended(wanted)))
    }
}

#[async_trait]
impl Feed for ChangesFeed {
    async fn shape(&self) -> Result<Shape> {
        let generation = self.changes()?.history().await?;
        Ok(Shape {
            generation,
            lanes: 1,
        })
    }

    async fn read(
        &self,
        lane: Lane,
        after: u64,
        filter: &Filter,
        budget: PageBudget,
    ) -> Result<LaneBatch> {
        debug_assert_eq!(lane, Lane(0));
        let layout = self.layout()?;
        let page = self.changes()?.read_changes(layout.table(), after, budget);
        let page = page.await?;
        let mut entries = Vec::with_capacity(page.changes.len());
        for change in page.changes {
            let id = layout.id_of(&change.key);
            let Some(id) = id.filter(|id| filter.accepts_id(id)) else {
                continue;
            };
            let place = change.position;
            let meaning = layout
                .meaning(&id, change)
                .map_err(|error| error.during("read the feed", &id))?;
            let is_wanted = |event: &Event| filter.accepts_tags(&event.data.tags);
            if let Some(what) = self.what(&id, meaning, is_wanted, place).await? {
                entries.push(Entry { place, id, what });
            }
        }
        Ok(LaneBatch {
            entries,
            upto: page.upto,
            head: page.last,
            cost: page.cost,
        })
    }

    async fn moved(&self, _: Lane, after: u64) -> Result<()> {
        self.changes()?.wait_for_change(after).await
    }
}
