//! The events of an id: what is there is compared, the rest is appended and read back.
//!
//! ```text
//! source   . . . . 5 6 7 8 9      1 to 4 are deleted: so they are in the target, by `skip`
//! target   . . . . 5 6 7          5 to 7 are compared, 8 and 9 appended behind 7
//! ```
//!
//! Promises: an append expects the target's own highest number to be last, and goes on only where it
//! got the numbers that its events have in the source.
//! Never: appends before all that the target has was found to be the source's.

use futures::stream::{StreamExt, TryStreamExt};

use super::difference::{self, Digest};
use super::groups::{Group, Groups, Source};
use super::{Copied, Work};
use crate::journal::{AppendError, Expected, Skip, Window};
use crate::{Error, Event, Result, SequenceNumber};

/// After so many events that were written they are read back.
const READ_BACK: usize = 500;
/// After so many events that were compared it is told.
const TOLD: u64 = 500;

const ANEW: &str = "copy into other tables, or purge the id in the target and copy again";

impl Work<'_> {
    /// Answers the source's last number.
    pub(super) async fn events(&mut self) -> Result<Option<SequenceNumber>> {
        let (from, to) = (&self.copier.from.journal, &self.copier.to.journal);
        let Some(highest) = from.highest(self.id).await? else {
            self.lacking().await?;
            return Ok(None);
        };
        self.is_found = true;
        let mut source: Source = from.replay(self.id, Window::ALL).peekable();
        let begin = match peeked(&mut source).await? {
            Some(first) => first.get(),
            None => {
                // Numbers of an append that is under way are not deleted.
                let deleted = from.deleted_to(self.id).await?;
                deleted.unwrap_or(highest.get()).min(highest.get()) + 1
            }
        };
        let reached = to.highest(self.id).await?.map_or(0, SequenceNumber::get);
        let reached = self.compare(&mut source, (begin, reached)).await?;
        self.append(source, reached).await?;
        Ok(Some(highest))
    }

    /// The source has never had an event of it, or has purged it.
    async fn lacking(&mut self) -> Result<()> {
        let to = &self.copier.to.journal;
        if to.highest(self.id).await?.is_none() {
            return Ok(());
        }
        if !self.copier.deletions {
            self.done(Copied {
                ids_kept: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        to.purge(self.id).await?;
        self.done(Copied {
            ids_purged: 1,
            ..Copied::default()
        });
        Ok(())
    }

    /// Compares what the target has, which begins like the source then; answers its last number.
    async fn compare(&mut self, source: &mut Source, at: (u64, u64)) -> Result<u64> {
        let (begin, mut reached) = at;
        let to = &self.copier.to.journal;
        let window = || match reached {
            // Nothing is to be read where there is nothing.
            0 => Window {
                max: 0,
                ..Window::ALL
            },
            _ => Window::ALL,
        };
        let mut target: Source = to.replay(self.id, window()).peekable();
        let mut first = peeked(&mut target).await?.map(SequenceNumber::get);
        if let Some(before) = SequenceNumber::new(begin - 1).filter(|_| first < Some(begin)) {
            if self.copier.deletions && first.is_some() {
                to.delete_to(self.id, before).await?;
                target = to.replay(self.id, window()).peekable();
                first = peeked(&mut target).await?.map(SequenceNumber::get);
            }
            if first.is_none() && reached < begin {
                self.skip(before, true).await?;
                reached = before.get();
            }
        }
        self.pass_kept(&mut target, (begin, reached)).await?;
        self.compare_all(source, target).await?;
        match peeked(source).await? {
            Some(next) if next.get() <= reached => Err(self.missing(next)),
            _ => Ok(reached),
        }
    }

    /// Passes events that the source has deleted and the target has not.
    async fn pass_kept(&mut self, target: &mut Source, at: (u64, u64)) -> Result<()> {
        let (begin, reached) = at;
        while let Some(number) = peeked(target).await?.filter(|n| n.get() < begin) {
            if reached + 1 < begin {
                return Err(Error::conflict(format!(
                    "the source has deleted events that the target has, and more behind them; copy with deletions, so that they are deleted there too. number=`{number}`, deleted to=`{}`",
                    begin - 1
                )));
            }
            target.try_next().await?;
            self.done(Copied {
                kept: 1,
                ..Copied::default()
            });
        }
        Ok(())
    }

    /// Compares the target's events, all of them, with the source's.
    async fn compare_all(&mut self, source: &mut Source, target: Source) -> Result<()> {
        let mut met = 0;
        let outcome = self.compare_each((source, target), &mut met).await;
        self.met(met);
        outcome
    }

    async fn compare_each(
        &mut self,
        (source, mut target): (&mut Source, Source),
        met: &mut u64,
    ) -> Result<()> {
        while let Some(theirs) = target.try_next().await? {
            let number = theirs.sequence_number;
            let ours = match peeked(source).await? {
                Some(ours) if ours < number => return Err(self.missing(ours)),
                Some(ours) if ours == number => source.try_next().await?,
                _ => None,
            };
            let Some(ours) = ours else {
                return Err(Error::conflict(format!(
                    "the target has an event that the source has not, so it went on by itself; {ANEW}. number=`{number}`"
                )));
            };
            if let Some(name) = difference::between(&ours, &theirs) {
                return Err(Error::conflict(format!(
                    "the two sides have different events under one number; {ANEW}. number=`{number}`, differs=`{name}`"
                )));
            }
            self.last = Some(ours.token);
            *met += 1;
            if *met == TOLD {
                self.met(std::mem::take(met));
            }
        }
        Ok(())
    }

    fn met(&mut self, events: u64) {
        if events > 0 {
            self.done(Copied {
                present: events,
                verified: events,
                ..Copied::default()
            });
        }
    }

    fn missing(&self, number: SequenceNumber) -> Error {
        Error::conflict(format!(
            "the target lacks an event of the source, which it has deleted or never had, and its number is taken there; {ANEW}. number=`{number}`"
        ))
    }

    async fn skip(&self, to: SequenceNumber, is_deleted: bool) -> Result<()> {
        let journal = &self.copier.to.journal;
        let skip = Skip {
            to,
            is_deleted,
            token: journal.token(),
            time_ms: 0,
        };
        journal.skip(self.id, skip).await
    }

    /// Appends what the source has behind a number that is the target's last.
    async fn append(&mut self, mut source: Source, mut reached: u64) -> Result<()> {
        let mut groups = Groups {
            lands_whole: self.copier.to.journal.lands_whole(),
            last: self.last,
        };
        let mut written: Vec<(SequenceNumber, Digest)> = Vec::new();
        while let Some(group) = groups.next(&mut source).await? {
            let digests = group.events.iter();
            written.extend(digests.map(|e| (e.sequence_number, difference::digest(e))));
            reached = self.append_group(group, reached).await?;
            if written.len() >= READ_BACK {
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
        let journal = &self.copier.to.journal;
        let stamped = group.into_stamped();
        let appended = match journal.append_stamped(self.id, expected, stamped).await {
            Ok(appended) => appended,
            Err(AppendError::Store(error)) => return Err(error.fact("number", first)),
            Err(AppendError::Conflict(_)) => {
                return Err(Error::conflict(format!(
                    "somebody else appends to the target; copy again when nobody does. number=`{first}`"
                )));
            }
        };
        if (appended.first, appended.last) != (first, last) {
            let got = appended.first;
            return Err(Error::conflict(format!(
                "an event got another number in the target than it has in the source; {ANEW}. number=`{first}`, got=`{got}`"
            )));
        }
        self.done(Copied {
            events,
            ..Copied::default()
        });
        Ok(last.get())
    }

    /// Reads what was written, and finds it to be what was to be.
    async fn read_back(&mut self, written: Vec<(SequenceNumber, Digest)>) -> Result<()> {
        let (Some((from, _)), Some((to, _))) = (written.first(), written.last()) else {
            return Ok(());
        };
        let window = Window {
            from: *from,
            to: *to,
            max: u64::MAX,
            anchor: Some(*from),
        };
        let mut stored = self.copier.to.journal.replay(self.id, window);
        for (number, wanted) in &written {
            let found = stored.try_next().await?;
            let is_same = |found: &Event| difference::digest(found) == *wanted;
            if !found.as_ref().is_some_and(is_same) {
                return Err(self.changed(*number, found).await?);
            }
        }
        self.done(Copied {
            verified: written.len() as u64,
            ..Copied::default()
        });
        Ok(())
    }

    /// What was written does not read back: in what it differs from the source.
    async fn changed(&self, number: SequenceNumber, found: Option<Event>) -> Result<Error> {
        let window = Window {
            to: number,
            ..Window::from(number)
        };
        let mut source = self.copier.from.journal.replay(self.id, window);
        let ours = source.try_next().await?;
        let differs = match (&ours, &found) {
            (Some(ours), Some(found)) => difference::between(ours, found),
            _ => None,
        };
        let differs = differs.unwrap_or("presence");
        Ok(Error::corrupt(format!(
            "an event that was written does not read back the same; do not use the target. number=`{number}`, differs=`{differs}`"
        )))
    }
}

/// The number of the next event, which stays where it is.
async fn peeked(events: &mut Source) -> Result<Option<SequenceNumber>> {
    match std::pin::Pin::new(events).peek().await {
        None => Ok(None),
        Some(Ok(event)) => Ok(Some(event.sequence_number)),
        Some(Err(error)) => Err(error.clone()),
    }
}
