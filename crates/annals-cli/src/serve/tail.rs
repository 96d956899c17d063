//! Live tails: the events of an id from a sequence number on, and then new ones, as server-sent
//! events.
//!
//! Promises: every event from that number on, once and in order, however slow the reader and however
//! often it resumes with `Last-Event-ID`. Where this server purges the id, its numbering and its tails
//! restart at 1; a purge by a client that uses the store itself is noticed unless the id has as many
//! events again at once. However many tails an id has, one task reads new events and shares them: an idle
//! tail costs its connection and a few hundred bytes.
//! Trusts: replays to be complete. Sharing is a short cut: a tail that misses events replays. And
//! that nobody else purges an id in use.
//! Never: slows a writer down for a reader.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use annals::journal::{EventStream, Journal, Window};
use annals::{Clock, Event, PersistenceId, Result, SequenceNumber, Token};
use bytes::Bytes;
use futures::future::select;
use futures::stream::{self, Stream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::app::App;
use super::metrics::Held;
use super::sse;
use crate::wire;

/// How many events are kept for lagging tails; one that lags more replays.
const SHARED_MAX: usize = 64;
/// How long to wait between polls: short after new events, longer while there are none.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When a journal is polled for new events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polling {
    /// After an append through this server: there is no other way to append.
    OnAppend,
    /// Also from time to time, for appends of other processes.
    AlsoByTime,
}

/// An event, as every tail sends it.
#[derive(Clone)]
struct Frame {
    /// How often the id had been purged.
    purges: u64,
    number: SequenceNumber,
    bytes: Bytes,
}

impl Frame {
    fn of(event: &Event, purges: u64) -> Self {
        let number = event.sequence_number;
        let line = wire::line(&wire::StoredEvent::new(event));
        Self {
            purges,
            number,
            bytes: sse::frame(number, line),
        }
    }
}

/// What the tails of one id share.
struct Hub {
    frames: broadcast::Sender<Frame>,
    /// An append or a purge went through this server.
    changed: Arc<Notify>,
    /// How often the id was purged since the hub began.
    purges: Arc<AtomicU64>,
    /// Whether somebody else deleted items of the journal, perhaps all of this id.
    may_be_purged: Arc<AtomicBool>,
    /// The first sequence number that is shared, once it is known.
    begins: watch::Receiver<Option<SequenceNumber>>,
    task: AbortHandle,
    id: PersistenceId,
    hubs: Weak<Hubs>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(hubs) = self.hubs.upgrade() {
            let mut hubs = locked(&hubs);
            // A new one may have begun meanwhile.
            if hubs
                .get(&self.id)
                .is_some_and(|hub| hub.strong_count() == 0)
            {
                hubs.remove(&self.id);
            }
        }
    }
}

type Hubs = Mutex<HashMap<PersistenceId, Weak<Hub>>>;

fn locked(hubs: &Hubs) -> MutexGuard<'_, HashMap<PersistenceId, Weak<Hub>>> {
    hubs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ids with tails.
pub(super) struct Tails {
    polling: Polling,
    hubs: Arc<Hubs>,
}

impl Tails {
    pub(super) fn new(polling: Polling) -> Self {
        Self {
            polling,
            hubs: Arc::default(),
        }
    }

    /// Events of an id were appended.
    pub(super) fn notify(&self, id: &PersistenceId) {
        let hub = locked(&self.hubs).get(id).and_then(Weak::upgrade);
        if let Some(hub) = hub {
            hub.changed.notify_one();
        }
    }

    /// An id was purged.
    pub(super) fn notify_purge(&self, id: &PersistenceId) {
        let hub = locked(&self.hubs).get(id).and_then(Weak::upgrade);
        if let Some(hub) = hub {
            hub.purges.fetch_add(1, Ordering::Release);
            hub.changed.notify_one();
        }
    }

    /// Somebody else wrote into the journal's table, or deleted items of it.
    pub(super) fn notify_all(&self, has_deleted: bool) {
        let hubs: Vec<Arc<Hub>> = locked(&self.hubs)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for hub in hubs {
            if has_deleted {
                hub.may_be_purged.store(true, Ordering::Release);
            }
            hub.changed.notify_one();
        }
    }

