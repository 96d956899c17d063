//! `annals highest`: the number of the last event of an id.

use std::process::ExitCode;

use annals::{PersistenceId, Result};

use super::{Context, Purpose};
use crate::output::ABSENT;
use crate::shown;

/// Print the number of the last event ever appended, deleted or not.
#[derive(Debug, clap::Args)]
pub(crate) struct Highest {
    /// Whose events
    persistence_id: PersistenceId,
}

impl Highest {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let id = &self.persistence_id;
        let Some(highest) = journal.highest(id).await? else {
            eprintln!("annals: there are no events. id=`{id}`");
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        };
        let object = shown::place(id, highest);
        context.output.line(&object, &highest.to_string())?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
