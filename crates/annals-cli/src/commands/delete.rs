//! `annals delete`: events up to a number. Their numbers stay taken.

use std::process::ExitCode;

use annals::{PersistenceId, Result, SequenceNumber};
use serde_json::json;

use super::{Context, Purpose};

/// Delete the events of an id up to a number, for good. Their numbers are never used again.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// Whose events
    persistence_id: PersistenceId,
    /// Up to this number
    #[arg(long, value_name = "N")]
    to: SequenceNumber,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let (id, to) = (&self.persistence_id, self.to);
        journal.delete_to(id, to).await?;
        let object = json!({"persistence_id": id.as_str(), "deleted_to": to.get()});
        context
            .output
            .line(&object, &format!("{id} is deleted up to {to}"))?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
