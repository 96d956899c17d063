//! Kinesis: streams pumped into the log, and the log played back to streams, on a small server in this
//! process that can be made to fail. Tests without faults are in `tests/optional/streams`.

pub(crate) mod fake;
#[allow(dead_code, reason = "other tests need more of it")]
pub(crate) mod place;
mod playing;
mod pumping;
mod resharding;
