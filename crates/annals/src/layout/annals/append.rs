//! Appending: one put of one commit, on the condition that its key is free.
//!
//! Promises: a commit is put only behind a number that ends another, so no gap comes to be; a
//! refusal by our own earlier success is told from one by somebody else.
//! Trusts: tokens to differ.
//! Never: overwrites a key.

use super::blob::Header;
use super::body::Written;
use super::commit::Commit;
use super::journal::AnnalsJournal;
use crate::items::{Condition, WriteError};
use crate::journal::{AppendError, Appended, Conflict, Expected, Stamped};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often an append behind whatever is last is tried while others keep being quicker.
const ANY_TRIES_MAX: usize = 32;

/// How the put of a commit ended.
enum Put {
    Landed(Appended),
    /// Somebody else's is there, if it was seen.
    Taken(Option<Box<Commit>>),
}

impl AnnalsJournal {
    pub(super) async fn put_expecting(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: &Stamped,
    ) -> Result<Appended, AppendError> {
        self.record().await?;
        let put = match expected {
            Expected::Empty => self.put_behind(id, None, stamped).await?,
            Expected::Last(number) => self.put_behind_proven(id, number, stamped).await?,
            Expected::Any => self.put_behind_any(id, stamped).await?,
        };
        match put {
            Put::Landed(appended) => {
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
                    found: right_behind(expected, found),
                })))
            }
        }
    }

    /// Behind a number that is known, or found, to end a commit.
    async fn put_behind_proven(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        stamped: &Stamped,
    ) -> Result<Put> {
        if self.heads.get(id) != Some(number) {
            match self.covering(id, number).await? {
                Some(commit) if commit.last()? == number => {}
                // Inside a batch, which a successor would split, or past the end.
                other => return Ok(Put::Taken(other.map(Box::new))),
            }
        }
        self.put_behind(id, Some(number), stamped).await
    }

    /// Behind whatever is last. A lag of one commit is repaired from what the refusal shows, a
    /// longer one by looking.
    async fn put_behind_any(&self, id: &PersistenceId, stamped: &Stamped) -> Result<Put> {
        let mut last = match self.heads.get(id) {
            Some(known) => Some(known),
            None => self.find_highest(id).await?,
        };
        for lag in 0..ANY_TRIES_MAX {
            match self.put_behind(id, last, stamped).await? {
                Put::Landed(appended) => return Ok(Put::Landed(appended)),
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

    async fn put_behind(
        &self,
        id: &PersistenceId,
        last: Option<SequenceNumber>,
        stamped: &Stamped,
    ) -> Result<Put> {
        let (table, commit) = (self.parted(), commit_behind(id, last, stamped)?);
        let begun = table.begin(stamped.time_ms);
        let (first, last) = (commit.first, commit.last()?);
        let (Written { item, mut parts }, has_snapshot) = commit.write(self.span)?;
        table.write(&parts, begun).await?;
        match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => {
                table.settle(&parts, begun, false).await?;
                Ok(Put::Landed(Appended {
                    first,
                    last,
                    time_ms: stamped.time_ms,
                    has_snapshot,
                }))
            }
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(|| {
                    Error::unavailable("the store refused a commit for nothing; try again")
                })?;
                let existing = self.commit_of(id, &existing)?;
                let kept = existing.part_keys();
                table.take_back(&parts, &kept).await;
                if existing.token() != stamped.token {
                    return Ok(Put::Taken(Some(Box::new(existing))));
                }
                // Our own, whose answer was lost.
                parts.retain(|part| self.table.key_of(part).is_ok_and(|key| kept.contains(&key)));
                table.settle(&parts, begun, false).await?;
                Ok(Put::Landed(Appended {
                    first,
                    last: existing.last()?,
                    time_ms: existing.blob.header.time_ms,
                    has_snapshot: existing.blob.header.snapshot.is_some(),
                }))
            }
        }
    }
}

fn commit_behind(
    id: &PersistenceId,
    last: Option<SequenceNumber>,
    stamped: &Stamped,
) -> Result<Commit> {
    let first = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
    let count = stamped.append.events.len() as u64;
    let used_up = || Error::invalid(format!("sequence numbers are used up. id=`{id}`"));
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

/// What of the events found begins right behind what was expected, or nothing.
fn right_behind(expected: Expected, mut found: Vec<Event>) -> Vec<Event> {
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
