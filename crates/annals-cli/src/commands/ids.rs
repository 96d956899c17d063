//! `annals ids`: list persistence ids.

use std::process::ExitCode;

use annals::Result;
use futures::TryStreamExt;

use super::{Context, Purpose};
use crate::{progress, wire};

/// List every persistence id that has ever had an event, in no order; reads the whole table
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
        let mut ids = journal.persistence_ids(&self.prefix);
        while let Some(id) = ids.try_next().await? {
            bar.inc(1);
            let object = wire::Id::new(&id);
            bar.suspend(|| context.output.line(&object, id.as_str()))?;
        }
        bar.finish_and_clear();
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
