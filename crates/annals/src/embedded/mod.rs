//! The embedded store: items in a folder of this machine.
//!
//! ```text
//! put, delete, write ─► decider ─► syncer ─► log      the truth: every change, in order
//!                          └─────────────► index    sorted by key; made from the log
//! get, query, scan ◄───────────────────────┘
//! ```
//!
//! Guarantees: acknowledged writes are on stable storage; concurrent writers share one sync; a killed
//! process loses nothing that was acknowledged; damage is reported and never becomes a shorter
//! history; a second process can only read (`beside.rs`). Relies on the disk keeping what it synced.
//! Nothing here knows about events.

mod backup;
mod beside;
mod catalog;
mod changes;
mod check;
mod codec;
mod convert;
mod decider;
mod errors;
mod folder;
mod forks;
#[cfg(test)]
mod full_disk_tests;
mod group;
mod history;
mod in_flight;
mod index;
mod log;
mod opening;
mod pace;
mod private_folder;
mod reading;
mod reads;
mod retention;
mod scrub;
mod space;
mod syncer;
mod threads;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::backup::Prepared;
pub use self::backup::{BackupReport, RestorePoint, Restored, backup, restore};
use self::beside::Home;
#[doc(hidden)]
pub use self::beside::change_note;
use self::catalog::{Catalog, Table};
use self::changes::{changes_of, delete_change, group_len, put_change};
#[doc(hidden)]
pub use self::check::CheckedFiles;
use self::decider::{Answer, Job};
use self::folder::{Folder, Format};
use self::history::History;
use self::in_flight::Reads;
use self::index::Index;
use self::log::Writer;
use self::opening::Opening;
use self::pace::Pace;
use self::reads::PageRead;
use self::retention::Retention;
use self::scrub::Scrub;
use self::space::Space;
use self::syncer::Tally;
use self::threads::{Parts, Started, spawn_background, yield_to_others};
use crate::items;
use crate::items::check::{
    Checked, check_condition, check_item, check_key, check_query, check_scan, checked_writes,
};
use crate::items::{
    BatchError, Billing, ChangePage, Changes, Condition, Cost, Got, Item, Items, Key, Page,
    PageBudget, Query, Scan, TableName, TableSpec, Write, WriteError, item_size,
};
use crate::settings::EmbeddedSettings;
use crate::{Error, Random, Result};

const MIB: u64 = 1024 * 1024;

/// An item as the engine stores it.
#[doc(hidden)]
pub fn stored_bytes(item: &Item) -> Vec<u8> {
    codec::encode_item(item, item_size(item))
}

/// A store in a folder.
///
/// ```
/// use annals::embedded::Embedded;
/// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("data");
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Embedded::open(&folder, &Default::default())?;
/// items.create_table(&table, Default::default()).await?;
/// items.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
/// drop(items);
///
/// let items = Embedded::open(&folder, &Default::default())?;
/// let found = items.get(&table, vec![Key::new("a")]).await?.items;
/// assert_eq!(found, [Some(Item::new().with("id", "a"))]);
/// # Ok(())
/// # }
/// ```
pub struct Embedded {
    scrub: Option<Scrub>,
    /// `None` in a store that was opened for reading.
    retention: Option<Retention>,
    /// `None` in a store that was opened for reading, and while the store is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    tally: Arc<Tally>,
    reads: Reads,
    pace: Pace,
    catalog: Arc<Catalog>,
    history: Arc<History>,
    /// `None` only while the store is being dropped.
    index: Option<Arc<Index>>,
    /// What was wrong with the index when the store was opened.
    damage: Option<Error>,
    /// Last: it is unlocked after everything has closed.
    home: Home,
}

/// How well group commit works: changes and the groups they shared.
///
/// ```
/// use annals::embedded::Embedded;
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("data");
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Embedded::open(&folder, &Default::default())?;
/// items.create_table(&table, Default::default()).await?;
/// let put = |id| items.put(&table, Item::new().with("id", id), Condition::Absent);
/// futures::try_join!(put("a"), put("b"), put("c"))?;
///
/// let counts = items.group_counts();
/// assert_eq!(counts.changes, 3);
/// assert!(counts.groups <= 3, "concurrent changes share a sync");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
// Tests count the groups.
#[doc(hidden)]
pub struct GroupCounts {
    /// Changes (puts, deletes and batches) that were answered.
    pub changes: u64,
    /// Groups, of at most one sync each.
    pub groups: u64,
}

