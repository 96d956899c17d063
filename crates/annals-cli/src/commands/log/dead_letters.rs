//! `annals log dead-letters`: records that could not become events.

use std::process::ExitCode;

use annals::Result;
use annals::log::DeadLetter;

use super::super::Context;
use crate::columns::Rows;
use crate::open::Access;
use crate::output::ABSENT;
use crate::{progress, wire};

/// List the records that could not become events, whole, with the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadLetters {
    /// Delete the dead letter with this name. Exits with 1 if there is none
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
}

impl DeadLetters {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let access = match self.forget {
            Some(_) => Access::Write,
            None => Access::Read,
        };
        let (log, store) = context.log_or_empty(access).await?;
        if let Some(name) = &self.forget {
            let is_found = log.delete_dead_letter(name).await?;
            if !is_found {
                eprintln!("annals: there is no such dead letter. name=`{name}`");
            }
            context.print_cost(&store)?;
            return Ok(match is_found {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(ABSENT),
            });
        }
        let bar = progress::counter("dead letters found");
        let mut rows = Rows::new(context.output, ["NAME", "REASON"]).with_progress(bar);
        let json = |letter: &DeadLetter| wire::line(&wire::DeadLetter::new(letter));
        let row = |letter: &DeadLetter| [letter.name.clone(), letter.reason.clone()];
        rows.print_all(log.dead_letters(), json, row).await?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
