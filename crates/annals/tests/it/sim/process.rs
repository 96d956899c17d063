//! A process: a journal, snapshots and durable state on a faulty store, and its operations on the
//! journal.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use annals::items::Items;
use annals::journal::{Append, AppendError, Appended, Expected, Journal, Window};
use annals::layout::Layout;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::verify::Verify;
use annals::{Codec, Error, ErrorKind, Event, ManualClock, NewEvent, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use annals_testkit::tck::record::{Record, label};
use futures::TryStreamExt;

use super::IDS;
use super::snapshot_record::SnapshotRecord;
use super::snapshots::Point;
use super::state_record::StateRecord;
use annals_testkit::journals::{after, number};

/// How often a call is retried after `Unavailable`.
pub(super) const TRIES: usize = 5;
/// More than an item holds.
const LARGE_BYTES: usize = 420_000;

pub(super) struct World {
    pub(super) items: Arc<dyn Items>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) layout: Arc<dyn Layout>,
    pub(super) record: Mutex<Record>,
    pub(super) snapshots: Mutex<SnapshotRecord>,
    pub(super) states: Mutex<StateRecord>,
    /// One of this many snapshots and states is large.
    pub(super) large_one_in: u64,
    /// Incompressible bytes.
    pub(super) noise: Arc<[u8]>,
}

impl World {
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    pub(super) fn snapshots(&self) -> MutexGuard<'_, SnapshotRecord> {
        self.snapshots.lock().unwrap()
    }

    pub(super) fn states(&self) -> MutexGuard<'_, StateRecord> {
        self.states.lock().unwrap()
    }

    /// Whether each event is an item, and only journals are tested.
    pub(super) fn is_jvm_layout(&self) -> bool {
        self.layout.name() != "annals"
    }

    /// A journal of a new process at the end of a run.
    pub(super) async fn open(&self, seed: u64) -> Journal {
        let (items, clock) = (self.items.clone(), self.clock.clone());
        let store = store(items, clock, Random::seeded(seed));
        let opened = self.layout.journal(&store);
        opened.await.unwrap()
    }

    pub(super) fn open_snapshots(&self, items: Arc<dyn Items>, random: &Random) -> Snapshots {
        let (settings, clock) = (AnyLayout::default(), self.clock.clone());
        settings
            .snapshots(&store(items, clock, random.clone()))
            .unwrap()
    }

    pub(super) fn open_states(&self, items: Arc<dyn Items>, random: &Random) -> States {
        let (settings, clock) = (AnyLayout::default(), self.clock.clone());
        settings
            .states(&store(items, clock, random.clone()))
            .unwrap()
    }
}

pub(super) fn noise() -> Arc<[u8]> {
    let random = Random::seeded(0);
    let words = (0..LARGE_BYTES / 8).flat_map(|_| random.bits().to_le_bytes());
    words.collect()
}

pub(super) fn id(index: usize) -> PersistenceId {
    format!("Cart|{index}").parse().unwrap()
}

pub(super) struct Process {
    pub(super) world: Arc<World>,
    handle: Arc<Faulty>,
    pub(super) journal: Journal,
    // These have no state that a crash could lose.
    pub(super) snapshots: Snapshots,
    pub(super) states: States,
    pub(super) random: Random,
    /// The numbers that it believes are last.
    believed: [u64; IDS],
    /// The last states that it has folded.
    pub(super) points: [Vec<Point>; IDS],
    /// The revisions that it believes are stored.
    pub(super) revisions: [u64; IDS],
}

/// Opens a journal, with retries; a crashed handle is revived.
async fn open(world: &World, handle: &Arc<Faulty>, random: &Random) -> Journal {
    for _ in 0..1_000 {
        handle.revive();
        let (items, clock) = (handle.clone(), world.clock.clone());
        let store = store(items, clock, random.clone());
        if let Ok(journal) = world.layout.journal(&store).await {
            return journal;
        }
    }
    panic!("a journal never opens");
}

