//! The client of DynamoDB against an emulator in this process, and against scripted faults.
//!
//! Where `ANNALS_TEST_DYNAMODB` names an endpoint (`http://127.0.0.1:8000`), whatever needs a
//! server runs there instead of on the emulator.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod batches;
mod bench;
mod client;
mod conformance;
mod costs;
mod faults;
mod processes;
mod script;
mod server;
mod settling;
mod tables;
mod tck;
mod verbs;
