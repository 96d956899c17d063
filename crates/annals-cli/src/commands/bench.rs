//! `annals bench`: measure this machine and its store, as ratios within one run.
//!
//! Guarantees: removes its folder or table afterwards, also after a signal.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals::items::{Items, TableName};
use annals::{Clock, Error, Random, Result, SystemClock};
use annals_aws::DynamoDb;
use clap::Subcommand;
use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

use super::Context;
use crate::bench::{
    AppendsRow, ClientPlan, ClientRow, CommandsRow, EntitiesPlan, EntitiesRow, JournalPlan,
    JournalRow, LoadPlan, LogPlan, LogRow, ReplayRow, ResidentRow, StorePlan, StoreRow,
    measure_client, measure_entities, measure_journal, measure_load, measure_log, measure_store,
};
use crate::interrupt::Interrupts;
use crate::output::{Output, counted, print_line};
use crate::progress;
use crate::settings::StoreKind;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Durable puts: the embedded store against the bare engine and the disk; with --dynamodb, our
    /// client against the bare SDK on the same server
    Store,
    /// The journal on the embedded store: durable appends against the bare engine, and a replay of a
    /// million events against a bare scan of the same bytes
    Journal,
    /// Entities on the embedded store: commands against appends to the bare journal, the memory of an
    /// idle entity, and recoveries against bare replays
    Entities,
    /// The log on the embedded store: ingest, sweep and play back a million events of one hour, against
    /// the bare engine
    Log,
    /// Appends of one event on the embedded store, the baseline of `scripts/load` for appends over HTTP
    Appends {
        /// Concurrent writers
        #[arg(long, value_name = "N", default_value_t = LoadPlan::default().writers)]
        writers: usize,
        /// Number of persistence ids, used in turn
        #[arg(long, value_name = "N", default_value_t = LoadPlan::default().ids)]
        ids: u64,
        /// Seconds to measure, after as many to warm up
        #[arg(long, value_name = "SECONDS", default_value_t = LoadPlan::default().time.as_secs())]
        seconds: u64,
    },
}

impl Bench {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match (self, context.settings.store) {
            (Self::Store, StoreKind::Embedded) => store(context).await,
            (Self::Store, StoreKind::DynamoDb) => dynamodb(context).await,
            (Self::Journal, StoreKind::Embedded) => journal(context).await,
            (Self::Entities, StoreKind::Embedded) => entities(context).await,
            (Self::Log, StoreKind::Embedded) => log(context).await,
            (
                Self::Appends {
                    writers,
                    ids,
                    seconds,
                },
                StoreKind::Embedded,
            ) => {
                let plan = LoadPlan {
                    writers,
                    ids,
                    time: Duration::from_secs(seconds),
                    ..LoadPlan::default()
                };
                appends(context, plan).await
            }
            (_, StoreKind::DynamoDb) => Err(Error::invalid(
                "this bench measures the embedded store; leave --dynamodb out, or use bench store",
            )),
        }
    }
}

async fn store(context: &Context) -> Result<ExitCode> {
    let bench = EmbeddedBench::new(context);
    bench.heading([
        "durable puts a second, each acknowledged after a sync; of the lap whose ours/engine is the median",
        "writers  bytes     raw log     engine  ungrouped       ours  ours/engine  ours/raw",
    ])?;
    let (plan, clock) = (StorePlan::default(), bench.clock.clone());
    let work = measure_store(&bench.folder, plan, clock, |row| {
        bench.print(&store_object(&row), &store_text(&row));
    });
    bench.run(work).await
}

async fn journal(context: &Context) -> Result<ExitCode> {
    let bench = EmbeddedBench::new(context);
    bench.heading([
        "durable appends a second, of events of 200 B, each acknowledged after a sync; of the lap whose ratio is the median",
        "writers  events     engine       ours     events  ours/engine",
    ])?;
    let (plan, clock) = (JournalPlan::default(), bench.clock.clone());
    let work = measure_journal(&bench.folder, plan, clock, |row| match row {
        JournalRow::Appends(row) => bench.print(&appends_object(&row), &appends_text(&row)),
        JournalRow::Replay(row) => bench.print(&replay_object(&row), &replay_text(&row)),
    });
    bench.run(work).await
}

async fn entities(context: &Context) -> Result<ExitCode> {
    let bench = EmbeddedBench::new(context);
    bench.heading([
        "durable commands a second, of one event of 200 B each, against appends to the bare journal; of the lap whose ratio is the median",
        " askers    journal     region  region/journal",
    ])?;
    let (plan, clock) = (EntitiesPlan::default(), bench.clock.clone());
    let work = measure_entities(&bench.folder, plan, clock, |row| match row {
        EntitiesRow::Commands(row) => bench.print(&commands_object(&row), &commands_text(&row)),
        EntitiesRow::Resident(row) => bench.print(&resident_object(&row), &resident_text(&row)),
    });
    bench.run(work).await
}

