//! Snapshots over HTTP: save, load, list, delete.

use annals::snapshot::{Criteria, Snapshot};
use annals::{ErrorKind, PersistenceId};
use futures::StreamExt;

use super::app::App;
use super::http;
use super::http::{Call, parse};
use super::problem::{Answer, Problem};
use crate::wire;

/// The bounds in the query.
fn criteria(call: &Call) -> Answer<Criteria> {
    let params = call.params(&["min_seq", "max_seq", "min_time", "max_time"])?;
    let all = Criteria::ALL;
    Ok(all
        .at_least(params.number("min_seq")?.unwrap_or(all.min_number))
        .up_to(params.number("max_seq")?.unwrap_or(all.max_number))
        .since_ms(params.time("min_time")?.unwrap_or(all.min_time_ms))
        .until_ms(params.time("max_time")?.unwrap_or(all.max_time_ms)))
}

/// `PUT /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn save(call: Call) -> Answer {
    call.no_params()?;
    let (id, at) = call.position()?;
    let (app, _, body) = call.read_json().await?;
    let state = parse::<wire::NewSnapshot<'_>>(&body)?.state()?;
    let writer = app.clone();
    let write = async move {
        let annals = writer.annals().await?;
        let snapshots = annals.snapshots();
        snapshots.save(&id, at, state).await?;
        Ok(http::json(&wire::Position::new(&id, at)))
    };
    app.finish(write).await
}

/// `GET /v1/snapshots/{id}/latest`
pub(super) async fn latest(call: Call) -> Answer {
    load(&call.app, &call.id()?, criteria(&call)?).await
}

/// `GET /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn at(call: Call) -> Answer {
    call.no_params()?;
    let (id, number) = call.position()?;
    load(&call.app, &id, Criteria::at(number)).await
}

async fn load(app: &App, id: &PersistenceId, criteria: Criteria) -> Answer {
    let found = app.annals().await?.snapshots().load(id, criteria).await?;
    let found: Snapshot = found.ok_or_else(|| absent(id))?;
    Ok(http::json(&wire::Snapshot::new(&found)))
}

fn absent(id: &PersistenceId) -> Problem {
    Problem::absent(format!("there is no such snapshot. id=`{id}`"))
}

/// `GET /v1/snapshots/{id}`: newest first. One that does not decode is reported in the traces and left
/// out; the others are useful without it.
pub(super) async fn list(call: Call) -> Answer {
    let (id, criteria) = (call.id()?, criteria(&call)?);
    let found = call.app.annals().await?.snapshots().find(&id, criteria);
    let readable = found.filter_map(|snapshot| {
        std::future::ready(match snapshot {
            Ok(snapshot) => Some(Ok(wire::line(&wire::Snapshot::new(&snapshot)))),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "a snapshot does not decode and is left out");
                None
            }
            Err(error) => Some(Err(error)),
        })
    });
    http::lines(readable).await
}

/// `DELETE /v1/snapshots/{id}`: all of them, or those within the bounds.
pub(super) async fn delete(call: Call) -> Answer {
    let (id, criteria) = (call.id()?, criteria(&call)?);
    remove(call.app, id, criteria).await
}

/// `DELETE /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn delete_at(call: Call) -> Answer {
    call.no_params()?;
    let (id, number) = call.position()?;
    remove(call.app, id, Criteria::at(number)).await
}

async fn remove(app: App, id: PersistenceId, criteria: Criteria) -> Answer {
    let writer = app.clone();
    let write = async move {
        let annals = writer.annals().await?;
        let snapshots = annals.snapshots();
        match snapshots.delete(&id, criteria).await? {
            0 => Err(absent(&id)),
            _ => Ok(http::json(&wire::Deleted::new(&id))),
        }
    };
    app.finish(write).await
}
