//! The runner of a projection: takes its part of the shares, and gives up what is too much.
//!
//! Guarantees: a share is worked on under a lease. A share without a living owner is taken after its
//! record stood still for a lease, by this runner's own clock; clocks of different machines are never
//! compared. Moving a share stops no other share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::control::{self, Build, Control, Request, Stage};
use super::record::{Put, Records, Versioned, WriterId};
use super::share::{Lease, Share};
use super::status;
use super::table::{self, BuildKey, Member};
use super::worker::{Orders, Work, Worker};
use crate::Result;
use crate::items::Query;

/// A runner that wants shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Announcement {
    pub(super) id: String,
}

/// Runs a projection in this process.
#[derive(Debug)]
pub(super) struct Runner {
    records: Records,
    work: Arc<Work>,
    /// Identifies it among the runners.
    id: WriterId,
    announcements: u64,
    /// When a record was first seen in its version, by its key.
    seen: HashMap<String, Seen>,
    workers: HashMap<(u32, u16), Working>,
    requests: watch::Sender<Arc<Vec<Request>>>,
    stop: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Seen {
    version: String,
    since: Duration,
}

#[derive(Debug)]
struct Working {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The shares and runners of a build.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) shares: BTreeMap<u16, Versioned<Share>>,
    pub(super) runners: BTreeMap<String, Versioned<Announcement>>,
}

impl Members {
    pub(super) async fn load(records: &Records, build: &BuildKey) -> Result<Self> {
        let query = Query::of(build.shares());
        let mut items = records.store.query_all(&records.table, query);
        let mut members = Self::default();
        while let Some(item) = items.try_next().await? {
            match item.text("n").and_then(table::parse_member) {
                Some(Member::Share(share)) => {
                    members.shares.insert(share, Versioned::from_item(&item)?);
                }
                Some(Member::Runner(id)) => {
                    members
                        .runners
                        .insert(id.to_owned(), Versioned::from_item(&item)?);
                }
                None => {}
            }
        }
        Ok(members)
    }
}

impl Runner {
    pub(super) fn new(records: Records, work: Arc<Work>, stop: watch::Receiver<bool>) -> Self {
        Self {
            id: WriterId::draw(records.store.random()),
            records,
            work,
            announcements: 0,
            seen: HashMap::new(),
            workers: HashMap::new(),
            requests: watch::Sender::default(),
            stop,
        }
    }

    /// Runs until it is stopped. Every share is released then.
    pub(super) async fn run(mut self) {
        let clock = self.records.store.clock().clone();
        while !*self.stop.borrow_and_update() {
            if let Err(error) = self.look_around().await {
                let name = self.work.target.name();
                tracing::warn!(%error, projection = name, "a runner cannot read its records; retrying");
            }
            tokio::select! {
                () = clock.passes(self.work.settings.tick()) => {}
                // The handle was dropped: nobody will stop it any more.
                changed = self.stop.changed() => if changed.is_err() { break },
            }
        }
        self.stop_workers(|_| true).await;
        if let Err(error) = self.leave().await {
            tracing::debug!(%error, "a runner did not sign off; it expires");
        }
    }

    /// Compares what runs here with what should.
    async fn look_around(&mut self) -> Result<()> {
        self.workers
            .retain(|_, working| !working.task.is_finished());
        let name = self.work.target.name().to_owned();
        let Some(control) = Control::load(&self.records, &name).await? else {
            self.ask_to_stop(|_| true);
            return Ok(());
        };
        self.requests.send_if_modified(|requests| {
            let is_new = **requests != control.requests;
            *requests = Arc::new(control.requests.clone());
            is_new
        });
        let revision = self.work.target.revision();
        let builds: Vec<Build> = control.builds_of(revision).cloned().collect();
        let is_run = |number: u32| builds.iter().any(|build| build.number == number);
        if control.is_paused {
            self.ask_to_stop(|_| true);
        } else {
            self.ask_to_stop(|(build, _)| !is_run(build));
            for build in &builds {
                self.share_out(build).await?;
            }
            self.switch_if_wanted(&control).await?;
        }
        self.drop_retired(&control).await
    }

