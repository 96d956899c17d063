//! The background sweeper: moves the log's buffered records into slots, from time to time.
//!
//! Promises: a sweep that fails is reported, counted and tried again the next time; one that a
//! shutdown cuts short loses nothing. The lag of the horizon is a metric, whoever sweeps: it grows
//! while nobody does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals::SystemClock;
use annals::log::{Log, Time};
use tracing::Instrument;

use super::app::App;
use super::metrics::{SWEEP_FAILURES, SWEEP_LAG, SWEPT};

/// How long a request for metrics waits for the store's horizon.
const ASK_TIME: Duration = Duration::from_secs(1);

/// The last known horizon of the log, in milliseconds; 0: unknown.
#[derive(Default)]
pub(super) struct Horizon(AtomicU64);

impl Horizon {
    fn learn(&self, horizon: Option<Time>) {
        if let Some(horizon) = horizon {
            self.0.store(horizon.ms(), Ordering::Relaxed);
        }
    }

    fn known(&self) -> Option<u64> {
        let known = self.0.load(Ordering::Relaxed);
        (known > 0).then_some(known)
    }
}

/// Reports the lag of the horizon, by the store or, where that does not answer, by the last known one.
pub(super) async fn report_lag(app: &App) {
    // A server that does not use the log does not read it, either.
    if let Some(log) = app.opened_log()
        && let Some(Ok(horizon)) = SystemClock::within(ASK_TIME, log.horizon()).await
    {
        app.horizon().learn(horizon);
    }
    if let Some(horizon) = app.horizon().known() {
        let lag = app.clock().now_ms().saturating_sub(horizon);
        metrics::gauge!(SWEEP_LAG).set(lag as f64 / 1_000.0);
    }
}

/// Sweeps at this interval, until the server stops.
pub(super) async fn sweep(app: App, every: Duration) {
    loop {
        let stopped = app.closing().cancelled();
        let passed = app.clock().passes(every);
        tokio::select! {
            () = stopped => return,
            () = passed => {}
        }
        match app.log().await {
            Ok(log) => sweep_once(&app, &log).await,
            Err(error) => tracing::debug!(%error, "there is no log to sweep"),
        }
    }
}

async fn sweep_once(app: &App, log: &Log) {
    let sweeping = log.sweep().instrument(tracing::debug_span!("sweep"));
    let report = sweeping.await;
    metrics::counter!(SWEPT).increment(report.moved);
    app.horizon().learn(report.horizon);
    let (moved, late, dead_letters) = (
        report.moved,
        report.late,
        report.dead_letters + report.stuck,
    );
    match report.failure {
        Some(error) => {
            metrics::counter!(SWEEP_FAILURES).increment(1);
            tracing::warn!(%error, moved, "a sweep failed; the next one continues");
        }
        None if late + dead_letters > 0 => tracing::warn!(moved, late, dead_letters, "swept"),
        None => tracing::debug!(moved, "swept"),
    }
}
