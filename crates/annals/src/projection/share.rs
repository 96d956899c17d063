//! A share of a build: a range of slices, its position and its dead letters, in one record that is also
//! the lease.
//!
//! Guarantees: a share's position is only saved by its owner. Whoever takes a share over changes the
//! version, so the former owner's next save is refused. The position and the dead letters change
//! together: the position never passes a delivery that was neither handled nor made a dead letter.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{Put, Records, Versioned, WriterId};
use crate::feed::{Filter, Position, SLICES, slice_of};
use crate::items::Key;
use crate::{Error, PersistenceId, Result};

/// The content of a share's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Share {
    /// The runner that owns it; empty: none.
    pub(super) owner: String,
    /// Everything up to here is handled or a dead letter; `None`: nothing was read yet.
    pub(super) at: Option<Position>,
    /// When the last change up to there was committed.
    pub(super) time_ms: u64,
    /// Events handled so far.
    pub(super) handled: u64,
    /// Commits that were deleted before they were read.
    pub(super) missed: u64,
    /// Why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<Stopped>,
    /// By persistence id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) dead: BTreeMap<String, DeadLetters>,
    /// The last request of an operator that was carried out.
    #[serde(default)]
    pub(super) request: u64,
}

/// Why a share does not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stopped {
    pub(super) reason: String,
    pub(super) since_ms: u64,
}

/// The dead letters of an id: an event that could not be handled, and those after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeadLetters {
    /// The first sequence number.
    pub(super) from: u64,
    /// The last one.
    pub(super) to: u64,
    /// How many events.
    pub(super) events: u64,
    /// Why the first one could not be handled.
    pub(super) reason: String,
    pub(super) since_ms: u64,
}

/// The most ids with dead letters in a share: they are part of its record.
pub(super) const DEAD_IDS_MAX: usize = 500;
const REASON_CHARS_MAX: usize = 300;

impl DeadLetters {
    pub(super) fn new(number: u64, cause: &Error, now_ms: u64) -> Self {
        Self {
            from: number,
            to: number,
            events: 0,
            reason: reason(cause),
            since_ms: now_ms,
        }
    }
}

impl Stopped {
    pub(super) fn new(cause: &Error, now_ms: u64) -> Self {
        Self {
            reason: reason(cause),
            since_ms: now_ms,
        }
    }
}

/// An error with its causes, cut.
pub(super) fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text.chars().take(REASON_CHARS_MAX).collect()
}

/// The slices of a share.
pub(super) fn slices(share: u16, shares: u16) -> RangeInclusive<u16> {
    let bound = |share: u16| {
        let slice = u32::from(share) * u32::from(SLICES) / u32::from(shares.max(1));
        u16::try_from(slice).unwrap_or(SLICES)
    };
    bound(share)..=bound(share + 1).saturating_sub(1)
}

/// The share of an id.
pub(super) fn of(id: &PersistenceId, shares: u16) -> u16 {
    let slice = slice_of(id);
    let mut all = 0..shares;
    let found = all.find(|share| slices(*share, shares).contains(&slice));
    // Shares divide the slices.
    found.unwrap_or_default()
}

/// What a share gets of a source.
pub(super) fn filter(source: &Filter, share: u16, shares: u16) -> Filter {
    let own = slices(share, shares);
    let wanted = source.slices.clone().unwrap_or(0..=SLICES - 1);
    let first = *own.start().max(wanted.start());
    let last = *own.end().min(wanted.end());
    // Empty if the source wants none of the share's slices.
    source.clone().slices(first..=last)
}

/// Why a share was not saved.
#[derive(Debug)]
pub(super) enum SaveError {
    /// Another runner took it.
    Lost,
    /// The store failed.
    Failed(Error),
}

/// A share that this runner owns.
#[derive(Debug)]
pub(super) struct Lease {
    records: Records,
    key: Key,
    writer: WriterId,
    writes: u64,
    version: String,
    pub(super) share: Share,
    saved_at: Duration,
}

