//! Starts the threads that take changes: the decider and the syncer.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

use super::catalog::{Catalog, Decided};
use super::decider::{Decider, Job, QUEUE_MAX};
use super::group::OpenGroup;
use super::index::{Index, Upkeep};
use super::log::{LogEnd, Writer};
use super::retention::Superseding;
use super::space::Space;
use super::syncer::{self, Syncer, Tally};
use crate::{Error, Result};

/// How much a thread in the background yields to others.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// What the threads share.
pub(super) struct Parts {
    pub(super) index: Arc<Index>,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) decided: Decided,
    pub(super) space: Space,
    pub(super) superseding: Arc<Superseding>,
    pub(super) end: watch::Sender<LogEnd>,
}

/// The threads that take changes.
pub(super) struct Started {
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) open: Arc<OpenGroup>,
}

impl Parts {
    /// Starts the decider and the syncer.
    pub(super) fn start(self, log: Writer, tally: Arc<Tally>) -> Result<Started> {
        let (next, room) = (log.end().position, log.room());
        let open = Arc::new(OpenGroup::at(log.end()));
        let syncer = syncer::Shared::new(Syncer {
            log,
            end: self.end,
            open: open.clone(),
            index: self.index.clone(),
            upkeep: self.upkeep.clone(),
            tally: tally.clone(),
            superseding: self.superseding.clone(),
        });
        let decider = Decider {
            index: self.index,
            catalog: self.catalog,
            tables: self.decided,
            open: open.clone(),
            syncer: syncer.clone(),
            has_lone_caller: false,
            upkeep: self.upkeep,
            space: self.space,
            room,
            tally,
            superseding: self.superseding,
            next,
            changes: Vec::new(),
        };
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let syncing = spawn("annals-sync", move || syncer.run())?;
        let deciding = spawn("annals-decide", move || decider.run(queue))?;
        Ok(Started {
            jobs,
            threads: vec![deciding, syncing],
            open,
        })
    }
}

pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|cause| {
        Error::unavailable("the system has no more threads; raise its limit").because(cause)
    })
}

/// Starts a thread for work that nobody waits for.
pub(super) fn spawn_background(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    spawn(name, move || {
        yield_to_others();
        run();
    })
}

/// Lowers the priority of this thread, so that appends do not wait for the processor while files are
/// written and merged. It still gets a quarter of a processor that others would use up. Only Linux has a
/// priority for each thread; elsewhere, it would be that of the whole process.
pub(super) fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(cause) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(error = %cause, "a thread keeps its priority");
    }
}
