//! Every property on every layout and on the stores of this crate, as separate tests:
//! `cargo test -p annals --test tck j18` runs one on all of them, `akka::memory` those of one layout
//! and store.

use std::future::Future;
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::memory::Memory;
use annals_testkit::tck;
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;
use tokio::runtime::Builder;

fn run(runtime: &mut Builder, check: impl Future<Output = ()>) {
    let runtime = runtime.enable_all().build();
    runtime.expect("a runtime").block_on(check);
}

fn on_memory(case: tck::Case) {
    let check = case.check(Arc::new(Memory::new()));
    run(&mut Builder::new_current_thread(), check);
}

fn on_embedded(case: tck::Case) {
    let folder = TempDir::new().expect("a folder");
    run(Builder::new_multi_thread().worker_threads(2), async {
        let items = Embedded::open(folder.path(), &Default::default());
        let items = Arc::new(items.expect("a store"));
        case.check(items).await;
    });
}

type Store = (&'static str, fn(tck::Case));

const STORES: [Store; 2] = [("memory", on_memory), ("embedded", on_embedded)];

fn main() {
    let trials = STORES.into_iter().flat_map(|(store, check)| {
        tck::cases().map(move |case| {
            Trial::test(case.name_on(store), move || {
                check(case);
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
