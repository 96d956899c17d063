//! `annals log sweep`: moves the buffer into slots.

use std::process::ExitCode;

use annals::Result;
use annals::log::SweepReport;

use super::super::{Context, Purpose};
use super::every::Every;
use crate::interrupt::Interrupts;
use crate::output::{counted, exit_code, print_error, print_note};
use crate::wire;

/// Move the buffer into slots of time. Can be repeated, can run concurrently and can be stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Sweep {
    /// Repeat at this interval until stopped: 60s, 500ms, 5m [default: once]
    #[arg(long, value_name = "T")]
    every: Option<Every>,
}

impl Sweep {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        context.refuse_no_store()?;
        let (log, store) = context.log(Purpose::Write).await?;
        let interrupts = Interrupts::listen()?;
        let work = async {
            loop {
                let report = log.sweep().await;
                print(context, &report)?;
                let Some(every) = self.every else {
                    context.print_cost(&store)?;
                    let code = report.failure.map(|error| exit_code(error.kind()));
                    return Ok(code.unwrap_or(ExitCode::SUCCESS));
                };
                every.pause().await;
            }
        };
        match interrupts.or(work).await {
            Ok(ended) => ended,
            Err(code) => Ok(code),
        }
    }
}

fn print(context: &Context, report: &SweepReport) -> Result<()> {
    for problem in &report.problems {
        print_error(problem);
    }
    for id in &report.late_events {
        print_note(&format!("annals: an event is late. event id=`{id}`"));
    }
    if let (Some(horizon), 1..) = (report.horizon, report.horizon_ahead_ms) {
        print_note(&format!(
            "annals: the horizon is ahead of this clock, so every event is late: the clock of a sweeper is or was wrong; correct it, then run annals log horizon --set-back. horizon=`{horizon}`, ahead ms=`{}`",
            report.horizon_ahead_ms
        ));
    }
    if let Some(failure) = &report.failure {
        print_error(failure);
    }
    let (moved, repeated, late) = (report.moved, report.repeated, report.late);
    let (dead, left) = (report.dead_letters + report.stuck, report.left);
    let horizon = report.horizon.map(|time| time.to_string());
    let horizon = horizon.as_deref().unwrap_or("unchanged");
    let text = format!(
        "{moved} moved, {repeated} already present, {late} late, {}, {left} left; horizon {horizon}",
        counted(dead, "dead letter")
    );
    context.output.line(&wire::Swept::new(report), &text)
}