async fn log(context: &Context) -> Result<ExitCode> {
    let bench = EmbeddedBench::new(context);
    bench.heading([
        "events a second of one hour's slots, against as many values of the bare engine",
        "step          events       ours     engine  ours/engine  MiB added",
    ])?;
    let (plan, clock) = (LogPlan::default(), bench.clock.clone());
    let work = measure_log(&bench.folder, plan, clock, |row| {
        bench.print(&log_object(&row), &log_text(&row));
    });
    bench.run(work).await
}

async fn appends(context: &Context, plan: LoadPlan) -> Result<ExitCode> {
    let bench = EmbeddedBench::new(context);
    let (folder, clock) = (bench.folder.clone(), bench.clock.clone());
    let work = async {
        let rate = measure_load(&folder, plan, clock).await?;
        let (writers, ids) = (plan.writers, plan.ids);
        let object = json!({"writers": writers, "ids": ids, "appends_per_second": rate.round()});
        let text = format!(
            "{}, {}: {rate:.0} durable appends a second",
            counted(writers, "writer"),
            counted(ids, "id")
        );
        bench.print(&object, &text);
        Ok(())
    };
    bench.run(work).await
}

/// A measurement in a folder next to the embedded store, on the same disk.
struct EmbeddedBench {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    output: Output,
    bar: ProgressBar,
    printed: Mutex<Result<()>>,
}

impl EmbeddedBench {
    fn new(context: &Context) -> Self {
        let mut folder = context.settings.data.clone().into_os_string();
        folder.push(format!(".bench-{}", std::process::id()));
        Self {
            folder: PathBuf::from(folder),
            clock: Arc::new(SystemClock::new()),
            output: context.output,
            bar: progress::counter("lines measured"),
            printed: Mutex::new(Ok(())),
        }
    }

    fn printed(&self) -> MutexGuard<'_, Result<()>> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heading(&self, lines: [&str; 2]) -> Result<()> {
        if self.output.is_json() {
            return Ok(());
        }
        lines.into_iter().try_for_each(print_line)
    }

    /// Prints a line, unless printing failed before.
    fn print(&self, object: &Json, text: &str) {
        self.bar.inc(1);
        let mut printed = self.printed();
        if printed.is_ok() {
            *printed = self.bar.suspend(|| self.output.line(object, text));
        }
    }

    /// Runs the work, and cleans up after a signal.
    async fn run(&self, work: impl Future<Output = Result<()>>) -> Result<ExitCode> {
        let outcome = Interrupts::listen()?.or(work).await;
        self.bar.finish_and_clear();
        match outcome {
            Ok(measured) => {
                let printed = std::mem::replace(&mut *self.printed(), Ok(()));
                measured.and(printed).map(|()| ExitCode::SUCCESS)
            }
            Err(code) => {
                remove(&self.folder, &*self.clock).await?;
                eprintln!("annals: interrupted; removed the folder of the bench");
                Ok(code)
            }
        }
    }
}

/// Removes the folder of an interrupted bench. Its writers end with their lap, which takes 600 ms;
/// until then they may create files.
async fn remove(folder: &Path, clock: &dyn Clock) -> Result<()> {
    const TRIES: u32 = 30;
    const PAUSE: Duration = Duration::from_millis(100);
    for _ in 1..TRIES {
        if std::fs::remove_dir_all(folder).is_ok() {
            return Ok(());
        }
        clock.sleep(PAUSE).await;
    }
    std::fs::remove_dir_all(folder).map_err(|cause| {
        Error::unavailable("cannot remove the folder of the bench; remove it")
            .fact("folder", folder.display())
            .because(cause)
    })
}

fn store_object(row: &StoreRow) -> Json {
    json!({
        "writers": row.writers,
        "payload_bytes": row.payload_bytes,
        "raw_per_second": row.raw.round(),
        "engine_per_second": row.engine.round(),
        "engine_ungrouped_per_second": row.engine_ungrouped.round(),
        "ours_per_second": row.ours.round(),
        "ours_to_engine": hundredths(row.ours_to_engine),
        "ours_to_raw": hundredths(row.ours_to_raw),
    })
}

fn store_text(row: &StoreRow) -> String {
    format!(
        "{:>7} {:>6} {:>11.0} {:>10.0} {:>10.0} {:>10.0} {:>12.2} {:>10.2}",
        row.writers,
        row.payload_bytes,
        row.raw,
        row.engine,
        row.engine_ungrouped,
        row.ours,
        row.ours_to_engine,
        row.ours_to_raw,
    )
}

fn appends_object(row: &AppendsRow) -> Json {
    json!({
        "writers": row.writers,
        "events_per_append": row.events,
        "engine_per_second": row.engine.round(),
        "ours_per_second": row.ours.round(),
        "ours_events_per_second": events_per_second(row).round(),
        "ours_to_engine": hundredths(row.ours_to_engine),
    })
}

fn events_per_second(row: &AppendsRow) -> f64 {
    row.ours * row.events as f64
}

fn appends_text(row: &AppendsRow) -> String {
    let events_per_second = events_per_second(row);
    format!(
        "{:>7} {:>7} {:>10.0} {:>10.0} {events_per_second:>10.0} {:>12.2}",
        row.writers, row.events, row.engine, row.ours, row.ours_to_engine,
    )
}

