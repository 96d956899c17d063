//! The directory of a region: which entities are in memory.
//!
//! Guarantees: an id has at most one mailbox, since mailboxes are added and removed under a lock. A
//! caller that finds a closed mailbox looks up the next one.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::super::backend::{Backend, CommandIds, Execute};
use super::super::{AskError, Once};
use super::mailbox::{Ask, Enqueued, Job, Mailbox, View};
use super::worker::work;
use crate::{Error, PersistenceId, Result};

const SHARDS: usize = 64;
/// How often to make room for an entity before rejecting it as overloaded.
const ATTEMPTS: usize = 8;
/// To make room, passivate one of this many allowed entities at once: finding idle ones costs a scan.
const EVICTED_FRACTION: usize = 64;
/// Idle entities are searched for this often within `passivate_after`.
const IDLE_CHECKS: u32 = 4;

/// The mailbox or the region is full.
pub(super) struct Overloaded;

type Shard<B> = HashMap<PersistenceId, Arc<Mailbox<B>>>;

/// The entities in memory.
pub(super) struct Directory<B: Backend> {
    pub(super) backend: B,
    /// The runtime of the region: the caller's may shut down before its command is done.
    runtime: Handle,
    /// Notified when an entity becomes idle or leaves memory.
    pub(super) idle_changed: Notify,
    shards: Vec<Mutex<Shard<B>>>,
    hasher: RandomState,
    count: AtomicUsize,
}

impl<B: Backend> Directory<B> {
    /// Start with no entities. Must be called inside a tokio runtime.
    pub(super) fn start(backend: B) -> Arc<Self> {
        let every = backend.shared().residency.passivate_after / IDLE_CHECKS;
        let directory = Arc::new(Self {
            runtime: Handle::current(),
            idle_changed: Notify::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            backend,
        });
        let watched = Arc::downgrade(&directory);
        let clock = directory.backend.shared().clock.clone();
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

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, id: &PersistenceId) -> MutexGuard<'_, Shard<B>> {
        let index = self.hasher.hash_one(id) as usize % SHARDS;
        let shard = self.shards.get(index).or(self.shards.first());
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("there are shards"),
        }
    }

    /// Send a command to an entity, loading it if needed.
    pub(super) async fn ask<C>(
        self: &Arc<Self>,
        id: &str,
        ids: CommandIds,
        command: C,
    ) -> Result<Once<B::Reply>, AskError<B::Error>>
    where
        B: Execute<C>,
        C: Send + Sync + 'static,
    {
        let id = B::persistence_id(id)?;
        let (reply, replied) = oneshot::channel();
        let ask = Ask {
            command,
            ids,
            reply,
        };
        let sent = self.send(&id, Box::new(ask));
        sent.map_err(|_| AskError::Overloaded { id })?;
        replied.await.unwrap_or(Err(AskError::Panicked))
    }

    /// Read the state, after all queued commands.
    pub(super) async fn view<R: Send + 'static>(
        self: &Arc<Self>,
        id: &str,
        view: impl FnOnce(&B::State) -> R + Send + 'static,
    ) -> Result<R> {
        let id = B::persistence_id(id)?;
        let (reply, replied) = oneshot::channel();
        let sent = self.send(&id, Box::new(View { view, reply }));
        sent.map_err(|_| {
            Error::unavailable("the entity has too many pending commands; ask again later")
                .fact("id", &id)
        })?;
        let panicked = || Error::corrupt("the view function panicked");
        replied.await.unwrap_or_else(|_| Err(panicked()))
    }

    /// Queue a job for an entity, loading it if needed.
    fn send(
        self: &Arc<Self>,
        id: &PersistenceId,
        mut job: Box<dyn Job<B>>,
    ) -> Result<(), Overloaded> {
        let most = self.backend.shared().residency.mailbox;
        for _ in 0..ATTEMPTS {
            let Some(mailbox) = self.mailbox(id) else {
                self.make_room()?;
                continue;
            };
            mailbox.used(self.backend.shared().clock.monotonic());
            job = match mailbox.enqueue(job, most) {
                Enqueued::Queued => return Ok(()),
                Enqueued::Start(loaded) => {
                    self.runtime.spawn(work(self.clone(), mailbox, loaded));
                    return Ok(());
                }
                Enqueued::Full => return Err(Overloaded),
                // The entity just left memory: look up the next mailbox.
                Enqueued::Closed(job) => job,
            };
        }
        Err(Overloaded)
    }

    /// The mailbox of an entity, a new one if it has none; `None` if the region is full.
    fn mailbox(&self, id: &PersistenceId) -> Option<Arc<Mailbox<B>>> {
        let mut shard = self.shard(id);
        if let Some(mailbox) = shard.get(id) {
            return Some(mailbox.clone());
        }
        let most = self.backend.shared().residency.max_resident;
        let counted = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        counted.ok()?;
        let mailbox = Arc::new(Mailbox::new(id.clone()));
        shard.insert(id.clone(), mailbox.clone());
        Some(mailbox)
    }

    /// Remove an entity from memory, if nothing is queued and no task but the caller's uses it.
    pub(super) fn remove_idle(&self, mailbox: &Mailbox<B>, is_own_task: bool) -> bool {
        let mut shard = self.shard(&mailbox.id);
        if !mailbox.close_if_idle(is_own_task) {
            return false;
        }
        shard.remove(&mailbox.id);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Remove an entity from memory and return what is queued for it.
    pub(super) fn remove(&self, mailbox: &Arc<Mailbox<B>>) -> VecDeque<Box<dyn Job<B>>> {
        let mut shard = self.shard(&mailbox.id);
        let is_here = shard
            .get(&mailbox.id)
            .is_some_and(|here| Arc::ptr_eq(here, mailbox));
        if is_here {
            shard.remove(&mailbox.id);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        mailbox.close()
    }

    /// The idle entities, each with the time of its last use.
    fn idle(&self) -> Vec<(u64, Arc<Mailbox<B>>)> {
        let mut idle = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let mailboxes = shard.values().filter(|mailbox| mailbox.is_idle());
            idle.extend(mailboxes.map(|mailbox| (mailbox.used_ms(), mailbox.clone())));
        }
        idle
    }

    /// Passivate entities that have been idle for long enough.
    fn passivate_idle(&self) {
        let since = self.backend.shared().residency.passivate_after;
        let now = self.backend.shared().clock.monotonic();
        for (used, mailbox) in self.idle() {
            if now.saturating_sub(Duration::from_millis(used)) >= since {
                self.remove_idle(&mailbox, false);
            }
        }
    }

    /// Passivate the entities that have been idle for the longest.
    fn make_room(&self) -> Result<(), Overloaded> {
        let mut idle = self.idle();
        let evicted = (self.backend.shared().residency.max_resident / EVICTED_FRACTION).max(1);
        if evicted < idle.len() {
            idle.select_nth_unstable_by_key(evicted - 1, |(used, _)| *used);
            idle.truncate(evicted);
        }
        let removed = idle
            .iter()
            .filter(|(_, mailbox)| self.remove_idle(mailbox, false));
        match removed.count() {
            0 => Err(Overloaded),
            _ => Ok(()),
        }
    }

    /// Wait until every entity has handled its queue and left memory.
    pub(super) async fn passivate_all(&self) {
        loop {
            let changed = self.idle_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            for (_, mailbox) in self.idle() {
                self.remove_idle(&mailbox, false);
            }
            if self.len() == 0 {
                return;
            }
            changed.await;
        }
    }
}
