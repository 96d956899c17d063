//! The server's metrics, for Prometheus.
//!
//! | metric | labels | counts |
//! |---|---|---|
//! | [`REQUESTS`] | `method`, `path`, `status` | requests answered |
//! | [`SECONDS`] | `method`, `path` | how long each took until its response began |
//! | [`CONFLICTS`] | | requests, and lines of bulk appends, that ended in a conflict |
//! | [`REFUSED`] | | requests and connections over a limit |
//! | [`CONNECTIONS`], [`TAILS`] | | open connections, live tails |
//! | [`SWEPT`] | | events that the background sweeper moved into slots |
//! | [`SWEEP_FAILURES`] | | its sweeps that failed |
//! | [`SWEEP_LAG`] | | seconds from the log's horizon to now; absent before the first sweep |
//! | [`GROUP_LAG_EVENTS`], [`GROUP_LAG`] | `group` | events that a consumer group has not handled, up to a limit, and the age of the oldest in seconds |
//! | [`GROUP_IN_FLIGHT`], [`GROUP_DEAD`] | `group` | its commits in flight, and its dead letters |
//!
//! Those of projections are in `projection_metrics`.
//! The store handle (`annals::store`) and DynamoDB's client add theirs: requests, capacity units, refused
//! and failed calls, retries.

use std::sync::OnceLock;
use std::time::Duration;

use annals::{Error, Result};
use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub(super) const REQUESTS: &str = "annals_http_requests_total";
pub(super) const SECONDS: &str = "annals_http_request_seconds";
const CONFLICTS: &str = "annals_http_conflicts_total";
pub(super) const REFUSED: &str = "annals_http_turned_away_total";
pub(super) const CONNECTIONS: &str = "annals_http_connections";
pub(super) const TAILS: &str = "annals_http_tails";
pub(super) const SWEPT: &str = "annals_log_swept_total";
pub(super) const SWEEP_FAILURES: &str = "annals_log_sweep_failures_total";
pub(super) const SWEEP_LAG: &str = "annals_log_sweep_lag_seconds";
pub(super) const GROUP_LAG_EVENTS: &str = "annals_group_lag_events";
pub(super) const GROUP_LAG: &str = "annals_group_lag_seconds";
pub(super) const GROUP_IN_FLIGHT: &str = "annals_group_in_flight";
pub(super) const GROUP_DEAD: &str = "annals_group_dead_letters";

/// From a cached read to an overloaded store.
const BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];
/// How often measured times are put into buckets; until then each is kept.
pub(super) const UPKEEP: Duration = Duration::from_secs(5);

/// The process's recorder, installed at the first call.
///
/// # Errors
/// `Invalid` where another recorder is installed.
pub(super) fn recorder() -> Result<PrometheusHandle> {
    static INSTALLED: OnceLock<std::result::Result<PrometheusHandle, String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(SECONDS.to_owned()), &BUCKETS)
            .map_err(|cause| cause.to_string())?;
        let handle = builder
            .install_recorder()
            .map_err(|cause| cause.to_string())?;
        describe();
        Ok(handle)
    });
    installed
        .clone()
        .map_err(|cause| Error::invalid("cannot start the metrics").because(cause))
}

fn describe() {
    metrics::describe_counter!(REQUESTS, "requests answered");
    metrics::describe_histogram!(SECONDS, "seconds until the response to a request began");
    metrics::describe_counter!(
        CONFLICTS,
        "requests, and lines of bulk appends, that ended in a conflict"
    );
    metrics::describe_counter!(REFUSED, "requests and connections over a limit");
    metrics::describe_gauge!(CONNECTIONS, "open connections");
    metrics::describe_gauge!(TAILS, "live tails");
    metrics::describe_counter!(SWEPT, "events moved into their slots");
    metrics::describe_gauge!(SWEEP_LAG, "seconds from the log's horizon to now");
    metrics::describe_counter!(SWEEP_FAILURES, "sweeps that failed");
    metrics::describe_gauge!(
        GROUP_LAG_EVENTS,
        "events that a consumer group has not handled"
    );
    metrics::describe_gauge!(GROUP_LAG, "seconds since the oldest of them");
    metrics::describe_gauge!(
        GROUP_IN_FLIGHT,
        "commits that a consumer group has in flight"
    );
    metrics::describe_gauge!(GROUP_DEAD, "dead letters of a consumer group");
    metrics::counter!(SWEPT).absolute(0);
    metrics::counter!(SWEEP_FAILURES).absolute(0);
    metrics::counter!(CONFLICTS).absolute(0);
    metrics::counter!(REFUSED).absolute(0);
    metrics::gauge!(CONNECTIONS).set(0.0);
    metrics::gauge!(TAILS).set(0.0);
}

/// The counter of conflicts.
pub(super) fn conflicts() -> Counter {
    metrics::counter!(CONFLICTS)
}

/// One more of something, while this is held.
pub(super) struct Held(Gauge);

impl Held {
    pub(super) fn connection() -> Self {
        Self::of(metrics::gauge!(CONNECTIONS))
    }

    pub(super) fn tail() -> Self {
        Self::of(metrics::gauge!(TAILS))
    }

    fn of(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
