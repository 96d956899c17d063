//! The child process: it appends, reads and deletes, and reports that, until it is stopped.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::journal::{Append, AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::{Codec, Error, ErrorKind, Event, NewEvent, Random, SequenceNumber, SystemClock};
use annals_aws::{AwsSettings, DynamoDb};
use annals_testkit::tck::record::{label, parse};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::report::Report;
use super::{IDS, id, layout};

/// The environment variable with the task of a child, as JSON.
pub(super) const TASK: &str = "ANNALS_PROCESSES_TASK";
/// The most steps of a process.
const STEPS_MAX: usize = 100_000;
/// Attempts are numbered across all processes.
const ATTEMPTS_MAX: usize = 1_000_000;
/// More than an item holds.
const LARGE_BYTES: usize = 420_000;
/// How many events are read at once, at the most.
const REACH: u64 = 40;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) endpoint: String,
    pub(super) table: String,
    /// Which start of a process this is: no other has this number.
    pub(super) run: usize,
    pub(super) seed: u64,
}

impl Task {
    /// Short timeouts, so that a pause cuts off a request.
    fn settings(&self) -> AwsSettings {
        let mut settings = AwsSettings::at(&self.endpoint);
        let client = &mut settings.aws_client_config;
        client.connection_timeout = 200;
        client.request_timeout = 200;
        client.client_execution_timeout = 500;
        settings
    }

    async fn open(&self, random: &Random) -> Result<Journal, Error> {
        let clock = Arc::new(SystemClock::new());
        let items = DynamoDb::open_local(&self.settings(), clock.clone(), random.clone()).await?;
        let store = annals_testkit::store(Arc::new(items), clock, random.clone());
        layout(&self.table).journal(&store).await
    }
}

/// The child process.
#[ignore = "the child process of another test"]
#[tokio::test]
async fn child_that_writes() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    // The harness may have started a line.
    println!();
    let task: Task = serde_json::from_str(&task).unwrap();
    let random = Random::seeded(task.seed);
    let mut opened = None;
    for _ in 0..100 {
        match task.open(&random).await {
            Ok(journal) => opened = Some(journal),
            Err(error) => excuse("open", &error),
        }
        if opened.is_some() {
            break;
        }
    }
    let mut writer = Writer {
        journal: opened.expect("a journal that opens"),
        random,
        next: task.run * ATTEMPTS_MAX,
        believed: [0; IDS],
    };
    let is_over = end_of_input();
    for _ in 0..STEPS_MAX {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        writer.step().await;
    }
}

/// Becomes true when the parent process closes our input, or ends.
pub(super) fn end_of_input() -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let reports = is_over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        reports.store(true, Ordering::Relaxed);
    });
    is_over
}

