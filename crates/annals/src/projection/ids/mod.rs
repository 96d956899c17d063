//! The built-in view of ids: a row for each persistence id that the journal lists, in the order of ids.
//!
//! ```text
//! changes of the journal ─► touched ids ─► is it listed now? ─► row or tombstone ─► pages of ids
//! ```
//!
//! Guarantees:
//! - After everything up to a place of the feed was read, the rows are the ids that
//!   [`Journal::persistence_ids`] lists, except for those that later changes added or removed.
//! - An id costs a write when it is new and one when it is purged. Further events cost none.
//! - A page reads the ids that it returns, and no event.
//!
//! Any number of processes may follow at the same time, without a lease, so none waits for one that died.
//! That works because a row is no fold of the events, but what the journal says now. It is read after the
//! row was, and the row is only written over the version that was read; and whoever reads a purge renews
//! the version. So a follower that was paused and writes late what was true before a purge is refused.
//! For that a purged id leaves a tombstone.
//!
//! It is no projection of users: it has no control record, and `Projections::list` does not show it.

mod following;
mod record;
mod rows;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use futures::{TryStreamExt, stream};
use tokio::sync::watch;

use super::record::Records;
use super::table::IdsKey;
use crate::feed::TouchedFeed;
use crate::journal::Journal;
use crate::{Error, IdStream, PersistenceId, Result};

use following::Follower;
use rows::{IdRange, IdRows};

/// How many ids are read at once.
const PAGE_IDS: u32 = 1_000;

/// The built-in view of the ids of a journal, in their order. [`Projections::ids`] opens it; clones share
/// it. `annals serve` runs it.
///
/// It has exactly the ids that [`Journal::persistence_ids`] lists, but a page of it costs what it
/// returns, whatever the size of the journal.
///
/// [`Projections::ids`]: super::Projections::ids
///
/// ```
/// use annals::PersistenceId;
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, Codec, NewEvent, memory::Memory};
/// use futures::TryStreamExt;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let ids = annals.projections().ids()?.expect("this store has a feed");
/// let follower = tokio::spawn({
///     let ids = ids.clone();
///     async move { ids.run().await }
/// });
/// # for id in ["Cart|7", "Order|1", "Cart|42"] {
/// #     let opened = NewEvent::new(Codec::Text, "opened");
/// #     annals.journal().append(&id.parse()?, Expected::Empty, opened).await?;
/// # }
/// ids.caught_up().await?; // it has every id whose append was acknowledged before
/// let carts: Vec<PersistenceId> = ids.list("Cart|", None, None).try_collect().await?;
/// assert_eq!(carts, ["Cart|42".parse()?, "Cart|7".parse()?]);
///
/// let after = &carts[0];
/// let page: Vec<PersistenceId> = ids.list("", Some(after), Some(1)).try_collect().await?;
/// assert_eq!(page, ["Cart|7".parse()?]);
/// # follower.abort();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct IdView(Arc<Inner>);

struct Inner {
    feed: TouchedFeed,
    records: Records,
    /// Names the journal among those of the store.
    journal: String,
    reached: watch::Sender<Option<Reached>>,
    /// The last place that somebody waits for.
    wanted: watch::Sender<u64>,
}

/// How far a build has come.
#[derive(Clone, Debug)]
struct Reached {
    build: IdsKey,
    /// Every change up to here is in the rows.
    place: u64,
}

impl fmt::Debug for IdView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdView")
            .field("journal", &self.0.journal)
            .finish_non_exhaustive()
    }
}

impl IdView {
    /// The view of a journal's ids; `None` if the journal has no feed.
    pub(super) fn open(journal: &Journal, records: Records) -> Result<Option<Self>> {
        let Some(feed) = TouchedFeed::open(journal) else {
            return Ok(None);
        };
        let layout = feed.layout()?;
        let table = layout.table().name();
        let journal = match layout.journal_name() {
            None => table.to_string(),
            Some(name) => format!("{table}:{name}"),
        };
        Ok(Some(Self(Arc::new(Inner {
            feed,
            records,
            journal,
            reached: watch::Sender::default(),
            wanted: watch::Sender::default(),
        }))))
    }

    /// Keeps the rows up to date, until the future is dropped. Creates the table `annals-projection` if
    /// it is missing; the first run of a journal reads its whole feed.
    ///
    /// A journal whose table was dropped and created again has other ids: run it again then.
    ///
    /// # Errors
    /// Those of the store. Run it again: it goes on where it was.
    pub async fn run(&self) -> Result<Infallible> {
        Follower::open(self.0.clone()).await?.run().await
    }

    /// Waits until the rows include every change that was acknowledged before the call. Waits for ever
    /// if nobody [runs](Self::run) the view in this process.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn caught_up(&self) -> Result<()> {
        let (_, head) = self.0.feed.history().await?;
        self.0.wanted.send_if_modified(|wanted| {
            let is_later = *wanted < head;
            *wanted = head.max(*wanted);
            is_later
        });
        let mut reached = self.0.reached.subscribe();
        let includes = |reached: &Option<Reached>| {
            let place = reached.as_ref().map(|reached| reached.place);
            place.is_some_and(|place| place >= head)
        };
        // The sender is in `self`.
        let _ = reached.wait_for(includes).await;
        Ok(())
    }

    /// Lists the ids with a prefix, at most `limit` of those after an id, in the order of their bytes.
    /// Reads them as the stream is polled; an id that is listed all the while is in it exactly once.
    /// Call [`caught_up`](Self::caught_up) before.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&PersistenceId>,
        limit: Option<u64>,
    ) -> IdStream {
        let reached = self.0.reached.borrow().clone();
        let Some(Reached { build, .. }) = reached else {
            let error = Error::unavailable("the view of ids does not run yet; try again");
            return IdStream::new(stream::once(async { Err(error) }));
        };
        let rows = IdRows {
            records: self.0.records.clone(),
            build,
        };
        let range = IdRange {
            prefix: prefix.into(),
            after: after.cloned(),
        };
        let left = limit.unwrap_or(u64::MAX);
        let pages = stream::try_unfold(Some((range, left)), move |state| {
            let rows = rows.clone();
            async move {
                let Some((range, left)) = state.filter(|(_, left)| *left > 0) else {
                    return Ok::<_, Error>(None);
                };
                let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE_IDS);
                let (ids, rest) = rows.page(range, limit).await?;
                let left = left - ids.len() as u64;
                Ok(Some((ids, rest.map(|rest| (rest, left)))))
            }
        });
        let ids = pages.map_ok(|ids| stream::iter(ids.into_iter().map(Ok)));
        IdStream::new(ids.try_flatten())
    }
}
