//! The tables of the layout and of the log over HTTP: how they are, what the settings would get wrong
//! with them, and making those that are missing.
//!
//! Never: drops one. Whoever wants that has the command line.

use annals::Result;
use annals::items::{Billing, TableSpec};
use annals::layout::{self, Hint};
use annals::log::{self, LogTables};
use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};

use super::app::App;
use super::problem::Answer;
use super::request::Params;
use crate::commands::tables::{compared, made};
use crate::shown;

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
        Which::Log => LogTables::of(&settings.log)?.all().cloned().collect(),
    })
}

/// Of which tables a caller wants to know, or to have them: the log's only where it says so.
fn wanted(uri: &Uri) -> Answer<Vec<Which>> {
    let params = Params::of(uri, &["log"])?;
    Ok(match params.is("log")? {
        true => vec![Which::Layout, Which::Log],
        false => vec![Which::Layout],
    })
}

/// `GET /v1/tables`
pub(super) async fn check(State(app): State<App>, uri: Uri) -> Answer {
    let (store, settings) = (app.store(), app.settings());
    let mut tables = Vec::new();
    for which in wanted(&uri)? {
        let looked_at = look_at(&app, which).await?;
        let there: Vec<TableSpec> = looked_at.iter().filter_map(|it| it.there.clone()).collect();
        let hints = match which {
            Which::Layout => settings.layout().hints(store, &there).await?,
            Which::Log => log::hints(&**store, &settings.log, &there).await?,
        };
        for table in looked_at {
            let is_of = |hint: &&Hint| hint.table == *table.spec.name();
            let hints: Vec<&Hint> = hints.iter().filter(is_of).collect();
            tables.push(shown::checked_table(table.shown(), &hints, None));
        }
    }
    Ok(JsonBody(json!({"tables": tables})).into_response())
}

/// A table as it was wanted, and as it is there.
pub(super) struct LookedAt {
    spec: TableSpec,
    there: Option<TableSpec>,
}

impl LookedAt {
    pub(super) fn is_ok(&self) -> bool {
        compared(&self.spec, self.there.as_ref()).0 == "ok"
    }

    pub(super) fn is_missing(&self) -> bool {
        self.there.is_none()
    }

    pub(super) fn shown(&self) -> Json {
        let (status, differences) = compared(&self.spec, self.there.as_ref());
        shown::table(self.spec.name().as_str(), status, &differences)
    }
}

/// How each table is.
pub(super) async fn look_at(app: &App, which: Which) -> Result<Vec<LookedAt>> {
    let mut tables = Vec::new();
    for spec in specs(app, which)? {
        let there = app.store().describe_table(spec.name()).await?;
        tables.push(LookedAt { spec, there });
    }
    Ok(tables)
}

/// `POST /v1/tables`: makes those that are missing.
pub(super) async fn create(State(app): State<App>, uri: Uri) -> Answer {
    let wanted = wanted(&uri)?;
    let writer = app.clone();
    let write = async move {
        let mut tables = Vec::new();
        for which in &wanted {
            for spec in specs(&writer, *which)? {
                let status = made(&**writer.store(), &spec, Billing::OnDemand).await?;
                tables.push(shown::table(spec.name().as_str(), status, &[]));
            }
        }
        if wanted.contains(&Which::Log) {
            // The index of a table that is new is complete, and is marked so.
            writer.log().await?.complete_index().await?;
        }
        Ok(JsonBody(json!({"tables": tables})).into_response())
    };
    app.accept(write).await
}
