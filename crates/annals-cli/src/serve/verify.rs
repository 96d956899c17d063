//! What is wrong with what is stored, over HTTP: of one id, or of everything there is.
//!
//! Promises: looks where `annals verify` looks: at events, snapshots and values, and, of everything,
//! at what belongs to nobody and what large writes left behind. A repair that was begun goes on when
//! its caller goes away.

use annals::verify::{Finding, Verify};
use annals::{PersistenceId, Result};
use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use super::app::App;
use super::lines;
use super::problem::Answer;
use super::request::{Id, Params};
use crate::findings::{Found, Places};
use crate::shown;

/// How many findings of a repair wait for whoever reads them.
const WAITING: usize = 64;

/// `GET /v1/journal/{id}/findings`
pub(super) async fn findings(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    of_one(app, id, Verify::Look).await
}

/// `POST /v1/journal/{id}/repair`
pub(super) async fn repair(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    app.accept(of_one(writer, id, Verify::Repair)).await
}

async fn of_one(app: App, id: PersistenceId, how: Verify) -> Answer {
    let found = found(&app, Some(&id), how).await?;
    let found: Vec<Vec<Finding>> = found.try_collect().await?;
    let findings: Vec<Json> = found.iter().flatten().map(shown::finding).collect();
    let object = json!({"persistence_id": id.as_str(), "findings": findings});
    Ok(JsonBody(object).into_response())
}

/// `GET /v1/findings`: of everything, as they are found.
pub(super) async fn all_findings(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let found = found(&app, None, Verify::Look).await?;
    let answer = lines::answer(told(found)).await?;
    Ok(answer.unwrap_or_else(lines::none))
}

/// `POST /v1/repair`: the same, and what is safe to repair is repaired.
pub(super) async fn repair_all(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let mut found = told(found(&app, None, Verify::Repair).await?);
    let (tell, told) = mpsc::channel::<Result<Option<String>>>(WAITING);
    app.go_on_with(async move {
        loop {
            let next = found.try_next().await;
            let is_over = !matches!(next, Ok(Some(_)));
            // Nobody may be there any more to be told.
            let _ = tell.send(next).await;
            if is_over {
                return;
            }
        }
    });
    let lines = stream::unfold(told, |mut told| async move {
        // What ends without saying so has failed.
        let next = told.recv().await.unwrap_or_else(|| {
            Err(annals::Error::unavailable(
                "the repair ended before its end; repeat it",
            ))
        });
        next.transpose().map(|line| (line, told))
    });
    let answer = lines::answer(lines.boxed()).await?;
    Ok(answer.unwrap_or_else(lines::none))
}

/// A line for each finding.
fn told(found: Found) -> BoxStream<'static, Result<String>> {
    let each = found.map_ok(|findings| stream::iter(findings).map(Ok));
    let lines = each
        .try_flatten()
        .map_ok(|it| shown::finding(&it).to_string());
    lines.boxed()
}

/// What is wrong, as it is found, in the tables that are there.
async fn found(app: &App, whose: Option<&PersistenceId>, how: Verify) -> Result<Found> {
    let annals = app.annals().await?;
    let tables = app.settings().tables()?;
    let snapshots = match app.has(&tables.snapshot).await? {
        true => Some(annals.snapshots().clone()),
        false => None,
    };
    let states = match &tables.state {
        Some(table) if app.has(table).await? => Some(annals.states()?.clone()),
        _ => None,
    };
    let places = Places {
        journal: annals.journal().clone(),
        snapshots,
        states,
    };
    Ok(places.findings(whose, how))
}