impl Embedded {
    /// Opens the store in `folder`, creating it if it is missing.
    ///
    /// # Errors
    /// `Unavailable` if another process has it open; `Invalid` if the folder cannot be used, is not a
    /// store, or was written by a newer version; `Corrupt` if its files are damaged.
    pub fn open(folder: &Path, settings: &EmbeddedSettings) -> Result<Self> {
        let mut folder = Self::own(folder)?;
        // Nothing is changed before the log is checked.
        let recovered = log::recover(&folder.log())?;
        let opening = Opening {
            folder: folder.path(),
            log_folder: &folder.log(),
            index_folder: folder.index(),
            log: &recovered,
            catalog: Arc::default(),
            cache_bytes: settings.cache_mib.saturating_mul(MIB),
        };
        let (index, upkeep, damage) = opening.index()?;
        if let Some(error) = &damage {
            tracing::warn!(%error, "the index was damaged, and was made again from the log");
        }
        let decided = opening.catalog.load(&index.snapshot())?;
        let catalog = opening.catalog;
        convert::clean(&folder)?;
        private_folder::remove_dead(&folder.readers(), beside::PREFIX);
        let log = Writer::open(&folder.log(), &recovered)?;
        let reserve_bytes = settings.reserve_mib.saturating_mul(MIB);
        log.keep_free(reserve_bytes);
        let (end, at_end) = watch::channel(recovered.log_end());
        let forks = forks::load(&index.snapshot())?;
        let history = History::new(folder.log(), (recovered.mark(), &forks), at_end);
        let history = Arc::new(history);
        let retention = retention::Start::read(&folder.log(), &recovered);
        folder.note_owner();
        let space = Space::new(folder.path().to_owned(), reserve_bytes);
        let upkeep = Arc::new(upkeep);
        let parts = Parts {
            index: index.clone(),
            upkeep: upkeep.clone(),
            catalog: catalog.clone(),
            decided,
            space,
            superseding: retention.superseding.clone(),
            end,
        };
        let tally = Arc::new(Tally::default());
        let Started {
            jobs,
            threads,
            open,
        } = parts.start(log, tally.clone())?;
        let parts = retention::Parts {
            folder: folder.log(),
            readers: folder.readers(),
            index: index.clone(),
            upkeep,
            catalog: catalog.clone(),
            open,
            jobs: jobs.downgrade(),
        };
        let retention = Some(Retention::start(retention, parts)?);
        let rate = settings.scrub_mib_per_second;
        let scrub = Scrub::start(folder.log(), index.clone(), rate)?;
        Ok(Self {
            scrub,
            retention,
            jobs: Some(jobs),
            threads,
            tally,
            reads: Reads::default(),
            pace: Pace::default(),
            catalog,
            history,
            index: Some(index),
            damage,
            home: Home::Owner(folder),
        })
    }

    /// Takes the folder for this process; it has the current format then.
    fn own(folder: &Path) -> Result<Folder> {
        let folder = Folder::open(folder)?;
        match folder.format() {
            Format::Current => {}
            Format::New => {
                log::create(&folder.log(), Random::from_machine().bits())?;
                folder.finish()?;
            }
            Format::One => convert::convert(&folder)?,
        }
        Ok(folder)
    }