    /// The hub of an id, begun with its first tail.
    fn hub(&self, id: &PersistenceId, journal: &Journal, clock: &Arc<dyn Clock>) -> Arc<Hub> {
        let mut hubs = locked(&self.hubs);
        if let Some(hub) = hubs.get(id).and_then(Weak::upgrade) {
            return hub;
        }
        let (frames, _) = broadcast::channel(SHARED_MAX);
        let (begin, begins) = watch::channel(None);
        let poller = Poller {
            id: id.clone(),
            journal: journal.clone(),
            clock: clock.clone(),
            polling: self.polling,
            changed: Arc::new(Notify::new()),
            purges: Arc::default(),
            may_be_purged: Arc::default(),
            frames: frames.clone(),
        };
        let hub = Arc::new(Hub {
            frames,
            changed: poller.changed.clone(),
            purges: poller.purges.clone(),
            may_be_purged: poller.may_be_purged.clone(),
            begins,
            task: tokio::spawn(poller.run(begin)).abort_handle(),
            id: id.clone(),
            hubs: Arc::downgrade(&self.hubs),
        });
        hubs.insert(id.clone(), Arc::downgrade(&hub));
        hub
    }
}

/// The first append of an id, if there is one, with its token unless that was deleted.
type FirstAppend = Option<Option<Token>>;

/// Reads new events of an id, for all of its tails.
struct Poller {
    id: PersistenceId,
    journal: Journal,
    clock: Arc<dyn Clock>,
    polling: Polling,
    changed: Arc<Notify>,
    purges: Arc<AtomicU64>,
    may_be_purged: Arc<AtomicBool>,
    frames: broadcast::Sender<Frame>,
}

impl Poller {
    async fn run(self, begin: watch::Sender<Option<SequenceNumber>>) {
        let mut pause = PAUSE_MIN;
        let mut next = loop {
            match self.journal.highest(&self.id).await {
                Ok(None) => break SequenceNumber::FIRST,
                Ok(Some(highest)) => match highest.next() {
                    Some(next) => break next,
                    None => return,
                },
                Err(error) => self.wait_after(&error, &mut pause).await,
            }
        };
        // Before a tail begins, so that it is known which append a purge removes. The loop tries again
        // if this fails.
        let mut first = None;
        let _ = self.notice_purge(next, &mut first).await;
        begin.send_replace(Some(next));
        let mut purges = self.purges.load(Ordering::Acquire);
        loop {
            if let Err(error) = self.notice_purge(next, &mut first).await {
                self.may_be_purged.store(true, Ordering::Release);
                self.wait_after(&error, &mut pause).await;
            }
            let now = self.purges.load(Ordering::Acquire);
            if now != purges {
                (purges, next) = (now, SequenceNumber::FIRST);
            }
            let before = next;
            let outcome = self.share_from(&mut next, purges).await;
            if next != before {
                pause = PAUSE_MIN;
            }
            match outcome {
                // The sequence numbers are used up.
                Ok(false) => return,
                Ok(true) => self.wait(&mut pause).await,
                Err(error) => self.wait_after(&error, &mut pause).await,
            }
        }
    }

    /// Counts a purge by somebody else: the numbering is behind what was shared, and the first append is
    /// another one or gone. A purge that is not complete still has its first append.
    async fn notice_purge(
        &self,
        next: SequenceNumber,
        known: &mut Option<FirstAppend>,
    ) -> Result<()> {
        let may_be_purged = self.may_be_purged.swap(false, Ordering::AcqRel);
        if next == SequenceNumber::FIRST || (known.is_some() && !may_be_purged) {
            return Ok(());
        }
        let numbers = SequenceNumber::FIRST..=SequenceNumber::FIRST;
        let found = self.journal.signatures(&self.id, numbers).await?;
        let found: FirstAppend = found.first().map(|signature| signature.token);
        if known.is_some_and(|known| known != found) {
            let highest = self.journal.highest(&self.id).await?;
            let after = highest.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
            if after.is_some_and(|after| after < next) {
                self.purges.fetch_add(1, Ordering::Release);
            }
        }
        *known = Some(found);
        Ok(())
    }

