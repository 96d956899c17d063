//! `annals bench`: what this machine and store can do, as ratios within one run.

use std::process::ExitCode;
use std::sync::Arc;

use annals::bench::{StorePlan, StoreRow, measure_store};
use annals::settings::StoreKind;
use annals::{Error, Random, Result, SystemClock};
use annals_aws::DynamoDb;
use annals_aws::bench::{Load, compare};
use clap::Subcommand;
use serde_json::json;

use super::Context;
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
            StoreKind::Embedded => embedded(context).await?,
            StoreKind::DynamoDb => dynamodb(context).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

const HEADING: &str =
    "writers  bytes  plain file     engine  ungrouped       ours  ours/engine  ours/file";

/// Beside the store, so that the same disk is measured; never inside it.
async fn embedded(context: &Context) -> Result<()> {
    let mut name = context.settings.data.clone().into_os_string();
    name.push(format!(".bench-{}", std::process::id()));
    if !context.output.is_json() {
        print_line("durable puts a second, each acknowledged after a sync")?;
        print_line(HEADING)?;
    }
    let bar = progress::counter("lines measured");
    let mut printed = Ok(());
    let output = context.output;
    let clock = Arc::new(SystemClock::new());
    measure_store(name.as_ref(), StorePlan::default(), clock, |row| {
        bar.inc(1);
        if printed.is_ok() {
            printed = bar.suspend(|| print_row(output, &row));
        }
    })
    .await?;
    bar.finish_and_clear();
    printed
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

async fn dynamodb(context: &Context) -> Result<()> {
    let clock = Arc::new(SystemClock::new());
    let store = DynamoDb::open(&context.settings, clock, Random::from_machine()).await?;
    let load = Load::default();
    let tasks = load.tasks;
    let bar = progress::counter("comparing our client with the bare SDK");
    let result = compare(&Arc::new(store), load).await?;
    bar.finish_and_clear();
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
    context.output.line(&object, &text)
}

fn hundredths(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}