    /// Opens the store in `folder` as it is now, for reading, also while another process has it open.
    /// Everything acknowledged before is there; what is written later is not: open it again.
    ///
    /// It takes no lock, so it keeps no process from opening the store for writing, and changes nothing
    /// but the folder `readers`. A lost or damaged index is replaced by a copy of its own.
    ///
    /// ```
    /// use annals::ErrorKind;
    /// use annals::embedded::Embedded;
    /// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let folder = folder.path().join("data");
    /// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
    /// let owner = Embedded::open(&folder, &Default::default())?;
    /// owner.create_table(&table, Default::default()).await?;
    /// owner.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
    ///
    /// // As in another process:
    /// let reader = Embedded::open_read_only(&folder, &Default::default())?;
    /// let found = reader.get(&table, vec![Key::new("a")]).await?.items;
    /// assert_eq!(found, [Some(Item::new().with("id", "a"))]);
    /// let refused = reader.drop_table(table.name()).await.unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Invalid);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if there is no store, or it was written by another version; `Corrupt` if its files
    /// are damaged. The methods that write return `Invalid`.
    pub fn open_read_only(folder: &Path, settings: &EmbeddedSettings) -> Result<Self> {
        let opened = beside::open(folder, settings.cache_mib.saturating_mul(MIB))?;
        if let Some(error) = &opened.damage {
            tracing::warn!(%error, "reading from the log");
        }
        Ok(Self {
            scrub: None,
            retention: None,
            jobs: None,
            threads: Vec::new(),
            tally: Arc::default(),
            reads: Reads::default(),
            pace: Pace::default(),
            catalog: opened.catalog,
            history: Arc::new(opened.history),
            index: Some(opened.index),
            damage: opened.damage,
            home: Home::Reader {
                store: folder.to_owned(),
                _copy: opened.copy,
            },
        })
    }

    /// Changes and groups since the store was opened.
    #[doc(hidden)]
    pub fn group_counts(&self) -> GroupCounts {
        GroupCounts {
            changes: self.tally.changes.load(Ordering::Relaxed),
            groups: self.tally.groups.load(Ordering::Relaxed),
        }
    }

    /// Writes the index's recent changes to its files, as happens by itself when there are many.
    #[doc(hidden)]
    pub async fn flush_index(&self) -> Result<()> {
        self.commit(Job::Flush).await?;
        let Some((index, retention)) = self.index.clone().zip(self.retention.as_ref()) else {
            return Err(beside::read_only(self.home.path()));
        };
        let upkeep = retention.upkeep();
        let flushed = tokio::task::spawn_blocking(move || upkeep.wait_until_flushed(&index));
        flushed
            .await
            .unwrap_or_else(|_| Err(errors::after_failure()))
    }

    /// Erases everything that was deleted or overwritten from the files of the store, as happens by
    /// itself after a while. Returns when it is gone.
    #[doc(hidden)]
    pub async fn erase_now(&self) -> Result<()> {
        let Some(retention) = &self.retention else {
            return Err(beside::read_only(self.home.path()));
        };
        let outcome = retention.request().await;
        outcome.unwrap_or_else(|_| Err(Error::unavailable("the store was closed; open it again")))
    }

    /// What was wrong with the index when the store was opened. It was made again from the log: in its
    /// folder, or if the store was opened for reading, in a copy of its own.
    #[doc(hidden)]
    pub fn index_damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// The process that has the store in a folder open, as far as that can be known without its lock.
    #[doc(hidden)]
    pub fn owner(folder: &Path) -> Option<u32> {
        folder::owner(folder)
    }

    /// Checks every byte of the store in a folder that nobody has open. Changes nothing. Calls `step`
    /// with the bytes that were read.
    ///
    /// # Errors
    /// `Unavailable` if a process has the store open; `Invalid` if there is none. What is damaged is
    /// among the findings.
    #[doc(hidden)]
    pub fn check_files(folder: &Path, step: &mut dyn FnMut(u64)) -> Result<CheckedFiles> {
        check::check(folder, step)
    }

    /// Sends a job to the decider and waits for its answer.
    async fn commit<T, E: From<Error>>(
        &self,
        job: impl FnOnce(Answer<T, E>) -> Job,
    ) -> Result<T, E> {
        if matches!(self.home, Home::Reader { .. }) {
            return Err(beside::read_only(self.home.path()).into());
        }
        let (answer, outcome) = oneshot::channel();
        if let Some(jobs) = &self.jobs
            && jobs.send(job(answer)).await.is_ok()
            && let Ok(outcome) = outcome.await
        {
            return outcome;
        }
        Err(Error::unavailable("the store has stopped; open it again").into())
    }
}

