//! `annals log aside`: records that could not become events.

use std::process::ExitCode;

use annals::Result;
use annals::items::item_to_json;
use futures::TryStreamExt;
use serde_json::json;

use super::super::{Context, Purpose};

/// The records that could not become events, whole, with the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct Aside {
    /// Forget the one of this name, for good
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
}

impl Aside {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if let Some(name) = &self.forget {
            let (log, store) = context.log(Purpose::Write).await?;
            log.forget_aside(name).await?;
            context.print_cost(&store)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (log, store) = context.log(Purpose::Read).await?;
        let mut records = log.set_aside();
        while let Some(aside) = records.try_next().await? {
            let (name, reason) = (&aside.name, &aside.reason);
            let record = item_to_json(&aside.record);
            let object = json!({"name": name, "reason": reason, "record": record});
            context.output.line(&object, &format!("{name}  {reason}"))?;
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
