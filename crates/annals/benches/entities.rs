//! Entities in memory on the embedded store, in one run: commands against the bare journal's
//! appends, recoveries against bare replays, and the bytes of an idle entity, as the allocator
//! counts them.
//!
//! `cargo bench -p annals --bench entities`; `annals bench entities` is for everybody else.

use std::sync::Arc;

use annals::bench::{EntitiesPlan, EntitiesRow, measure_entities};
use annals::{Result, SystemClock};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk to be measured");
    let (folder, clock) = (folder.path().join("bench"), Arc::new(SystemClock::new()));
    let plan = EntitiesPlan {
        heap_bytes: || Some(HEAP.current_usage() as u64),
        ..EntitiesPlan::default()
    };
    let print = |row: EntitiesRow| match row {
        EntitiesRow::Commands(row) => println!("{row:?}"),
        EntitiesRow::Resident(row) => println!("{row:#?}"),
    };
    measure_entities(&folder, plan, clock, print).await
}
