//! `annals highest`: print the last sequence number of an id.

use std::process::ExitCode;

use annals::{PersistenceId, Result};

use super::{Context, Purpose};
use crate::output::ABSENT;
use crate::wire;

/// Print the sequence number of the last event ever appended, deleted or not
#[derive(Debug, clap::Args)]
pub(crate) struct Highest {
    /// The persistence id
    persistence_id: PersistenceId,
}

impl Highest {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let id = &self.persistence_id;
        let Some(highest) = journal.highest(id).await? else {
            eprintln!(
                "annals: there are no events; `annals ids` lists the ids that have some. id=`{id}`"
            );
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        };
        let object = wire::Position::new(id, highest);
        context.output.line(&object, &highest.to_string())?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