    /// Takes and gives up shares of a build, so that every living runner has its part.
    async fn share_out(&mut self, build: &Build) -> Result<()> {
        let key = control::key_of(self.work.target.name(), build);
        self.announce(&key).await?;
        let members = Members::load(&self.records, &key).await?;
        let living = self.living_runners(&key, &members).await?;
        let most = usize::from(build.shares).div_ceil(living.max(1));
        let mine = self
            .workers
            .keys()
            .filter(|(number, _)| *number == build.number);
        let mut mine: Vec<(u32, u16)> = mine.copied().collect();
        // The same ones are too many the next time, if they have not stopped by then.
        mine.sort_unstable();
        if mine.len() > most {
            let surplus = mine.get(most..).unwrap_or_default();
            self.ask_to_stop(|share| surplus.contains(&share));
            return Ok(());
        }
        let mut room = most - mine.len();
        for share in self.in_random_order(build.shares) {
            let is_free = self.is_free(&key, share, members.shares.get(&share));
            if room > 0 && is_free && !mine.contains(&(build.number, share)) {
                let found = members.shares.get(&share).cloned();
                room -= usize::from(self.take(build, share, found).await?);
            }
        }
        Ok(())
    }

    /// So that runners which start together do not compete for the same shares.
    fn in_random_order(&self, shares: u16) -> Vec<u16> {
        let random = self.records.store.random();
        let mut all: Vec<u16> = (0..shares).collect();
        all.sort_by_cached_key(|_| random.bits());
        all
    }

    /// Whether nobody works on a share: it was released, or its record stood still for a lease.
    fn is_free(&mut self, key: &BuildKey, share: u16, found: Option<&Versioned<Share>>) -> bool {
        let Some(found) = found else {
            return true;
        };
        let name = format!("{key}/{share}");
        let has_expired = self.has_stood_still(name, &found.version);
        found.content.owner.is_empty() || has_expired
    }

    /// Whether a record has had this version for a lease, as long as this runner has looked.
    fn has_stood_still(&mut self, name: String, version: &str) -> bool {
        let now = self.records.store.clock().monotonic();
        let seen = self.seen.entry(name).or_insert_with(|| Seen {
            version: version.to_owned(),
            since: now,
        });
        if seen.version != version {
            *seen = Seen {
                version: version.to_owned(),
                since: now,
            };
        }
        now.saturating_sub(seen.since) >= self.work.settings.lease
    }

    /// Takes a share and starts to work on it. Returns whether it did.
    async fn take(
        &mut self,
        build: &Build,
        share: u16,
        found: Option<Versioned<Share>>,
    ) -> Result<bool> {
        let key = control::key_of(self.work.target.name(), build).share(share);
        let owner = self.id.as_str();
        let Some(lease) = Lease::take(&self.records, key, found, owner).await? else {
            return Ok(false);
        };
        let (stop, stopped) = watch::channel(false);
        let orders = Orders {
            stop: stopped,
            requests: self.requests.subscribe(),
        };
        let mut worker = Worker::new(self.work.clone(), lease, (build, share), orders);
        worker.orders.requests.mark_changed();
        let task = tokio::spawn(worker.run());
        let working = Working { stop, task };
        self.workers.insert((build.number, share), working);
        Ok(true)
    }

    /// Says that this runner lives and wants shares.
    async fn announce(&mut self, build: &BuildKey) -> Result<()> {
        let key = build.runner(self.id.as_str());
        self.announcements += 1;
        let record = Versioned {
            version: self.id.version(self.announcements),
            content: Announcement {
                id: self.id.to_string(),
            },
        };
        let mut before = None;
        // Only this runner writes it, but a response may be lost, and another runner may delete it.
        loop {
            match self.records.put(&key, before.as_deref(), &record).await? {
                Put::Stored => return Ok(()),
                Put::Refused(found) => {
                    before = found.and_then(|item| item.text("w").map(str::to_owned));
                }
            }
        }
    }

