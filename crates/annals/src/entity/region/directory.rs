//! Which entities are in memory, and how to reach them.
//!
//! Promises: an id has at most one slot: it is entered and left under a lock. Whoever met a slot
//! that has left looks again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::super::hosting::{Hosting, Runs};
use super::super::{AskError, Once};
use super::job::{Ask, Job, Look};
use super::slot::{Slot, Taken};
use super::work::work;
use crate::{Error, PersistenceId, Result};

const SHARDS: usize = 64;
/// How often room is made for an entity before it is refused.
const TRIES: usize = 8;
/// Where room is made, this part of all that may be in memory leaves at once, so that looking for
/// them is paid once for many.
const LEAVES: usize = 64;
/// How often in the time after which idle entities leave memory they are looked for.
const LOOKS: u32 = 4;

/// It was not taken in.
pub(super) struct Overloaded;

type Shard<H> = HashMap<PersistenceId, Arc<Slot<H>>>;

/// Which entities are in memory.
pub(crate) struct Directory<H: Hosting> {
    pub(super) host: H,
    /// Where tasks run, whoever asks: who asks may end before them.
    runtime: Handle,
    /// Rung when an entity becomes idle or leaves.
    pub(super) rests: Notify,
    shards: Vec<Mutex<Shard<H>>>,
    hasher: RandomState,
    count: AtomicUsize,
}

impl<H: Hosting> Directory<H> {
    /// Starts with none. To be called inside a tokio runtime.
    pub(in crate::entity) fn start(host: H) -> Arc<Self> {
        let every = host.residency().passivate_after / LOOKS;
        let directory = Arc::new(Self {
            runtime: Handle::current(),
            rests: Notify::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            host,
        });
        let watched = Arc::downgrade(&directory);
        let clock = directory.host.clock().clone();
        tokio::spawn(async move {
            loop {
                clock.passes(every.max(Duration::from_millis(1))).await;
                match watched.upgrade() {
                    Some(directory) => directory.passivate_idle(),
                    None => return,
                }
            }
        });
        directory
    }

    pub(in crate::entity) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, id: &PersistenceId) -> MutexGuard<'_, Shard<H>> {
        let place = self.hasher.hash_one(id) as usize % SHARDS;
        let shard = self.shards.get(place).or(self.shards.first());
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("there are shards"),
        }
    }

    /// Asks an entity, which is brought into memory if it is not there.
    pub(in crate::entity) async fn ask<C>(
        self: &Arc<Self>,
        id: &str,
        command_id: Option<&str>,
        command: C,
    ) -> Result<Once<H::Reply>, AskError<H::Error>>
    where
        H: Runs<C>,
        C: Send + Sync + 'static,
    {
        let id = H::id_of(id)?;
        let (answer, answered) = oneshot::channel();
        let ask = Ask {
            command,
            command_id: command_id.map(Box::from),
            answer,
        };
        let sent = self.send(&id, Box::new(ask));
        sent.map_err(|_| AskError::Overloaded)?;
        answered.await.unwrap_or(Err(AskError::Panicked))
    }

    /// What this makes of the state as it is, behind all that waits.
    pub(in crate::entity) async fn view<R: Send + 'static>(
        self: &Arc<Self>,
        id: &str,
        view: impl FnOnce(&H::State) -> R + Send + 'static,
    ) -> Result<R> {
        let id = H::id_of(id)?;
        let (answer, answered) = oneshot::channel();
        let sent = self.send(&id, Box::new(Look { view, answer }));
        sent.map_err(|_| Error::unavailable("too much is waiting; ask again later"))?;
        let panicked = || Error::corrupt("looking at the entity panicked");
        answered.await.unwrap_or_else(|_| Err(panicked()))
    }

    /// Lets a job wait for an entity, bringing that into memory.
    fn send(
        self: &Arc<Self>,
        id: &PersistenceId,
        mut job: Box<dyn Job<H>>,
    ) -> Result<(), Overloaded> {
        let most = self.host.residency().mailbox;
        for _ in 0..TRIES {
            let Some(slot) = self.enter(id) else {
                self.make_room()?;
                continue;
            };
            slot.used(self.host.clock().monotonic());
            job = match slot.take_in(job, most) {
                Taken::Waits => return Ok(()),
                Taken::Start(live) => {
                    self.runtime.spawn(work(self.clone(), slot, live));
                    return Ok(());
                }
                Taken::Full => return Err(Overloaded),
                // It left just now: the next one is another.
                Taken::Gone(job) => job,
            };
        }
        Err(Overloaded)
    }

    /// The slot of an entity, a new one where it had none; `None` where there is no room.
    fn enter(&self, id: &PersistenceId) -> Option<Arc<Slot<H>>> {
        let mut shard = self.shard(id);
        if let Some(slot) = shard.get(id) {
            return Some(slot.clone());
        }
        let most = self.host.residency().max_resident;
        let entered = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        entered.ok()?;
        let slot = Arc::new(Slot::new(id.clone()));
        shard.insert(id.clone(), slot.clone());
        Some(slot)
    }

    /// An entity leaves, if nothing waits for it and nobody but the asking task works on it.
    pub(super) fn leave(&self, slot: &Slot<H>, is_own_task: bool) -> bool {
        let mut shard = self.shard(&slot.id);
        if !slot.leave(is_own_task) {
            return false;
        }
        shard.remove(&slot.id);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// An entity leaves whatever waits for it; answers that.
    pub(super) fn give_up(&self, slot: &Arc<Slot<H>>) -> VecDeque<Box<dyn Job<H>>> {
        let mut shard = self.shard(&slot.id);
        let is_here = shard
            .get(&slot.id)
            .is_some_and(|here| Arc::ptr_eq(here, slot));
        if is_here {
            shard.remove(&slot.id);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        slot.give_up()
    }

    /// Everybody idle, with the time it was last used.
    fn idle(&self) -> Vec<(u64, Arc<Slot<H>>)> {
        let mut idle = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let slots = shard.values().filter(|slot| slot.is_idle());
            idle.extend(slots.map(|slot| (slot.used_ms(), slot.clone())));
        }
        idle
    }

    /// Lets those leave who have been idle for long enough.
    fn passivate_idle(&self) {
        let since = self.host.residency().passivate_after;
        let now = self.host.clock().monotonic();
        for (used, slot) in self.idle() {
            if now.saturating_sub(Duration::from_millis(used)) >= since {
                self.leave(&slot, false);
            }
        }
    }

    /// Lets those leave who have been idle for the longest.
    fn make_room(&self) -> Result<(), Overloaded> {
        let mut idle = self.idle();
        let leaving = (self.host.residency().max_resident / LEAVES).max(1);
        if leaving < idle.len() {
            idle.select_nth_unstable_by_key(leaving - 1, |(used, _)| *used);
            idle.truncate(leaving);
        }
        let left = idle.iter().filter(|(_, slot)| self.leave(slot, false));
        match left.count() {
            0 => Err(Overloaded),
            _ => Ok(()),
        }
    }

    /// Lets every entity finish what it was asked and leave.
    pub(in crate::entity) async fn passivate_all(&self) {
        loop {
            let rests = self.rests.notified();
            tokio::pin!(rests);
            rests.as_mut().enable();
            for (_, slot) in self.idle() {
                self.leave(&slot, false);
            }
            if self.len() == 0 {
                return;
            }
            rests.await;
        }
    }
}
