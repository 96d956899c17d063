//! What members of a group get and return.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::feed::{Lane, Place, Position};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// The most deliveries of one call.
pub const TAKE_MAX: usize = 1_000;
/// The most bytes of the name of a member.
const MEMBER_BYTES_MAX: usize = 64;

/// How many deliveries a member wants, and how long it waits for the first.
///
/// See [`Group`](super::Group) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Take {
    /// At most so many, from 1 to 1,000.
    pub max: usize,
    /// How long to wait if there is none.
    pub wait: Duration,
    /// The name of the member, for people; may be empty.
    pub member: String,
}

impl Default for Take {
    fn default() -> Self {
        Self {
            max: 10,
            wait: Duration::ZERO,
            member: String::new(),
        }
    }
}

impl Take {
    /// Up to ten deliveries, without waiting.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so many.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Wait so long if there is none.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The name of the member.
    #[must_use]
    pub fn member(mut self, member: impl Into<String>) -> Self {
        self.member = member.into();
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=TAKE_MAX).contains(&self.max) {
            let error = Error::invalid(format!("take 1 to {TAKE_MAX} deliveries at once"));
            return Err(error.fact("max", self.max));
        }
        if self.member.len() > MEMBER_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the name of a member has at most {MEMBER_BYTES_MAX} bytes"
            ))
            .fact("bytes", self.member.len()));
        }
        Ok(())
    }
}

/// Identifies one handing out of a commit. Opaque: as text it is what `annals group next` prints. A
/// commit that is handed out again has another one.
///
/// ```
/// use annals::group::DeliveryId;
///
/// let id: DeliveryId = "0-912-00c0ffee00c0ffee".parse()?;
/// assert_eq!(id.to_string(), "0-912-00c0ffee00c0ffee");
/// assert!("912".parse::<DeliveryId>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeliveryId {
    pub(super) place: Place,
    /// Of the call that handed it out.
    pub(super) token: u64,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { lane, place } = self.place;
        write!(f, "{}-{place}-{:016x}", lane.0, self.token)
    }
}

impl FromStr for DeliveryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text)
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| {
                let cut: String = text.chars().take(60).collect();
                Error::invalid("this is not the id of a delivery; copy it from `annals group next`")
                    .fact("delivery", cut)
            })
    }
}

fn parse(text: &str) -> Option<DeliveryId> {
    let mut parts = text.split('-');
    let lane = Lane(parts.next()?.parse().ok()?);
    let place = lane.at(parts.next()?.parse().ok()?);
    let token = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts
        .next()
        .is_none()
        .then_some(DeliveryId { place, token })
}

/// A commit that is handed out: all events of one append that the group's filter accepts.
///
/// See [`Group`](super::Group) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Acknowledge it with this.
    pub id: DeliveryId,
    /// The persistence id of the events.
    pub persistence_id: PersistenceId,
    /// The position in the feed after the commit.
    pub position: Position,
    /// 1 for the first time it is handed out.
    pub attempt: u32,
    /// When it is handed out again, in milliseconds since the Unix epoch.
    pub deadline_ms: u64,
    /// At least one.
    pub events: Vec<Event>,
}

/// What became of an acknowledged or refused delivery.
///
/// See [`Group`](super::Group) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// It is handled.
    Acked,
    /// It was handled before.
    Already,
    /// It will be handed out again.
    Requeued,
    /// It is a dead letter: this was the last attempt.
    DeadLettered,
    /// It was handed out again meanwhile, or became a dead letter.
    Expired,
    /// The group has not handed it out.
    Unknown,
}

impl Settled {
    /// The name, as the command line prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Already => "already",
            Self::Requeued => "requeued",
            Self::DeadLettered => "dead_lettered",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the call came too late, or for a delivery that never was.
    pub fn is_refused(self) -> bool {
        matches!(self, Self::Expired | Self::Unknown)
    }
}

/// The dead letters of one persistence id: the commit that failed and those after it.
///
/// See [`Group::dead_letters`](super::Group::dead_letters) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetters {
    /// The persistence id.
    pub persistence_id: PersistenceId,
    /// The sequence number of the first event; while they are retried, it may be before the first.
    pub first: SequenceNumber,
    /// The position in the feed before the first commit: read on from there to see it.
    pub after: Position,
    /// Why the first one failed.
    pub reason: String,
    /// How many commits they are.
    pub commits: u64,
    /// Whether they are being handed out again.
    pub is_retried: bool,
}
