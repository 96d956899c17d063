//! What the server counts, and all of it as Prometheus reads it.
//!
//! | metric | labels | tells |
//! |---|---|---|
//! | [`REQUESTS`] | `method`, `path`, `status` | requests answered |
//! | [`SECONDS`] | `method`, `path` | how long each took, until its answer began |
//! | [`CONFLICTS`] | | requests that ended in a conflict |
//! | [`REFUSED`] | | requests and connections turned away because there were too many |
//! | [`CONNECTIONS`], [`TAILS`] | | how many there are |
//! | [`SWEPT`] | | events that the background sweeper moved into their slots |
//! | [`SWEEP_FAILURES`] | | sweeps of it that failed |
//! | [`SWEEP_LAG`] | | seconds that the log's horizon is behind the clock, now; none before a first sweep |
//!
//! With them stand those of the store (`annals::counting`) and of DynamoDB's client: requests,
//! capacity units, refused and failed calls, retries.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use annals::{Error, Result};
use metrics::{Counter, Gauge, Histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const REQUESTS: &str = "annals_http_requests_total";
const SECONDS: &str = "annals_http_request_seconds";
const CONFLICTS: &str = "annals_http_conflicts_total";
pub(super) const REFUSED: &str = "annals_http_turned_away_total";
pub(super) const CONNECTIONS: &str = "annals_http_connections";
pub(super) const TAILS: &str = "annals_http_tails";
pub(super) const SWEPT: &str = "annals_log_swept_total";
pub(super) const SWEEP_FAILURES: &str = "annals_log_sweep_failures_total";
pub(super) const SWEEP_LAG: &str = "annals_log_sweep_lag_seconds";

/// From a read that was cached to a store that is out of breath.
const BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];
/// How often what was measured is put into buckets; until then it is kept as it is.
pub(super) const UPKEEP: Duration = Duration::from_secs(5);

/// The process's recorder, installed at the first call.
///
/// # Errors
/// `Invalid` where another one is installed.
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
        .map_err(|cause| Error::invalid("metrics cannot be kept").because(cause))
}

fn describe() {
    metrics::describe_counter!(REQUESTS, "requests answered");
    metrics::describe_histogram!(SECONDS, "seconds until the answer to a request began");
    metrics::describe_counter!(CONFLICTS, "requests that ended in a conflict");
    metrics::describe_counter!(REFUSED, "turned away because there were too many");
    metrics::describe_gauge!(CONNECTIONS, "connections that stand");
    metrics::describe_gauge!(TAILS, "live tails");
    metrics::describe_counter!(SWEPT, "events moved into their slots");
    metrics::describe_gauge!(SWEEP_LAG, "seconds that the log's horizon is behind");
    metrics::describe_counter!(SWEEP_FAILURES, "sweeps that failed");
    metrics::counter!(SWEPT).absolute(0);
    metrics::counter!(SWEEP_FAILURES).absolute(0);
    metrics::counter!(CONFLICTS).absolute(0);
    metrics::counter!(REFUSED).absolute(0);
    metrics::gauge!(CONNECTIONS).set(0.0);
    metrics::gauge!(TAILS).set(0.0);
}

/// What is no path of ours is counted under this one.
const NO_PATH: &str = "none";

/// The meters of all paths. A meter is looked for by its labels once: that costs more than to count.
pub(super) struct Meters {
    paths: matchit::Router<PathMeters>,
    none: PathMeters,
    conflicts: Counter,
}

impl Meters {
    /// For paths as their patterns, so that ids never become labels.
    ///
    /// # Errors
    /// `Invalid` where two patterns are of the same paths.
    pub(super) fn new(patterns: impl IntoIterator<Item = &'static str>) -> Result<Self> {
        let mut paths = matchit::Router::new();
        for pattern in patterns {
            let meters = PathMeters::new(pattern);
            paths.insert(pattern, meters).map_err(|cause| {
                Error::invalid(format!("a path cannot be served. path=`{pattern}`")).because(cause)
            })?;
        }
        Ok(Self {
            paths,
            none: PathMeters::new(NO_PATH),
            conflicts: metrics::counter!(CONFLICTS),
        })
    }

    /// Those of the pattern that a path is of.
    pub(super) fn of(&self, path: &str) -> &PathMeters {
        let known = self.paths.at(path);
        known.map_or(&self.none, |known| known.value)
    }

    pub(super) fn count_conflict(&self) {
        self.conflicts.increment(1);
    }
}

/// The meters of a path.
pub(super) struct PathMeters {
    path: &'static str,
    /// By method and status, of which there are few.
    answers: RwLock<Vec<Answers>>,
}

struct Answers {
    method: &'static str,
    status: u16,
    count: Counter,
    seconds: Histogram,
}

impl PathMeters {
    fn new(path: &'static str) -> Self {
        Self {
            path,
            answers: RwLock::default(),
        }
    }

    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// Counts an answer, which began after so many seconds.
    pub(super) fn count(&self, method: &'static str, status: u16, seconds: f64) {
        let is_it = |it: &&Answers| it.status == status && it.method == method;
        let known = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(answers) = known.iter().find(is_it) {
            return answers.count(seconds);
        }
        drop(known);
        let mut known = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        let (path, code) = (self.path, status.to_string());
        // Whoever came here at the same moment has made handles of the same meters: no harm.
        let answers = Answers {
            method,
            status,
            count: metrics::counter!(REQUESTS, "method" => method, "path" => path, "status" => code),
            seconds: metrics::histogram!(SECONDS, "method" => method, "path" => path),
        };
        answers.count(seconds);
        known.push(answers);
    }
}

impl Answers {
    fn count(&self, seconds: f64) {
        self.seconds.record(seconds);
        self.count.increment(1);
    }
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
