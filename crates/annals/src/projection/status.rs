//! How a projection is doing: builds, shares, lag, dead letters.

use serde::Serialize;

use super::control::{self, Build, Control, Stage};
use super::record::Records;
use super::runner::Members;
use super::share::{self, Share};
use super::target::Kind;
use crate::Result;
use crate::feed::{Feed, Filter, Lane, Position, What};
use crate::items::PageBudget;

/// How a projection is doing. [`Projections::status`](super::Projections::status) returns it.
///
/// See [`Projections`](super::Projections) for an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProjectionStatus {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Whether an operator paused it.
    pub paused: bool,
    /// The number of the live build.
    pub live: Option<u32>,
    /// Its builds, the oldest first.
    pub builds: Vec<BuildStatus>,
}

/// How a build is doing.
///
/// See [`Projections`](super::Projections) for an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BuildStatus {
    /// Its number.
    pub build: u32,
    /// The revision of the code.
    pub revision: u32,
    /// `building`, `live`, `retired` or `dropping`.
    pub stage: &'static str,
    /// Events handled so far.
    pub handled: u64,
    /// Events that are waiting: a close estimate if there are many.
    pub lag_events: u64,
    /// How long the oldest of them has waited, in milliseconds.
    pub lag_ms: u64,
    /// Events that are dead letters.
    pub dead_letters: u64,
    /// Events that were deleted before they were read, and dead letters that were discarded.
    pub missed: u64,
    /// Its shares.
    pub shares: Vec<ShareStatus>,
}

/// How a share is doing.
///
/// See [`Projections`](super::Projections) for an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShareStatus {
    /// Its number.
    pub share: u16,
    /// The runner that owns it; `None`: nobody does.
    pub owner: Option<String>,
    /// Whether a runner ever worked on it.
    #[serde(skip)]
    pub has_started: bool,
    /// Everything up to here is handled or a dead letter.
    pub position: Position,
    /// Events handled so far.
    pub handled: u64,
    /// Events that are waiting.
    pub lag_events: u64,
    /// How long the oldest of them has waited, in milliseconds.
    pub lag_ms: u64,
    /// Why it does not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// The dead letters of an id.
///
/// See [`Projections`](super::Projections) for an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The build.
    pub build: u32,
    /// The share.
    pub share: u16,
    /// The id whose events are not handled any more.
    pub persistence_id: String,
    /// The sequence number of the first one.
    pub from: u64,
    /// The sequence number of the last one.
    pub to: u64,
    /// How many events.
    pub events: u64,
    /// Why the first one could not be handled.
    pub reason: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// A build counts as caught up if it is less than this late.
const CAUGHT_UP_MS: u64 = 1_000;

impl BuildStatus {
    /// Whether it is less than a second late.
    pub fn is_caught_up(&self) -> bool {
        let runs = |share: &ShareStatus| share.has_started && share.stopped.is_none();
        self.shares.iter().all(runs) && (self.lag_events == 0 || self.lag_ms < CAUGHT_UP_MS)
    }
}

fn name_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Building => "building",
        Stage::Live => "live",
        Stage::Retired { .. } => "retired",
        Stage::Dropping => "dropping",
    }
}

/// The status of a projection.
pub(super) async fn of_projection(
    records: &Records,
    feed: &dyn Feed,
    (name, control): (&str, &Control),
) -> Result<ProjectionStatus> {
    let mut builds = Vec::new();
    for build in &control.builds {
        let source = build.source.filter();
        builds.push(of_build(records, feed, (name, build), &source).await?);
    }
    Ok(ProjectionStatus {
        name: name.to_owned(),
        kind: control.kind,
        paused: control.is_paused,
        live: control.live().map(|live| live.number),
        builds,
    })
}