    /// How many runners live, this one included. Removes those that do not.
    async fn living_runners(&mut self, build: &BuildKey, members: &Members) -> Result<usize> {
        let mut living = 0;
        for (id, runner) in &members.runners {
            let is_dead = id != self.id.as_str()
                && self.has_stood_still(format!("{build}/{id}"), &runner.version);
            match is_dead {
                false => living += 1,
                true => {
                    self.records
                        .delete(build.runner(id), &runner.version)
                        .await?
                }
            }
        }
        Ok(living)
    }

    async fn leave(&mut self) -> Result<()> {
        let name = self.work.target.name();
        let Some(control) = Control::load(&self.records, name).await? else {
            return Ok(());
        };
        for build in control.builds_of(self.work.target.revision()) {
            let key = control::key_of(name, build);
            let members = Members::load(&self.records, &key).await?;
            if let Some(own) = members.runners.get(self.id.as_str()) {
                let runner = key.runner(self.id.as_str());
                self.records.delete(runner, &own.version).await?;
            }
        }
        Ok(())
    }

    /// Tells workers to stop after their current batch. They stay among the workers until they have.
    fn ask_to_stop(&self, which: impl Fn((u32, u16)) -> bool) {
        let wanted = self.workers.iter().filter(|(share, _)| which(**share));
        for (_, working) in wanted {
            working.stop.send_replace(true);
        }
    }

    /// Stops workers after their current batch, and waits for them.
    async fn stop_workers(&mut self, which: impl Fn((u32, u16)) -> bool) {
        let wanted = self.workers.keys().copied().filter(|share| which(*share));
        let wanted: Vec<(u32, u16)> = wanted.collect();
        let stopped = wanted.iter().filter_map(|share| self.workers.remove(share));
        let stopped: Vec<Working> = stopped.collect();
        for working in &stopped {
            working.stop.send_replace(true);
        }
        for working in stopped {
            // A panic of a worker was reported when it happened; its share expires.
            drop(working.task.await);
        }
    }

    async fn switch_if_wanted(&self, control: &Control) -> Result<()> {
        let revision = self.work.target.revision();
        let building = control
            .building()
            .filter(|build| build.revision == revision);
        let Some(building) = building.filter(|_| self.work.settings.switches) else {
            return Ok(());
        };
        let name = self.work.target.name();
        let source = self.work.target.source();
        let status = status::of_build(&self.records, &*self.work.feed, (name, building), &source);
        if status.await?.is_caught_up() {
            let number = building.number;
            let now_ms = self.records.store.clock().now_ms();
            let switched = Control::change(&self.records, name, |control| {
                control.switch(number, now_ms)
            });
            switched.await?;
            tracing::info!(projection = name, build = number, "a new build is live");
        }
        Ok(())
    }

    /// Drops what builds stored that were retired long ago.
    async fn drop_retired(&self, control: &Control) -> Result<()> {
        let name = self.work.target.name();
        let (keep, now_ms) = (
            self.work.settings.keep_retired,
            self.records.store.clock().now_ms(),
        );
        if control.clone().drop_retired(keep, now_ms) {
            let marked = Control::change(&self.records, name, |control| {
                control.drop_retired(keep, now_ms);
                Ok(())
            });
            marked.await?;
        }
        let dropping = control.builds.iter();
        let dropping = dropping.filter(|build| build.stage == Stage::Dropping);
        for build in dropping {
            self.work.target.drop_build(build.number).await?;
            let key = control::key_of(name, build);
            let members = Members::load(&self.records, &key).await?;
            for (share, record) in members.shares {
                self.records
                    .delete(key.share(share), &record.version)
                    .await?;
            }
            for (id, record) in members.runners {
                self.records
                    .delete(key.runner(&id), &record.version)
                    .await?;
            }
            let removed = Control::change(&self.records, name, |control| {
                control.builds.retain(|other| other.number != build.number);
                Ok(())
            });
            removed.await?;
        }
        Ok(())
    }
}
