//! Snapshots over HTTP: save, load, list, delete.

use annals::snapshot::{Criteria, Snapshot};
use annals::{ErrorKind, Payload, PersistenceId};
use axum::Json as JsonBody;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::IntoResponse;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::app::App;
use super::journal::codec_of;
use super::lines;
use super::problem::{Answer, Problem};
use super::request::{Id, Numbered, Params, json_body, parse, present, whole};
use super::response::raw_json;
use crate::{payload, shown};

const BOUNDS: [&str; 4] = ["min_seq", "max_seq", "min_time", "max_time"];

/// A state as it is sent: the members under which it is shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotBody<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    payload_base64: Option<String>,
    #[serde(default, deserialize_with = "present")]
    codec: Option<String>,
    #[serde(default)]
    manifest: String,
    #[serde(default, deserialize_with = "whole")]
    schema: u32,
}

impl SnapshotBody<'_> {
    fn state(self) -> Answer<Payload> {
        let codec = codec_of(self.codec.as_deref(), self.payload.is_some());
        let base64 = self.payload_base64.as_deref();
        let bytes = payload::from_shown(&codec, self.payload, base64, "the state")?;
        let state = Payload::new(codec, bytes).manifest(self.manifest);
        Ok(state.schema(self.schema))
    }
}

fn criteria(params: &Params) -> Answer<Criteria> {
    let all = Criteria::ALL;
    Ok(Criteria {
        min_number: params.number("min_seq")?.unwrap_or(all.min_number),
        max_number: params.number("max_seq")?.unwrap_or(all.max_number),
        min_time_ms: params.time("min_time")?.unwrap_or(all.min_time_ms),
        max_time_ms: params.time("max_time")?.unwrap_or(all.max_time_ms),
    })
}

/// `PUT /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn save(
    State(app): State<App>,
    Numbered(id, at): Numbered,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    Params::of(&parts.uri, &[])?;
    let body = json_body(&parts.headers, body, app.limits()).await?;
    let state = parse::<SnapshotBody<'_>>(&body)?.state()?;
    let writer = app.clone();
    let write = async move {
        writer
            .annals()
            .await?
            .snapshots()
            .save(&id, at, state)
            .await?;
        Ok(JsonBody(shown::place(&id, at)).into_response())
    };
    app.accept(write).await
}

/// `GET /v1/snapshots/{id}/latest`
pub(super) async fn latest(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    let criteria = criteria(&Params::of(&uri, &BOUNDS)?)?;
    load(&app, &id, criteria).await
}

/// `GET /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn at(State(app): State<App>, Numbered(id, number): Numbered, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    load(&app, &id, Criteria::at(number)).await
}

async fn load(app: &App, id: &PersistenceId, criteria: Criteria) -> Answer {
    let found = app.annals().await?.snapshots().load(id, criteria).await?;
    let absent = || Problem::absent(format!("there is no such snapshot. id=`{id}`"));
    let found: Snapshot = found.ok_or_else(absent)?;
    Ok(raw_json(shown::snapshot(&found)))
}

/// `GET /v1/snapshots/{id}`: newest first; one that does not decode is told in the traces and
/// passed over, as the others are of use without it.
pub(super) async fn list(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    let criteria = criteria(&Params::of(&uri, &BOUNDS)?)?;
    let found = app.annals().await?.snapshots().find(&id, criteria);
    let readable = found.filter_map(|snapshot| {
        std::future::ready(match snapshot {
            Ok(snapshot) => Some(Ok(shown::snapshot(&snapshot))),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "a snapshot does not decode and is passed over");
                None
            }
            Err(error) => Some(Err(error)),
        })
    });
    Ok(lines::answer(readable).await?.unwrap_or_else(lines::none))
}

/// `DELETE /v1/snapshots/{id}`: all of them, or those within the bounds.
pub(super) async fn delete(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    let criteria = criteria(&Params::of(&uri, &BOUNDS)?)?;
    remove(app, id, criteria).await
}

/// `DELETE /v1/snapshots/{id}/{sequence_number}`
pub(super) async fn delete_at(
    State(app): State<App>,
    Numbered(id, number): Numbered,
    uri: Uri,
) -> Answer {
    Params::of(&uri, &[])?;
    remove(app, id, Criteria::at(number)).await
}

async fn remove(app: App, id: PersistenceId, criteria: Criteria) -> Answer {
    let writer = app.clone();
    let write = async move {
        writer
            .annals()
            .await?
            .snapshots()
            .delete(&id, criteria)
            .await?;
        Ok(JsonBody(shown::deleted(&id)).into_response())
    };
    app.accept(write).await
}
