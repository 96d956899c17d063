//! Append: one conditional put of one commit, under a key that must be free.
//!
//! Guarantees: a commit is only put after the end of another, so there are no gaps. A refusal because
//! of our own earlier success is recognised by the token. No key is overwritten. Relies on unique
//! tokens.

use super::body::WriteSet;
use super::commit::Commit;
use super::commit_codec::Header;
use super::journal::AnnalsJournal;
use crate::items::{Condition, WriteError};
use crate::journal::{AppendError, Appended, Conflict, Expected, Stamped};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// Attempts to append after the last event while other writers are faster.
const ANY_ATTEMPTS_MAX: usize = 32;

/// The result of putting a commit.
enum Put {
    Done(Appended),
    /// The key is taken, by this commit if it was read.
    Taken(Option<Box<Commit>>),
}

impl AnnalsJournal {
    pub(super) async fn append_expecting(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: &Stamped,
    ) -> Result<Appended, AppendError> {
        self.record().await?;
        let put = match expected {
            Expected::Empty => self.put_after(id, None, stamped).await?,
            Expected::Last(number) => self.put_after_checked(id, number, stamped).await?,
            Expected::Any => self.put_after_last(id, stamped).await?,
        };
        match put {
            Put::Done(appended) => {
                self.heads.learn(id, appended.last);
                Ok(appended)
            }
            Put::Taken(existing) => {
                let found = match existing {
                    Some(existing) => {
                        self.heads.learn(id, existing.last()?);
                        self.events_of(*existing).await?.unwrap_or_default()
                    }
                    None => Vec::new(),
                };
                Err(AppendError::Conflict(Box::new(Conflict {
                    id: id.clone(),
                    expected,
                    found: directly_after(expected, found),
                })))
            }
        }
    }

    /// Puts after a sequence number, if it is known or found to end a commit.
    async fn put_after_checked(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        stamped: &Stamped,
    ) -> Result<Put> {
        if self.heads.get(id) != Some(number) {
            match self.covering(id, number).await? {
                Some(commit) if commit.last()? == number => {}
                // In the middle of a commit, or after the end.
                other => return Ok(Put::Taken(other.map(Box::new))),
            }
        }
        self.put_after(id, Some(number), stamped).await
    }

    /// Puts after the last event. If one commit was missed, the refusal returns it; if more were
    /// missed, the end is searched.
    async fn put_after_last(&self, id: &PersistenceId, stamped: &Stamped) -> Result<Put> {
        let mut last = match self.heads.get(id) {
            Some(known) => Some(known),
            None => self.find_highest(id).await?,
        };
        for lag in 0..ANY_ATTEMPTS_MAX {
            match self.put_after(id, last, stamped).await? {
                Put::Done(appended) => return Ok(Put::Done(appended)),
                Put::Taken(Some(existing)) => {
                    let end = existing.last()?;
                    self.heads.learn(id, end);
                    last = match lag {
                        0 => Some(end),
                        _ => self.find_highest(id).await?,
                    };
                }
                Put::Taken(None) => break,
            }
        }
        Ok(Put::Taken(None))
    }

    async fn put_after(
        &self,
        id: &PersistenceId,
        last: Option<SequenceNumber>,
        stamped: &Stamped,
    ) -> Result<Put> {
        let (table, commit) = (self.chunked_table(), commit_after(id, last, stamped)?);
        let start = table.begin(stamped.time_ms);
        let (first, last) = (commit.first, commit.last()?);
        let (WriteSet { item, mut chunks }, has_snapshot) = commit.write(self.span)?;
        table.write(&chunks, start).await?;
        match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => {
                table.rewrite_if_late(&chunks, start, false).await?;
                Ok(Put::Done(Appended {
                    first,
                    last,
                    time_ms: stamped.time_ms,
                    has_snapshot,
                }))
            }
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(|| {
                    Error::unavailable(
                        "the store refused a commit without an existing item; try again",
                    )
                })?;
                let existing = self.commit_of(id, &existing)?;
                let kept = existing.chunk_keys();
                table.remove_refused(&chunks, &kept).await;
                if existing.token() != stamped.token {
                    return Ok(Put::Taken(Some(Box::new(existing))));
                }
                // Our own: its response was lost.
                chunks.retain(|chunk| {
                    self.table
                        .key_of(chunk)
                        .is_ok_and(|key| kept.contains(&key))
                });
                table.rewrite_if_late(&chunks, start, false).await?;
                Ok(Put::Done(Appended {
                    first,
                    last: existing.last()?,
                    time_ms: existing.stored.header.time_ms,
                    has_snapshot: existing.stored.header.snapshot.is_some(),
                }))
            }
        }
    }
}

fn commit_after(
    id: &PersistenceId,
    last: Option<SequenceNumber>,
    stamped: &Stamped,
) -> Result<Commit> {
    let first = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
    let count = stamped.append.events.len() as u64;
    let used_up =
        || Error::invalid("there are no more sequence numbers for this id").fact("id", id);
    let first = first.ok_or_else(used_up)?;
    first.plus(count.saturating_sub(1)).ok_or_else(used_up)?;
    let header = Header {
        count,
        time_ms: stamped.time_ms,
        token: stamped.token,
        gone: 0,
        low: None,
        causation: stamped.append.causation.clone(),
        correlation: stamped.append.correlation.clone(),
        snapshot: stamped.append.snapshot.clone(),
    };
    Commit::of_events(id, first, header, &stamped.append.events)
}

/// The found events, if they begin directly after the expected sequence number.
fn directly_after(expected: Expected, mut found: Vec<Event>) -> Vec<Event> {
    let next = match expected {
        Expected::Empty => Some(SequenceNumber::FIRST),
        Expected::Last(number) => number.next(),
        Expected::Any => None,
    };
    found.retain(|event| next.is_some_and(|next| event.sequence_number >= next));
    if found.first().map(|event| event.sequence_number) != next {
        found.clear();
    }
    found
}
