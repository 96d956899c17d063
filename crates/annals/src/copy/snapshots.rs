//! The snapshots of an id. Events may be deleted up to one, so they go along.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt};

use super::{Copied, Work};
use crate::snapshot::{Criteria, Snapshot, Snapshots};
use crate::{Error, ErrorKind, Result, SequenceNumber};

impl Work<'_> {
    /// Copies every snapshot that is there, and the one that rides in the last append; then sees to
    /// those that only the target has. `highest` is the source's last event.
    pub(super) async fn snapshots(&mut self, highest: Option<SequenceNumber>) -> Result<()> {
        let (from, to) = (&self.copier.from, &self.copier.to);
        let (Some(source), Some(target)) = (&from.snapshots, &to.snapshots) else {
            return Ok(());
        };
        let mut found = source.find(self.id, Criteria::ALL);
        let (mut newest, mut numbers) = (None, HashSet::new());
        while let Some(snapshot) = found.try_next().await? {
            self.is_found = true;
            newest = newest.max(Some(snapshot.sequence_number));
            numbers.insert(snapshot.sequence_number);
            self.snapshot(target, snapshot).await?;
        }
        if let Some(riding) = from.journal.last_snapshot(self.id).await?
            && Some(riding.sequence_number) > newest
        {
            newest = Some(riding.sequence_number);
            numbers.insert(riding.sequence_number);
            self.snapshot(target, riding).await?;
        }
        // Behind all that the source has is what somebody else saved in the target.
        let end = highest.max(newest).unwrap_or(SequenceNumber::LAST);
        self.lacking_snapshots(target, &numbers, end).await
    }

    /// Snapshots that the target has and the source has not.
    async fn lacking_snapshots(
        &mut self,
        target: &Snapshots,
        numbers: &HashSet<SequenceNumber>,
        end: SequenceNumber,
    ) -> Result<()> {
        let mut found = target.find(self.id, Criteria::ALL);
        let mut lacking = Vec::new();
        while let Some(snapshot) = found.next().await {
            match snapshot {
                Ok(snapshot) => lacking.push(snapshot.sequence_number),
                // What it is nobody can tell; `verify` does tell of it.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        lacking.retain(|number| !numbers.contains(number));
        for number in lacking {
            if !self.copier.deletions || number > end {
                self.done(Copied {
                    snapshots_kept: 1,
                    ..Copied::default()
                });
                continue;
            }
            target.delete(self.id, Criteria::at(number)).await?;
            self.done(Copied {
                snapshots_deleted: 1,
                ..Copied::default()
            });
        }
        Ok(())
    }

    async fn snapshot(&mut self, target: &Snapshots, snapshot: Snapshot) -> Result<()> {
        let number = snapshot.sequence_number;
        let there = target.load(self.id, Criteria::at(number)).await?;
        if there
            .as_ref()
            .is_some_and(|there| is_same(there, &snapshot))
        {
            self.done(Copied {
                snapshots_present: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        // Saved again since it was copied: the later one counts, as in the source.
        if there.is_some_and(|there| there.time_ms >= snapshot.time_ms) {
            return Err(Error::conflict(format!(
                "the target has another snapshot of this number; delete it there and copy again, or copy without snapshots. number=`{number}`"
            )));
        }
        target.save_as(snapshot.clone()).await?;
        let stored = target.load(self.id, Criteria::at(number)).await?;
        if !stored.is_some_and(|stored| is_same(&stored, &snapshot)) {
            return Err(Error::corrupt(format!(
                "a snapshot that was written does not read back the same; delete it in the target. number=`{number}`"
            )));
        }
        self.done(Copied {
            snapshots: 1,
            ..Copied::default()
        });
        Ok(())
    }
}

/// Where its append began is a hint, which not every layout keeps.
fn is_same(one: &Snapshot, other: &Snapshot) -> bool {
    let place = |snapshot: &Snapshot| (snapshot.sequence_number, snapshot.time_ms);
    place(one) == place(other) && one.payload == other.payload
}
