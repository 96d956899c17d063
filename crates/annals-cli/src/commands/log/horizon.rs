//! `annals log horizon`: the time before which no more events arrive, and a way to set it back.

use std::process::ExitCode;

use annals::Result;
use annals::log::Time;

use super::super::{Context, Purpose};
use crate::open::Access;
use crate::payload::parse_log_time;
use crate::wire;

/// Print the time before which no more events arrive, except those reported as late.
#[derive(Debug, clap::Args)]
pub(crate) struct Horizon {
    /// Set it back to this time, after the clock of a sweeper was ahead; correct that clock first
    #[arg(long, value_name = "T", value_parser = parse_log_time)]
    set_back: Option<Time>,
}

impl Horizon {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        context.refuse_no_store()?;
        let (log, store) = match self.set_back {
            Some(_) => context.log(Purpose::Write).await?,
            None => context.log_or_empty(Access::Read).await?,
        };
        let is_set_back = match self.set_back {
            Some(time) => log.set_back_horizon(time).await?,
            None => false,
        };
        let horizon = log.horizon().await?;
        let text = match horizon {
            Some(time) => time.to_string(),
            None => "none; run annals log sweep".to_owned(),
        };
        let object = wire::Horizon::new(horizon, is_set_back);
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
