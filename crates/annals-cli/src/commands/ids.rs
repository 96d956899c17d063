//! `annals ids`: list persistence ids.

use std::process::ExitCode;

use annals::{PersistenceId, Result};

use super::{Context, Purpose};
use crate::columns::Rows;
use crate::output::print_advice;
use crate::{progress, wire};

/// List every persistence id that has ever had an event, in no order; reads the whole table
///
/// Ids with durable state only are not listed: `annals export` prints the table of states.
#[derive(Debug, clap::Args)]
pub(crate) struct Ids {
    /// Only ids with this prefix
    #[arg(long, value_name = "P", default_value = "")]
    prefix: String,
}

impl Ids {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (journal, store) = context.journal(Purpose::Read).await?;
        let bar = progress::counter("ids found");
        let mut rows = Rows::new(context.output, ["PERSISTENCE ID"]).with_progress(bar);
        let ids = journal.persistence_ids(&self.prefix);
        let json = |id: &PersistenceId| wire::line(&wire::Id::new(id));
        let printed = rows.print_all(ids, json, |id| [id.to_string()]).await?;
        match self.prefix.as_str() {
            _ if printed > 0 => {}
            "" => print_advice("there are no ids"),
            prefix => print_advice(&format!("no id has this prefix. prefix=`{prefix}`")),
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
