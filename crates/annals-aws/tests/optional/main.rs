//! Tests that need servers which a machine may lack. They are ignored, with the reason, without:
//!
//! - `ANNALS_TEST_JVM` and `ANNALS_TEST_DYNAMODB`: the JVM plugins share tables with us.
//! - `ANNALS_TEST_KINESIS`: a Kinesis server. The same tests always run on one in this process.
//!
//! `scripts/conformance` sets all of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod jvm;
#[path = "../../../annals-jvm/tests/it/jvm_lines.rs"]
mod jvm_lines;
#[path = "../it/script.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod script;
#[path = "../it/server.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod server;
mod streams;
mod trial;

use std::future::Future;

use libtest_mimic::Arguments;
use tokio::runtime::Builder;

/// Runs an asynchronous test on a runtime of its own.
fn block_on(test: impl Future<Output = ()>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn main() {
    let mut trials = jvm::trials();
    trials.extend(streams::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
