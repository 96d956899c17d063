//! `annals export`: print every item of a table as DynamoDB JSON lines.

use std::process::ExitCode;
use std::sync::Arc;

use annals::items::{Items, Scan, Segment, TableName, item_to_json, scan_pages};
use annals::{Error, Result};
use futures::stream::{self, TryStreamExt};
use serde_json::json;

use super::{Context, existing_table};
use crate::open::Access;
use crate::output::print_line;
use crate::progress;

/// Print every item of a table, one per line, as DynamoDB's own export does: `{"Item":{…}}`
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The table
    table: TableName,
    /// Number of segments to scan in parallel
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    segments: u32,
}

impl Export {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let store = context.existing_store(Access::Read).await?;
        let items: Arc<dyn Items> = store.items().clone();
        let table = existing_table(&*items, &self.table).await?;
        let bar = progress::counter("items exported");
        let segments = (0..self.segments).map(|index| {
            let segment = Segment {
                index,
                of: self.segments,
            };
            scan_pages(items.clone(), table.clone(), Scan::segment(segment))
        });
        let mut pages = stream::select_all(segments);
        while let Some(page) = pages.try_next().await? {
            bar.inc(page.items.len() as u64);
            let lines = page
                .items
                .iter()
                .map(|item| json!({"Item": item_to_json(item)}));
            let lines: Vec<_> = lines.map(|line| line.to_string()).collect();
            if lines.is_empty() {
                continue;
            }
            let bar = bar.clone();
            let print = move || bar.suspend(|| print_line(&lines.join("\n")));
            tokio::task::spawn_blocking(print)
                .await
                .map_err(|e| Error::unavailable("printing was cancelled").because(e))??;
        }
        bar.finish_and_clear();
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
