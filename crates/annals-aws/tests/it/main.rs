//! The AWS clients against servers in this process, and against scripted faults.
//!
//! If `ANNALS_TEST_DYNAMODB` names an endpoint (`http://127.0.0.1:8000`), tests that need a DynamoDB
//! server run there instead of on the emulator.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod batches;
mod client;
mod conformance;
mod costs;
mod error_context;
#[path = "../../../annals/tests/it/example_run.rs"]
mod example_run;
mod examples;
mod faults;
mod kinesis;
mod lambda;
mod operations;
mod processes;
mod script;
mod server;
mod table_waits;
mod tables;
mod template;
