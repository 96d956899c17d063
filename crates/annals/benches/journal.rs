//! The journal on the embedded store against the bare engine, in one run: appends by number of
//! writers and of events, then the replay of a million events, with the memory it took.
//!
//! `cargo bench -p annals --bench journal`; `annals bench journal` is for everybody else.

use std::sync::Arc;

use annals::bench::{JournalPlan, JournalRow, measure_journal};
use annals::{Result, SystemClock};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk to be measured");
    let (folder, clock) = (folder.path().join("bench"), Arc::new(SystemClock::new()));
    let print = |row: JournalRow| match row {
        JournalRow::Appends(row) => println!("{row:?}"),
        JournalRow::Replay(row) => println!("{row:#?}"),
    };
    measure_journal(&folder, JournalPlan::default(), clock, print).await
}
