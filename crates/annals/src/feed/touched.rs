//! Which ids the changes of a journal are about, for readers that want no events: nothing is decoded or
//! fetched.
//!
//! Guarantees: every id that has an item is touched by a change, after which it has one; every purge is
//! one. In the order of the changes.

use super::{ChangesFeed, Lane};
use crate::items::{Change, Changed, PageBudget};
use crate::journal::{FeedLayout, Journal, Meaning};
use crate::{PersistenceId, Result};

/// A change of an id.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) place: u64,
    pub(crate) id: PersistenceId,
    /// Whether it may have taken the id off the list of ids.
    pub(crate) is_purge: bool,
}

/// A part of the feed.
#[derive(Clone, Debug)]
pub(crate) struct TouchedPage {
    pub(crate) touched: Vec<Touched>,
    /// The first change of the table, whatever it means.
    pub(crate) first: Option<u64>,
    /// Everything up to here was read.
    pub(crate) upto: u64,
    /// The end of the feed.
    pub(crate) head: u64,
}

/// Reads the changes of ids.
#[derive(Clone, Debug)]
pub(crate) struct TouchedFeed(ChangesFeed);

impl TouchedFeed {
    /// The feed of a journal; `None` if it has none.
    pub(crate) fn open(journal: &Journal) -> Option<Self> {
        ChangesFeed::open(journal).ok().map(Self)
    }

    pub(crate) fn layout(&self) -> Result<&dyn FeedLayout> {
        self.0.layout()
    }

    /// The number of the history, and the place of its last change.
    pub(crate) async fn history(&self) -> Result<(u32, u64)> {
        let history = self.0.changes()?.history().await?;
        Ok((history.number, history.last.position))
    }

    /// Waits until there is something after a place.
    pub(crate) async fn moved(&self, after: u64) -> Result<()> {
        self.0.changes()?.wait_for_change(after).await
    }

    /// Reads what follows a place.
    pub(crate) async fn read(&self, after: u64, budget: PageBudget) -> Result<TouchedPage> {
        let page = self.0.page(Lane(0).at(after), budget).await?;
        let first = page.changes.first().map(|change| change.position);
        let mut touched = Vec::with_capacity(page.changes.len());
        for change in page.changes {
            touched.extend(self.touched(change).await?);
        }
        Ok(TouchedPage {
            touched,
            first,
            upto: page.upto.position,
            head: page.last.position,
        })
    }

    async fn touched(&self, change: Change) -> Result<Option<Touched>> {
        let (layout, place) = (self.layout()?, change.position);
        let Some(id) = layout.id_of(&change) else {
            // Only the value had the id, and it is gone: what replaced it may be after the end of this
            // reader, to whom the id must not be missing.
            let is_new = change.now == Changed::Erased && !change.has_replaced;
            let found = match is_new {
                true => layout.look_up(&change.key).await?,
                false => None,
            };
            return Ok(found.map(|(id, _)| Touched {
                place,
                id,
                is_purge: false,
            }));
        };
        let is_deleted = change.now == Changed::Deleted;
        let is_purge = is_deleted && layout.meaning(&id, change)? == Meaning::Purged;
        // Other deletions of items take no id off the list, nor put one on it.
        let is_relevant = is_purge || !is_deleted;
        Ok(is_relevant.then_some(Touched {
            place,
            id,
            is_purge,
        }))
    }
}