    /// Shares the events from a number on; returns whether more can come.
    async fn share_from(&self, next: &mut SequenceNumber, purges: u64) -> Result<bool> {
        let mut events = self.journal.replay(&self.id, Window::from(*next));
        while let Some(event) = events.try_next().await? {
            // There is no receiver for a moment while a tail comes or goes.
            let _ = self.frames.send(Frame::of(&event, purges));
            match event.sequence_number.next() {
                Some(after) => *next = after,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn wait_after(&self, error: &annals::Error, pause: &mut Duration) {
        tracing::warn!(id = %self.id, %error, "following fails and is tried again");
        self.clock.sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    async fn wait(&self, pause: &mut Duration) {
        let changed = std::pin::pin!(self.changed.notified());
        if self.polling == Polling::OnAppend {
            return changed.await;
        }
        select(changed, self.clock.sleep(*pause)).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }
}

/// One tail.
struct Tail {
    id: PersistenceId,
    journal: Journal,
    hub: Arc<Hub>,
    shared: broadcast::Receiver<Frame>,
    /// The replay, until the tail has caught up with the shared events.
    replayed: Option<EventStream>,
    next: SequenceNumber,
    /// How often the id had been purged.
    purges: u64,
    has_begun: bool,
    _held: Held,
}

/// The events of an id from a number on, and then new ones, as server-sent events. Ends with the
/// server.
pub(super) fn tail(
    app: &App,
    journal: &Journal,
    id: PersistenceId,
    from: SequenceNumber,
) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
    let hub = app.tails().hub(&id, journal, app.clock());
    let tail = Tail {
        shared: hub.frames.subscribe(),
        journal: journal.clone(),
        replayed: None,
        next: from,
        purges: hub.purges.load(Ordering::Acquire),
        has_begun: false,
        hub,
        id,
        _held: Held::tail(),
    };
    let frames = stream::try_unfold(Box::new(tail), |mut tail| async move {
        let frame = tail.next_frame().await?;
        // Nothing follows the last number there can be.
        tail.next = frame.number.next().unwrap_or(frame.number);
        Ok(Some((frame.bytes, tail)))
    });
    let frames = frames.take_until(app.closing().clone().cancelled_owned());
    sse::with_heartbeats(frames, app.clock().clone(), app.limits().heartbeat)
}

impl Tail {
    /// Safe to cancel.
    async fn next_frame(&mut self) -> Result<Frame> {
        if !self.has_begun {
            self.begin().await;
        }
        loop {
            if let Some(events) = &mut self.replayed {
                match events.try_next().await? {
                    Some(event) => return Ok(Frame::of(&event, self.purges)),
                    None => self.replayed = None,
                }
            }
            match self.shared.recv().await {
                Ok(frame) if frame.purges > self.purges => {
                    self.purges = frame.purges;
                    self.next = SequenceNumber::FIRST;
                    self.replay();
                }
                // From before a purge.
                Ok(frame) if frame.purges < self.purges => {}
                Ok(frame) if frame.number == self.next => return Ok(frame),
                Ok(frame) if frame.number < self.next => {}
                // Some were missed: too slow, deleted, or shared before this tail began.
                Ok(_) => self.replay(),
                // The next frame shows the gap.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(annals::Error::unavailable("the tail has ended; reconnect"));
                }
            }
        }
    }

    /// Replays once the hub shares: a replay before that could miss the events between.
    async fn begin(&mut self) {
        let mut begins = self.hub.begins.clone();
        // Fails where the sequence numbers are used up, and nothing comes.
        let _ = begins.wait_for(Option::is_some).await;
        self.replay();
        self.has_begun = true;
    }

    fn replay(&mut self) {
        self.replayed = Some(self.journal.replay(&self.id, Window::from(self.next)));
    }
}