/// The status of a build.
pub(super) async fn of_build(
    records: &Records,
    feed: &dyn Feed,
    (name, build): (&str, &Build),
    source: &Filter,
) -> Result<BuildStatus> {
    let members = Members::load(records, &control::key_of(name, build)).await?;
    let now_ms = records.store.clock().now_ms();
    let mut shares = Vec::new();
    let (mut dead_letters, mut missed) = (0, 0);
    for number in 0..build.shares {
        let found = members.shares.get(&number).map(|found| &found.content);
        let share = found.cloned().unwrap_or_default();
        dead_letters += share
            .dead
            .values()
            .map(|letters| letters.events)
            .sum::<u64>();
        missed += share.missed;
        let position = share.at.clone().unwrap_or_else(|| build.start.clone());
        let filter = share::filter(source, number, build.shares);
        let waiting = waiting(feed, &position, &filter).await?;
        let lag_ms = waiting
            .oldest_ms
            .map_or(0, |oldest| now_ms.saturating_sub(oldest));
        shares.push(status_of(number, share, position, (waiting.events, lag_ms)));
    }
    Ok(BuildStatus {
        build: build.number,
        revision: build.revision,
        stage: name_of(build.stage),
        handled: shares.iter().map(|share| share.handled).sum(),
        lag_events: shares.iter().map(|share| share.lag_events).sum(),
        lag_ms: shares.iter().map(|share| share.lag_ms).max().unwrap_or(0),
        dead_letters,
        missed,
        shares,
    })
}

fn status_of(number: u16, share: Share, position: Position, lag: (u64, u64)) -> ShareStatus {
    ShareStatus {
        share: number,
        has_started: share.at.is_some(),
        owner: Some(share.owner).filter(|owner| !owner.is_empty()),
        position,
        handled: share.handled,
        lag_events: lag.0,
        lag_ms: lag.1,
        stopped: share.stopped.map(|stopped| stopped.reason),
    }
}

/// The dead letters of a build.
pub(super) async fn dead_letters(
    records: &Records,
    (name, build): (&str, &Build),
) -> Result<Vec<DeadLetter>> {
    let members = Members::load(records, &control::key_of(name, build)).await?;
    let mut found = Vec::new();
    for (number, share) in members.shares {
        for (id, letters) in share.content.dead {
            found.push(DeadLetter {
                build: build.number,
                share: number,
                persistence_id: id,
                from: letters.from,
                to: letters.to,
                events: letters.events,
                reason: letters.reason,
                since_ms: letters.since_ms,
            });
        }
    }
    Ok(found)
}

/// Events after a position.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    events: u64,
    oldest_ms: Option<u64>,
}

/// How many changes are counted one by one; what follows is estimated from them.
const COUNTED_MAX: PageBudget = PageBudget {
    changes: 10_000,
    bytes: 4 * 1024 * 1024,
};

/// How many pages without an event are read before the rest counts as waiting.
const PAGES_MAX: usize = 100;

/// Counts the events after a position.
async fn waiting(feed: &dyn Feed, after: &Position, filter: &Filter) -> Result<Waiting> {
    let mut all = Waiting::default();
    let Ok(after) = feed.shape().await?.locate(after) else {
        // The build reports why it does not go on.
        return Ok(all);
    };
    for (at, lane) in after.lanes().iter().zip(0..) {
        let (mut upto, mut counted) = (at.place, 0);
        let mut batch = feed.read(Lane(lane).at(upto), filter, COUNTED_MAX).await?;
        for _ in 0..PAGES_MAX {
            upto = batch.upto.position.max(upto);
            for entry in &batch.entries {
                if let What::Appended(events) = &entry.what {
                    let new = events.iter().filter(|fed| fed.at > *at);
                    let times = new.clone().map(|fed| fed.event.time_ms);
                    all.oldest_ms = all.oldest_ms.into_iter().chain(times).min();
                    counted += new.count() as u64;
                }
            }
            if counted > 0 || upto >= batch.head.position {
                break;
            }
            batch = feed.read(Lane(lane).at(upto), filter, COUNTED_MAX).await?;
        }
        if counted == 0 && upto < batch.head.position {
            // The end was not reached: it may have events.
            all.oldest_ms = Some(batch.upto.time_ms.min(all.oldest_ms.unwrap_or(u64::MAX)));
            counted = 1;
        }
        let read = upto.saturating_sub(at.place).max(1);
        let whole = batch.head.position.saturating_sub(at.place).max(read);
        let estimate = u128::from(counted) * u128::from(whole) / u128::from(read);
        all.events += u64::try_from(estimate).unwrap_or(u64::MAX);
    }
    Ok(all)
}
