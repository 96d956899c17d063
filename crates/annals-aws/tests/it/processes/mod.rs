//! Processes that append to the same ids, while one after the other is paused, resumed and killed.
//!
//! The test starts itself again as children that write and say on a pipe, before each attempt, what
//! they are about to do, and after it how it ended. They are stopped (SIGSTOP) for moments and for
//! longer than their requests may take, and now and then killed and started again, at moments drawn
//! by seed. When all have ended, a journal that is opened then must show what the record of the
//! simulation asks for: nothing acknowledged is missing or changed, nothing refused is visible, no
//! number is used twice, batches are whole, every window replays right, the highest is right.
//!
//! It runs until enough of everything was met. `ANNALS_PROCESSES_SECONDS=n` runs it at least so
//! long, `ANNALS_PROCESSES=n` with so many writers, `ANNALS_SEED=n` with other moments.

mod report;
mod writer;
mod zombies;

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use annals::journal::{Journal, Window};
use annals::layout::Layout;
use annals::{Clock, PersistenceId, Random, SystemClock};
use annals_aws::DynamoDb;
use annals_jvm::AnyLayout;
use annals_testkit::store;
use annals_testkit::tck::aftermath::Aftermath;
use futures::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};

use crate::server;
use report::{Met, Said, Told};
use writer::{TASK, Task, is_whole};

/// Few enough for the writers to meet.
const IDS: usize = 3;
/// However slow the machine: what was not met by then is missing.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many violations are shown, and how much of each.
const SHOWN: usize = 20;
const SHOWN_CHARS: usize = 400;

fn id(index: usize) -> PersistenceId {
    format!("Cart|{index}").parse().unwrap()
}

fn settings(endpoint: &str, table: &str) -> AnyLayout {
    AnyLayout {
        journal_table: Some(table.parse().unwrap()),
        ..server::settings(endpoint)
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name);
    set.map_or(default, |set| set.parse().expect("a setting is a number"))
}

/// What a run of so many seconds must have met. Less than it meets on a busy machine.
fn least(seconds: u64) -> Met {
    Met {
        acked: 100 + 5 * seconds,
        refused: 20 + seconds,
        unknown: 1 + seconds / 20,
        unanswered: 3 + seconds / 10,
        large: 1 + seconds / 20,
        deleted: 2 + seconds / 20,
        pauses: 10 + seconds / 2,
        kills: 1 + seconds / 20,
    }
}

