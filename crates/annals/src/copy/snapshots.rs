//! Copies the snapshots of an id: events may be deleted up to one.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt};

use super::{Copied, IdCopy};
use crate::snapshot::{Criteria, Snapshot, Snapshots};
use crate::{Error, ErrorKind, Result, SequenceNumber};

impl IdCopy<'_> {
    /// Copies every snapshot and the one inside the last append, then handles those that only the
    /// target has. `highest` is the source's last event.
    pub(super) async fn copy_snapshots(&mut self, highest: Option<SequenceNumber>) -> Result<()> {
        let (source, target) = (&self.copier.source, &self.copier.target);
        let journal = &source.journal;
        let (Some(source), Some(target)) = (&source.snapshots, &target.snapshots) else {
            return Ok(());
        };
        let mut found = source.find(self.id, Criteria::ALL);
        let (mut newest, mut numbers) = (None, HashSet::new());
        while let Some(snapshot) = found.try_next().await? {
            (self.is_found, self.has_snapshots) = (true, true);
            newest = newest.max(Some(snapshot.sequence_number));
            numbers.insert(snapshot.sequence_number);
            self.copy_snapshot(target, snapshot).await?;
        }
        if let Some(inline) = journal.last_snapshot(self.id).await?
            && Some(inline.sequence_number) > newest
        {
            newest = Some(inline.sequence_number);
            numbers.insert(inline.sequence_number);
            self.copy_snapshot(target, inline).await?;
        }
        // Later snapshots were saved in the target by somebody else.
        let end = highest.max(newest).unwrap_or(SequenceNumber::LAST);
        self.handle_target_only(target, &numbers, end).await
    }

    /// Keeps or deletes the snapshots that only the target has.
    async fn handle_target_only(
        &mut self,
        target: &Snapshots,
        numbers: &HashSet<SequenceNumber>,
        end: SequenceNumber,
    ) -> Result<()> {
        let mut found = target.find(self.id, Criteria::ALL);
        let mut target_only = Vec::new();
        while let Some(snapshot) = found.next().await {
            match snapshot {
                Ok(snapshot) => target_only.push(snapshot.sequence_number),
                // `verify` reports it.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        target_only.retain(|number| !numbers.contains(number));
        for number in target_only {
            if !self.copier.deletions || number > end {
                self.count(Copied {
                    snapshots_kept: 1,
                    ..Copied::default()
                });
                continue;
            }
            target.delete(self.id, Criteria::at(number)).await?;
            self.count(Copied {
                snapshots_deleted: 1,
                ..Copied::default()
            });
        }
        Ok(())
    }

    async fn copy_snapshot(&mut self, target: &Snapshots, snapshot: Snapshot) -> Result<()> {
        let number = snapshot.sequence_number;
        let existing = target.load(self.id, Criteria::at(number)).await?;
        if existing
            .as_ref()
            .is_some_and(|existing| is_same(existing, &snapshot))
        {
            self.count(Copied {
                snapshots_present: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        // Saved again after it was copied: the later one wins, as in the source.
        if existing.is_some_and(|existing| existing.time_ms >= snapshot.time_ms) {
            return Err(Error::conflict(
                "the target has another snapshot of this sequence number; delete it there and copy again, or copy without snapshots",
            )
            .fact("number", number));
        }
        target.save_as(snapshot.clone()).await?;
        let stored = target.load(self.id, Criteria::at(number)).await?;
        if !stored.is_some_and(|stored| is_same(&stored, &snapshot)) {
            return Err(Error::corrupt(
                "a copied snapshot reads back differently; delete it in the target",
            )
            .fact("number", number));
        }
        self.count(Copied {
            snapshots: 1,
            ..Copied::default()
        });
        Ok(())
    }
}

/// Whether two snapshots are equal, except for the anchor: not every layout stores that hint.
fn is_same(one: &Snapshot, other: &Snapshot) -> bool {
    let compared = |s: &Snapshot| (s.sequence_number, s.time_ms);
    compared(one) == compared(other) && one.payload == other.payload
}
