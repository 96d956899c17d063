//! The sweep: moves the buffer into slots, within a time limit.
//!
//! Guarantees: records moved before the time limit stay moved; the next invocation moves the rest. The
//! horizon advances with the first sweep that completes.

use std::time::Duration;

use annals::log::Log;
use annals::{Result, SystemClock};
use serde_json::{Value as Json, json};

pub(super) async fn handle(log: &Log, limit: Duration) -> Result<Json> {
    // A sweep may be cancelled anywhere. It waits for a store, so the system clock bounds it.
    let Some(report) = SystemClock::within(limit, log.sweep()).await else {
        tracing::info!("time limit reached; the next sweep continues");
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
