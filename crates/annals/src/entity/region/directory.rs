//! Which entities are in memory, and how to reach them.
//!
//! Promises: an id has at most one task: it is entered and left under a lock, and a task that has
//! left does nothing more with its entity.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::super::Entity;
use super::super::host::Host;
use super::job::{Job, Message};
use super::resident::Resident;
use crate::PersistenceId;

const SHARDS: usize = 64;
/// How often room is made for an entity before it is refused.
const TRIES: usize = 8;

/// The way to an entity.
pub(super) struct Slot<E> {
    mailbox: mpsc::Sender<Message<E>>,
    /// When it was last used, in milliseconds of the clock that never goes back.
    used_ms: AtomicU64,
    pub(super) has_left: Notify,
}

impl<E> Slot<E> {
    pub(super) fn used(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.mailbox.capacity() == self.mailbox.max_capacity()
    }
}

/// It was not taken in.
pub(super) struct Overloaded;

type Shard<E> = HashMap<PersistenceId, Arc<Slot<E>>>;

/// Which entities are in memory.
pub(super) struct Directory<E: Entity> {
    pub(super) host: Host<E>,
    pub(super) recoveries: Semaphore,
    shards: Vec<Mutex<Shard<E>>>,
    hasher: RandomState,
    count: AtomicUsize,
}

impl<E: Entity> Directory<E> {
    pub(super) fn new(host: Host<E>) -> Self {
        Self {
            recoveries: Semaphore::new(host.settings.max_recoveries),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            host,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, id: &PersistenceId) -> MutexGuard<'_, Shard<E>> {
        let place = self.hasher.hash_one(id) as usize % SHARDS;
        let shard = self.shards.get(place).or(self.shards.first());
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("there are shards"),
        }
    }

    /// Puts a message into an entity's mailbox, bringing it into memory.
    pub(super) async fn send(
        self: &Arc<Self>,
        id: PersistenceId,
        mut message: Message<E>,
    ) -> Result<(), Overloaded> {
        for _ in 0..TRIES {
            let slot = match self.enter(&id) {
                Some(slot) => slot,
                None => {
                    self.make_room().await?;
                    continue;
                }
            };
            slot.used(self.host.clock.monotonic());
            message = match slot.mailbox.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(Overloaded),
                // It left just now: the next one is another.
                Err(TrySendError::Closed(message)) => message,
            };
        }
        Err(Overloaded)
    }

    /// Puts a job into the mailbox of whoever comes after a task that has left.
    pub(super) fn send_again(self: &Arc<Self>, id: PersistenceId, job: Box<dyn Job<E>>) {
        let directory = self.clone();
        tokio::spawn(async move {
            // Where it is not taken in it is dropped, and whoever asked is told so.
            let _ = directory.send(id, Message::Job(job)).await;
        });
    }

    /// The slot of an entity, with a task where it had none; `None` where there is no room.
    fn enter(self: &Arc<Self>, id: &PersistenceId) -> Option<Arc<Slot<E>>> {
        let mut shard = self.shard(id);
        if let Some(slot) = shard.get(id) {
            return Some(slot.clone());
        }
        let most = self.host.settings.max_resident;
        let entered = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        entered.ok()?;
        let (sender, mailbox) = mpsc::channel(self.host.settings.mailbox);
        let slot = Arc::new(Slot {
            mailbox: sender,
            used_ms: AtomicU64::new(0),
            has_left: Notify::new(),
        });
        shard.insert(id.clone(), slot.clone());
        let resident = Resident {
            directory: self.clone(),
            id: id.clone(),
            slot: slot.clone(),
            mailbox,
        };
        tokio::spawn(resident.live());
        Some(slot)
    }

    /// A task leaves, if nothing waits for it.
    pub(super) fn leave(
        &self,
        id: &PersistenceId,
        mailbox: &mut mpsc::Receiver<Message<E>>,
    ) -> bool {
        let mut shard = self.shard(id);
        if !mailbox.is_empty() {
            return false;
        }
        shard.remove(id);
        mailbox.close();
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn slots(&self) -> impl Iterator<Item = Arc<Slot<E>>> {
        self.shards.iter().flat_map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().cloned().collect::<Vec<_>>()
        })
    }

    /// Asks those to leave who have been idle for long enough.
    pub(super) fn passivate_idle(&self) {
        let idle = self.host.settings.passivate_after;
        let now = self.host.clock.monotonic();
        for slot in self.slots() {
            let used = Duration::from_millis(slot.used_ms.load(Ordering::Relaxed));
            if slot.is_empty() && now.saturating_sub(used) >= idle {
                let _ = slot.mailbox.try_send(Message::Passivate);
            }
        }
    }

    /// Asks the one to leave that has been idle for the longest, and waits for it.
    async fn make_room(&self) -> Result<(), Overloaded> {
        let idle = self.slots().filter(|slot| slot.is_empty());
        let oldest = idle.min_by_key(|slot| slot.used_ms.load(Ordering::Relaxed));
        let Some(oldest) = oldest else {
            return Err(Overloaded);
        };
        let left = oldest.has_left.notified();
        match oldest.mailbox.try_send(Message::Passivate) {
            Ok(()) => left.await,
            Err(TrySendError::Full(_)) => return Err(Overloaded),
            // It has left meanwhile.
            Err(TrySendError::Closed(_)) => {}
        }
        Ok(())
    }

    pub(super) async fn passivate_all(&self) {
        while self.len() > 0 {
            for slot in self.slots() {
                let _ = slot.mailbox.send(Message::Passivate).await;
            }
            tokio::task::yield_now().await;
        }
    }
}
