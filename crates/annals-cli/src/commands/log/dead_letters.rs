//! `annals log dead-letters`: records that could not become events.

use std::process::ExitCode;

use annals::Result;
use futures::TryStreamExt;

use super::super::{Context, Purpose};
use crate::wire;

/// List the records that could not become events, whole, with the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadLetters {
    /// Delete the dead letter with this name
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
}

impl DeadLetters {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if let Some(name) = &self.forget {
            let (log, store) = context.log(Purpose::Write).await?;
            log.delete_dead_letter(name).await?;
            context.print_cost(&store)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (log, store) = context.log(Purpose::Read).await?;
        let mut letters = log.dead_letters();
        while let Some(letter) = letters.try_next().await? {
            let text = format!("{}  {}", letter.name, letter.reason);
            context
                .output
                .line(&wire::DeadLetter::new(&letter), &text)?;
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
