//! Consumer groups: several members share the events of the feed, each commit for one of them.
//!
//! ```text
//! feed ─► filter ─► next ─► in flight ─► ack ─► the floor moves on
//!                    ▲          │
//!                    └── nack, deadline ─► after the last attempt: dead letter
//! ```
//!
//! Guarantees:
//! - Every event that the filter accepts is acknowledged, becomes a dead letter, or is counted as missed
//!   because it was deleted before; purges are counted. The floor, the position up to which everything is handled, never
//!   passes another one.
//! - Delivery is at least once: an event may come again after a crash, a lost response or a missed
//!   deadline. Use persistence id and sequence number as the idempotency key.
//! - At most one commit (append) of a persistence id is in flight, so its events are handled in order;
//!   different ids go to different members at the same time. After a dead letter, the later commits of
//!   its id are dead letters, too, until they are retried or discarded.
//! - A group is one item, and every change of it is conditional on the one before. So any number of
//!   processes can serve a group without a lease, and a lost response is recognised.
//!
//! Deadlines are compared with the clock of the server that a member asks. Clocks that differ make a
//! delivery come again earlier or later; nothing is lost.

mod delivery;
mod handled;
mod handled_events;
mod next;
mod plan;
mod settings;
mod source;
mod state;
#[cfg(test)]
mod state_tests;
mod status;
mod stored;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use tokio::sync::{Mutex, MutexGuard};

use crate::feed::{LanePosition, Reading};
use crate::items::{Condition, Query, TableSpec, WriteError};
use crate::journal::Journal;
use crate::projection::table;
use crate::store::Store;
use crate::{Error, ErrorKind, PersistenceId, Result};

pub use delivery::{DeadLetters, Delivery, DeliveryId, Settled, TAKE_MAX, Take};
pub use settings::{ACK_MAX, GroupSettings, IN_FLIGHT_MAX, RETRIES_MAX, Start};
pub use status::{GroupStatus, Lag};

use settings::Rules;
use state::State;
use stored::Loaded;

/// How often a change is decided again because another process was first.
const CONFLICTS_MAX: u32 = 100;
/// How often a put is repeated whose response was lost.
const PUTS_MAX: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Calls of this process to one group run one after the other, so that they seldom conflict.
const QUEUES: usize = 64;

/// The consumer groups of a store. [`Annals::groups`](crate::Annals::groups) returns them. Clones share
/// everything.
///
/// See [`Group`] for an example.
#[derive(Clone)]
pub struct Groups(Arc<Inner>);

struct Inner {
    journal: Journal,
    table: TableSpec,
    /// Whether the table was seen.
    has_table: AtomicBool,
    queues: Vec<Mutex<()>>,
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Groups").field(&self.0.journal).finish()
    }
}

/// A consumer group, by name. It may or may not exist: where it does not, calls return `None`.
///
/// ```
/// use annals::feed::Filter;
/// use annals::group::{Delivery, DeliveryId, GroupSettings, Settled, Take};
/// use annals::journal::Expected;
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let mailer = annals.groups().group("mailer")?;
/// mailer.put(&GroupSettings::new().filter(Filter::new().category("Cart"))).await?;
///
/// let paid = NewEvent::new(Codec::Text, "paid");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, paid).await?;
///
/// // A member, of which there may be many.
/// let deliveries = mailer.next(&Take::new().max(5)).await?.expect("the group exists");
/// for Delivery { id, persistence_id, events, .. } in deliveries {
///     println!("{persistence_id}: {} events", events.len());
///     let id: DeliveryId = id;
///     let settled = mailer.ack(&[id]).await?.expect("the group exists");
///     assert_eq!(settled, [Settled::Acked]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    groups: Groups,
    name: Arc<str>,
}

impl Groups {
    /// The groups that read the feed of a journal.
    ///
    /// # Errors
    /// `Invalid` if the schema of the table is not valid, which would be a bug.
    pub fn of(journal: &Journal) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            journal: journal.clone(),
            table: table::spec()?,
            has_table: AtomicBool::new(false),
            queues: (0..QUEUES).map(|_| Mutex::new(())).collect(),
        })))
    }

    /// A group by its name: 1 to 100 letters, digits, `-`, `_` or `.`. Nothing is read yet.
    ///
    /// # Errors
    /// `Invalid` if it is not such a name.
    pub fn group(&self, name: &str) -> Result<Group> {
        table::check_name(name)?;
        let groups = self.clone();
        let name = name.into();
        Ok(Group { groups, name })
    }

    /// The groups, by name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self) -> Result<Vec<GroupStatus>> {
        if !self.has_table().await? {
            return Ok(Vec::new());
        }
        let table = Arc::new(self.0.table.clone());
        let items = self.store().query_all(&table, Query::of(stored::GROUPS));
        let items: Vec<_> = items.try_collect().await?;
        let mut found = Vec::with_capacity(items.len());
        for item in &items {
            found.push(status::of(&self.0.journal, stored::parse(item)?).await?);
        }
        Ok(found)
    }

    fn store(&self) -> &Store {
        self.0.journal.store()
    }

    async fn has_table(&self) -> Result<bool> {
        if !self.0.has_table.load(Ordering::Relaxed) {
            let exists = table::exists(self.store(), &self.0.table).await?;
            self.0.has_table.store(exists, Ordering::Relaxed);
        }
        Ok(self.0.has_table.load(Ordering::Relaxed))
    }

    async fn queue(&self, name: &str) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let at = hasher.finish() as usize % QUEUES;
        match self.0.queues.get(at) {
            Some(queue) => Some(queue.lock().await),
            None => None,
        }
    }
}

