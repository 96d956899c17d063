//! The journal over HTTP: append, replay, tail, highest, ids, delete.

use std::collections::BTreeMap;

use annals::journal::{Append, AppendError, Expected, Window};
use annals::{Codec, NewEvent, Payload, PersistenceId, SequenceNumber};
use axum::Json as JsonBody;
use axum::extract::{Request, State};
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::app::App;
use super::idempotency::Key;
use super::problem::{Answer, Problem};
use super::request::{
    Id, Params, header, json_body, parse, present, tag_number, whole, whole_or_none,
};
use super::response::{raw_json, tagged_json};
use super::{lines, sse, tail};
use crate::{payload, shown};

/// An event as it is sent: the members under which it is shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventBody<'a> {
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
    tags: Vec<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppendBody<'a> {
    #[serde(borrow)]
    events: Vec<EventBody<'a>>,
    #[serde(default, deserialize_with = "whole_or_none")]
    expect: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    causation: Option<String>,
    #[serde(default, deserialize_with = "present")]
    correlation: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    snapshot: Option<&'a RawValue>,
}

impl EventBody<'_> {
    fn event(self, place: usize) -> Answer<NewEvent> {
        let codec = codec_of(self.codec.as_deref(), self.payload.is_some());
        let (what, base64) = (
            format_args!("event {place}"),
            self.payload_base64.as_deref(),
        );
        let bytes = payload::from_shown(&codec, self.payload, base64, what)?;
        Ok(NewEvent {
            schema: self.schema,
            tags: self.tags,
            metadata: self.metadata,
            ..NewEvent::new(codec, bytes).manifest(self.manifest)
        })
    }
}

/// The codec that is named; else JSON for values, and bytes for base64.
pub(super) fn codec_of(name: Option<&str>, is_value: bool) -> Codec {
    match name {
        Some(name) => match name.parse() {
            Ok(codec) => codec,
            Err(never) => match never {},
        },
        None if is_value => Codec::Json,
        None => Codec::Bytes,
    }
}

/// What is to be appended, by what was sent.
struct Sent {
    expected: Expected,
    key: Option<Key>,
    append: Append,
}

impl Sent {
    fn of(headers: &HeaderMap, id: &PersistenceId, body: &[u8]) -> Answer<Self> {
        let sent: AppendBody<'_> = parse(body)?;
        let expected = expected(headers, sent.expect)?;
        let events = sent.events.into_iter().zip(1..);
        let events = events.map(|(event, place)| event.event(place));
        let append = Append {
            events: events.collect::<Answer<_>>()?,
            causation: sent.causation,
            correlation: sent.correlation,
            snapshot: sent
                .snapshot
                .map(|state| Payload::new(Codec::Json, state.get().to_owned())),
            token: None,
            idempotency_key: None,
        };
        Ok(Self {
            expected,
            key: Key::of(headers, id, expected, body)?,
            append,
        })
    }
}

/// `POST /v1/journal/{id}/events`
pub(super) async fn append(State(app): State<App>, Id(id): Id, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    Params::of(&parts.uri, &[])?;
    let body = json_body(&parts.headers, body, app.limits()).await?;
    let sent = Sent::of(&parts.headers, &id, &body);
    // The connection reads into the same memory again, once nobody holds it.
    drop((parts, body));
    let Sent {
        expected,
        key,
        append,
    } = sent?;
    let writer = app.clone();
    let write = async move {
        let journal = writer.annals().await?.journal();
        let _turn = match expected {
            Expected::Any => writer.turns().take(&id).await,
            _ => None,
        };
        let appended = match key {
            // Of its own, so that appends without a key do not carry the room for it.
            Some(key) => Box::pin(key.append(journal, &id, append)).await,
            None => journal.append(&id, expected, append).await,
        };
        let appended = appended.map_err(|error| problem_of(error, expected))?;
        writer.tails().tell(&id);
        let mut response = tagged_json(appended.last, shown::appended(&id, &appended));
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    };
    app.accept(write).await
}

/// What is expected to be last: by `If-Match`, `If-None-Match: *` or the member `expect`.
fn expected(headers: &HeaderMap, expect: Option<u64>) -> Answer<Expected> {
    let none_match = match header(headers, &IF_NONE_MATCH)? {
        None => None,
        Some("*") => Some(0),
        Some(_) => {
            return Err(Problem::invalid(
                "an append takes `If-None-Match: *`, for an id that has no events yet",
            ));
        }
    };
    let given = [tag_number(headers, &IF_MATCH)?, none_match, expect];
    let mut given = given.into_iter().flatten();
    let number = given.next();
    if given.any(|other| Some(other) != number) {
        return Err(Problem::conflict(
            "the expectations contradict each other, so not all of them can hold; say one of If-Match, If-None-Match and expect",
        ));
    }
    Ok(match number {
        None => Expected::Any,
        Some(0) => Expected::Empty,
        Some(number) => Expected::Last(SequenceNumber::new(number).ok_or_else(|| {
            Problem::invalid(format!("no event has such a number. expect=`{number}`"))
        })?),
    })
}

