//! Several processes append to the same ids while they are paused, resumed and killed in turn.
//!
//! The test starts itself again as child processes that write, and report each attempt and its outcome
//! on a pipe. They are stopped (SIGSTOP) briefly or for longer than their request timeouts, and
//! sometimes killed and restarted, at times drawn from a seed. When all have ended, a new journal must
//! agree with their reports: nothing acknowledged is missing or changed, nothing refused is visible, no
//! sequence number is used twice, batches are complete, every window replays correctly, and the highest
//! sequence number is right.
//!
//! It runs until enough of everything has happened. `ANNALS_PROCESSES_SECONDS=n` sets the least
//! duration, `ANNALS_PROCESSES=n` the number of writers, `ANNALS_SEED=n` the seed.

mod report;
mod writer;
mod zombies;

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use annals::journal::Window;
use annals::layout::{AnnalsLayout, Layout, TableNames};
use annals::{Clock, PersistenceId, Random, SystemClock};
use annals_aws::DynamoDb;
use annals_testkit::tck::aftermath::Aftermath;
use futures::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};

use crate::server;
use report::{Counts, Report, Reports};
use writer::{TASK, Task, is_whole};

/// Few enough for the writers to collide.
const IDS: usize = 3;
/// The limit for a slow machine; what has not happened by then is a failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many violations are printed, and how much of each.
const SHOWN: usize = 20;
const SHOWN_CHARS: usize = 400;

fn id(index: usize) -> PersistenceId {
    format!("Cart|{index}").parse().unwrap()
}

fn layout(table: &str) -> AnnalsLayout {
    AnnalsLayout::new(TableNames::default().journal(table.parse().unwrap()))
}

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name);
    set.map_or(default, |set| set.parse().expect("a setting is a number"))
}

/// What must happen in a run of so many seconds; less than on a busy machine.
fn least(seconds: u64) -> Counts {
    Counts {
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

/// A running writer. Killed when dropped, even if it is stopped.
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
    fn start(task: &Task, reports: &Arc<Mutex<Reports>>) -> Self {
        let child = "processes::writer::child_that_writes";
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(TASK, serde_json::to_string(task).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, reports) = (process.stdout.take().unwrap(), reports.clone());
        let listener = std::thread::spawn(move || listen(said, &reports));
        Self {
            process,
            listener: Some(listener),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Includes what was in the pipe when the process ended.
    fn heard_out(&mut self) -> ExitStatus {
        let status = self.process.wait().unwrap();
        self.listener.take().unwrap().join().unwrap();
        status
    }

    fn is_over(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

fn listen(said: ChildStdout, reports: &Mutex<Reports>) {
    let mut lines = BufReader::new(said);
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some(said) = Report::from_line(&line) {
            reports.lock().unwrap().take(said);
        }
        line.clear();
    }
}

/// The writers and their disturbances.
struct Parent {
    reports: Arc<Mutex<Reports>>,
    running: Vec<Running>,
    /// The task of the next writer.
    next: Task,
    random: Random,
    clock: SystemClock,
}

impl Parent {
    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap()
    }

    fn start(&mut self) -> Running {
        self.next.run += 1;
        self.next.seed = self.random.bits();
        Running::start(&self.next, &self.reports)
    }

    /// Disturbs the writers for so many seconds, and until enough has happened.
    async fn run(&mut self, seconds: u64) {
        let (begun, least) = (self.clock.monotonic(), least(seconds));
        let (long_enough, too_long) = (Duration::from_secs(seconds), PATIENCE);
        loop {
            let passed = self.clock.monotonic() - begun;
            let is_met = self.reports().met(self.running.len()).is_enough(&least);
            if is_met && passed >= long_enough || passed >= long_enough + too_long {
                return;
            }
            let is_broken = !self.reports().record.violations.is_empty();
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
            self.reports().met.kills += 1;
            return;
        }
        self.running[which].signal(Signal::STOP);
        match kind {
            // Longer than a writer waits for a response, or for all its retries.
            1..=3 => self.sleep_ms(200, 900).await,
            _ => self.sleep_ms(1, 100).await,
        }
        self.running[which].signal(Signal::CONT);
        self.reports().met.pauses += 1;
    }

    /// Stops all writers, and returns their reports.
    async fn stop(mut self) -> Reports {
        for running in &mut self.running {
            drop(running.process.stdin.take());
        }
        let begun = self.clock.monotonic();
        for mut running in std::mem::take(&mut self.running) {
            while !running.is_over() && self.clock.monotonic() - begun < PATIENCE {
                self.clock.sleep(Duration::from_millis(10)).await;
            }
            if !running.is_over() {
                self.reports().record.violated("a writer hangs".to_owned());
                running.signal(Signal::KILL);
            }
            let status = running.heard_out();
            if !status.success() {
                let what = format!("a writer ended by itself: {status}");
                self.reports().record.violated(what);
            }
        }
        let mut reports = std::mem::replace(&mut *self.reports(), Reports::new());
        reports.check_passed_over();
        reports
    }
}

/// Checks what a new process reads at the end.
async fn check(store: &Arc<DynamoDb>, table: &str, reports: &mut Reports, random: &Random) {
    let open = async || {
        let clock = Arc::new(SystemClock::new());
        let store = annals_testkit::store(store.clone(), clock, Random::seeded(0));
        layout(table).journal(&store).await.unwrap()
    };
    for index in 0..IDS {
        let id = &id(index);
        let mut events = open().await.replay(id, Window::ALL);
        while let Ok(Some(event)) = events.try_next().await {
            if !is_whole(&event) {
                let number = event.sequence_number;
                let what = format!("id {index}: {number} is not as it was appended");
                reports.record.violated(what);
            }
        }
        let aftermath = Aftermath { index, id, random };
        aftermath.check(&mut reports.record, open).await;
    }
}

fn show(violations: &[String]) -> String {
    let cut = |line: &String| line.chars().take(SHOWN_CHARS).collect::<String>();
    let shown: Vec<String> = violations.iter().take(SHOWN).map(cut).collect();
    format!("{} violations:\n{}", violations.len(), shown.join("\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_and_killed_processes_keep_the_guarantees_of_the_journal() {
    let seed = setting("ANNALS_SEED", 1);
    let seconds = setting("ANNALS_PROCESSES_SECONDS", 0);
    let random = Random::seeded(seed);
    let endpoint = server::endpoint().await;
    let name = server::unique("processes");
    let spec = layout(name.as_str()).tables().unwrap().journal;
    server::with_table_at(&endpoint, spec, async |store, _| {
        let mut parent = Parent {
            reports: Arc::new(Mutex::new(Reports::new())),
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
        let mut reports = parent.stop().await;
        check(&store, name.as_str(), &mut reports, &random).await;
        let (met, least) = (reports.met(0), least(seconds));
        println!("ANNALS_SEED={seed}: {met:?}");
        let violations = &reports.record.violations;
        assert!(violations.is_empty(), "{}", show(violations));
        // A run in which nothing happens proves nothing.
        assert!(met.is_enough(&least), "{met:?}: {least:?}");
    })
    .await;
}
