//! Durable puts of the embedded store against the bare engine and the disk, in one run.
//!
//! `cargo bench -p annals --bench store` prints a line for each number of writers and payload.

use std::sync::Arc;

use annals::bench::{StorePlan, measure_store};
use annals::{Result, SystemClock};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk to be measured");
    let clock = Arc::new(SystemClock::new());
    println!("writers  bytes       raw    engine   alone      ours  ours/engine  ours/raw");
    measure_store(
        &folder.path().join("bench"),
        StorePlan::default(),
        clock,
        |row| {
            println!(
                "{:>7} {:>6} {:>9.0} {:>9.0} {:>7.0} {:>9.0} {:>12.2} {:>9.2}",
                row.writers,
                row.payload_bytes,
                row.raw,
                row.engine,
                row.engine_ungrouped,
                row.ours,
                row.ours_to_engine,
                row.ours_to_raw,
            );
        },
    )
    .await
}
