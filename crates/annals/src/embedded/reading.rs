//! Runs reads: short ones on the thread of the caller, others on threads that may wait for the disk.

use std::sync::Arc;

use super::Embedded;
use super::catalog::Table;
use super::index::Index;
use super::reads::{self, PageRead};
use crate::items::{Got, Key, Page};
use crate::{Error, Result};

/// Bytes of a page that are read on the thread of the caller, which runs other tasks, too.
const BYTES_HERE_MAX: usize = 64 * 1024;
/// Items that are read there at once.
const KEYS_HERE_MAX: usize = 16;
/// Items that take about as long as a step of another task.
const ITEMS_OF_A_STEP: usize = 32;

impl Embedded {
    fn index(&self) -> Result<&Arc<Index>> {
        let index = self.index.as_ref();
        index.ok_or_else(|| Error::unavailable("the store is closed; open it again"))
    }

    /// Reads some items.
    pub(super) async fn items(&self, table: Arc<Table>, keys: Vec<Key>) -> Result<Got> {
        let index = self.index()?;
        if keys.len() <= KEYS_HERE_MAX
            && let Some(got) = self.pace.run(|| reads::get(index, &table, &keys))
        {
            Self::yield_sometimes(1).await;
            return got;
        }
        let index = index.clone();
        self.elsewhere(move || reads::get(&index, &table, &keys))
            .await
    }

    /// Reads a page: here, if it is short and the disk is not slow.
    pub(super) async fn page(&self, open: impl Open) -> Result<Page> {
        let index = self.index()?;
        let begun = self.pace.run(|| -> Result<_> {
            let mut page = open(index)?;
            Ok((page.fill(BYTES_HERE_MAX)?, page))
        });
        let begun = match begun.transpose()? {
            Some((true, page)) => {
                let page = page.finish();
                Self::yield_sometimes(1 + page.items.len() / ITEMS_OF_A_STEP).await;
                return Ok(page);
            }
            Some((false, page)) => Some(page),
            None => None,
        };
        let index = index.clone();
        let read = move || {
            let mut page = begun.map_or_else(|| open(&index), Ok)?;
            page.fill(usize::MAX)?;
            Ok(page.finish())
        };
        self.elsewhere(read).await
    }

    /// Lets other tasks of the thread run, if this one has taken so many steps without waiting for
    /// anything that it is their turn.
    async fn yield_sometimes(steps: usize) {
        for _ in 0..steps {
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Reads on another thread, as the disk may block.
    pub(super) async fn elsewhere<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let in_flight = self.reads.begin();
        let task = tokio::task::spawn_blocking(move || {
            // It releases the index before the read counts as finished.
            let outcome = read();
            drop(in_flight);
            outcome
        });
        match task.await {
            Ok(outcome) => outcome,
            Err(stopped) => {
                Err(Error::unavailable("a read was aborted; try again").because(stopped))
            }
        }
    }
}

/// Opens a page that is to be read.
pub(super) trait Open: Fn(&Index) -> Result<PageRead> + Send + 'static {}

impl<F: Fn(&Index) -> Result<PageRead> + Send + 'static> Open for F {}