/// What became of a put.
enum Saved {
    Done,
    /// Another process was first.
    Conflict,
}

impl Group {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the group, or changes its settings. Creates the table if it is missing. Returns whether
    /// the group is new.
    ///
    /// # Errors
    /// `Invalid` if a setting is out of range, the filter or the start of an existing group would change,
    /// the start is not a position of this feed, or the store has no feed.
    pub async fn put(&self, settings: &GroupSettings) -> Result<bool> {
        settings.check()?;
        let groups = &self.groups;
        source::open(&groups.0.journal).await?;
        table::create_missing(groups.store(), &groups.0.table).await?;
        let _turn = groups.queue(&self.name).await;
        for attempt in 0..CONFLICTS_MAX {
            self.pause(attempt).await;
            let loaded = self.load().await?;
            let is_new = loaded.is_none();
            let mut group = match loaded {
                None => self.new_group(settings).await?,
                Some(group) => {
                    let rules = changed(&group, settings)?;
                    if rules == group.rules {
                        return Ok(false);
                    }
                    Loaded { rules, ..group }
                }
            };
            if let Saved::Done = self.save(&mut group).await? {
                return Ok(is_new);
            }
        }
        Err(self.too_many_conflicts())
    }

    async fn new_group(&self, settings: &GroupSettings) -> Result<Loaded> {
        let journal = &self.groups.0.journal;
        let (_, shape) = source::open(journal).await?;
        let rules = Rules::default().with(settings);
        let start = match &rules.start {
            Start::Beginning => shape.start(),
            Start::Now => Reading::new(journal).head().await?,
            Start::After(position) => {
                // Refuses positions that this feed does not have.
                let mut batches = Reading::new(journal).after(position.clone()).batches();
                batches.try_next().await?;
                shape.locate(position)?
            }
        };
        Ok(Loaded {
            name: self.name.to_string(),
            token: String::new(),
            rules,
            state: State::new(shape.generation, start.lanes()),
        })
    }

