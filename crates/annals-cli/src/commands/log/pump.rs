//! `annals log pump`: events of the journals into the buffer.

use std::process::ExitCode;

use annals::Result;
use annals::log::{JournalPump, PumpReport};
use serde_json::json;

use super::super::{Context, Purpose};
use super::every::Every;
use crate::interrupt::Interrupts;
use crate::output::print_note;

/// Bring events into the buffer.
#[derive(Debug, clap::Args)]
pub(crate) struct Pump {
    /// The events of every persistence id, of whatever layout is chosen
    #[arg(long, required = true)]
    journal: bool,
    /// Look again so often, until this is ended: 60s, 500ms, 5m [default: once]
    #[arg(long, value_name = "T")]
    every: Option<Every>,
}

impl Pump {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let log = context.log_on(&store, Purpose::Write).await?;
        // Journals of other tables are other journals, whose ids may be the same.
        let tables = context.settings.layout.tables(&context.settings)?;
        let pump = JournalPump::new(journal, log, tables.journal.name().as_str());
        store.take();
        let interrupts = Interrupts::listen()?;
        let work = async {
            loop {
                let report = pump.pass().await?;
                print(context, &report)?;
                match self.every {
                    Some(every) => every.pause().await,
                    None => return context.print_cost(&store),
                }
            }
        };
        match interrupts.or(work).await {
            Ok(ended) => ended.map(|()| ExitCode::SUCCESS),
            Err(code) => Ok(code),
        }
    }
}

fn print(context: &Context, report: &PumpReport) -> Result<()> {
    for problem in &report.problems {
        print_note(&format!("annals: an event is passed over: {problem}"));
    }
    let (ids, events, without) = (report.ids, report.events, report.without_payload);
    let problems = report.problems.len();
    let object = json!({
        "ids": ids,
        "events": events,
        "without_payload": without,
        "passed_over": problems,
    });
    let text = format!(
        "{events} events of {ids} ids in the buffer, {without} without their payload, {problems} passed over"
    );
    context.output.line(&object, &text)
}
