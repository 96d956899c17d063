//! The log on the embedded store against the bare engine, in one run: ingest, sweep and playback of a
//! million events of an hour, with the memory each took.
//!
//! `cargo bench -p annals --bench log`; `ANNALS_EVENTS=n` takes another number.

use std::sync::Arc;

use annals::bench::{LogPlan, measure_log};
use annals::{Result, SystemClock};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir_in(".").expect("a folder on the disk to be measured");
    let (folder, clock) = (folder.path().join("bench"), Arc::new(SystemClock::new()));
    let events = std::env::var("ANNALS_EVENTS").ok();
    let events = events.map(|text| text.parse().expect("ANNALS_EVENTS is a number"));
    let plan = events.map_or_else(LogPlan::default, |events| LogPlan { events });
    measure_log(&folder, plan, clock, |row| println!("{row:#?}")).await
}
