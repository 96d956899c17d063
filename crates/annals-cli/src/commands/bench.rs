//! `annals bench`: what this machine and store can do, as ratios within one run.
//!
//! Promises: what it makes to measure is gone afterwards, also when a signal cuts it short.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use annals::bench::{StorePlan, StoreRow, measure_store};
use annals::items::{Items, TableName};
use annals::settings::StoreKind;
use annals::{Clock, Error, Random, Result, SystemClock};
use annals_aws::DynamoDb;
use annals_aws::bench::{Comparison, Load, compare};
use clap::Subcommand;
use serde_json::json;

use super::Context;
use crate::interrupt::Interrupts;
use crate::output::{Output, print_line};
use crate::progress;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Durable puts: the embedded store against the bare engine and the disk, or, with
    /// --dynamodb, our client against the bare SDK on the same server
    Store,
}

impl Bench {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let Self::Store = self;
        match context.settings.store {
            StoreKind::Embedded => embedded(context).await,
            StoreKind::DynamoDb => dynamodb(context).await,
        }
    }
}

const HEADING: &str =
    "writers  bytes  plain file     engine  ungrouped       ours  ours/engine  ours/file";

/// Beside the store, so that the same disk is measured; never inside it.
async fn embedded(context: &Context) -> Result<ExitCode> {
    let mut folder = context.settings.data.clone().into_os_string();
    folder.push(format!(".bench-{}", std::process::id()));
    let folder = PathBuf::from(folder);
    if !context.output.is_json() {
        print_line("durable puts a second, each acknowledged after a sync")?;
        print_line(HEADING)?;
    }
    let bar = progress::counter("lines measured");
    let mut printed = Ok(());
    let output = context.output;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let work = measure_store(&folder, StorePlan::default(), clock.clone(), |row| {
        bar.inc(1);
        if printed.is_ok() {
            printed = bar.suspend(|| print_row(output, &row));
        }
    });
    let outcome = Interrupts::listen()?.or(work).await;
    bar.finish_and_clear();
    match outcome {
        Ok(measured) => measured.and(printed).map(|()| ExitCode::SUCCESS),
        Err(code) => {
            remove(&folder, &*clock).await?;
            eprintln!("annals: interrupted; the folder of the bench is removed");
            Ok(code)
        }
    }
}

/// Removes what an interrupted bench made. Its writers end with their lap, which takes 600 ms;
/// until then a file may appear behind our back.
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
        let message = format!(
            "cannot remove the folder of the bench; remove it. folder=`{}`",
            folder.display()
        );
        Error::unavailable(message).because(cause)
    })
}

fn print_row(output: Output, row: &StoreRow) -> Result<()> {
    let object = json!({
        "writers": row.writers,
        "payload_bytes": row.payload_bytes,
        "raw_per_second": row.raw.round(),
        "engine_per_second": row.engine.round(),
        "engine_ungrouped_per_second": row.engine_ungrouped.round(),
        "ours_per_second": row.ours.round(),
        "ours_to_engine": hundredths(row.ours_to_engine),
        "ours_to_raw": hundredths(row.ours_to_raw),
    });
    let text = format!(
        "{:>7} {:>6} {:>11.0} {:>10.0} {:>10.0} {:>10.0} {:>12.2} {:>10.2}",
        row.writers,
        row.payload_bytes,
        row.raw,
        row.engine,
        row.engine_ungrouped,
        row.ours,
        row.ours_to_engine,
        row.ours_to_raw,
    );
    output.line(&object, &text)
}

async fn dynamodb(context: &Context) -> Result<ExitCode> {
    let seed = Random::from_machine().bits();
    let clock = Arc::new(SystemClock::new());
    let store = DynamoDb::open(&context.settings, clock, Random::seeded(seed)).await?;
    let store = Arc::new(store);
    let load = Load::default();
    let bar = progress::counter("comparing our client with the bare SDK");
    let outcome = Interrupts::listen()?.or(compare(&store, load)).await;
    bar.finish_and_clear();
    match outcome {
        Ok(compared) => print_comparison(context.output, load.tasks, &compared?),
        Err(code) => {
            let table = bench_table(seed)?;
            store.drop_table(&table).await?;
            eprintln!("annals: interrupted; the table of the bench is dropped. table=`{table}`");
            Ok(code)
        }
    }
}

/// The table of a comparison: it is named by the first number its store draws.
fn bench_table(seed: u64) -> Result<TableName> {
    format!("annals-bench-{:016x}", Random::seeded(seed).bits()).parse()
}

fn print_comparison(output: Output, tasks: u32, result: &Comparison) -> Result<ExitCode> {
    let (bare, ours) = (result.bare_per_sec(), result.ours_per_sec());
    let ratio = result.ratio();
    if !ratio.is_finite() {
        return Err(Error::unavailable(
            "the server answered too little to compare",
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