fn replay_object(row: &ReplayRow) -> Json {
    let (before, after) = row.peak_mib.unzip();
    json!({
        "events": row.events,
        "items": row.items,
        "bytes": row.bytes,
        "replay_per_second": row.replay.round(),
        "scan_per_second": row.scan.round(),
        "replay_to_scan": hundredths(row.replay_to_scan),
        "peak_mib_before": before,
        "peak_mib_after": after,
        "peak_mib_added": row.peak_mib_added,
    })
}

fn replay_text(row: &ReplayRow) -> String {
    let (events, items, bytes) = (row.events, row.items, row.bytes);
    let (replay, scan, ratio) = (row.replay, row.scan, row.replay_to_scan);
    let added = match row.peak_mib_added {
        Some(added) => format!("{added} MiB added by a replay"),
        None => "added by a replay unknown here".to_owned(),
    };
    let peak = row.peak_mib.map_or_else(String::new, |(before, after)| {
        format!("; peak memory {before} MiB before, {after} MiB after, {added}")
    });
    format!(
        "replay of {events} events in {items} items, {bytes} bytes: {replay:.0}/s, bare scan {scan:.0}/s, replay/scan {ratio:.2}, of the lap whose ratio is the median{peak}"
    )
}

fn commands_object(row: &CommandsRow) -> Json {
    json!({
        "askers": row.askers,
        "journal_per_second": row.journal.round(),
        "region_per_second": row.region.round(),
        "region_to_journal": hundredths(row.region_to_journal),
    })
}

fn commands_text(row: &CommandsRow) -> String {
    format!(
        "{:>7} {:>10.0} {:>10.0} {:>15.2}",
        row.askers, row.journal, row.region, row.region_to_journal,
    )
}

fn resident_object(row: &ResidentRow) -> Json {
    json!({
        "entities": row.entities,
        "events_each": row.events,
        "bytes_each": row.bytes_each.map(f64::round),
        "recoveries_per_second": row.recoveries.round(),
        "replays_per_second": row.replays.round(),
        "recoveries_to_replays": hundredths(row.recoveries_to_replays),
    })
}

fn resident_text(row: &ResidentRow) -> String {
    let (entities, events, ratio) = (row.entities, row.events, row.recoveries_to_replays);
    let (recoveries, replays) = (row.recoveries, row.replays);
    let bytes = match row.bytes_each {
        Some(bytes) => format!("{bytes:.0} bytes"),
        None => "bytes unknown here".to_owned(),
    };
    format!(
        "{entities} entities of {events} events recovered: {recoveries:.0}/s, bare replays {replays:.0}/s, recoveries/replays {ratio:.2}; each takes {bytes} while it is idle"
    )
}

fn log_object(row: &LogRow) -> Json {
    json!({
        "step": row.step,
        "events": row.events,
        "ours_per_second": row.ours.round(),
        "engine_per_second": row.engine.round(),
        "ours_to_engine": hundredths(row.ours_to_engine),
        "peak_mib_added": row.peak_mib_added,
    })
}

fn log_text(row: &LogRow) -> String {
    let mib = row
        .peak_mib_added
        .map_or_else(|| "?".to_owned(), |mib| mib.to_string());
    format!(
        "{:<8} {:>11} {:>10.0} {:>10.0} {:>12.2} {mib:>10}",
        row.step, row.events, row.ours, row.engine, row.ours_to_engine,
    )
}

async fn dynamodb(context: &Context) -> Result<ExitCode> {
    let random = Random::from_machine();
    let table: TableName = format!("annals-bench-{:016x}", random.bits()).parse()?;
    let store = Arc::new(DynamoDb::open(&context.settings.aws()).await?);
    let bar = progress::counter("comparing our client with the bare SDK");
    let (plan, clock) = (ClientPlan::default(), Arc::new(SystemClock::new()));
    let work = measure_client(&store, table.clone(), plan, clock);
    let outcome = Interrupts::listen()?.or(work).await;
    bar.finish_and_clear();
    match outcome {
        Ok(compared) => print_client(context.output, &compared?),
        Err(code) => {
            store.drop_table(&table).await?;
            eprintln!("annals: interrupted; dropped the table of the bench. table=`{table}`");
            Ok(code)
        }
    }
}

fn print_client(output: Output, row: &ClientRow) -> Result<ExitCode> {
    let (tasks, bare, ours, ratio) = (row.tasks, row.bare, row.ours, row.ours_to_bare);
    if !ratio.is_finite() {
        return Err(Error::unavailable(
            "the server is too slow to measure; try again later",
        ));
    }
    let object = json!({
        "tasks": tasks,
        "bare_sdk_per_second": bare.round(),
        "ours_per_second": ours.round(),
        "ours_to_bare_sdk": hundredths(ratio),
    });
    let text = format!(
        "conditional puts of 1 KB, {tasks} at once: bare SDK {bare:.0}/s, ours {ours:.0}/s, ours/bare {ratio:.2}"
    );
    output.line(&object, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn hundredths(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}
