//! Sweep: pages of the buffer in, events in slots and a report out. The second stage of the log.
//!
//! Guarantees: a record is deleted from the buffer only after its event is known to be stored. Sweeps
//! can be repeated, can run concurrently and can stop anywhere. A record that cannot become an event
//! does not block the others: it becomes a dead letter. Memory is bounded by two pages per segment,
//! however much is buffered. A sweep never replaces an event by a different one, whoever else sweeps
//! (`claims`), and never publishes a horizon that it did not reach (`index/horizon.rs`).
//!
//! The guarantees rest on the order of the steps in [`Sweep::move_locked`]: claim the events, read
//! what is stored, write the index entries, store the events, read the horizon and report late
//! events, delete the records.

mod claims;
mod page;
mod report;

pub use report::SweepReport;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::task::JoinSet;

use self::claims::{Claim, Claims, KeyLocks};
use self::page::{Candidate, Decision, Rejected};
use super::index::{EntryWriter, Index, horizon};
use super::shared::{Batch, Shared};
use crate::items::{Item, Key, Scan, Segment, Write};
use crate::{Error, Result};

/// The sweep stage.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) shared: Arc<Shared>,
    pub(super) index: Index,
}

/// What the segments of one sweep share.
#[derive(Debug)]
struct Pass {
    /// The numbers of parts under which an event may be stored.
    parts: BTreeSet<u32>,
    entries: EntryWriter,
    locks: KeyLocks,
    claims: Claims,
}

impl Sweep {
    /// Moves the buffer into slots, and publishes the horizon.
    pub(super) async fn run(&self) -> SweepReport {
        let mut report = SweepReport::default();
        // Before the first read: the scan may miss records that arrive from now on.
        let start = self.shared.now();
        let parts = match self.index.declare_parts().await {
            Ok(metadata) => metadata.all_parts(),
            Err(error) => {
                report.fail(error);
                return report;
            }
        };
        let pass = Arc::new(Pass {
            parts,
            entries: self.index.writer(self.shared.format.parts),
            locks: KeyLocks::default(),
            claims: Claims::new(self.shared.clone()),
        });
        if let Err(error) = self.segments(&pass, &mut report).await {
            // A scan that did not end does not know what is left, so there is no horizon.
            report.fail(error);
            return report;
        }
        let reached = start.minus_ms(self.shared.settings.allowed_lateness_ms);
        let reached = report.oldest_left.map_or(reached, |left| left.min(reached));
        match horizon::publish(&self.shared, reached).await {
            Ok(published) => {
                report.horizon = Some(published);
                let now = self.shared.now();
                report.horizon_ahead_ms = published.ms().saturating_sub(now.ms());
            }
            Err(error) => report.fail(error),
        }
        report
    }

    /// Sweeps every segment, each in a task that ends with the sweep.
    async fn segments(&self, pass: &Arc<Pass>, report: &mut SweepReport) -> Result<()> {
        let of = self.shared.settings.sweep_segments;
        let mut segments = JoinSet::new();
        for index in 0..of {
            let (sweep, pass) = (self.clone(), pass.clone());
            let segment = Segment { index, of };
            segments.spawn(async move { sweep.segment(&pass, segment).await });
        }
        let mut ended = Ok(());
        while let Some(segment) = segments.join_next().await {
            let scanned = match segment {
                Ok((segment, scanned)) => {
                    report.add(segment);
                    scanned
                }
                Err(cause) => {
                    Err(Error::unavailable("a segment was cancelled; sweep again").because(cause))
                }
            };
            ended = ended.and(scanned);
        }
        ended
    }

    /// Moves the pages of a segment. The result says whether all of it was scanned.
    async fn segment(&self, pass: &Pass, segment: Segment) -> (SweepReport, Result<()>) {
        let mut report = SweepReport::default();
        let scan = Scan::segment(segment);
        let mut pages = self.shared.scan(&self.shared.tables.buffer, scan);
        loop {
            match pages.try_next().await {
                Ok(Some(page)) => report.add(self.page(pass, page.items).await),
                Ok(None) => return (report, Ok(())),
                Err(error) => return (report, Err(error)),
            }
        }
    }