impl Process {
    pub(super) async fn start(world: Arc<World>, handle: Arc<Faulty>, random: Random) -> Self {
        let journal = open(&world, &handle, &random).await;
        Self {
            snapshots: world.open_snapshots(handle.clone(), &random),
            states: world.open_states(handle.clone(), &random),
            world,
            handle,
            journal,
            random,
            believed: [0; IDS],
            points: Default::default(),
            revisions: [0; IDS],
        }
    }

    pub(super) async fn run(mut self, steps: usize) {
        for _ in 0..steps {
            let index = self.random.below(IDS as u64) as usize;
            // The other layouts are tested only as journals.
            match self
                .random
                .below(if self.world.is_jvm_layout() { 16 } else { 32 })
            {
                0 | 1 => self.delete(index).await,
                2 | 3 => self.look(index).await,
                4 => self.highest(index).await,
                5 => self.sweep().await,
                6 => self.append_twice_concurrently(index).await,
                7..=9 => self.append(index, Expected::Any).await,
                10..=15 => self.append(index, after(self.believed[index])).await,
                16..=19 => self.save(index).await,
                20 => self.delete_snapshots(index).await,
                21 | 22 => self.load_any(index).await,
                23 => self.recover(index).await,
                24 | 25 => self.get_state(index).await,
                26 => self.delete_state(index).await,
                _ => self.upsert(index).await,
            }
            self.restart_if_crashed().await;
        }
    }

    pub(super) async fn restart_if_crashed(&mut self) -> bool {
        let is_crashed = self.handle.is_crashed();
        if is_crashed {
            self.journal = open(&self.world, &self.handle, &self.random).await;
            self.believed = [0; IDS];
            self.points = Default::default();
            self.revisions = [0; IDS];
        }
        is_crashed
    }

    /// Whether the next snapshot or state is larger than an item.
    pub(super) fn is_large(&self) -> bool {
        self.random.below(self.world.large_one_in) == 0
    }

    pub(super) fn noise(&self, is_large: bool) -> &[u8] {
        if is_large { &self.world.noise } else { &[] }
    }

    /// Only `Unavailable` is an acceptable error.
    pub(super) fn excuse(&self, what: &str, error: &Error) {
        if error.kind() != ErrorKind::Unavailable {
            let what = format!("{what}: {error:?}");
            self.world.record().violated(what);
        }
    }

    fn draw(&self, index: usize) -> (usize, Append) {
        let count = self.draw_count();
        let attempt = self.world.record().begin(index, count);
        let is_large = !self.world.is_jvm_layout() && self.random.below(150) == 0;
        let events = (0..count).map(|place| {
            let mut payload = label(attempt, place, count).into_bytes();
            if is_large {
                payload.push(b'|');
                payload.extend_from_slice(&self.world.noise);
            }
            NewEvent::new(Codec::Bytes, payload)
        });
        let append = Append::of(events.collect::<Vec<_>>());
        (attempt, append.token(self.journal.token()))
    }

    /// The number of events of an append. If each is an item, long appends are interrupted more often.
    fn draw_count(&self) -> u64 {
        match self.world.is_jvm_layout().then(|| self.random.below(40)) {
            Some(0) => 60 + self.random.below(260),
            Some(1..12) => 2 + self.random.below(8),
            _ => 1 + self.random.below(3),
        }
    }

    /// Records the outcome of an append; returns the last number, if known.
    fn note(
        &self,
        index: usize,
        attempt: usize,
        outcome: Result<Appended, AppendError>,
    ) -> Option<Option<u64>> {
        match outcome {
            Ok(appended) => {
                let (first, last) = (appended.first.get(), appended.last.get());
                self.world.record().acked(attempt, first, last);
                Some(Some(last))
            }
            Err(AppendError::Conflict(conflict)) => {
                let mut record = self.world.record();
                record.refused(attempt);
                record.saw_all(index, &conflict.found);
                let first = conflict.found.first().map(|e| e.sequence_number.get());
                let expected = match conflict.expected {
                    Expected::Last(number) => Some(number.get()),
                    Expected::Empty => Some(0),
                    Expected::Any => None,
                };
                let follows = first.zip(expected);
                if follows.is_some_and(|(first, last)| !record.follows(index, last, first)) {
                    record.violated(format!("found does not follow: {conflict:?}"));
                }
                Some(conflict.found.last().map(|e| e.sequence_number.get()))
            }
            Err(error) => {
                self.excuse("append", &error.into());
                None
            }
        }
    }

