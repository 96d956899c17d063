//! `annals log stats`: what the log holds, and how far it is.

use std::process::ExitCode;

use annals::Result;

use super::super::{Context, Purpose};
use crate::wire;

/// What the log holds, and how far it is. Reads the whole buffer.
#[derive(Debug, clap::Args)]
pub(crate) struct Stats {}

impl Stats {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (log, store) = context.log(Purpose::Read).await?;
        let stats = log.stats().await?;
        let text = |time: Option<_>| time.map(|time: annals::log::Time| time.to_string());
        let (first, last) = stats.slots.unzip();
        let none = || "none".to_owned();
        let lines = [
            ("waiting in the buffer", stats.buffered.to_string()),
            (
                "the oldest of them",
                text(stats.oldest_buffered).unwrap_or_else(none),
            ),
            ("set aside", stats.set_aside.to_string()),
            ("horizon", text(stats.horizon).unwrap_or_else(none)),
            ("days with events", stats.days.to_string()),
            (
                "first slot",
                first.map_or_else(none, |slot| slot.to_string()),
            ),
            ("last slot", last.map_or_else(none, |slot| slot.to_string())),
            (
                "index",
                if stats.is_indexed {
                    "complete"
                } else {
                    "not complete; run annals log link"
                }
                .to_owned(),
            ),
            ("a slot has", format!("{} ms", log.time_unit().ms())),
        ];
        let lines = lines.map(|(name, value)| format!("{name:<22} {value}"));
        let object = wire::LogStats::new(&log, &stats);
        context.output.line(&object, &lines.join("\n"))?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
