//! How far a group has come.

use std::time::Duration;

use super::Group;
use super::settings::{Rules, Start};
use super::source::{self, Source};
use super::state::State;
use super::stored::Loaded;
use crate::Result;
use crate::feed::{Filter, Lane, Position};
use crate::journal::Journal;

/// The most changes of the store that are read to count what is left.
const CHANGES_MAX: usize = 65_536;
const PAGE: usize = 4_096;

/// A group: its settings, and how far it has come.
///
/// ```
/// use annals::group::{GroupSettings, GroupStatus};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let mailer = annals.groups().group("mailer")?;
/// assert!(mailer.status().await?.is_none());
/// mailer.put(&GroupSettings::new()).await?;
/// let status: GroupStatus = mailer.status().await?.expect("the group exists");
/// assert_eq!((status.lag.events, status.in_flight, status.in_flight_max), (0, 0, 100));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStatus {
    /// The name.
    pub name: String,
    /// Which events.
    pub filter: Filter,
    /// Where it started, as it was given.
    pub start: Start,
    /// The most commits in flight.
    pub in_flight_max: u32,
    /// How long a member has to acknowledge.
    pub ack_within: Duration,
    /// How often a commit is handed out again.
    pub retries: u32,
    /// Every event up to here is acknowledged, a dead letter, missed, or not accepted by the filter.
    pub floor: Position,
    /// What is left.
    pub lag: Lag,
    /// Commits that were handed out and not acknowledged, also those to be handed out again.
    pub in_flight: u64,
    /// Commits that are dead letters.
    pub dead_letters: u64,
    /// Ids with dead letters.
    pub dead_ids: u64,
    /// Commits whose events were deleted before they were handed out.
    pub missed: u64,
    /// How often an id was purged. Commits that were purged before they were handed out are not known, and
    /// not in `missed`, unless the store still has them.
    pub purged: u64,
}

/// What a group has not handled: neither acknowledged nor dead letters.
///
/// See [`GroupStatus`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Events.
    pub events: u64,
    /// How old the oldest of them is, in milliseconds; 0 if there is none.
    pub ms: u64,
    /// Whether there are more events than were counted.
    pub has_more: bool,
}

impl Group {
    /// The settings, and how far the group has come; `None` if there is no such group. What is left is
    /// counted up to a limit.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn status(&self) -> Result<Option<GroupStatus>> {
        match self.load().await? {
            Some(group) => of(&self.groups.0.journal, group).await.map(Some),
            None => Ok(None),
        }
    }
}

pub(super) async fn of(journal: &Journal, mut group: Loaded) -> Result<GroupStatus> {
    let lag = lag(journal, &mut group).await;
    let lag = lag.map_err(|error| error.fact("group", &group.name))?;
    let Loaded {
        name, rules, state, ..
    } = group;
    let Rules {
        filter,
        start,
        in_flight,
        ack_ms,
        retries,
    } = rules;
    Ok(GroupStatus {
        name,
        filter,
        start,
        in_flight_max: in_flight,
        ack_within: Duration::from_millis(ack_ms),
        retries,
        floor: source::floor(&state),
        lag,
        in_flight: state.in_flight.len() as u64,
        dead_letters: state.dead_commits(),
        dead_ids: state.dead.len() as u64,
        missed: state.missed,
        purged: state.purged,
    })
}

async fn lag(journal: &Journal, group: &mut Loaded) -> Result<Lag> {
    let source = Source::open(journal, &group.rules.filter, &mut group.state).await?;
    let state = &group.state;
    let lanes = u16::try_from(state.lanes.len()).unwrap_or(u16::MAX);
    let (mut lag, mut oldest) = (Lag::default(), None::<u64>);
    let mut left = CHANGES_MAX;
    for lane in (0..lanes).map(Lane) {
        let mut after = 0;
        loop {
            after = skip(state, lane, after);
            let page = source.page(lane.at(after), PAGE).await?;
            for seen in &page.seen.seen {
                let is_handled = state.is_handled(lane.at(seen.place));
                let is_dead = state.dead.contains_key(&seen.id);
                let events = page.events.get(&seen.place);
                let events = events.filter(|_| !is_handled && !is_dead);
                for event in events.into_iter().flatten() {
                    lag.events += 1;
                    oldest = Some(oldest.map_or(event.time_ms, |time| time.min(event.time_ms)));
                }
            }
            if page.seen.upto >= page.head.position || page.seen.upto <= after {
                break;
            }
            left = left.saturating_sub(PAGE);
            if left == 0 {
                lag.has_more = true;
                oldest = oldest.or(Some(page.time_ms).filter(|time| *time > 0));
                break;
            }
            after = page.seen.upto;
        }
    }
    let now = journal.store().clock().now_ms();
    lag.ms = oldest.map_or(0, |oldest| now.saturating_sub(oldest));
    Ok(lag)
}

fn skip(state: &State, lane: Lane, after: u64) -> u64 {
    let lane = state.lane(lane);
    lane.map_or(after, |lane| lane.handled.skip(after))
}
