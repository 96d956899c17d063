//! Durable state over HTTP: the value, with its revision as the entity tag.
//!
//! A write names its revision by the one it becomes (`?revision=N`, as at the command line) or by the
//! one it replaces (`If-Match: "N"`, the `ETag` of that value; `If-None-Match: *` for the first).

use annals::state::{Revision, StateError};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, IF_MATCH, IF_NONE_MATCH};

use super::http;
use super::http::{Call, Params, header, parse, tag_number};
use super::problem::{Answer, Kind, Problem};
use crate::wire::{self, Count};

/// `GET /v1/state/{id}`
pub(super) async fn get(call: Call) -> Answer {
    call.no_params()?;
    let id = call.id()?;
    let known = header(&call.parts.headers, &IF_NONE_MATCH)?;
    let last = call.app.annals().await?.states()?.last(&id).await?;
    let absent = |detail: String, revision: u64| {
        Problem::absent(detail).with(|it| it.revision = Some(Count(revision)))
    };
    let Some(state) = last else {
        return Err(absent(format!("there is no value. id=`{id}`"), 0));
    };
    let Some(value) = &state.value else {
        let detail = format!("the value is deleted. id=`{id}`");
        return Err(absent(detail, state.revision));
    };
    let tag = format!("\"{}\"", state.revision);
    let is_known = known.is_some_and(|known| {
        let mut tags = known.split(',').map(str::trim);
        tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
    });
    if is_known {
        let mut unchanged = http::bytes("application/json", Bytes::new());
        unchanged.headers_mut().remove(CONTENT_TYPE);
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(http::with_tag(state.revision, unchanged));
    }
    let body = wire::State::new(&state, value);
    Ok(http::tagged(state.revision, &body))
}

/// The revision that a write becomes, however it is named.
fn revision(headers: &HeaderMap, params: &Params<'_>) -> Answer<Option<Revision>> {
    let next = |number: u64| {
        let next = number.checked_add(1);
        next.ok_or_else(|| Problem::invalid("no revision can follow that one"))
    };
    let none_match = match header(headers, &IF_NONE_MATCH)? {
        None => None,
        Some("*") => Some(1),
        Some(_) => return Err(Problem::invalid("a write takes `If-None-Match: *` only")),
    };
    let replaced = tag_number(headers, &IF_MATCH)?.map(next).transpose()?;
    let given = [params.number("revision")?, replaced, none_match];
    let mut given = given.into_iter().flatten();
    let revision = given.next();
    if given.any(|other| Some(other) != revision) {
        return Err(Problem::conflict(
            "the revisions contradict each other; send one of revision, If-Match and If-None-Match",
        ));
    }
    Ok(revision)
}

/// `PUT /v1/state/{id}?revision=N`
pub(super) async fn put(call: Call) -> Answer {
    let id = call.id()?;
    let revision = revision(&call.parts.headers, &call.params(&["revision"])?)?;
    let revision = revision.ok_or_else(|| {
        Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            Kind::Invalid,
            "name the revision that this becomes: ?revision=N, `If-Match: \"N-1\"`, or `If-None-Match: *` for the first",
        )
    })?;
    let (app, _, body) = call.read_json().await?;
    let value = parse::<wire::NewState<'_>>(&body)?.value()?;
    let writer = app.clone();
    let write = async move {
        let annals = writer.annals().await?;
        let states = annals.states()?;
        let written = states.upsert(&id, revision, value).await;
        written.map_err(problem)?;
        let body = wire::Revision::new(&id, revision);
        Ok(http::tagged(revision, &body))
    };
    app.finish(write).await
}

/// `DELETE /v1/state/{id}`, as the next revision or as the named one.
pub(super) async fn delete(call: Call) -> Answer {
    let (id, params) = (call.id()?, call.params(&["revision"])?);
    let revision = revision(&call.parts.headers, &params)?;
    let writer = call.app.clone();
    let write = async move {
        let annals = writer.annals().await?;
        let states = annals.states()?;
        match states.delete(&id, revision).await.map_err(problem)? {
            true => Ok(http::json(&wire::Deleted::new(&id))),
            false => Err(Problem::absent(format!("there is no value. id=`{id}`"))),
        }
    };
    call.app.finish(write).await
}

/// A conflict has the revision that is stored.
fn problem(error: StateError) -> Problem {
    let found = match &error {
        StateError::Conflict { found, .. } => Some(Count(*found)),
        _ => None,
    };
    let problem = Problem::from(annals::Error::from(error));
    problem.with(|it| it.revision = found)
}
