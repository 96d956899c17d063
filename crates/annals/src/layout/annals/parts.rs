//! Parts: what a commit holds that is too large for one item.
//!
//! Parts are written before their commit and mean nothing without it, so an append that is cut off
//! between the two leaves orphans. A refused append takes its own back; a sweep finds the others.
//!
//! Promises: the parts of a commit that was acknowledged are never taken away while it stands, also
//! where its writer stood still for longer than a sweep waits.
//! Trusts: that the clocks of writers and sweepers do not differ by more than `SWEEP_AGE_MIN` less
//! `WRITE_MAX`.

use std::time::Duration;

use futures::TryStreamExt;

use super::commit::{Commit, PART_TIME};
use super::journal::AnnalsJournal;
use super::keys::{self, Partition, PartsOf};
use crate::items::{Condition, Item, Scan, Value, Write, WriteError, scan_all};
use crate::journal::{Finding, Findings, Problem, Verify};
use crate::{Error, Event, PersistenceId, Result};

/// The youngest parts that may be swept while their commit's key is free.
pub(super) const SWEEP_AGE_MIN: Duration = Duration::from_secs(60 * 60);
/// How long the parts of a commit may take: an append whose parts are older is not put any more.
pub(super) const WRITE_MAX: Duration = Duration::from_secs(10 * 60);

/// When an append began, by both clocks: one may be set back, and the other may stand still while
/// the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    monotonic: Duration,
    time_ms: u64,
}

impl AnnalsJournal {
    /// Now, for an append that is stamped so.
    pub(super) fn begin(&self, time_ms: u64) -> Begun {
        let monotonic = self.clock.monotonic();
        Begun { monotonic, time_ms }
    }

    /// Whether the parts of an append may be as old as a sweep takes them for orphans.
    pub(super) fn is_late(&self, begun: Begun) -> bool {
        let passed = self.clock.monotonic().saturating_sub(begun.monotonic);
        let passed_ms = self.clock.now_ms().saturating_sub(begun.time_ms);
        passed.max(Duration::from_millis(passed_ms)) > WRITE_MAX
    }

    /// Writes the parts of a commit that has landed once more: they may have been swept before it
    /// did. With another time, so that a sweep that still takes them for orphans is refused.
    pub(super) async fn write_parts_again(&self, parts: Vec<Item>) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let parts = parts.into_iter().map(|part| part.with(PART_TIME, now_ms));
        let parts = parts.map(Write::Put).collect();
        self.items.write(&self.table, parts).await?;
        Ok(())
    }

    /// Writes the parts of a commit; answers how to take them back.
    pub(super) async fn write_parts(&self, parts: Vec<Item>, begun: Begun) -> Result<Vec<Write>> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let keys = parts
            .iter()
            .map(|part| self.table.key_of(part).map(Write::Delete));
        let keys = keys.collect::<Result<_>>()?;
        let parts = parts.into_iter().map(Write::Put).collect();
        self.items.write(&self.table, parts).await?;
        if self.is_late(begun) {
            return Err(Error::unavailable(
                "writing a large append took too long; try again",
            ));
        }
        Ok(keys)
    }

    /// The events of a commit, its parts fetched where it has any; `None` where they were deleted
    /// meanwhile.
    pub(super) async fn events_of(&self, commit: Commit) -> Result<Option<Vec<Event>>> {
        let keys = commit.part_keys();
        if keys.is_empty() {
            return commit.events().map(Some);
        }
        let parts = self.items.get(&self.table, keys).await?.items;
        let lost = match commit.clone().with_parts(parts) {
            Ok(whole) => return whole.events().map(Some),
            Err(lost) => lost,
        };
        // A deletion leaves its mark before it takes the parts.
        match self.commit_at(&commit.id, commit.first).await? {
            Some(now) if now.is_deleted() => Ok(None),
            _ => Err(lost),
        }
    }

    /// Finds parts whose commit cannot land any more, or has not for so long, and deletes them
    /// where that is wanted.
    pub(super) async fn sweep(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        if older_than < SWEEP_AGE_MIN {
            let (least, asked) = (SWEEP_AGE_MIN.as_millis(), older_than.as_millis());
            return Err(Error::invalid(format!(
                "appends may be under way; sweep what is older. least=`{least} ms`, asked=`{asked} ms`"
            )));
        }
        let age_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
        let until_ms = self.clock.now_ms().saturating_sub(age_ms);
        let mut swept = Vec::new();
        let mut all = scan_all(self.items.clone(), self.table.clone(), Scan::whole());
        while let Some(item) = all.try_next().await? {
            let partition = item.get("p").and_then(Value::as_str).and_then(keys::parse);
            let Some(Partition::Parts(id, of)) = partition else {
                continue;
            };
            let is_old = item.get(PART_TIME).and_then(Value::as_u64) < Some(until_ms);
            if !self.is_orphan(&id, of, is_old).await? {
                continue;
            }
            if verify == Verify::Look || self.take_away(&item).await? {
                let mut found = Findings::about(&id, verify);
                let number = of.first.get();
                let detail = "a part of an append that did not land".to_owned();
                found.repair(Problem::Orphan, (number, number), detail);
                swept.extend(found.finish());
            }
        }
        Ok(swept)
    }

    /// Whether a part's commit is not there, and will not come.
    async fn is_orphan(&self, id: &PersistenceId, of: PartsOf, is_old: bool) -> Result<bool> {
        let Some(commit) = self.commit_at(id, of.first).await? else {
            // An append may be about to land.
            return Ok(is_old);
        };
        // Keys once taken are never freed: if these parts are not that commit's, they never will be.
        Ok(!commit.part_keys().contains(&keys::part(id, of, 0)))
    }

    /// Deletes a part, unless it was written anew since it was read.
    async fn take_away(&self, part: &Item) -> Result<bool> {
        let key = self.table.key_of(part)?;
        let time = part.get(PART_TIME).cloned();
        let time =
            time.ok_or_else(|| Error::corrupt(format!("a part has no time. key=`{key}`")))?;
        let condition = Condition::Equals(PART_TIME.to_owned(), time);
        match self.items.delete(&self.table, key, condition).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}
