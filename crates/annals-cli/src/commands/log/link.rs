//! `annals log link`: completes the index of slots, and writes the original's links.

use std::process::ExitCode;

use annals::Result;
use annals::log::{Span, Time};

use super::super::{Context, Purpose};
use crate::output::counted;
use crate::payload::parse_log_time;
use crate::wire;

/// Complete the index of slots, which reads the whole table, and write the links of a span, which the
/// original's playback reads.
#[derive(Debug, clap::Args)]
pub(crate) struct Link {
    /// The first time to link: milliseconds since 1970, or like 2026-01-31T12:00:00Z [default: all]
    #[arg(
        long,
        value_name = "T",
        default_value = "0",
        hide_default_value = true,
        value_parser = parse_log_time
    )]
    start: Time,
    /// The first time not to link [default: all]
    #[arg(long, value_name = "T", value_parser = parse_log_time)]
    end: Option<Time>,
}

impl Link {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let span = Span::new(self.start, self.end.unwrap_or(Time::END))?;
        context.refuse_no_store()?;
        let (log, store) = context.log(Purpose::Write).await?;
        let report = log.link(span).await?;
        let (read, slots, linked) = (report.read, report.slots, report.linked);
        let text = format!(
            "{} with events, {} written, {} read",
            counted(slots, "slot"),
            counted(linked, "link"),
            counted(read, "item")
        );
        context.output.line(&wire::Linked::new(&report), &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
