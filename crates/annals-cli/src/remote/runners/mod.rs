//! Three processes run a view over one server, while they are paused, resumed and killed and a service
//! appends: in the end, the rows are the fold of the journal.
//!
//! The test starts itself again as child processes. Pauses (SIGSTOP) are longer than a lease, so a
//! resumed process goes on with a share that it lost; kills (SIGKILL) hit anywhere. Both come at times
//! drawn from a seed. `ANNALS_RUNNERS_SECONDS=n` sets how long, `ANNALS_SEED=n` the seed.

mod chains;
mod members;
mod runner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::entity::EntityEvent;
use annals::items::TableSpec;
use annals::journal::Expected;
use annals::projection::View;
use annals::{Annals, Clock, Random, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::chains::Chains;
use self::members::Members;
use self::runner::{Runner, open};
use crate::serve::{self, App, Guard, Limits};
use crate::settings::Settings;

const RUNNERS: usize = 3;
const SHARES: u16 = 4;
const LEASE: Duration = Duration::from_millis(500);
/// How often a runner looks around in two leases: four times in each.
const LOOKS_IN_TWO_LEASES: u64 = 8;
/// Tasks that append.
const WRITERS: u64 = 2;
/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name);
    set.map_or(default, |set| set.parse().expect("a setting is a number"))
}

/// A server on an embedded store, in this process.
struct Server {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(folder: &std::path::Path) -> Self {
        let settings = Settings {
            data: folder.to_owned(),
            ..Settings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard = Guard::new(address, None, false).unwrap();
        let limits = Limits {
            sweep_every: None,
            ..Limits::default()
        };
        let (app, store) = App::open(&settings, guard, limits).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serve::run(listener, app, stopped).await.unwrap();
            store.close().await;
        });
        Self {
            address: format!("http://{address}"),
            stop,
            task,
        }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Appends until it is over, at a pace that the runners can follow.
async fn write(annals: Annals, random: Random, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        let (id, steps) = chains::draw(&random);
        let events: Vec<_> = steps.iter().map(|step| step.to_event().unwrap()).collect();
        let appended = annals.journal().append(&id, Expected::Any, events).await;
        appended.unwrap();
        let pause = Duration::from_millis(random.below(15));
        SystemClock::new().sleep(pause).await;
    }
}

/// The runners and their disturbances.
struct Parent {
    address: String,
    annals: Annals,
    table: Arc<TableSpec>,
    random: Random,
    clock: SystemClock,
    runners: Vec<Runner>,
    kills: u64,
    pauses: u64,
}

impl Parent {
    /// Kills and pauses runners for so many seconds.
    async fn disturb(&mut self, seconds: u64) {
        let end = self.clock.monotonic() + Duration::from_secs(seconds);
        while self.clock.monotonic() < end {
            self.sleep_ms(50, 400).await;
            let now = self.clock.monotonic();
            for runner in &mut self.runners {
                if runner.paused_until.is_some_and(|until| until <= now) {
                    runner.resume();
                }
                runner.assert_runs();
            }
            let which = self.random.below(RUNNERS as u64) as usize;
            let is_paused = self.runners[which].paused_until.is_some();
            match self.random.below(4) {
                0 => self.kill(which),
                _ if is_paused => {}
                _ => {
                    let leases = self.random.below(200) as u32 + 120;
                    self.runners[which].pause(now + LEASE * leases / 100);
                    self.pauses += 1;
                }
            }
        }
    }

