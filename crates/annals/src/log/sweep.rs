//! The sweep: the buffer into slots.
//!
//! Promises: a record is deleted from the buffer only after its event is known to be stored. Safe to
//! run twice, twice at once, and to die anywhere. What cannot be moved does not keep the others
//! back: it is set aside, whole and with the reason (`aside.rs`). Memory is a page for each segment,
//! twice over, however much waits.
//! Never: replaces an event by one that says something else, whoever else sweeps (`claims.rs`). Never publishes a horizon that it
//! did not reach (`horizon.rs`).

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use tokio::task::JoinSet;

use super::claims::Holding;
use super::index::Entered;
use super::{EventId, Log, Time};
use crate::Error;
use crate::items::{Scan, Segment, scan_pages};

/// The most ids and reasons that a report names; it counts all.
const NAMED_MAX: usize = 1_000;

/// What a sweep did. What it counts has happened, also where the sweep failed.
///
/// See [`Log`](super::Log) for an example.
#[derive(Clone, Debug, Default)]
pub struct SweepReport {
    /// Records that were stored in their slot.
    pub moved: u64,
    /// Records whose event was in its slot already, and says the same.
    pub repeated: u64,
    /// Of those moved, how many are behind the horizon: a follower may have missed them. The ids of
    /// the first thousand are in [`late_events`](Self::late_events).
    pub late: u64,
    /// Of those repeated, how many are behind the horizon. Records that come again are; so is one
    /// that a sweep stored late before it died.
    pub repeated_behind: u64,
    /// Records that cannot be moved and were set aside: [`Log::set_aside`] lists them.
    pub set_aside: u64,
    /// Records that cannot be moved and stay in the buffer, being too large to be set aside.
    pub stuck: u64,
    /// Records that stay in the buffer because the store failed, or because another sweep was storing
    /// something else under their key at the same time. The next sweep moves them.
    pub left: u64,
    /// The oldest of those.
    pub oldest_left: Option<Time>,
    /// The ids of late events, both moved and repeated.
    pub late_events: Vec<EventId>,
    /// Why records cannot be moved.
    pub problems: Vec<Error>,
    /// The horizon that stands after this sweep; `None` where it published none.
    pub horizon: Option<Time>,
    /// By how much that horizon is ahead of this machine's clock: a sweeper's clock is or was wrong,
    /// and until then every event is late. [`Log::set_back_horizon`] is the way out.
    pub horizon_ahead_ms: u64,
    /// Why the sweep did not get through, where it did not. Sweeping again is safe.
    pub failure: Option<Error>,
}

impl SweepReport {
    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    pub(super) fn leave(&mut self, time: Time) {
        self.left += 1;
        let oldest = self.oldest_left.map_or(time, |oldest| oldest.min(time));
        self.oldest_left = Some(oldest);
    }

    pub(super) fn name_late(&mut self, id: &EventId) {
        if self.late_events.len() < NAMED_MAX {
            self.late_events.push(id.clone());
        }
    }

    pub(super) fn explain(&mut self, problem: Error) {
        if self.problems.len() < NAMED_MAX {
            self.problems.push(problem);
        }
    }
}

/// One sweep under way.
#[derive(Debug)]
pub(super) struct Pass {
    /// Numbers of parts under which an event may stand.
    pub(super) parts: BTreeSet<u32>,
    pub(super) entered: tokio::sync::Mutex<Entered>,
    /// The keys that its pages are storing under.
    pub(super) holding: Holding,
    /// How many claims it has made.
    pub(super) claims: AtomicU64,
    report: Mutex<SweepReport>,
}

impl Pass {
    pub(super) fn report(&self) -> MutexGuard<'_, SweepReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Moves what waits in the buffer into slots, and publishes the horizon.
    ///
    /// The report tells what happened also where the store failed in between.
    pub async fn sweep(&self) -> SweepReport {
        // Before the first read: whatever comes from now on may be passed over.
        let start = self.now();
        let written = match self.write_as_set().await {
            Ok(written) => written,
            Err(error) => {
                return SweepReport {
                    failure: Some(error),
                    ..SweepReport::default()
                };
            }
        };
        let pass = Arc::new(Pass {
            parts: written.all_parts(),
            entered: tokio::sync::Mutex::default(),
            holding: Holding::default(),
            claims: AtomicU64::default(),
            report: Mutex::default(),
        });
        let ended = self.sweep_segments(&pass).await;
        let mut report = std::mem::take(&mut *pass.report());
        // A scan that did not end has not told what is left.
        match ended {
            Err(error) => report.fail(error),
            Ok(()) => self.publish(start, &mut report).await,
        }
        report
    }

    /// Sweeps every segment, each as a task of its own, so that they share the machine; they end
    /// with the sweep.
    async fn sweep_segments(&self, pass: &Arc<Pass>) -> crate::Result<()> {
        let of = self.settings.sweep_segments;
        let mut segments = JoinSet::new();
        for index in 0..of {
            let (log, pass) = (self.clone(), pass.clone());
            let segment = Segment { index, of };
            segments.spawn(async move { log.sweep_segment(&pass, segment).await });
        }
        let mut ended = Ok(());
        while let Some(one) = segments.join_next().await {
            let one = one.unwrap_or_else(|cause| {
                Err(Error::unavailable("a segment was cut off; sweep again").because(cause))
            });
            ended = ended.and(one);
        }
        ended
    }

    async fn publish(&self, start: Time, report: &mut SweepReport) {
        let reached = start.minus_ms(self.settings.allowed_lateness_ms);
        let horizon = report.oldest_left.map_or(reached, |left| left.min(reached));
        match self.publish_horizon(horizon).await {
            Ok(standing) => {
                report.horizon = Some(standing);
                report.horizon_ahead_ms = standing.ms().saturating_sub(self.now().ms());
            }
            Err(error) => report.fail(error),
        }
    }

    async fn sweep_segment(&self, pass: &Pass, segment: Segment) -> crate::Result<()> {
        let scan = Scan::segment(segment);
        let mut pages = scan_pages(self.items.clone(), self.tables.buffer.clone(), scan);
        while let Some(page) = pages.try_next().await? {
            self.move_page(pass, page.items).await;
        }
        Ok(())
    }
}
