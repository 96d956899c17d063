//! Live tails: what an id's journal holds from a number on, and then what comes, as server-sent
//! events.
//!
//! Promises: every event from the number on, each once and in order, however slow the reader and
//! however often it comes back with `Last-Event-ID`. Where this server purges the id, whose numbers
//! begin anew, so does the tail, at 1. However many follow an id, one task looks for what comes and
//! shares it: an idle tail costs its connection and a few hundred bytes.
//! Trusts: replays to be complete. What is shared is a short cut: whoever misses some of it
//! replays. And that nobody else purges an id that is in use.
//! Never: holds back a writer for a reader.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use annals::journal::{EventStream, Journal, Window};
use annals::{Clock, Event, PersistenceId, Result, SequenceNumber};
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
use crate::shown;

/// How many events are kept for tails that lag a little; one that lags more replays.
const SHARED_MAX: usize = 64;
/// How long to wait before looking again: shortly after something came, longer while nothing does.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When a journal is looked at for what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looking {
    /// When an append passed through this server, as all of them do.
    WhenTold,
    /// Also now and then, for what others append.
    AlsoByItself,
}

/// An event as every tail sends it.
#[derive(Clone)]
struct Frame {
    /// Of which history of the id: how often it had been purged.
    purges: u64,
    number: SequenceNumber,
    bytes: Bytes,
}

impl Frame {
    fn of(event: &Event, purges: u64) -> Self {
        let (number, line) = (event.sequence_number, shown::event(event));
        Self {
            purges,
            number,
            bytes: sse::frame(number, line),
        }
    }
}

/// What tails of one id share.
struct Hub {
    frames: broadcast::Sender<Frame>,
    /// An append or a purge has passed through this server.
    told: Arc<Notify>,
    /// How often the id was purged since this began.
    purges: Arc<AtomicU64>,
    /// From which number on events are shared, once that is known; later ones than it are.
    begins: watch::Receiver<Option<SequenceNumber>>,
    looking: AbortHandle,
    id: PersistenceId,
    hubs: Weak<Hubs>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.looking.abort();
        if let Some(hubs) = self.hubs.upgrade() {
            let mut hubs = locked(&hubs);
            // Somebody may have begun a new one meanwhile.
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

/// The ids that are followed.
pub(super) struct Tails {
    looking: Looking,
    hubs: Arc<Hubs>,
}

impl Tails {
    pub(super) fn new(looking: Looking) -> Self {
        Self {
            looking,
            hubs: Arc::default(),
        }
    }

    /// That events of an id were appended.
    pub(super) fn tell(&self, id: &PersistenceId) {
        let hub = locked(&self.hubs).get(id).and_then(Weak::upgrade);
        if let Some(hub) = hub {
            hub.told.notify_one();
        }
    }

    /// That an id was purged.
    pub(super) fn tell_purge(&self, id: &PersistenceId) {
        let hub = locked(&self.hubs).get(id).and_then(Weak::upgrade);
        if let Some(hub) = hub {
            hub.purges.fetch_add(1, Ordering::Release);
            hub.told.notify_one();
        }
    }

    /// The hub of an id, begun where nobody follows it yet.
    fn hub(&self, id: &PersistenceId, journal: &Journal, clock: &Arc<dyn Clock>) -> Arc<Hub> {
        let mut hubs = locked(&self.hubs);
        if let Some(hub) = hubs.get(id).and_then(Weak::upgrade) {
            return hub;
        }
        let (frames, _) = broadcast::channel(SHARED_MAX);
        let (begin, begins) = watch::channel(None);
        let looker = Looker {
            id: id.clone(),
            journal: journal.clone(),
            clock: clock.clone(),
            looking: self.looking,
            told: Arc::new(Notify::new()),
            purges: Arc::default(),
            frames: frames.clone(),
        };
        let hub = Arc::new(Hub {
            frames,
            told: looker.told.clone(),
            purges: looker.purges.clone(),
            begins,
            looking: tokio::spawn(looker.run(begin)).abort_handle(),
            id: id.clone(),
            hubs: Arc::downgrade(&self.hubs),
        });
        hubs.insert(id.clone(), Arc::downgrade(&hub));
        hub
    }
}

/// Looks for what comes to an id, for all of its tails.
struct Looker {
    id: PersistenceId,
    journal: Journal,
    clock: Arc<dyn Clock>,
    looking: Looking,
    told: Arc<Notify>,
    purges: Arc<AtomicU64>,
    frames: broadcast::Sender<Frame>,
}

impl Looker {
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
        begin.send_replace(Some(next));
        let mut purges = self.purges.load(Ordering::Acquire);
        loop {
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
                // The numbers have ended.
                Ok(false) => return,
                Ok(true) => self.wait(&mut pause).await,
                Err(error) => self.wait_after(&error, &mut pause).await,
            }
        }
    }

    /// Shares what there is from a number on; answers whether more can come.
    async fn share_from(&self, next: &mut SequenceNumber, purges: u64) -> Result<bool> {
        let mut events = self.journal.replay(&self.id, Window::from(*next));
        while let Some(event) = events.try_next().await? {
            // Nobody listens for a moment while a tail comes or goes.
            let _ = self.frames.send(Frame::of(&event, purges));
            match event.sequence_number.next() {
                Some(behind) => *next = behind,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn wait_after(&self, error: &annals::Error, pause: &mut Duration) {
        tracing::warn!(id = %self.id, %error, "following fails; it is tried again");
        self.clock.sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    async fn wait(&self, pause: &mut Duration) {
        let told = std::pin::pin!(self.told.notified());
        if self.looking == Looking::WhenTold {
            return told.await;
        }
        select(told, self.clock.sleep(*pause)).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
    }
}

/// One tail.
struct Tail {
    id: PersistenceId,
    journal: Journal,
    hub: Arc<Hub>,
    shared: broadcast::Receiver<Frame>,
    /// What is replayed, until the tail is where the shared ones are.
    replayed: Option<EventStream>,
    next: SequenceNumber,
    /// Of which history of the id.
    purges: u64,
    has_begun: bool,
    _held: Held,
}

/// The events of an id from a number on, and then what comes, as the bytes of server-sent events.
/// Ends with the server.
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
        // The last number there is has no next one; nothing comes behind it.
        tail.next = frame.number.next().unwrap_or(frame.number);
        Ok(Some((frame.bytes, tail)))
    });
    let frames = frames.take_until(app.closing().clone().cancelled_owned());
    sse::beating(frames, app.clock().clone(), app.limits().heartbeat)
}

impl Tail {
    /// Loses nothing where it is dropped before its end.
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
                // Of a history that is gone.
                Ok(frame) if frame.purges < self.purges => {}
                Ok(frame) if frame.number == self.next => return Ok(frame),
                Ok(frame) if frame.number < self.next => {}
                // Some were missed: too slow, deleted, or shared before this tail began.
                Ok(_) => self.replay(),
                // What comes next shows what was missed.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(annals::Error::unavailable("nobody follows any more"));
                }
            }
        }
    }

    /// Replays what was there before the hub began to share: a replay before that could miss
    /// events in between.
    async fn begin(&mut self) {
        let mut begins = self.hub.begins.clone();
        // Fails where the numbers have ended, and nothing comes.
        let _ = begins.wait_for(Option::is_some).await;
        self.replay();
        self.has_begun = true;
    }

    fn replay(&mut self) {
        self.replayed = Some(self.journal.replay(&self.id, Window::from(self.next)));
    }
}
