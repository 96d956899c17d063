//! Streams of Kinesis: pumped into the log, and the log played back to them.
//!
//! Every test runs on a small server in this process, which can be told to fail. Those that need no
//! faults run on the server that `ANNALS_TEST_KINESIS` names as well, where there is one:
//! `scripts/conformance` starts it.

pub(crate) mod fake;
pub(crate) mod place;
mod playing;
mod pumping;
mod resharding;
