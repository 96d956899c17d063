//! The sweep as Lambda calls it: every minute, and for as long as it may.
//!
//! Promises: what was moved when its time was over stays moved; the next call moves the rest. The
//! horizon moves with the first sweep that gets through.

use std::time::Duration;

use annals::log::Log;
use annals::{Result, SystemClock};
use serde_json::{Value as Json, json};

pub(super) async fn handle(log: &Log, limit: Duration) -> Result<Json> {
    // A sweep may end anywhere. It waits for a store and not for a moment, so the machine's own
    // time bounds it.
    let Some(report) = SystemClock::within(limit, log.sweep()).await else {
        tracing::info!("the sweep's time is over; the next goes on");
        return Ok(json!({"more": true}));
    };
    for problem in &report.problems {
        tracing::warn!(%problem, "a record cannot be moved");
    }
    if let Some(error) = report.failure {
        return Err(error);
    }
    let answer = json!({
        "more": false,
        "moved": report.moved,
        "repeated": report.repeated,
        "late": report.late,
        "set_aside": report.dead_letters,
        "stuck": report.stuck,
        "horizon": report.horizon.map(|time| time.to_string()),
    });
    tracing::info!(%answer, "swept");
    Ok(answer)
}