/// A writer that runs. Ends with its handle, also where it is stopped.
struct Running {
    process: std::process::Child,
    listener: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    fn start(task: &Task, told: &Arc<Mutex<Told>>) -> Self {
        let child = "processes::writer::child_that_writes";
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--nocapture"])
            .env(TASK, serde_json::to_string(task).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, told) = (process.stdout.take().unwrap(), told.clone());
        let listener = std::thread::spawn(move || listen(said, &told));
        Self {
            process,
            listener: Some(listener),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// What was in the pipe when the process ended counts too.
    fn heard_out(&mut self) -> ExitStatus {
        let status = self.process.wait().unwrap();
        self.listener.take().unwrap().join().unwrap();
        status
    }

    fn is_over(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

fn listen(said: ChildStdout, told: &Mutex<Told>) {
    let mut lines = BufReader::new(said);
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some(said) = Said::from_line(&line) {
            told.lock().unwrap().take(said);
        }
        line.clear();
    }
}

/// The writers, and what disturbs them.
struct Parent {
    told: Arc<Mutex<Told>>,
    running: Vec<Running>,
    /// What the next writer is to do.
    next: Task,
    random: Random,
    clock: SystemClock,
}

impl Parent {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    fn start(&mut self) -> Running {
        self.next.run += 1;
        self.next.seed = self.random.bits();
        Running::start(&self.next, &self.told)
    }

    /// Disturbs the writers for so many seconds, and on until enough was met.
    async fn run(&mut self, seconds: u64) {
        let (begun, least) = (self.clock.monotonic(), least(seconds));
        let (long_enough, too_long) = (Duration::from_secs(seconds), PATIENCE);
        loop {
            let passed = self.clock.monotonic() - begun;
            let is_met = self.told().met(self.running.len()).is_enough(&least);
            if is_met && passed >= long_enough || passed >= long_enough + too_long {
                return;
            }
            let is_broken = !self.told().record.violations.is_empty();
            if is_broken || self.running.iter_mut().any(Running::is_over) {
                return;
            }
            self.sleep_ms(20, 300).await;
            self.disturb().await;
        }
    }

    async fn sleep_ms(&self, least: u64, most: u64) {
        let ms = least + self.random.below(most - least);
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    async fn disturb(&mut self) {
        let which = self.random.below(self.running.len() as u64) as usize;
        let kind = self.random.below(10);
        if kind == 0 {
            self.running[which].signal(Signal::KILL);
            self.running[which].heard_out();
            self.running[which] = self.start();
            self.told().met.kills += 1;
            return;
        }
        self.running[which].signal(Signal::STOP);
        match kind {
            // Longer than a writer waits for an answer, or for all its tries.
            1..=3 => self.sleep_ms(200, 900).await,
            _ => self.sleep_ms(1, 100).await,
        }
        self.running[which].signal(Signal::CONT);
        self.told().met.pauses += 1;
    }

    /// Tells all writers to stop, and hears them out; answers what they have said.
    async fn stop(mut self) -> Told {
        for running in &mut self.running {
            drop(running.process.stdin.take());
        }
        let begun = self.clock.monotonic();
        for mut running in std::mem::take(&mut self.running) {
            while !running.is_over() && self.clock.monotonic() - begun < PATIENCE {
                self.clock.sleep(Duration::from_millis(10)).await;
            }
            if !running.is_over() {
                self.told().record.violated("a writer hangs".to_owned());
                running.signal(Signal::KILL);
            }
            let status = running.heard_out();
            if !status.success() {
                let what = format!("a writer ended by itself: {status}");
                self.told().record.violated(what);
            }
        }
        let mut told = std::mem::replace(&mut *self.told(), Told::new());
        told.check_passed_over();
        told
    }
}

/// Checks what a process sees that starts when all is over.
async fn check(store: &Arc<DynamoDb>, table: &str, told: &mut Told, random: &Random) {
    let open = async || {
        let clock = Arc::new(SystemClock::new());
        let settings = settings("", table);
        let store = store(store.clone(), clock, Random::seeded(0));
        let opened = settings.journal(&store);
        opened.await.unwrap()
    };
    for index in 0..IDS {
        let id = &id(index);
        let mut events = open().await.replay(id, Window::ALL);
        while let Ok(Some(event)) = events.try_next().await {
            if !is_whole(&event) {
                let number = event.sequence_number;
                let what = format!("id {index}: {number} is not as it was appended");
                told.record.violated(what);
            }
        }
        let aftermath = Aftermath { index, id, random };
        aftermath.check(&mut told.record, open).await;
    }
}

fn show(violations: &[String]) -> String {
    let cut = |line: &String| line.chars().take(SHOWN_CHARS).collect::<String>();
    let shown: Vec<String> = violations.iter().take(SHOWN).map(cut).collect();
    format!("{} violations:\n{}", violations.len(), shown.join("\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_and_killed_processes_keep_the_journals_promises() {
    let seed = setting("ANNALS_SEED", 1);
    let seconds = setting("ANNALS_PROCESSES_SECONDS", 0);
    let random = Random::seeded(seed);
    let endpoint = server::endpoint().await;
    let name = server::unique("processes");
    let spec = settings(&endpoint, name.as_str());
    let spec = spec.tables().unwrap().journal;
    server::with_table_at(&endpoint, spec, async |store, _| {
        let mut parent = Parent {
            told: Arc::new(Mutex::new(Told::new())),
            running: Vec::new(),
            next: Task {
                endpoint: endpoint.clone(),
                table: name.to_string(),
                run: 0,
                seed: 0,
            },
            random: Random::seeded(random.bits()),
            clock: SystemClock::new(),
        };
        for _ in 0..setting("ANNALS_PROCESSES", 2) {
            let started = parent.start();
            parent.running.push(started);
        }
        parent.run(seconds).await;
        let mut told = parent.stop().await;
        check(&store, name.as_str(), &mut told, &random).await;
        let (met, least) = (told.met(0), least(seconds));
        println!("ANNALS_SEED={seed}: {met:?}");
        let violations = &told.record.violations;
        assert!(violations.is_empty(), "{}", show(violations));
        // A run that meets nothing proves nothing.
        assert!(met.is_enough(&least), "{met:?}: {least:?}");
    })
    .await;
}
