//! Projections on the wire: how they are doing, and what was asked of them.

use annals::projection::{BuildStatus, DeadLetter, ProjectionStatus, ShareStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::Count;

/// What a projection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ProjectionState")]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectionState {
    /// Programs run it.
    Running,
    /// An operator paused it.
    Paused,
    /// A share cannot go on; the status has the reason.
    Stopped,
    /// No program runs it.
    Idle,
}

impl ProjectionState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
        }
    }

    pub(crate) fn of(status: &ProjectionStatus) -> Self {
        let shares = || shown_build(status).into_iter().flat_map(|it| &it.shares);
        match status.paused {
            true => Self::Paused,
            false if shares().any(|share| share.stopped.is_some()) => Self::Stopped,
            false if shares().all(|share| share.owner.is_none()) => Self::Idle,
            false => Self::Running,
        }
    }
}

/// The live build; the newest one before any is live.
pub(crate) fn shown_build(status: &ProjectionStatus) -> Option<&BuildStatus> {
    let mut builds = status.builds.iter();
    let live = builds.find(|build| Some(build.build) == status.live);
    live.or_else(|| status.builds.last())
}

/// How many shares of a build cannot go on.
pub(crate) fn stopped_shares(build: &BuildStatus) -> u64 {
    let stopped = build.shares.iter().filter(|share| share.stopped.is_some());
    stopped.count() as u64
}

/// A projection in a list; the numbers are those of its live build.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Projection", deny_unknown_fields)]
pub(crate) struct Projection<'a> {
    name: &'a str,
    #[schemars(extend("enum" = ["view", "handler", "sink"]))]
    kind: String,
    state: ProjectionState,
    /// The number of the live build
    live: Option<u32>,
    /// The revision of its code
    revision: Option<u32>,
    /// The number of the build that is being made beside it
    building: Option<u32>,
    lag_events: Count,
    lag_ms: Count,
    dead_letters: Count,
    stopped_shares: Count,
}

impl<'a> Projection<'a> {
    pub(crate) fn new(status: &'a ProjectionStatus) -> Self {
        let shown = shown_build(status);
        let count = |of: fn(&BuildStatus) -> u64| Count(shown.map_or(0, of));
        let mut newest = status.builds.iter().rev();
        let building = newest.find(|build| build.stage == "building");
        Self {
            name: &status.name,
            kind: status.kind.to_string(),
            state: ProjectionState::of(status),
            live: status.live,
            revision: shown.map(|build| build.revision),
            building: building.map(|build| build.build),
            lag_events: count(|build| build.lag_events),
            lag_ms: count(|build| build.lag_ms),
            dead_letters: count(|build| build.dead_letters),
            stopped_shares: count(stopped_shares),
        }
    }
}

/// How a projection is doing, with its builds and their shares.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionStatus", deny_unknown_fields)]
pub(crate) struct WholeProjection<'a> {
    name: &'a str,
    #[schemars(extend("enum" = ["view", "handler", "sink"]))]
    kind: String,
    state: ProjectionState,
    paused: bool,
    /// The number of the live build
    live: Option<u32>,
    /// The oldest first
    builds: Vec<Build<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionBuild", deny_unknown_fields)]
struct Build<'a> {
    build: u32,
    /// The revision of the code
    revision: u32,
    #[schemars(extend("enum" = ["building", "live", "retired", "dropping"]))]
    stage: &'a str,
    handled: Count,
    /// An estimate if there are many
    lag_events: Count,
    /// How long the oldest of them has waited
    lag_ms: Count,
    dead_letters: Count,
    /// Events that were deleted before they were read, and dead letters that were discarded
    missed: Count,
    shares: Vec<Share<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionShare", deny_unknown_fields)]
struct Share<'a> {
    share: u16,
    /// null: no program owns it
    owner: Option<&'a str>,
    position: String,
    handled: Count,
    lag_events: Count,
    lag_ms: Count,
    /// Why it cannot go on
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stopped: Option<&'a str>,
}

impl<'a> WholeProjection<'a> {
    pub(crate) fn new(status: &'a ProjectionStatus) -> Self {
        Self {
            name: &status.name,
            kind: status.kind.to_string(),
            state: ProjectionState::of(status),
            paused: status.paused,
            live: status.live,
            builds: status.builds.iter().map(Build::new).collect(),
        }
    }
}

impl<'a> Build<'a> {
    fn new(build: &'a BuildStatus) -> Self {
        Self {
            build: build.build,
            revision: build.revision,
            stage: build.stage,
            handled: Count(build.handled),
            lag_events: Count(build.lag_events),
            lag_ms: Count(build.lag_ms),
            dead_letters: Count(build.dead_letters),
            missed: Count(build.missed),
            shares: build.shares.iter().map(Share::new).collect(),
        }
    }
}

impl<'a> Share<'a> {
    fn new(share: &'a ShareStatus) -> Self {
        Self {
            share: share.share,
            owner: share.owner.as_deref(),
            position: share.position.to_string(),
            handled: Count(share.handled),
            lag_events: Count(share.lag_events),
            lag_ms: Count(share.lag_ms),
            stopped: share.stopped.as_deref(),
        }
    }
}

/// The dead letters of an id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionDeadLetter", deny_unknown_fields)]
pub(crate) struct ProjectionDeadLetter<'a> {
    build: u32,
    share: u16,
    persistence_id: &'a str,
    /// The sequence number of the first one
    from: Count,
    /// The sequence number of the last one
    to: Count,
    events: Count,
    /// Why the first one could not be handled
    reason: &'a str,
    since_ms: Count,
}

impl<'a> ProjectionDeadLetter<'a> {
    pub(crate) fn new(letter: &'a DeadLetter) -> Self {
        Self {
            build: letter.build,
            share: letter.share,
            persistence_id: &letter.persistence_id,
            from: Count(letter.from),
            to: Count(letter.to),
            events: Count(letter.events),
            reason: &letter.reason,
            since_ms: Count(letter.since_ms),
        }
    }
}

/// Whether a projection is paused now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionPaused", deny_unknown_fields)]
pub(crate) struct ProjectionPaused<'a> {
    pub(crate) projection: &'a str,
    pub(crate) paused: bool,
}

/// The build that is made from now on, or that is live now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProjectionBuildNumber", deny_unknown_fields)]
pub(crate) struct ProjectionBuild<'a> {
    pub(crate) projection: &'a str,
    pub(crate) build: u32,
}

/// What was asked for, and of how many dead letters. Programs that run the projection do it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLettersRequested", deny_unknown_fields)]
pub(crate) struct DeadLettersRequested<'a> {
    pub(crate) projection: &'a str,
    pub(crate) requested: DeadLetterAction,
    pub(crate) ids: Count,
    pub(crate) events: Count,
}

/// What can be done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeadLetterAction {
    /// Handle them again, in order.
    Retry,
    /// Give them up.
    Discard,
}
