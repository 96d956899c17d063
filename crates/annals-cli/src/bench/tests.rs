//! The benches run, and leave nothing behind; how fast is for people to read.

use std::sync::Arc;
use std::time::Duration;

use annals::bench::{
    JournalPlan, JournalRow, LogPlan, ReplayPlan, StorePlan, measure_journal, measure_log,
};
use annals::{ErrorKind, SystemClock};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bench_of_the_journal_scans_what_it_replays() {
    let outer = TempDir::new().unwrap();
    let folder = outer.path().join("bench");
    let (events, laps) = (10_015, 1);
    let lap_time = Duration::from_millis(5);
    let plan = JournalPlan {
        appends: StorePlan { laps, lap_time },
        replay: ReplayPlan { events, laps },
    };
    let clock = Arc::new(SystemClock::new());
    let mut rows = Vec::new();
    let measured = measure_journal(&folder, plan, clock.clone(), |row| rows.push(row)).await;
    measured.unwrap();
    let Some(JournalRow::Replay(replay)) = rows.pop() else {
        panic!("the replay is the last line: {rows:?}");
    };
    assert_eq!(rows.len(), 4);
    let is_appends = |row: &JournalRow| matches!(row, JournalRow::Appends(row) if row.ours > 0.0);
    assert!(rows.iter().all(is_appends), "{rows:?}");
    // Ten events to an item, the last five, and what the table says of itself.
    assert_eq!((replay.events, replay.items), (events, 1_003));
    let payload = events * 200;
    assert!(
        (payload..payload * 5 / 4).contains(&replay.bytes),
        "{replay:?}"
    );
    assert!(replay.replay_to_scan > 0.0, "{replay:?}");
    let ratio = replay.replay / replay.scan;
    assert!((replay.replay_to_scan - ratio).abs() < 1e-9, "{replay:?}");
    // Where the peak cannot be forgotten it is not known, rather than none.
    let is_writable = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    assert_eq!(replay.peak_mib_added.is_some(), is_writable, "{replay:?}");
    assert!(!folder.exists(), "the folder is removed");

    std::fs::create_dir(&folder).unwrap();
    let refused = measure_journal(&folder, plan, clock, |_| ()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(folder.exists(), "a folder of somebody else stays");
}

#[tokio::test]
async fn the_log_is_measured_step_by_step() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().join("bench");
    let plan = LogPlan { events: 2_500 };
    let clock = Arc::new(SystemClock::new());
    let mut rows = Vec::new();
    let measured = measure_log(&folder, plan, clock, |row| rows.push(row)).await;
    measured.unwrap();
    let steps: Vec<_> = rows.iter().map(|row| row.step).collect();
    assert_eq!(steps, ["ingest", "sweep", "playback"]);
    for row in &rows {
        assert_eq!(row.events, 2_500);
        let ratio = row.ours / row.engine;
        assert!(
            (row.ours_to_engine - ratio).abs() < 1e-9 && ratio > 0.0,
            "{row:?}"
        );
    }
    assert!(!folder.exists(), "the folder is removed");
}
