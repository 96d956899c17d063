//! Durable state over HTTP: the value with its revision as the entity tag.
//!
//! A revision is said as what the write becomes (`?revision=N`, as at the command line), or as
//! what it replaces (`If-Match: "N"`, with the `ETag` that came with the value; `If-None-Match: *`
//! for the first).

use annals::Payload;
use annals::state::{NewState, Revision, StateError};
use axum::Json as JsonBody;
use axum::extract::{Request, State};
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::app::App;
use super::journal::codec_of;
use super::problem::{Answer, Kind, Problem};
use super::request::{Id, Params, header, json_body, parse, present, tag_number, whole};
use super::response::raw_json;
use crate::{payload, shown};

/// A value as it is sent: the members under which it is shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateBody<'a> {
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
    #[serde(default)]
    tag: String,
}

impl StateBody<'_> {
    fn value(self) -> Answer<NewState> {
        let codec = codec_of(self.codec.as_deref(), self.payload.is_some());
        let base64 = self.payload_base64.as_deref();
        let bytes = payload::from_shown(&codec, self.payload, base64, "the value")?;
        let value = Payload::new(codec, bytes).manifest(self.manifest);
        Ok(NewState::from(value.schema(self.schema)).tag(self.tag))
    }
}

/// `GET /v1/state/{id}`
pub(super) async fn get(
    State(app): State<App>,
    Id(id): Id,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    Params::of(&uri, &[])?;
    let known = header(&headers, &IF_NONE_MATCH)?;
    let last = app.annals().await?.states()?.last(&id).await?;
    let Some(state) = last else {
        let none = format!("there is no value. id=`{id}`");
        return Err(Problem::absent(none).with("revision", 0));
    };
    let tag = format!("\"{}\"", state.revision);
    let Some(value) = &state.value else {
        let detail = format!("the value is deleted. id=`{id}`");
        return Err(Problem::absent(detail).with("revision", state.revision));
    };
    let is_known = known.is_some_and(|known| {
        let mut tags = known.split(',').map(str::trim);
        tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
    });
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    Ok(([(ETAG, tag)], raw_json(shown::state(&state, value))).into_response())
}

/// The revision that a write becomes, by any of the ways to say it.
fn revision(headers: &HeaderMap, params: &Params) -> Answer<Option<Revision>> {
    let behind = |number: u64| {
        let next = number.checked_add(1);
        next.ok_or_else(|| Problem::invalid("no revision can follow that one"))
    };
    let none_match = match header(headers, &IF_NONE_MATCH)? {
        None => None,
        Some("*") => Some(1),
        Some(_) => return Err(Problem::invalid("a write takes `If-None-Match: *` only")),
    };
    let replaced = tag_number(headers, &IF_MATCH)?.map(behind).transpose()?;
    let given = [params.number("revision")?, replaced, none_match];
    let mut given = given.into_iter().flatten();
    let revision = given.next();
    if given.any(|other| Some(other) != revision) {
        return Err(Problem::conflict(
            "the revisions contradict each other, so not all of them can hold; say one of revision, If-Match and If-None-Match",
        ));
    }
    Ok(revision)
}

/// `PUT /v1/state/{id}?revision=N`
pub(super) async fn put(State(app): State<App>, Id(id): Id, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let params = Params::of(&parts.uri, &["revision"])?;
    let revision = revision(&parts.headers, &params)?.ok_or_else(|| {
        Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            Kind::Invalid,
            "say which revision this becomes: ?revision=N, `If-Match: \"N-1\"`, or `If-None-Match: *` for the first",
        )
    })?;
    let body = json_body(&parts.headers, body, app.limits()).await?;
    let value = parse::<StateBody<'_>>(&body)?.value()?;
    let writer = app.clone();
    let write = async move {
        let states = writer.annals().await?.states()?;
        let written = states.upsert(&id, revision, value).await;
        written.map_err(problem_of)?;
        let tag = [(ETAG, format!("\"{revision}\""))];
        Ok((tag, JsonBody(shown::revision(&id, revision))).into_response())
    };
    app.accept(write).await
}

/// `DELETE /v1/state/{id}`, as the next revision, or as the one that is said.
pub(super) async fn delete(
    State(app): State<App>,
    Id(id): Id,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let params = Params::of(&uri, &["revision"])?;
    let revision = revision(&headers, &params)?;
    let writer = app.clone();
    let write = async move {
        let states = writer.annals().await?.states()?;
        states.delete(&id, revision).await.map_err(problem_of)?;
        Ok(JsonBody(shown::deleted(&id)).into_response())
    };
    app.accept(write).await
}

/// A conflict tells the revision that is there.
fn problem_of(error: StateError) -> Problem {
    let found = match &error {
        StateError::Conflict { found, .. } => Some(*found),
        _ => None,
    };
    let problem = Problem::from(annals::Error::from(error));
    match found {
        Some(found) => problem.with("revision", found),
        None => problem,
    }
}