impl Drop for Embedded {
    /// Waits for the threads and the reads, so that the folder is free when this returns.
    fn drop(&mut self) {
        self.scrub = None;
        // It uses the other threads.
        if let Some(retention) = &mut self.retention {
            retention.stop();
        }
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // If it panicked, every caller got `Unavailable`.
            let _ = thread.join();
        }
        if let Some(retention) = self.retention.take() {
            retention.close();
        }
        self.reads.wait();
        self.index = None;
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.home.path();
        f.debug_struct("Embedded")
            .field("folder", &folder)
            .finish_non_exhaustive()
    }
}

/// Steps of the methods of [`Items`].
impl Embedded {
    /// The stored table, and the item as checked by the stored spec: the caller's may lack indexes,
    /// and the decider relies on valid index keys.
    fn table_for(
        &self,
        spec: &TableSpec,
        item: &Item,
        condition: &Condition,
    ) -> Result<(Arc<Table>, Checked)> {
        let table = self.catalog.table(spec)?;
        let checked = check_item(&table.spec, item)?;
        check_condition(condition)?;
        Ok((table, checked))
    }

    async fn write_all(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        if writes.is_empty() {
            return Ok(Cost::ZERO);
        }
        let failed = |remaining: Vec<Write>, cost: Cost, cause| BatchError {
            remaining,
            cost,
            cause,
        };
        let requests = Cost::write_requests(writes.len());
        let prepared = checked_writes(table, &writes).and_then(|checked| {
            let stored = self.catalog.table(table)?;
            Ok((changes_of(&stored, table, &writes, checked)?, stored))
        });
        let (mut changes, table) = match prepared {
            Ok(prepared) => prepared,
            Err(cause) => return Err(failed(writes, Cost::ZERO, cause)),
        };
        let mut cost = Cost::ZERO;
        let mut done = 0;
        while !changes.is_empty() {
            let rest = changes.split_off(group_len(&changes));
            let (group, table) = (std::mem::replace(&mut changes, rest), table.clone());
            let len = group.len();
            match self.commit(|answer| Job::Many(table, group, answer)).await {
                Ok(more) => cost += more,
                Err(cause) => {
                    return Err(failed(writes.into_iter().skip(done).collect(), cost, cause));
                }
            }
            done += len;
        }
        Ok(cost.in_requests(requests))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Embedded {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        keys.iter().try_for_each(|key| check_key(table, key))?;
        if keys.is_empty() {
            return Ok(Got::default());
        }
        let table = self.catalog.table(table)?;
        self.items(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let (stored, checked) = self.table_for(table, &item, &condition)?;
        let change = put_change(&stored, &item, &checked)?;
        self.commit(|answer| Job::One(stored, change, condition, answer))
            .await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        check_key(table, &key)?;
        check_condition(&condition)?;
        let table = self.catalog.table(table)?;
        let change = delete_change(&table, &key);
        self.commit(|answer| Job::One(table, change, condition, answer))
            .await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.write_all(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        check_query(table, &query)?;
        let table = self.catalog.table(table)?;
        self.page(move |index| PageRead::query(index, table.clone(), &query))
            .await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        check_scan(table, &scan)?;
        let table = self.catalog.table(table)?;
        self.page(move |index| PageRead::scan(index, table.clone(), &scan))
            .await
    }

    async fn create_table(&self, spec: &TableSpec, _billing: Billing) -> Result<()> {
        self.commit(|answer| Job::Create(spec.clone(), answer))
            .await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let found = self.catalog.find(name);
        Ok(found.map(|table| table.spec.clone()))
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.commit(|answer| Job::Drop(name.clone(), answer)).await
    }

    fn changes(&self) -> Option<&dyn Changes> {
        Some(self)
    }
}

#[async_trait]
impl Changes for Embedded {
    async fn history(&self) -> Result<items::History> {
        Ok(self.history.now())
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        let (table, history) = (self.catalog.table(table)?, self.history.clone());
        self.elsewhere(move || history.read(&table, after, budget))
            .await
    }

    async fn wait_for_change(&self, after: u64) -> Result<()> {
        match &self.home {
            Home::Owner(_) => self.history.wait(after).await,
            Home::Reader { .. } => std::future::pending().await,
        }
    }
}