/// A conflict tells what was appended since, as far as it is known.
fn problem_of(error: AppendError, expected: Expected) -> Problem {
    let found = match &error {
        // Whoever expects nothing cannot be wrong; it only was too slow.
        AppendError::Conflict(conflict) if expected == Expected::Any => {
            return Problem::unavailable(format!(
                "others keep being quicker to append; nothing was appended, try again. id=`{}`",
                conflict.id
            ));
        }
        AppendError::Conflict(conflict) => {
            let found: Vec<String> = conflict.found.iter().map(shown::event).collect();
            Some(format!("[{}]", found.join(",")))
        }
        _ => None,
    };
    let problem = Problem::from(annals::Error::from(error));
    match found {
        Some(found) => problem.with_raw("found", found),
        None => problem,
    }
}

/// `GET /v1/journal/{id}/events`: a replay as JSON lines, or a tail as server-sent events.
pub(super) async fn events(
    State(app): State<App>,
    Id(id): Id,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let params = Params::of(&uri, &["from", "to", "max"])?;
    let from = params.number("from")?.unwrap_or(SequenceNumber::FIRST);
    let (to, max) = (params.number("to")?, params.number("max")?);
    let last: Option<SequenceNumber> = sse::last_id(&headers)?;
    if sse::are_wanted(&headers) {
        if to.is_some() || max.is_some() {
            return Err(Problem::invalid(
                "a tail has no end; leave out to and max, or ask for application/x-ndjson",
            ));
        }
        let from = last.map_or(Some(from), SequenceNumber::next);
        let from = from.ok_or_else(|| Problem::invalid("no event can follow that one"))?;
        if let Some(last) = last {
            check_is_there(&app, &id, last).await?;
        }
        let journal = app.annals().await?.journal();
        return Ok(sse::answer(tail::tail(&app, journal, id, from)));
    }
    let window = Window {
        from,
        to: to.unwrap_or(SequenceNumber::LAST),
        max: max.unwrap_or(u64::MAX),
        ..Window::ALL
    };
    let journal = app.annals().await?.journal();
    let events = journal.replay(&id, window).map_ok(|it| shown::event(&it));
    if let Some(answer) = lines::answer(events).await? {
        return Ok(answer);
    }
    // Nothing in the window of an id that is there is an answer; an id that is not, is not.
    match journal.highest(&id).await? {
        Some(_) => Ok(lines::none()),
        None => Err(no_events(&id)),
    }
}

fn no_events(id: &PersistenceId) -> Problem {
    Problem::absent(format!("there are no events. id=`{id}`"))
}

/// That an event which a caller had received is one of the id's still: where the last number is
/// before it, the id was purged, and what came since would be missed.
async fn check_is_there(app: &App, id: &PersistenceId, last: SequenceNumber) -> Answer<()> {
    let highest = app.annals().await?.journal().highest(id).await?;
    match highest.is_some_and(|highest| highest >= last) {
        true => Ok(()),
        false => Err(Problem::conflict(format!(
            "the id has no such number any more, so it was purged and begins anew; follow it from the beginning, without Last-Event-ID. id=`{id}`, Last-Event-ID=`{last}`"
        ))),
    }
}

/// `GET /v1/journal/{id}/highest`
pub(super) async fn highest(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let highest = app.annals().await?.journal().highest(&id).await?;
    let highest = highest.ok_or_else(|| no_events(&id))?;
    Ok(tagged_json(highest, shown::place(&id, highest).to_string()))
}

/// `DELETE /v1/journal/{id}/events?to=N`
pub(super) async fn delete(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["to"])?;
    let to: Option<SequenceNumber> = params.number("to")?;
    let to = to.ok_or_else(|| Problem::invalid("say up to which number: ?to=N"))?;
    let writer = app.clone();
    let write = async move {
        writer.annals().await?.journal().delete_to(&id, to).await?;
        Ok(JsonBody(shown::deleted_to(&id, to)).into_response())
    };
    app.accept(write).await
}

/// `DELETE /v1/journal/{id}`
pub(super) async fn purge(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    let write = async move {
        let purged = writer.annals().await?.journal().purge(&id).await;
        // One that failed may have taken some of it.
        writer.tails().tell_purge(&id);
        purged?;
        Ok(JsonBody(shown::purged(&id)).into_response())
    };
    app.accept(write).await
}

/// `GET /v1/journal/{id}/snapshot`: the one that rides in the last append.
pub(super) async fn riding(State(app): State<App>, Id(id): Id, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let found = app.annals().await?.journal().last_snapshot(&id).await?;
    let found = found.ok_or_else(|| {
        Problem::absent(format!("no snapshot rides in the last append. id=`{id}`"))
    })?;
    Ok(raw_json(shown::snapshot(&found)))
}

/// `GET /v1/journal`: in no order as they come, or, page by page, in order.
pub(super) async fn ids(State(app): State<App>, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["prefix", "after", "limit"])?;
    let prefix = params.text("prefix").unwrap_or_default().to_owned();
    let after: Option<PersistenceId> = params.text("after").map(str::parse).transpose()?;
    let limit: Option<u64> = params.number("limit")?;
    let journal = app.annals().await?.journal();
    let ids = match (&after, limit) {
        (None, None) => journal.persistence_ids(&prefix),
        (after, limit) => {
            let ids = journal.persistence_ids_after(after.as_ref());
            let ids =
                ids.try_filter(move |id| std::future::ready(id.as_str().starts_with(&prefix)));
            let limit = limit.and_then(|limit| usize::try_from(limit).ok());
            ids.take(limit.unwrap_or(usize::MAX)).boxed()
        }
    };
    let ids = ids.map_ok(|id| shown::id(&id).to_string());
    Ok(lines::answer(ids).await?.unwrap_or_else(lines::none))
}