    /// Moves a page, in several rounds if other pages have locked some of its keys.
    async fn page(&self, pass: &Pass, records: Vec<Item>) -> SweepReport {
        let (buffer, format) = (&self.shared.tables.buffer, &self.shared.format);
        let (mut candidates, rejected, mut report) = page::prepare(buffer, format, records);
        let done = self.reject(rejected, &mut report).await;
        self.delete(done, &mut report).await;
        while !candidates.is_empty() {
            let mut released = std::pin::pin!(pass.locks.released.notified());
            released.as_mut().enable();
            let (locked, mine, later) = pass
                .locks
                .lock(candidates, |candidate| candidate.fingerprint.key);
            let is_idle = mine.is_empty();
            if !is_idle {
                self.move_locked(pass, mine, &mut report).await;
            }
            drop(locked);
            // A page that waits has locked nothing, so no two pages wait for each other.
            if is_idle {
                released.await;
            }
            candidates = later;
        }
        report
    }

    /// Moves records whose keys this page has locked.
    async fn move_locked(&self, pass: &Pass, candidates: Vec<Candidate>, report: &mut SweepReport) {
        let (claim, stored) = match self.claim_and_read(pass, &candidates).await {
            Ok(found) => found,
            Err(error) => {
                report.fail(error);
                let all = candidates.iter();
                all.for_each(|candidate| report.leave(candidate.time));
                return;
            }
        };
        let mut decision = page::decide(candidates, stored, &claim.contested, report);
        let batch = self.store(pass, &claim, &mut decision).await;
        decision.settle(&batch.unconfirmed, report);
        match batch.failure {
            // An unconfirmed put may still land, so the claim stays.
            Some(error) => report.fail(error),
            None => {
                if let Err(error) = pass.claims.release(claim).await {
                    report.fail(error);
                }
            }
        }
        let mut done = self.report_late(&decision, report).await;
        done.extend(self.reject(decision.rejected, report).await);
        self.delete(done, report).await;
    }

    /// Claims the events, and then reads those that are stored already, under every number of parts.
    async fn claim_and_read(
        &self,
        pass: &Pass,
        candidates: &[Candidate],
    ) -> Result<(Claim, Vec<Option<Item>>)> {
        let events = candidates.iter().map(|event| event.fingerprint);
        let claim = pass.claims.claim(events).await?;
        let keys = candidates.iter().flat_map(|event| event.keys(&pass.parts));
        let table = &self.shared.tables.event;
        let mut found = self.shared.store.get(table, keys.collect()).await?.items;
        let found = found.chunks_mut(pass.parts.len().max(1));
        let stored = found.map(|found| found.iter_mut().find_map(Option::take));
        Ok((claim, stored.collect()))
    }

    /// Writes the index entries, and then stores the events.
    async fn store(&self, pass: &Pass, claim: &Claim, decision: &mut Decision) -> Batch {
        let mut entered = pass.entries.write(decision.slots()).await;
        if !pass.claims.is_alive(claim) {
            entered = entered.and(Err(Error::unavailable(
                "the sweep was paused for longer than its claim lasts; sweep again",
            )));
        }
        match entered {
            Ok(()) => {
                let puts = decision.puts();
                self.shared.write(&self.shared.tables.event, puts).await
            }
            Err(error) => Batch {
                unconfirmed: decision.keys(),
                failure: Some(error),
            },
        }
    }

    /// Reports late events, now that they are stored. Returns the keys to delete from the buffer.
    async fn report_late(&self, decision: &Decision, report: &mut SweepReport) -> Vec<Key> {
        if decision.moved.is_empty() && decision.repeated.is_empty() {
            return Vec::new();
        }
        match horizon::read(&self.shared).await {
            Ok(horizon) => decision.report_late(horizon, report),
            Err(error) => {
                // Nobody knows whether they are late; the next sweep reports it.
                report.fail(error);
                let stored = decision.moved.iter().chain(&decision.repeated);
                stored.for_each(|candidate| report.leave(candidate.time));
                Vec::new()
            }
        }
    }

    /// Stores dead letters. Returns the keys to delete from the buffer.
    async fn reject(&self, rejected: Vec<Rejected>, report: &mut SweepReport) -> Vec<Key> {
        let table = &self.shared.tables.event;
        let (puts, mut from) = page::dead_letters(table, rejected, report);
        let batch = self.shared.write(table, puts).await;
        from.retain(|key, _| !batch.unconfirmed.contains(key));
        report.dead_letters += from.len() as u64;
        batch
            .failure
            .into_iter()
            .for_each(|error| report.fail(error));
        from.into_values().collect()
    }

    /// Deletes records from the buffer. If that fails, the next sweep finds their events stored.
    async fn delete(&self, keys: Vec<Key>, report: &mut SweepReport) {
        let deletes = keys.into_iter().map(Write::Delete).collect();
        let batch = self.shared.write(&self.shared.tables.buffer, deletes).await;
        batch
            .failure
            .into_iter()
            .for_each(|error| report.fail(error));
    }
}
