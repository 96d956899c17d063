//! `annals log stats`: statistics of the log.

use std::process::ExitCode;

use annals::Result;

use super::super::Context;
use crate::columns::Columns;
use crate::open::Access;
use crate::wire;

/// Print statistics. Reads the whole buffer.
#[derive(Debug, clap::Args)]
pub(crate) struct Stats {}

impl Stats {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (log, store) = context.log_or_empty(Access::Read).await?;
        let stats = log.stats().await?;
        let text = |time: Option<_>| time.map(|time: annals::log::Time| time.to_string());
        let slot = |slot: Option<_>| slot.map(|slot: annals::log::Slot| slot.to_string());
        let none = || "none".to_owned();
        let lines = [
            ("records in the buffer", stats.buffered.to_string()),
            (
                "oldest of them",
                text(stats.oldest_buffered).unwrap_or_else(none),
            ),
            ("dead letters", stats.dead_letters.to_string()),
            ("horizon", text(stats.horizon).unwrap_or_else(none)),
            ("days with events", stats.days.to_string()),
            ("first slot", slot(stats.first_slot).unwrap_or_else(none)),
            ("last slot", slot(stats.last_slot).unwrap_or_else(none)),
            (
                "index",
                if stats.is_indexed {
                    "complete"
                } else {
                    "incomplete; run annals log link"
                }
                .to_owned(),
            ),
            ("slot length", format!("{} ms", stats.time_unit_ms)),
        ];
        let mut columns = Columns::new(["STATISTIC", "VALUE"], context.output.is_coloured());
        let lines = columns.lines(&lines.map(|(name, value)| [name.to_owned(), value]));
        let object = wire::LogStats::new(&stats);
        context.output.line(&object, &lines.join("\n"))?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
