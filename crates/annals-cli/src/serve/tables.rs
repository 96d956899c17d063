//! The tables of the layout and of the log over HTTP: check them, with what the settings would get
//! wrong, and create those that are missing.
//!
//! Never: drops one. That is left to the command line.

use annals::Result;
use annals::items::{Billing, TableSpec};
use annals::layout::Hint;
use annals::log::{self, LogTables};

use super::app::App;
use super::http;
use super::http::Call;
use super::problem::Answer;
use crate::commands::tables::{compare, create_missing};
use crate::wire;

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Layout,
    Log,
}

fn specs(app: &App, which: Which) -> Result<Vec<TableSpec>> {
    let settings = app.settings();
    Ok(match which {
        Which::Layout => settings.tables()?.all().cloned().collect(),
        Which::Log => LogTables::new(&settings.log)?.all().cloned().collect(),
    })
}

/// Which tables are asked for: the log's with `log=true` only.
fn wanted(call: &Call) -> Answer<Vec<Which>> {
    Ok(match call.params(&["log"])?.is_on("log")? {
        true => vec![Which::Layout, Which::Log],
        false => vec![Which::Layout],
    })
}

/// `GET /v1/tables`
pub(super) async fn check(call: Call) -> Answer {
    let (store, settings) = (call.app.store(), call.app.settings());
    let mut tables = Vec::new();
    for which in wanted(&call)? {
        let checked = check_all(&call.app, which).await?;
        let found: Vec<TableSpec> = checked.iter().filter_map(|it| it.found.clone()).collect();
        let hints = match which {
            Which::Layout => settings.layout().hints(store, &found).await?,
            Which::Log => log::hints(store, &settings.log, &found).await?,
        };
        for table in checked {
            let is_of = |hint: &&Hint| hint.table == *table.spec.name();
            let hints: Vec<&Hint> = hints.iter().filter(is_of).collect();
            tables.push(table.table().checked(&hints, None));
        }
    }
    Ok(http::json(&wire::Tables { tables }))
}

/// A table as it should be, and as the store has it.
pub(super) struct Checked {
    spec: TableSpec,
    found: Option<TableSpec>,
}

impl Checked {
    pub(super) fn is_ok(&self) -> bool {
        compare(&self.spec, self.found.as_ref()).0 == "ok"
    }

    pub(super) fn name(&self) -> &str {
        self.spec.name().as_str()
    }

    pub(super) fn is_missing(&self) -> bool {
        self.found.is_none()
    }

    pub(super) fn table(&self) -> wire::Table {
        let (status, differences) = compare(&self.spec, self.found.as_ref());
        wire::Table::new(self.name(), status, differences)
    }
}

/// Checks each table.
pub(super) async fn check_all(app: &App, which: Which) -> Result<Vec<Checked>> {
    let mut tables = Vec::new();
    for spec in specs(app, which)? {
        let found = app.store().describe_table(spec.name()).await?;
        tables.push(Checked { spec, found });
    }
    Ok(tables)
}

/// `POST /v1/tables`: creates those that are missing.
pub(super) async fn create(call: Call) -> Answer {
    let (wanted, writer) = (wanted(&call)?, call.app.clone());
    let write = async move {
        let mut tables = Vec::new();
        for which in &wanted {
            for spec in specs(&writer, *which)? {
                let status = create_missing(&**writer.store(), &spec, Billing::OnDemand).await?;
                tables.push(wire::Table::new(spec.name().as_str(), status, Vec::new()));
            }
        }
        if wanted.contains(&Which::Log) {
            // The index of a new table is complete, and is marked so.
            writer.log().await?.complete_index().await?;
        }
        Ok(http::json(&wire::Tables { tables }))
    };
    call.app.finish(write).await
}
