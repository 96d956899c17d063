//! The benches run and clean up. Nothing passes or fails by its speed.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Items, TableName};
use annals::{ErrorKind, Random, SystemClock};
use annals_aws::bench::BareSdk;
use annals_aws::{AwsSettings, DynamoDb};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::replay::ReplayPlan;
use super::{
    ClientPlan, JournalPlan, JournalRow, LogPlan, StorePlan, measure_client, measure_journal,
    measure_log,
};

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
    // Ten events per item, an item of five, and the metadata of the table.
    assert_eq!((replay.events, replay.items), (events, 1_003));
    let payload = events * 200;
    assert!(
        (payload..payload * 5 / 4).contains(&replay.bytes),
        "{replay:?}"
    );
    assert!(replay.replay_to_scan > 0.0, "{replay:?}");
    let ratio = replay.replay / replay.scan;
    assert!((replay.replay_to_scan - ratio).abs() < 1e-9, "{replay:?}");
    // If the peak cannot be reset, it is unknown, not zero.
    let is_writable = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    assert_eq!(replay.peak_mib_added.is_some(), is_writable, "{replay:?}");
    assert!(!folder.exists(), "the folder is removed");

    std::fs::create_dir(&folder).unwrap();
    let refused = measure_journal(&folder, plan, clock, |_| ()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(folder.exists(), "an existing folder stays");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_is_compared_on_a_table_that_is_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let database = dynoxide::Database::memory().unwrap();
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    let clock = Arc::new(SystemClock::new());
    let settings = AwsSettings::at(endpoint);
    let store = DynamoDb::open_local(&settings, clock.clone(), Random::seeded(1)).await;
    let store = Arc::new(store.unwrap());
    let plan = ClientPlan {
        laps: 2,
        lap_time: Duration::from_millis(50),
        tasks: 4,
    };
    let name: TableName = "annals-bench".parse().unwrap();
    let row = measure_client(&store, name.clone(), plan, clock.clone()).await;
    let row = row.unwrap();
    assert!(row.bare > 0.0 && row.ours > 0.0, "{row:?}");
    assert!((row.ours_to_bare - row.ours / row.bare).abs() < 1e-9);
    assert_eq!(store.describe_table(&name).await.unwrap(), None);

    let table = BareSdk::table(name.clone()).unwrap();
    store
        .create_table(&table, Default::default())
        .await
        .unwrap();
    let refused = measure_client(&store, name.clone(), plan, clock).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(store.describe_table(&name).await.unwrap().is_some());
}