    async fn append(&mut self, index: usize, expected: Expected) {
        let (attempt, append) = self.draw(index);
        if expected != Expected::Any {
            self.world.record().expects(attempt, self.believed[index]);
        }
        for _ in 0..TRIES {
            let outcome = self
                .journal
                .append(&id(index), expected, append.clone())
                .await;
            match self.note(index, attempt, outcome) {
                Some(Some(last)) => {
                    self.believed[index] = last;
                    return;
                }
                Some(None) => return self.look(index).await,
                // Only the journal that tried before recognises an append without an expectation.
                None if self.restart_if_crashed().await && expected == Expected::Any => return,
                None => {}
            }
        }
    }

    /// A client that times out and repeats the append in another process.
    async fn append_twice_concurrently(&mut self, index: usize) {
        let (attempt, append) = self.draw(index);
        let expected = after(self.believed[index]);
        self.world.record().expects(attempt, self.believed[index]);
        let items: Arc<dyn Items> = self.world.items.clone();
        let random = Random::seeded(self.random.bits());
        let other = Arc::new(Faulty::new(items, random.clone(), Faults::bad_day()));
        let other = open(&self.world, &other, &random).await;
        let id = id(index);
        let both = futures::future::join(
            self.journal.append(&id, expected, append.clone()),
            other.append(&id, expected, append.clone()),
        );
        let (one, two) = both.await;
        self.note(index, attempt, two);
        if let Some(Some(last)) = self.note(index, attempt, one) {
            self.believed[index] = last;
        }
    }

    async fn look(&mut self, index: usize) {
        let replay = self.journal.replay(&id(index), Window::ALL);
        let events: Result<Vec<Event>, Error> = replay.try_collect().await;
        match events {
            Ok(events) => {
                self.world.record().saw_all(index, &events);
                self.highest(index).await;
            }
            Err(error) => self.excuse("replay", &error),
        }
    }

    async fn highest(&mut self, index: usize) {
        match self.journal.highest(&id(index)).await {
            Ok(highest) => self.believed[index] = highest.map_or(0, |highest| highest.get()),
            Err(error) => self.excuse("highest", &error),
        }
    }

    async fn delete(&mut self, index: usize) {
        let believed = self.believed[index];
        if believed == 0 {
            return;
        }
        // Often all events, or nearly all.
        let to = believed - self.random.below(believed.min(3));
        let note = |deleted: &mut [u64]| deleted[index] = deleted[index].max(to);
        note(&mut self.world.record().deletion_tried);
        for _ in 0..1 + self.random.below(3) {
            match self.journal.delete_to(&id(index), number(to)).await {
                Ok(deleted) => {
                    assert_eq!(deleted, Some(number(to)));
                    return note(&mut self.world.record().deleted);
                }
                Err(error) => self.excuse("delete", &error),
            }
            self.restart_if_crashed().await;
        }
    }

    async fn sweep(&mut self) {
        let hour = Duration::from_secs(3_600);
        let mut swept = vec![self.journal.orphans(hour, Verify::Repair).await];
        if !self.world.is_jvm_layout() {
            swept.push(self.snapshots.orphans(hour, Verify::Repair).await);
            swept.push(self.states.orphans(hour, Verify::Repair).await);
        }
        for swept in swept {
            if let Err(error) = swept {
                self.excuse("sweep", &error);
            }
        }
    }
}
