//! `annals log pump`: copies the events of the journal, or of a Kinesis stream, into the buffer.

use std::process::ExitCode;
use std::sync::Arc;

use annals::Result;
use annals::log::{JournalPump, PumpReport};
use annals_aws::kinesis::{Begin, Kinesis, Pump as KinesisPump, PumpStep, StreamName};
use serde_json::json;

use super::super::{Context, Purpose};
use super::every::Every;
use crate::args::Offered;
use crate::interrupt::Interrupts;
use crate::output::{counted, exit_code, print_error, print_note};
use crate::wire;

/// Copy events into the buffer.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["journal", "kinesis"]))]
pub(crate) struct Pump {
    /// The events of every persistence id, on any layout
    #[arg(long)]
    journal: bool,
    /// The records of this Kinesis stream, from all of its shards, until caught up
    #[arg(long, value_name = "STREAM")]
    kinesis: Option<StreamName>,
    /// Where to start a stream that was never pumped: trim-horizon, latest, or a time
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "trim-horizon",
        value_parser = Offered::new(&["trim-horizon", "latest"], str::parse::<Begin>),
        hide_possible_values = true,
        requires = "kinesis",
        conflicts_with = "journal"
    )]
    begin: Begin,
    /// Repeat at this interval until stopped: 60s, 500ms, 5m [default: once]
    #[arg(long, value_name = "T")]
    every: Option<Every>,
}

impl Pump {
    pub(crate) fn uses_kinesis(&self) -> bool {
        self.kinesis.is_some()
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let interrupts = Interrupts::listen()?;
        let work = async {
            match self.kinesis.clone() {
                Some(stream) => self.stream(context, stream).await,
                None => self.journals(context).await,
            }
        };
        match interrupts.or(work).await {
            Ok(ended) => ended,
            Err(code) => Ok(code),
        }
    }

    /// Pumps a stream until caught up, once or at an interval.
    async fn stream(&self, context: &Context, stream: StreamName) -> Result<ExitCode> {
        let (log, store) = context.log(Purpose::Write).await?;
        let kinesis = Kinesis::open(&context.settings.aws()).await?;
        let mut pump = KinesisPump::open(Arc::new(kinesis), stream, log, self.begin).await?;
        loop {
            let step = pump.step().await;
            print_step(context, &step)?;
            match (step.failure, self.every) {
                (Some(failure), None) => return Err(failure),
                (Some(failure), Some(every)) => {
                    print_error(&failure);
                    every.pause().await;
                }
                (None, None) if step.is_caught_up => {
                    context.print_cost(&store)?;
                    return Ok(ExitCode::SUCCESS);
                }
                (None, Some(every)) if step.is_caught_up => every.pause().await,
                (None, _) => {}
            }
        }
    }

    /// Pumps the journal, once or at an interval, also after errors.
    async fn journals(&self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Change).await?;
        let log = context.log_on(&store, Purpose::Write).await?;
        // Journals in other tables may have the same ids.
        let tables = context.settings.tables()?;
        let pump = JournalPump::new(journal, log, tables.journal.name().as_str());
        store.take_counts();
        loop {
            let passed = pump.pass().await;
            if let Ok(report) = &passed {
                print(context, report)?;
            }
            let Some(every) = self.every else {
                let passed = passed?;
                context.print_cost(&store)?;
                let code = passed.failure().map(|error| exit_code(error.kind()));
                return Ok(code.unwrap_or(ExitCode::SUCCESS));
            };
            if let Err(error) = &passed {
                print_error(error);
            }
            every.pause().await;
        }
    }
}

fn print_step(context: &Context, step: &PumpStep) -> Result<()> {
    for problem in &step.problems {
        print_error(problem);
    }
    for shard in &step.dropped {
        let shard = shard.as_str();
        print_note(&format!(
            "annals: the stream dropped a shard before all of it was read; pump more often. shard=`{shard}`"
        ));
    }
    let (records, stored, present) = (step.records, step.stored, step.present);
    let (behind, without) = (step.behind_ms, step.without_data);
    let object = json!({
        "records": records,
        "stored": stored,
        "present": present,
        "without_data": without,
        "behind_ms": behind,
        "is_caught_up": step.is_caught_up,
    });
    let text = format!(
        "{} read, {stored} stored, {present} already present, {without} without data, {behind} ms behind",
        counted(records, "record")
    );
    context.output.line(&object, &text)
}

fn print(context: &Context, report: &PumpReport) -> Result<()> {
    for problem in &report.problems {
        print_note(&format!("annals: an event is skipped: {problem}"));
    }
    for failure in &report.failures {
        print_error(failure);
    }
    let (ids, events, without) = (report.ids, report.events, report.without_payload);
    let (problems, failed) = (report.problems.len(), report.failures.len());
    let text = format!(
        "{} of {} pumped, {without} without payload, {problems} skipped, {} incomplete",
        counted(events, "event"),
        counted(ids, "id"),
        counted(failed, "id")
    );
    context.output.line(&wire::Pumped::new(report), &text)
}