fn say(said: &Report) {
    let mut out = std::io::stdout().lock();
    out.write_all(said.to_line().as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Panics on an error other than `Unavailable`.
fn excuse(what: &str, error: &Error) {
    if error.kind() != ErrorKind::Unavailable {
        say(&Report::Violated(format!("{what}: {error:?}")));
    }
}

/// The expectation of a writer that has seen everything up to `n`.
fn after(n: u64) -> Expected {
    SequenceNumber::new(n).map_or(Expected::Empty, Expected::Last)
}

/// The payload of an event: a label, and for a large one noise derived from the label, so that chunks
/// of different appends differ.
fn payload(label: String, is_large: bool) -> Vec<u8> {
    if !is_large {
        return label.into_bytes();
    }
    let seed = label.bytes().fold(7, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    let random = Random::seeded(seed);
    let noise = (0..LARGE_BYTES / 8).flat_map(|_| random.bits().to_le_bytes());
    label
        .into_bytes()
        .into_iter()
        .chain([b'|'])
        .chain(noise)
        .collect()
}

/// Whether an event equals the appended one, byte for byte.
pub(super) fn is_whole(event: &Event) -> bool {
    let (attempt, place, count) = parse(event);
    let stored = &event.data.payload;
    let is_large = stored.contains(&b'|');
    *stored == payload(label(attempt, place, count), is_large)
}

struct Writer {
    journal: Journal,
    random: Random,
    /// The number of the next attempt.
    next: usize,
    /// The last sequence number it has seen.
    believed: [u64; IDS],
}

impl Writer {
    async fn step(&mut self) {
        let index = self.random.below(IDS as u64) as usize;
        match self.random.below(100) {
            0 => self.delete(index).await,
            1..=12 => self.look(index).await,
            13..=15 => self.highest(index).await,
            16..=45 => self.append(index, Expected::Any).await,
            _ => self.append(index, after(self.believed[index])).await,
        }
    }

    fn draw(&mut self, index: usize) -> (usize, Append) {
        let count = 1 + self.random.below(3);
        let is_large = self.random.below(250) == 0;
        let attempt = self.next;
        self.next += 1;
        say(&Report::Begin {
            attempt,
            id: index,
            count,
            is_large,
        });
        let events = (0..count).map(|place| {
            let payload = payload(label(attempt, place, count), is_large);
            NewEvent::new(Codec::Bytes, payload)
        });
        let append = Append::of(events.collect::<Vec<_>>());
        (attempt, append.token(self.journal.token()))
    }

    /// Appends; after a lost response it sometimes gives up, and otherwise retries.
    async fn append(&mut self, index: usize, expected: Expected) {
        let (attempt, append) = self.draw(index);
        for _ in 0..1 + self.random.below(4) {
            let outcome = self
                .journal
                .append(&id(index), expected, append.clone())
                .await;
            match outcome {
                Ok(appended) => {
                    let (first, last) = (appended.first.get(), appended.last.get());
                    say(&Report::Acked {
                        attempt,
                        first,
                        last,
                    });
                    if first <= self.believed[index] {
                        let what = format!("append {attempt} is before an existing event");
                        say(&Report::Violated(what));
                    }
                    self.believed[index] = last;
                    return;
                }
                Err(AppendError::Conflict(conflict)) => {
                    say(&Report::Refused { attempt });
                    return self.learn(index, expected, &conflict.found).await;
                }
                Err(error) => {
                    say(&Report::Unanswered { attempt });
                    excuse("append", &error.into());
                }
            }
        }
    }

    /// Continues from the conflict, or reads the last sequence number.
    async fn learn(&mut self, index: usize, expected: Expected, found: &[Event]) {
        saw(index, found);
        match (found.first(), found.last()) {
            (Some(first), Some(last)) if self.random.below(2) == 0 => {
                if after(first.sequence_number.get() - 1) != expected {
                    let what = format!("found does not follow {expected}: {first:?}");
                    say(&Report::Violated(what));
                }
                let last = last.sequence_number.get();
                self.believed[index] = last.max(self.believed[index]);
            }
            _ => self.highest(index).await,
        }
    }

    /// Replays a window: from the start, near the end, or anywhere.
    async fn look(&mut self, index: usize) {
        let believed = self.believed[index];
        let from = match self.random.below(10) {
            0 => 1,
            1..=6 => 1 + believed.saturating_sub(self.random.below(REACH)),
            _ => 1 + self.random.below(believed + 1),
        };
        let to = match self.random.below(4) {
            0 => u64::MAX,
            _ => from + self.random.below(REACH),
        };
        let window = Window::from(SequenceNumber::new(from).unwrap())
            .to(SequenceNumber::new(to).unwrap_or(SequenceNumber::LAST))
            .limit(REACH);
        let replay = self.journal.replay(&id(index), window);
        let events: Vec<Event> = match replay.try_collect().await {
            Ok(events) => events,
            Err(error) => return excuse("replay", &error),
        };
        saw(index, &events);
        let number = |event: Option<&Event>| event.map(|e| e.sequence_number.get());
        let end = to.min(believed);
        let passed_over = number(events.first()).map_or(end, |first| first - 1);
        if passed_over >= from {
            say(&Report::PassedOver {
                id: index,
                to: passed_over,
            });
        }
        let is_full = events.len() as u64 == REACH;
        if number(events.last()).is_some_and(|last| last < end && !is_full) {
            let what = format!("id {index}: the window {from} to {to} ends before {end}");
            say(&Report::Violated(what));
        }
    }

    async fn highest(&mut self, index: usize) {
        let highest = match self.journal.highest(&id(index)).await {
            Ok(highest) => highest.map_or(0, SequenceNumber::get),
            Err(error) => return excuse("highest", &error),
        };
        let believed = self.believed[index];
        if highest < believed {
            let what = format!("id {index}: the highest is {highest} and was {believed}");
            say(&Report::Violated(what));
        }
        self.believed[index] = highest;
    }

    /// Deletes old events, or sometimes nearly all.
    async fn delete(&mut self, index: usize) {
        let believed = self.believed[index];
        if believed == 0 {
            return;
        }
        let to = match self.random.below(4) {
            0 => believed - self.random.below(believed.min(3)),
            _ => 1 + self.random.below(believed),
        };
        say(&Report::Deleting { id: index, to });
        for _ in 0..1 + self.random.below(3) {
            let to_number = SequenceNumber::new(to).unwrap();
            match self.journal.delete_to(&id(index), to_number).await {
                Ok(_) => return say(&Report::Deleted { id: index, to }),
                Err(error) => excuse("delete", &error),
            }
        }
    }
}

fn saw(index: usize, events: &[Event]) {
    let read = events.iter().map(|event| {
        let (attempt, place, count) = parse(event);
        if !is_whole(event) {
            let number = event.sequence_number;
            let what = format!("id {index}: {number} is not as it was appended");
            say(&Report::Violated(what));
        }
        (event.sequence_number.get(), label(attempt, place, count))
    });
    let read: Vec<_> = read.collect();
    if !read.is_empty() {
        say(&Report::Saw { id: index, read });
    }
}
