//! The tables of the layout over HTTP: how they are, and making those that are missing.
//!
//! Never: drops one. Whoever wants that has the command line.

use annals::items::Billing;
use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};

use super::app::App;
use super::problem::Answer;
use super::request::Params;
use crate::commands::tables::{found, made};
use crate::shown;

/// `GET /v1/tables`
pub(super) async fn check(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    Ok(JsonBody(json!({"tables": statuses(&app).await?})).into_response())
}

/// How each table is.
pub(super) async fn statuses(app: &App) -> annals::Result<Vec<Json>> {
    let mut tables = Vec::new();
    for spec in app.tables()? {
        let (status, differences) = found(&**app.items(), &spec).await?;
        tables.push(shown::table(spec.name().as_str(), status, &differences));
    }
    Ok(tables)
}

/// `POST /v1/tables`: makes those that are missing.
pub(super) async fn create(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    let write = async move {
        let mut tables = Vec::new();
        for spec in writer.tables()? {
            let status = made(&**writer.items(), &spec, Billing::OnDemand).await?;
            tables.push(shown::table(spec.name().as_str(), status, &[]));
        }
        Ok(JsonBody(json!({"tables": tables})).into_response())
    };
    app.accept(write).await
}