impl Lease {
    /// Takes a share as it was found. `None`: another runner was faster.
    pub(super) async fn take(
        records: &Records,
        key: Key,
        found: Option<Versioned<Share>>,
        owner: &str,
    ) -> Result<Option<Self>> {
        let (version, share) = match found {
            Some(found) => (Some(found.version), found.content),
            None => (None, Share::default()),
        };
        let writer = WriterId::draw(records.store.random());
        let owner = owner.to_owned();
        let record = Versioned {
            version: writer.version(0),
            content: Share { owner, ..share },
        };
        match records.put(&key, version.as_deref(), &record).await? {
            Put::Refused(_) => Ok(None),
            Put::Stored => Ok(Some(Self {
                saved_at: records.store.clock().monotonic(),
                records: records.clone(),
                key,
                writer,
                writes: 0,
                version: record.version,
                share: record.content,
            })),
        }
    }

    /// Identifies this lease: nobody else ever has the same.
    pub(super) fn id(&self) -> &WriterId {
        &self.writer
    }

    /// How long ago it was saved.
    pub(super) fn age(&self) -> Duration {
        let now = self.records.store.clock().monotonic();
        now.saturating_sub(self.saved_at)
    }

    /// Saves the share, which also renews the lease.
    pub(super) async fn save(&mut self) -> Result<(), SaveError> {
        self.writes += 1;
        let record = Versioned {
            version: self.writer.version(self.writes),
            content: self.share.clone(),
        };
        let started_at = self.records.store.clock().monotonic();
        loop {
            let put = self.records.put(&self.key, Some(&self.version), &record);
            let found = match put.await.map_err(SaveError::Failed)? {
                Put::Stored => {
                    self.version = record.version;
                    self.saved_at = started_at;
                    return Ok(());
                }
                Put::Refused(found) => found,
            };
            // An earlier save of ours, whose response was lost.
            let found = found.as_ref().and_then(|item| item.text("w"));
            match found.filter(|version| self.writer.wrote(version)) {
                Some(version) if version != self.version => self.version = version.to_owned(),
                _ => return Err(SaveError::Lost),
            }
        }
    }

    /// Gives the share up, so that another runner need not wait.
    pub(super) async fn release(mut self) {
        self.share.owner.clear();
        if let Err(SaveError::Failed(error)) = self.save().await {
            tracing::debug!(%error, share = %self.key, "a share was not released; it expires");
        }
    }
}

/// Whether a lease is still its owner's; for those that write elsewhere under its protection.
#[derive(Clone, Debug)]
pub(super) struct LeaseCheck {
    records: Records,
    key: Key,
    writer: WriterId,
}

impl LeaseCheck {
    pub(super) fn of(lease: &Lease) -> Self {
        Self {
            records: lease.records.clone(),
            key: lease.key.clone(),
            writer: lease.writer.clone(),
        }
    }

    /// Reads the record: whether it is still this lease's.
    pub(super) async fn holds(&self) -> Result<bool> {
        let found: Option<Versioned<Share>> = self.records.get(self.key.clone()).await?;
        Ok(found.is_some_and(|found| self.writer.wrote(&found.version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_gets_only_what_the_source_wants() {
        let half = Filter::new().slices(0..=511);
        let slices = |share| filter(&half, share, 4).slices.unwrap();
        assert_eq!([slices(0), slices(1)], [0..=255, 256..=511]);
        assert!(slices(2).is_empty() && slices(3).is_empty());
    }

    #[test]
    fn shares_divide_the_slices() {
        for shares in [1, 2, 3, 7, 1000, SLICES] {
            let mut next = 0;
            for share in 0..shares {
                let range = slices(share, shares);
                assert_eq!(*range.start(), next, "{share} of {shares}");
                assert!(!range.is_empty());
                next = range.end() + 1;
            }
            assert_eq!(next, SLICES);
        }
    }

    #[test]
    fn an_id_is_of_the_share_that_gets_its_events() {
        for shares in [1, 2, 3, 7, 1000, SLICES] {
            for n in 0..50 {
                let id = format!("Cart|{n}").parse().unwrap();
                let gets = |share| filter(&Filter::new(), share, shares).accepts_id(&id);
                let found: Vec<u16> = (0..shares).filter(|share| gets(*share)).collect();
                assert_eq!(found, [of(&id, shares)], "{id} of {shares}");
            }
        }
    }
}