    async fn sleep_ms(&self, least: u64, most: u64) {
        let ms = least + self.random.below(most - least);
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Kills a runner and starts another one.
    fn kill(&mut self, which: usize) {
        self.runners[which] = Runner::start(&self.address);
        self.kills += 1;
    }

    async fn members(&self) -> Members {
        Members::read(&self.annals, &self.table).await
    }

    /// Resumes all runners, and waits until each has looked around and only they own shares.
    async fn settle(&mut self) {
        for runner in &mut self.runners {
            if runner.paused_until.is_some() {
                runner.resume();
            }
        }
        let before = self.members().await;
        let count = self.runners.len();
        let settled = async {
            loop {
                let members = self.members().await;
                let is_settled = members.are_settled(count, SHARES);
                if is_settled && members.alive_since(&before).len() == count {
                    return;
                }
                self.clock.sleep(Duration::from_millis(20)).await;
            }
        };
        let settled = SystemClock::within(PATIENCE, settled).await;
        settled.expect("the runners do not settle");
    }

    /// Kills all runners but one, which then owns every share after two leases. They are counted in
    /// rounds of the one that is left: it looks around four times in a lease, or less often.
    async fn check_takeover(&mut self) {
        self.settle().await;
        let before = self.members().await;
        self.runners.truncate(1);
        let taken = async {
            loop {
                let members = self.members().await;
                let owner = members.owners.first().unwrap();
                if members.owners.iter().all(|other| other == owner) && !owner.is_empty() {
                    // It is alive: the others are only forgotten by it.
                    if members.looks.len() == 1 {
                        return;
                    }
                }
                let looks = members.alive_since(&before);
                let looks = looks.iter().map(|id| members.looks[id] - before.looks[id]);
                let looks = looks.max().unwrap_or(0);
                assert!(
                    looks <= LOOKS_IN_TWO_LEASES,
                    "no owner after two leases: {members:?}, before: {before:?}"
                );
                self.clock.sleep(Duration::from_millis(5)).await;
            }
        };
        let taken = SystemClock::within(PATIENCE, taken).await;
        taken.expect("the shares are not taken over");
        while self.runners.len() < RUNNERS {
            self.runners.push(Runner::start(&self.address));
        }
    }

    /// Waits until the view includes everything.
    async fn catch_up(&self) {
        let caught_up = async {
            loop {
                let status = self.annals.projections().status(Chains::NAME).await;
                let status = status.unwrap().unwrap();
                let build = &status.builds[0];
                assert_eq!((build.dead_letters, build.missed), (0, 0), "{status:#?}");
                if build.lag_events == 0 {
                    return;
                }
                self.clock.sleep(Duration::from_millis(50)).await;
            }
        };
        let caught_up = SystemClock::within(PATIENCE, caught_up).await;
        caught_up.expect("the view does not catch up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_equal_the_fold_after_runners_were_paused_and_killed() {
    let (seed, seconds) = (
        setting("ANNALS_SEED", 1),
        setting("ANNALS_RUNNERS_SECONDS", 8),
    );
    let random = Random::seeded(seed);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let annals = open(&server.address).await;
    // Makes the table and the records of the view.
    runner::start(&annals).await.stop().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|_| {
        let random = Random::seeded(random.bits());
        tokio::spawn(write(annals.clone(), random, is_over.clone()))
    });
    let writers: Vec<_> = writers.collect();
    let mut parent = Parent {
        address: server.address.clone(),
        table: members::table(),
        random: Random::seeded(random.bits()),
        clock: SystemClock::new(),
        runners: Vec::new(),
        annals: annals.clone(),
        kills: 0,
        pauses: 0,
    };
    let start = |_| Runner::start(&server.address);
    parent.runners = (0..RUNNERS).map(start).collect();
    parent.settle().await;
    parent.disturb(seconds).await;
    parent.check_takeover().await;
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    parent.settle().await;
    parent.catch_up().await;
    parent.runners.drain(..).for_each(Runner::finish);

    // Whatever a resumed process did, it has done by now.
    let (want, events) = chains::fold(&annals).await;
    let Parent { kills, pauses, .. } = parent;
    println!("ANNALS_SEED={seed}: {events} events, {kills} kills, {pauses} pauses");
    assert_eq!(chains::rows(&annals).await, want);
    // A run in which nothing happens proves nothing.
    assert!(events > 20 * seconds && kills >= seconds / 4 && pauses >= seconds / 2);
    drop((parent.annals, annals));
    server.stop().await;
}
