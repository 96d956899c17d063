//! The metrics of store calls: their names, and the handles of the `metrics` crate.

use metrics::Counter;

use super::counts::{Count, Verb};

/// The metric of requests, by `verb`.
pub const REQUESTS: &str = "annals_requests_total";
/// The metric of write units.
pub const WRITE_UNITS: &str = "annals_write_units_total";
/// The metric of read units.
pub const READ_UNITS: &str = "annals_read_units_total";
/// The metric of refused conditional writes.
pub const REFUSED: &str = "annals_refused_total";
/// The metric of failed calls.
pub const FAILED: &str = "annals_failed_total";

/// The handles into the `metrics` crate, looked up once.
#[derive(Clone)]
pub(super) struct Meters {
    requests: [Counter; Verb::ALL.len()],
    write_units: Counter,
    read_units: Counter,
    refused: Counter,
    failed: Counter,
}

impl Meters {
    pub(super) fn new() -> Self {
        metrics::describe_counter!(REQUESTS, "requests to the store of items");
        metrics::describe_counter!(WRITE_UNITS, "write units consumed");
        metrics::describe_counter!(READ_UNITS, "read units consumed");
        metrics::describe_counter!(REFUSED, "writes whose condition did not hold");
        metrics::describe_counter!(FAILED, "calls to the store that failed");
        Self {
            requests: Verb::ALL.map(|verb| metrics::counter!(REQUESTS, "verb" => verb.name())),
            write_units: metrics::counter!(WRITE_UNITS),
            read_units: metrics::counter!(READ_UNITS),
            refused: metrics::counter!(REFUSED),
            failed: metrics::counter!(FAILED),
        }
    }

    pub(super) fn add(&self, verb: Verb, count: Count, read_units: u64) {
        if let Some(requests) = self.requests.get(verb as usize) {
            requests.increment(count.cost.requests);
        }
        self.write_units.increment(count.cost.write_units);
        self.read_units.increment(read_units);
        self.refused.increment(count.refused);
        self.failed.increment(count.failed);
    }
}
