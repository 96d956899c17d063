//! Findings over HTTP: what is wrong with an id, or with everything that is stored.
//!
//! Promises: checks what `annals verify` checks. A repair that was begun is finished, also if the
//! client disconnects.

use annals::verify::{Finding, FindingStream, Verify};
use annals::{PersistenceId, Result};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use super::app::App;
use super::http;
use super::http::Call;
use super::problem::Answer;
use crate::findings::Sources;
use crate::wire;

/// How many findings of a repair are queued for the client.
const QUEUED: usize = 64;

/// `GET /v1/journal/{id}/findings`
pub(super) async fn findings(call: Call) -> Answer {
    call.no_params()?;
    let id = call.id()?;
    of_one(call.app, id, Verify::Check).await
}

/// `POST /v1/journal/{id}/repair`
pub(super) async fn repair(call: Call) -> Answer {
    call.no_params()?;
    let (id, writer) = (call.id()?, call.app.clone());
    call.app.finish(of_one(writer, id, Verify::Repair)).await
}

async fn of_one(app: App, id: PersistenceId, how: Verify) -> Answer {
    let found = found(&app, Some(&id), how).await?;
    let found: Vec<Vec<Finding>> = found.try_collect().await?;
    let findings = found.iter().flatten().map(wire::Finding::new).collect();
    let persistence_id = id.as_str();
    Ok(http::json(&wire::Findings {
        persistence_id,
        findings,
    }))
}

/// `GET /v1/findings`: of everything, as they are found.
pub(super) async fn all_findings(call: Call) -> Answer {
    call.no_params()?;
    let found = found(&call.app, None, Verify::Check).await?;
    http::lines(finding_lines(found)).await
}

/// `POST /v1/repair`: the same, and repairs what is safe to repair.
pub(super) async fn repair_all(call: Call) -> Answer {
    call.no_params()?;
    let found = found(&call.app, None, Verify::Repair).await?;
    let mut found = finding_lines(found);
    let (send, receive) = mpsc::channel::<Result<Option<String>>>(QUEUED);
    call.app.detach(async move {
        loop {
            let next = found.try_next().await;
            let is_over = !matches!(next, Ok(Some(_)));
            // The client may have disconnected.
            let _ = send.send(next).await;
            if is_over {
                return;
            }
        }
    });
    let lines = stream::unfold(receive, |mut receive| async move {
        // A sender that ends without saying so has failed.
        let next = receive.recv().await.unwrap_or_else(|| {
            Err(annals::Error::unavailable(
                "the repair was cut short; repeat it",
            ))
        });
        next.transpose().map(|line| (line, receive))
    });
    http::lines(lines.boxed()).await
}

fn finding_lines(found: FindingStream) -> BoxStream<'static, Result<String>> {
    let each = found.map_ok(|findings| stream::iter(findings).map(Ok));
    let lines = each.try_flatten();
    let lines = lines.map_ok(|it| wire::line(&wire::Finding::new(&it)));
    lines.boxed()
}

/// What is wrong, as it is found, in the tables that exist.
async fn found(app: &App, id: Option<&PersistenceId>, how: Verify) -> Result<FindingStream> {
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
    let sources = Sources {
        journal: annals.journal().clone(),
        snapshots,
        states,
    };
    Ok(sources.findings(id, how))
}
