//! Every property on every layout, on DynamoDB, each a test of its own:
//! `cargo test -p annals-aws --test tck j18`.
//!
//! Those that need the changes of a store are ignored: DynamoDB does not keep them.
//!
//! Runs on an emulator in this process, or on the server that `ANNALS_TEST_DYNAMODB` names.
#![allow(clippy::unwrap_used)]

#[path = "it/server.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod server;

use annals::store::Store;
use annals_testkit::tck;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Builder;

fn on_dynamodb(case: tck::Case) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        // Through the handle, which adds context to errors.
        let store = Store::from_items(server::open().await);
        case.check(store.items().clone()).await;
    });
}

fn main() {
    let trials = tck::cases().map(|case| {
        let trial = Trial::test(case.name_on("dynamodb"), move || {
            on_dynamodb(case);
            Ok(())
        });
        match case.needs_changes() {
            true => trial.with_kind("needs changes").with_ignored_flag(true),
            false => trial,
        }
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
