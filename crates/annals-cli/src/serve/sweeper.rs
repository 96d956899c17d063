//! The background sweeper: what waits in the log's buffer goes into its slots, now and then.
//!
//! Promises: a sweep that fails is told and tried again at its next turn; one that is cut short by a
//! shutdown has lost nothing. How far the horizon is behind is a metric.

use std::time::Duration;

use tracing::Instrument;

use super::app::App;
use super::metrics::{SWEEP_LAG, SWEPT};

/// Sweeps every so often, until the server stops.
pub(super) async fn sweep(app: App, every: Duration) {
    loop {
        let stopped = app.closing().cancelled();
        let passed = app.clock().passes(every);
        tokio::select! {
            () = stopped => return,
            () = passed => {}
        }
        let log = match app.log().await {
            Ok(log) => log,
            Err(error) => {
                tracing::debug!(%error, "there is no log to sweep");
                continue;
            }
        };
        let sweeping = log.sweep().instrument(tracing::debug_span!("sweep"));
        let report = sweeping.await;
        metrics::counter!(SWEPT).increment(report.moved);
        if let Some(horizon) = report.horizon {
            let lag = log.now().ms().saturating_sub(horizon.ms());
            metrics::gauge!(SWEEP_LAG).set(lag as f64 / 1_000.0);
        }
        let (moved, late, aside) = (report.moved, report.late, report.set_aside + report.stuck);
        match report.failure {
            Some(error) => tracing::warn!(%error, moved, "a sweep failed; the next one goes on"),
            None if late + aside > 0 => tracing::warn!(moved, late, aside, "swept"),
            None => tracing::debug!(moved, "swept"),
        }
    }
}
