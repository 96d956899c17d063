//! Copies the events of an id: compares those in the target, appends the rest and reads it back.
//!
//! ```text
//! source   . . . . 5 6 7 8 9      1 to 4 are deleted, so they are skipped in the target
//! target   . . . . 5 6 7          5 to 7 are compared, 8 and 9 are appended after 7
//! ```
//!
//! Guarantees: nothing is appended before every event of the target was compared. An append expects
//! the target's highest sequence number to be last, and the copy stops unless its events got the
//! sequence numbers of the source.

use futures::stream::{StreamExt, TryStreamExt};

use super::compare::{Digest, digest, first_difference};
use super::groups::{Events, Group, Groups};
use super::{Copied, IdCopy};
use crate::journal::{AppendError, Expected, Skip, Window};
use crate::{Error, Event, Result, SequenceNumber};

/// Written events before they are read back.
const READ_BACK_EVENTS: usize = 500;
/// Compared events before progress is reported.
const PROGRESS_EVENTS: u64 = 500;

const START_OVER: &str = "copy into other tables, or purge the id in the target and copy again";

impl IdCopy<'_> {
    /// Returns the source's highest sequence number.
    pub(super) async fn copy_events(&mut self) -> Result<Option<SequenceNumber>> {
        let (source, target) = (&self.copier.source.journal, &self.copier.target.journal);
        let Some(highest) = source.highest(self.id).await? else {
            self.handle_target_only_events().await?;
            return Ok(None);
        };
        (self.is_found, self.has_events) = (true, true);
        let mut events: Events = source.replay(self.id, Window::ALL).peekable();
        let begin = match peek(&mut events).await? {
            Some(first) => first.get(),
            None => {
                // The sequence numbers of an append in flight are not deleted.
                let deleted = source.deleted_to(self.id).await?;
                deleted.unwrap_or(highest.get()).min(highest.get()) + 1
            }
        };
        let reached = target.highest(self.id).await?;
        let reached = reached.map_or(0, SequenceNumber::get);
        let reached = self.compare(&mut events, begin, reached).await?;
        self.append(events, reached).await?;
        Ok(Some(highest))
    }

    /// Keeps or purges an id without events in the source.
    async fn handle_target_only_events(&mut self) -> Result<()> {
        let target = &self.copier.target.journal;
        if target.highest(self.id).await?.is_none() {
            return Ok(());
        }
        if !self.copier.deletions {
            self.count(Copied {
                ids_kept: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        target.purge(self.id).await?;
        self.count(Copied {
            ids_purged: 1,
            ..Copied::default()
        });
        Ok(())
    }

    /// Compares the events of the target, which has `reached` a sequence number, with the source,
    /// which begins at another; returns the target's last sequence number.
    async fn compare(&mut self, source: &mut Events, begin: u64, mut reached: u64) -> Result<u64> {
        let journal = &self.copier.target.journal;
        let window = || match reached {
            // An empty target needs no read.
            0 => Window {
                max: 0,
                ..Window::ALL
            },
            _ => Window::ALL,
        };
        let mut target: Events = journal.replay(self.id, window()).peekable();
        let mut first = peek(&mut target).await?.map(SequenceNumber::get);
        if let Some(before) = SequenceNumber::new(begin - 1).filter(|_| first < Some(begin)) {
            if self.copier.deletions && first.is_some() {
                journal.delete_to(self.id, before).await?;
                target = journal.replay(self.id, window()).peekable();
                first = peek(&mut target).await?.map(SequenceNumber::get);
            }
            if first.is_none() && reached < begin {
                self.skip(before, true).await?;
                reached = before.get();
            }
        }
        self.pass_kept(&mut target, begin, reached).await?;
        self.compare_all(source, target).await?;
        match peek(source).await? {
            Some(next) if next.get() <= reached => Err(self.missing(next)),
            _ => Ok(reached),
        }
    }

    /// Counts and skips events that the source has deleted and the target has not.
    async fn pass_kept(&mut self, target: &mut Events, begin: u64, reached: u64) -> Result<()> {
        while let Some(number) = peek(target).await?.filter(|n| n.get() < begin) {
            if reached + 1 < begin {
                return Err(Error::conflict(
                    "the source has deleted events that the target still has, and later ones too; copy with deletions",
                )
                .fact("number", number)
                .fact("deleted to", begin - 1));
            }
            target.try_next().await?;
            self.count(Copied {
                kept: 1,
                ..Copied::default()
            });
        }
        Ok(())
    }

    /// Compares all events of the target with the source's.
    async fn compare_all(&mut self, source: &mut Events, target: Events) -> Result<()> {
        let mut compared = 0;
        let outcome = self.compare_each(source, target, &mut compared).await;
        self.count_compared(compared);
        outcome
    }

    async fn compare_each(
        &mut self,
        source: &mut Events,
        mut target: Events,
        compared: &mut u64,
    ) -> Result<()> {
        while let Some(theirs) = target.try_next().await? {
            let number = theirs.sequence_number;
            let ours = match peek(source).await? {
                Some(ours) if ours < number => return Err(self.missing(ours)),
                Some(ours) if ours == number => source.try_next().await?,
                _ => None,
            };
            let Some(ours) = ours else {
                return Err(Error::conflict(format!(
                    "the target has an event that the source does not have; {START_OVER}"
                ))
                .fact("number", number));
            };
            if let Some(name) = first_difference(&ours, &theirs) {
                return Err(Error::conflict(format!(
                    "source and target have different events of this sequence number; {START_OVER}"
                ))
                .fact("number", number)
                .fact("differs", name));
            }
            self.last_token = Some(ours.token);
            *compared += 1;
            if *compared == PROGRESS_EVENTS {
                self.count_compared(std::mem::take(compared));
            }
        }
        Ok(())
    }

    fn count_compared(&mut self, events: u64) {
        if events > 0 {
            self.count(Copied {
                present: events,
                verified: events,
                ..Copied::default()
            });
        }
    }

    fn missing(&self, number: SequenceNumber) -> Error {
        Error::conflict(format!(
            "the target lacks an event of the source, and its sequence number is used; {START_OVER}"
        ))
        .fact("number", number)
    }

    async fn skip(&self, to: SequenceNumber, is_deleted: bool) -> Result<()> {
        let journal = &self.copier.target.journal;
        let skip = Skip {
            to,
            is_deleted,
            token: journal.token(),
            time_ms: 0,
        };
        journal.skip(self.id, skip).await
    }

    /// Appends the rest of the source, after the target's last sequence number.
    async fn append(&mut self, mut source: Events, mut reached: u64) -> Result<()> {
        let mut groups = Groups {
            is_atomic: self.copier.target.journal.is_atomic(),
            last_token: self.last_token,
        };
        let mut written: Vec<(SequenceNumber, Digest)> = Vec::new();
        while let Some(group) = groups.next(&mut source).await? {
            let digests = group.events.iter();
            written.extend(digests.map(|e| (e.sequence_number, digest(e))));
            reached = self.append_group(group, reached).await?;
            if written.len() >= READ_BACK_EVENTS {
                self.read_back(std::mem::take(&mut written)).await?;
            }
        }
        self.read_back(written).await
    }

    async fn append_group(&mut self, group: Group, reached: u64) -> Result<u64> {
        let Some((first, last)) = group.ends() else {
            return Ok(reached);
        };
        if let Some(before) = SequenceNumber::new(first.get() - 1).filter(|b| b.get() > reached) {
            self.skip(before, false).await?;
        }
        let expected = SequenceNumber::new(first.get() - 1);
        let expected = expected.map_or(Expected::Empty, Expected::Last);
        let events = group.events.len() as u64;
        let journal = &self.copier.target.journal;
        let stamped = group.into_stamped();
        let appended = match journal.append_stamped(self.id, expected, stamped).await {
            Ok(appended) => appended,
            Err(AppendError::Store(error)) => return Err(error.fact("number", first)),
            Err(AppendError::Conflict(_)) => {
                return Err(Error::conflict(
                    "another writer appends to this id in the target; stop it and copy again",
                )
                .fact("number", first));
            }
        };
        if (appended.first, appended.last) != (first, last) {
            let got = appended.first;
            return Err(Error::conflict(format!(
                "an event got another sequence number in the target; {START_OVER}"
            ))
            .fact("number", first)
            .fact("got", got));
        }
        self.count(Copied {
            events,
            ..Copied::default()
        });
        Ok(last.get())
    }

    /// Reads written events back and compares their digests.
    async fn read_back(&mut self, written: Vec<(SequenceNumber, Digest)>) -> Result<()> {
        let (Some((from, _)), Some((to, _))) = (written.first(), written.last()) else {
            return Ok(());
        };
        let window = Window {
            from: *from,
            to: *to,
            max: u64::MAX,
        };
        let journal = &self.copier.target.journal;
        let mut stored = journal.replay_anchored(self.id, window, Some(*from));
        for (number, wanted) in &written {
            let found = stored.try_next().await?;
            let is_same = |found: &Event| digest(found) == *wanted;
            if !found.as_ref().is_some_and(is_same) {
                return Err(self.read_back_error(*number, found).await?);
            }
        }
        self.count(Copied {
            verified: written.len() as u64,
            ..Copied::default()
        });
        Ok(())
    }

    /// The error for an event that reads back differently, with the difference.
    async fn read_back_error(&self, number: SequenceNumber, found: Option<Event>) -> Result<Error> {
        let window = Window {
            to: number,
            ..Window::from(number)
        };
        let mut source = self.copier.source.journal.replay(self.id, window);
        let ours = source.try_next().await?;
        let differs = match (&ours, &found) {
            (Some(ours), Some(found)) => first_difference(ours, found),
            _ => None,
        };
        let differs = differs.unwrap_or("presence");
        Ok(
            Error::corrupt("a copied event reads back differently; do not use the target")
                .fact("number", number)
                .fact("differs", differs),
        )
    }
}

/// The sequence number of the next event, which is not consumed.
async fn peek(events: &mut Events) -> Result<Option<SequenceNumber>> {
    match std::pin::Pin::new(events).peek().await {
        None => Ok(None),
        Some(Ok(event)) => Ok(Some(event.sequence_number)),
        Some(Err(error)) => Err(error.clone()),
    }
}