    /// Deletes the group and all it remembers. Returns whether there was one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn delete(&self) -> Result<bool> {
        if self.load_item().await?.is_none() {
            return Ok(false);
        }
        let (store, table) = (self.groups.store(), &self.groups.0.table);
        let deleted = store.delete(table, stored::key(&self.name), Condition::Always);
        deleted.await?;
        Ok(true)
    }

    /// Acknowledges deliveries: their commits are handled. Returns what became of each, in order.
    ///
    /// # Errors
    /// If the store fails; repeat the call then.
    pub async fn ack(&self, deliveries: &[DeliveryId]) -> Result<Option<Vec<Settled>>> {
        let ack = |group: &mut Loaded| group.state.ack(deliveries);
        self.change(ack).await
    }

    /// Refuses deliveries: their commits are handed out again, before later ones of their ids, or become
    /// dead letters with this reason. Returns what became of each, in order.
    ///
    /// # Errors
    /// If the store fails; repeat the call then.
    pub async fn nack(
        &self,
        deliveries: &[DeliveryId],
        reason: &str,
    ) -> Result<Option<Vec<Settled>>> {
        let nack = |group: &mut Loaded| group.state.nack(deliveries, reason, &group.rules);
        self.change(nack).await
    }

    /// The dead letters, by persistence id.
    ///
    /// ```
    /// use annals::group::{DeadLetters, GroupSettings, Take};
    /// use annals::journal::Expected;
    /// use annals::{Codec, NewEvent};
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// let mailer = annals.groups().group("mailer")?;
    /// mailer.put(&GroupSettings::new().retries(0)).await?;
    /// let paid = NewEvent::new(Codec::Text, "paid");
    /// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, paid).await?;
    ///
    /// let deliveries = mailer.next(&Take::new()).await?.expect("the group exists");
    /// mailer.nack(&[deliveries[0].id], "no such customer").await?;
    ///
    /// let dead: Vec<DeadLetters> = mailer.dead_letters().await?.expect("the group exists");
    /// assert_eq!((dead[0].commits, &*dead[0].reason), (1, "no such customer"));
    /// assert_eq!(mailer.retry(Some(&dead[0].persistence_id)).await?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub async fn dead_letters(&self) -> Result<Option<Vec<DeadLetters>>> {
        let Some(group) = self.load().await? else {
            return Ok(None);
        };
        let state = &group.state;
        let dead = state.dead.iter().map(|(id, dead)| DeadLetters {
            persistence_id: id.clone(),
            first: dead.first,
            after: source::position(state, dead.lane.at(dead.from.saturating_sub(1))),
            reason: dead.reason.clone(),
            commits: dead.commits,
            is_retried: dead.is_retried,
        });
        Ok(Some(dead.collect()))
    }

    /// Hands dead letters out again, of one id or of all, each id's in order. Returns how many commits
    /// they are.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn retry(&self, id: Option<&PersistenceId>) -> Result<Option<u64>> {
        self.change(|group| group.state.retry(id)).await
    }

    /// Forgets dead letters, of one id or of all: they are never handed out again. Returns how many
    /// commits they were, also those whose events were deleted meanwhile; these do not count as missed.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn discard(&self, id: Option<&PersistenceId>) -> Result<Option<u64>> {
        self.change(|group| group.state.discard(id)).await
    }

    /// Changes the state, and decides again if another process was first.
    async fn change<T>(&self, change: impl Fn(&mut Loaded) -> T) -> Result<Option<T>> {
        let _turn = self.groups.queue(&self.name).await;
        for attempt in 0..CONFLICTS_MAX {
            self.pause(attempt).await;
            let Some(mut group) = self.load().await? else {
                return Ok(None);
            };
            let before = group.state.clone();
            let result = change(&mut group);
            if group.state == before {
                return Ok(Some(result));
            }
            if let Saved::Done = self.save(&mut group).await? {
                return Ok(Some(result));
            }
        }
        Err(self.too_many_conflicts())
    }

    fn too_many_conflicts(&self) -> Error {
        Error::conflict(
            "other processes change the group all the time; try again with fewer members",
        )
        .fact("group", &self.name)
    }

    /// After a conflict.
    async fn pause(&self, attempt: u32) {
        let store = self.groups.store();
        let longest = Duration::from_millis(1 << attempt.min(10)).min(PAUSE_MAX);
        if attempt > 0 {
            store.clock().sleep(store.random().jitter(longest)).await;
        }
    }

    async fn load_item(&self) -> Result<Option<crate::items::Item>> {
        if !self.groups.has_table().await? {
            return Ok(None);
        }
        let (store, table) = (self.groups.store(), &self.groups.0.table);
        let got = store.get(table, vec![stored::key(&self.name)]).await?;
        Ok(got.items.into_iter().next().flatten())
    }

    async fn load(&self) -> Result<Option<Loaded>> {
        let item = self.load_item().await?;
        item.as_ref().map(stored::parse).transpose()
    }

    /// Puts the group if it is still the one that was read. A put whose response was lost is repeated
    /// with its token, by which it is recognised.
    async fn save(&self, group: &mut Loaded) -> Result<Saved> {
        let (store, table) = (self.groups.store(), &self.groups.0.table);
        let token = format!("{:016x}", store.random().bits());
        let item = stored::item(group, &token)?;
        let condition = match group.token.is_empty() {
            true => Condition::Absent,
            false => Condition::Equals(stored::TOKEN.to_owned(), group.token.as_str().into()),
        };
        let mut puts = 0;
        loop {
            puts += 1;
            match store.put(table, item.clone(), condition.clone()).await {
                Ok(_) => {}
                Err(WriteError::Refused { existing, .. }) => {
                    let found = existing.as_ref().and_then(|item| item.text(stored::TOKEN));
                    if found != Some(token.as_str()) {
                        return Ok(Saved::Conflict);
                    }
                }
                Err(WriteError::Failed(error))
                    if error.kind() == ErrorKind::Unavailable && puts < PUTS_MAX =>
                {
                    continue;
                }
                Err(WriteError::Failed(error)) => return Err(error),
            }
            group.token = token;
            return Ok(Saved::Done);
        }
    }
}

/// The settings after a change.
///
/// # Errors
/// `Invalid` if it changes what is fixed when a group is created.
fn changed(group: &Loaded, settings: &GroupSettings) -> Result<Rules> {
    let fixed = |what: &str| {
        Error::invalid(format!(
            "the {what} of a group cannot be changed; leave it out, or create another group"
        ))
        .fact("group", &group.name)
    };
    if settings
        .filter
        .as_ref()
        .is_some_and(|it| *it != group.rules.filter)
    {
        return Err(fixed("filter"));
    }
    let is_start = |start: &Start| {
        let begins = |at: &LanePosition| *at == LanePosition::default();
        let starts = group.state.starts();
        *start == group.rules.start
            || match start {
                Start::Beginning => starts.iter().all(begins),
                Start::Now => false,
                Start::After(position) => {
                    position.generation() == group.state.generation && position.lanes() == starts
                }
            }
    };
    if !settings.start.as_ref().is_none_or(is_start) {
        return Err(fixed("start"));
    }
    let start = group.rules.start.clone();
    Ok(Rules {
        start,
        ..group.rules.with(settings)
    })
}
