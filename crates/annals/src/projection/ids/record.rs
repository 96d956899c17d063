//! The record of the view of a journal's ids: which build has the rows, and how far it has come.
//!
//! Guarantees: a build is of one history of the store and of one table. If the store was replaced, or the
//! journal's table was dropped and created again, a new build begins: the ids of the old one are wrong.
//! The record may be older than the rows, never newer.

use serde::{Deserialize, Serialize};

use crate::projection::record::{Put, Records, Versioned, WriterId};
use crate::projection::table;
use crate::{Error, Random, Result};

/// Raised when rows are made differently.
const FORMAT: u32 = 1;
/// How often a record is read again that others change.
const ATTEMPTS_MAX: u32 = 20;

/// The content of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    format: u32,
    /// 16 random hexadecimal digits.
    pub(super) build: String,
    /// The number of the store's history.
    history: u32,
    /// The first change of the journal's table, once there is one. In a table that was created again, it
    /// is another.
    pub(super) first: Option<u64>,
    /// Everything up to here is in the rows.
    pub(super) at: u64,
    /// Builds that were replaced, and may have rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) old: Vec<String>,
}

impl Progress {
    /// A new build.
    fn new(history: u32, random: &Random) -> Self {
        Self {
            format: FORMAT,
            build: format!("{:016x}", random.bits()),
            history,
            first: None,
            at: 0,
            old: Vec::new(),
        }
    }
}

/// The record of a journal, by who follows it.
#[derive(Debug)]
pub(super) struct Saved {
    records: Records,
    journal: String,
    writer: WriterId,
    writes: u64,
    version: Option<String>,
    pub(super) progress: Progress,
}

impl Saved {
    /// Loads the record. `is_first` says whether a place is that of the table's first change.
    ///
    /// # Errors
    /// `Unavailable` if others keep beginning builds.
    pub(super) async fn load<F: Future<Output = Result<bool>>>(
        records: &Records,
        journal: &str,
        (history, is_first): (u32, impl Fn(u64) -> F),
    ) -> Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let found: Option<Versioned<Progress>> =
                records.get(table::ids_record(journal)).await?;
            let (version, found) = found.map(|found| (found.version, found.content)).unzip();
            let mut saved = Self {
                records: records.clone(),
                journal: journal.to_owned(),
                writer: WriterId::draw(records.store.random()),
                writes: 0,
                version,
                progress: Progress::new(history, records.store.random()),
            };
            if let Some(mut found) = found {
                let is_ours = found.format == FORMAT && found.history == history;
                let is_same = match found.first {
                    Some(first) if is_ours => is_first(first).await?,
                    _ => is_ours,
                };
                if is_same {
                    saved.progress = found;
                    return Ok(saved);
                }
                found.old.push(found.build);
                saved.progress.old = found.old;
            }
            // Refused if another one began a build meanwhile.
            if saved.try_save().await? {
                return Ok(saved);
            }
        }
        Err(overtaken())
    }

    /// Saves the record. If another process follows, too, the later one of two positions may be lost,
    /// which only costs that it is read again.
    ///
    /// # Errors
    /// `Unavailable` if another process has begun another build.
    pub(super) async fn save(&mut self) -> Result<()> {
        match self.try_save().await? {
            true => Ok(()),
            false => Err(overtaken()),
        }
    }

    /// Saves the record, unless another build was begun.
    async fn try_save(&mut self) -> Result<bool> {
        let key = table::ids_record(&self.journal);
        for _ in 0..ATTEMPTS_MAX {
            self.writes += 1;
            let record = Versioned {
                version: self.writer.version(self.writes),
                content: self.progress.clone(),
            };
            let put = self.records.put(&key, self.version.as_deref(), &record);
            let found = match put.await? {
                Put::Stored => {
                    self.version = Some(record.version);
                    return Ok(true);
                }
                Put::Refused(found) => found,
            };
            let found = found.as_ref().map(Versioned::<Progress>::from_item);
            match found.transpose()? {
                Some(found) if found.content.build == self.progress.build => {
                    self.version = Some(found.version);
                }
                _ => return Ok(false),
            }
        }
        Ok(false)
    }
}

fn overtaken() -> Error {
    Error::unavailable("another process builds the view of ids anew; run it again")
}
