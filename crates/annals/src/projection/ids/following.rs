//! Keeping the view of ids up to date.
//!
//! Guarantees: a place counts as reached after the rows of all changes up to it are stored. See the
//! header of the module for why several followers may run at once.
//! Costs: a page of changes is read for many appends at once. An id that was seen lately costs nothing;
//! another one a read of its row, in batches; one without a row a read of the journal and a write.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::record::Saved;
use super::rows::{IdRow, IdRows};
use super::{Inner, Reached};
use crate::feed::Touched;
use crate::items::PageBudget;
use crate::projection::table::{self, IdsKey};
use crate::{PersistenceId, Result};

/// How long changes are collected before they are read, unless somebody waits.
const PAUSE: Duration = Duration::from_millis(100);
/// After how many places the position is saved: so much is read again after a crash.
const SAVED_EVERY: u64 = 10_000;
/// How many ids are settled at the same time.
const CONCURRENT: usize = 256;
/// The most bytes of ids that are remembered.
const KNOWN_BYTES_MAX: usize = 4 << 20;

/// The last changes of an id in a page; 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    put: u64,
    purge: u64,
}

impl Seen {
    /// Whether a row does not tell yet what these changes did.
    fn is_news(self, row: &IdRow) -> bool {
        self.purge > row.at || (!row.is_listed && self.put > row.at)
    }
}

/// Ids that have a row.
#[derive(Debug, Default)]
struct Known {
    ids: HashSet<PersistenceId>,
    bytes: usize,
}

impl Known {
    fn add(&mut self, id: PersistenceId) {
        if self.bytes > KNOWN_BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += id.as_str().len();
        self.ids.insert(id);
    }
}

/// Follows the feed.
pub(super) struct Follower {
    view: Arc<Inner>,
    saved: Saved,
    rows: IdRows,
    known: Known,
    at: u64,
}

impl Follower {
    pub(super) async fn open(view: Arc<Inner>) -> Result<Self> {
        table::create_missing(&view.records.store, &view.records.table).await?;
        let (history, _) = view.feed.history().await?;
        let one = PageBudget {
            changes: 1,
            ..PageBudget::default()
        };
        let is_first = |place: u64| {
            let read = view.feed.read(place - 1, one);
            async move { Ok(read.await?.first == Some(place)) }
        };
        let saved = Saved::load(&view.records, &view.journal, (history, is_first)).await?;
        Ok(Self {
            rows: IdRows {
                records: view.records.clone(),
                build: IdsKey::new(&saved.progress.build),
            },
            known: Known::default(),
            at: saved.progress.at,
            saved,
            view,
        })
    }

    pub(super) async fn run(mut self) -> Result<Infallible> {
        self.read_to_end().await?;
        self.drop_old().await?;
        loop {
            self.wait().await?;
            self.read_to_end().await?;
        }
    }

    /// Reads up to the end of the feed.
    async fn read_to_end(&mut self) -> Result<()> {
        loop {
            let page = self.view.feed.read(self.at, PageBudget::default()).await?;
            if self.saved.progress.first.is_none() && page.first.is_some() {
                // Before there is a row that a new table would not have.
                self.saved.progress.first = page.first;
                self.saved.save().await?;
            }
            self.reflect(page.touched).await?;
            self.at = page.upto.max(self.at);
            self.view.reached.send_replace(Some(Reached {
                build: self.rows.build.clone(),
                place: self.at,
            }));
            if self.at - self.saved.progress.at >= SAVED_EVERY {
                self.saved.progress.at = self.at;
                self.saved.save().await?;
            }
            if self.at >= page.head {
                return Ok(());
            }
        }
    }

    /// Waits until there is something to read, and a while longer for more, unless somebody waits for it.
    async fn wait(&self) -> Result<()> {
        let mut wanted = self.view.wanted.subscribe();
        tokio::select! {
            biased;
            moved = self.view.feed.moved(self.at) => moved?,
            _ = wanted.wait_for(|wanted| *wanted > self.at) => return Ok(()),
        }
        let clock = self.view.records.store.clock();
        tokio::select! {
            biased;
            () = clock.passes(PAUSE) => {}
            _ = wanted.wait_for(|wanted| *wanted > self.at) => {}
        }
        Ok(())
    }

    /// Makes the rows tell what changes did.
    async fn reflect(&mut self, touched: Vec<Touched>) -> Result<()> {
        let mut seen: BTreeMap<PersistenceId, Seen> = BTreeMap::new();
        for Touched {
            place,
            id,
            is_purge,
        } in touched
        {
            if is_purge {
                self.known.ids.remove(&id);
                seen.entry(id).or_default().purge = place;
            } else if !self.known.ids.contains(&id) {
                seen.entry(id).or_default().put = place;
            }
        }
        let rows = self.rows.get(seen.keys()).await?;
        let settled = seen.into_iter().zip(rows).map(|((id, seen), row)| {
            let this = &*self;
            async move {
                let is_listed = this.settle(&id, seen, row).await?;
                Ok::<_, crate::Error>(is_listed.then_some(id))
            }
        });
        let settled: Vec<_> = settled.collect();
        let settled = stream::iter(settled).buffer_unordered(CONCURRENT);
        let listed: Vec<Option<PersistenceId>> = settled.try_collect().await?;
        for id in listed.into_iter().flatten() {
            self.known.add(id);
        }
        Ok(())
    }

    /// Makes a row tell what changes did; returns whether its id is listed.
    async fn settle(&self, id: &PersistenceId, seen: Seen, mut row: IdRow) -> Result<bool> {
        while seen.is_news(&row) {
            // After the row was read, so that a purge in between changes its version.
            let is_listed = self.view.feed.layout()?.is_listed(id).await?;
            if seen.purge <= row.at && !is_listed {
                // It is not listed yet, or a purge follows.
                return Ok(false);
            }
            row.at = seen.put.max(seen.purge);
            row.is_listed = is_listed;
            match self.rows.put(id, row).await? {
                None => return Ok(is_listed),
                Some(found) => row = found,
            }
        }
        Ok(row.is_listed)
    }

    /// Deletes the rows of builds that were replaced.
    async fn drop_old(&mut self) -> Result<()> {
        if self.saved.progress.old.is_empty() {
            return Ok(());
        }
        for build in &self.saved.progress.old {
            let rows = IdRows {
                build: IdsKey::new(build),
                ..self.rows.clone()
            };
            rows.drop_all().await?;
        }
        self.saved.progress.old.clear();
        self.saved.save().await
    }
}
