//! Checking snapshots against the journal: none may be beyond the last event of its id.
//!
//! Recovery starts with the newest snapshot and replays the events after it. If the snapshot is beyond
//! the last event, the next events get numbers that it claims to include, and recovery skips them
//! without an error.
//!
//! An id without any trace of an event is not reported, although its snapshots are beyond its end too.
//! Such ids are legitimate: some applications use snapshots alone, j5ik2o's plugin can delete every
//! row of an id and then continues after the snapshot, and a copy keeps snapshots of ids without
//! events. Findings have no severity, so every report would make `annals verify` fail for these users.
//! Nothing is lost as long as there are no events; with the first event the id is reported. Deleted
//! events are a trace: tombstones and markers keep the last number.
//!
//! Guarantees: an entity that appends and saves during a check is not reported. Its snapshots are seen
//! as beyond the end once at most: the second check begins with a later end.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Journal;
use crate::snapshot::{Criteria, Snapshots};
use crate::verify::report::{Damage, Findings};
use crate::verify::{Finding, FindingStream, Problem, StoredKind, Verify, confirm_check};
use crate::{ErrorKind, PersistenceId, Result, SequenceNumber};

const LEFT: &str = "if events were lost, restore them; if the snapshot has a wrong number or is from before a purge, delete it (`annals snapshot delete`)";

impl Journal {
    /// Checks whether the snapshots of an id, or of all ids, are beyond the last event of their id:
    /// recovery would skip the next events. Changes nothing. An id that never had an event is not
    /// reported.
    ///
    /// Two requests for each id with snapshots; to find all ids, reads the whole table of snapshots
    /// and holds the ids in memory. Checks findings again, as [`verify`](Self::verify) does.
    ///
    /// ```
    /// use annals::journal::Expected;
    /// use annals::verify::Problem;
    /// use annals::{Codec, NewEvent, Payload, SequenceNumber};
    /// use futures::TryStreamExt;
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// let (journal, snapshots) = (annals.journal(), annals.snapshots());
    /// let id = "Cart|42".parse()?;
    /// journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "opened")).await?;
    /// let wrong = SequenceNumber::new(7).expect("at least 1");
    /// snapshots.save(&id, wrong, Payload::new(Codec::Text, "open")).await?;
    ///
    /// let found = journal.verify_snapshots(snapshots, Some(&id)).try_concat().await?;
    /// assert_eq!(found[0].problem, Problem::BeyondEnd);
    /// assert_eq!(found[0].numbers, Some((wrong, wrong)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify_snapshots(
        &self,
        snapshots: &Snapshots,
        id: Option<&PersistenceId>,
    ) -> FindingStream {
        let (journal, snapshots) = (self.clone(), snapshots.clone());
        let check = move |id: Option<&PersistenceId>| {
            let ids = match id {
                Some(id) => stream::iter([Ok(id.clone())]).left_stream(),
                None => snapshots.ids("").right_stream(),
            };
            let (journal, snapshots) = (journal.clone(), snapshots.clone());
            FindingStream::new(ids.and_then(move |id| {
                let (journal, snapshots) = (journal.clone(), snapshots.clone());
                async move { journal.beyond_end(&snapshots, &id).await }
            }))
        };
        confirm_check(check, self.store.clock().clone(), id)
    }

    /// The finding about the snapshots of an id after its last event.
    async fn beyond_end(&self, snapshots: &Snapshots, id: &PersistenceId) -> Result<Vec<Finding>> {
        let mut found = Findings::new(StoredKind::Snapshot, id, &Verify::Check.into());
        let Some(end) = self.known_end(id).await? else {
            return Ok(Vec::new());
        };
        let numbers = match end.next() {
            Some(next) => numbers_from(snapshots, id, next).await?,
            None => Vec::new(),
        };
        if let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) {
            let detail = format!(
                "recovery starts at {last} and skips events up to it. snapshots=`{}`, last event=`{end}`",
                numbers.len()
            );
            let range = first.get()..=last.get();
            found.leave(Damage::new(Problem::BeyondEnd, range, detail), LEFT);
        }
        Ok(found.finish())
    }

    /// The last event ever appended. `None` also if the events are damaged, or the id can have none
    /// here: the check of events reports that.
    async fn known_end(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        match self.highest(id).await {
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid) => {
                Ok(None)
            }
            highest => highest,
        }
    }
}

/// The sequence numbers of the readable snapshots from a number on. The check of snapshots reports
/// the others.
async fn numbers_from(
    snapshots: &Snapshots,
    id: &PersistenceId,
    from: SequenceNumber,
) -> Result<Vec<SequenceNumber>> {
    let mut found = snapshots.find(id, Criteria::ALL.at_least(from));
    let mut numbers = Vec::new();
    while let Some(snapshot) = found.next().await {
        match snapshot {
            Ok(snapshot) => numbers.push(snapshot.sequence_number),
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            Err(error) => return Err(error),
        }
    }
    Ok(numbers)
}
