//! The client of DynamoDB against an emulator in this process, and against scripted faults.
//!
//! Where `ANNALS_TEST_DYNAMODB` names an endpoint (`http://127.0.0.1:8000`), whatever needs a
//! server runs there instead of on the emulator. With `ANNALS_TEST_JVM` as well, the JVM's own
//! plugins are started and share tables with us there. Where `ANNALS_TEST_KINESIS` names an
//! endpoint, tests of streams run there as well.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod batches;
mod bench;
mod client;
mod conformance;
mod costs;
#[path = "../../../annals/tests/it/example_run.rs"]
mod example_run;
mod examples;
mod faults;
mod jvm;
#[path = "../../../annals-jvm/tests/it/jvm_lines.rs"]
mod jvm_lines;
mod kinesis;
mod lambda;
mod processes;
mod script;
mod server;
mod settling;
mod tables;
mod template;
mod told;
mod verbs;
