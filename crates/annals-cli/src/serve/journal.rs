//! The journal over HTTP: append, replay, tail, highest, ids, delete.

use annals::journal::{Append, Appended, Expected, Window};
use annals::{Annals, Event, IdStream, PersistenceId, SequenceNumber};
use futures::{StreamExt, TryStreamExt};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};

use super::app::App;
use super::http::{Call, Records, header, parse, tag_number};
use super::problem::{Answer, Problem};
use super::{http, id_view, sse, tail};
use crate::bulk::problem;
use crate::wire;

/// The header with the idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The append in a request.
fn append_in(headers: &HeaderMap, body: &[u8]) -> Answer<(Expected, Append)> {
    let sent: wire::Append<'_> = parse(body)?;
    let expected = expected(headers, sent.expect)?;
    let key = header(headers, &IDEMPOTENCY_KEY)?.map(str::parse);
    let mut append = sent.append()?;
    append.idempotency_key = key.transpose()?;
    Ok((expected, append))
}

/// Appends, after the other appends of this server to the same id that state no expectation, and
/// wakes the tails.
pub(super) async fn append_to(
    app: &App,
    annals: &Annals,
    id: &PersistenceId,
    (expected, append): (Expected, Append),
) -> Answer<Appended> {
    let _turn = match expected {
        Expected::Any => app.append_queue().turn(id).await,
        _ => None,
    };
    let purges = app.purges();
    let appended = annals.journal().append(id, expected, append).await;
    if app.purges() != purges {
        app.forget_ids();
    }
    let appended = appended.map_err(|error| problem(error, expected))?;
    app.tails().notify(id);
    Ok(appended)
}

/// `POST /v1/journal/{id}/events`
pub(super) async fn append(call: Call) -> Answer {
    call.no_params()?;
    let id = call.id()?;
    let (app, parts, body) = call.read_json().await?;
    let sent = append_in(&parts.headers, &body);
    // The connection reads into the same memory again, once it is free.
    drop((parts, body));
    let (expected, append) = sent?;
    let writer = app.clone();
    let write = async move {
        let annals = writer.annals().await?;
        let appended = append_to(&writer, &annals, &id, (expected, append)).await?;
        let body = wire::Appended::new(&id, &appended);
        let mut response = http::tagged(appended.last, &body);
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    };
    app.finish(write).await
}

/// The expected last event, by `If-Match`, `If-None-Match: *` or the member `expect`.
fn expected(headers: &HeaderMap, expect: Option<u64>) -> Answer<Expected> {
    let none_match = match header(headers, &IF_NONE_MATCH)? {
        None => None,
        Some("*") => Some(0),
        Some(_) => {
            return Err(Problem::invalid(
                "an append takes `If-None-Match: *`, for an id without events",
            ));
        }
    };
    let given = [tag_number(headers, &IF_MATCH)?, none_match, expect];
    let mut given = given.into_iter().flatten();
    let number = given.next();
    if given.any(|other| Some(other) != number) {
        return Err(Problem::conflict(
            "the expectations contradict each other; send one of If-Match, If-None-Match and expect",
        ));
    }
    Ok(wire::expected(number)?)
}

const EVENT_LINES: Records<Event> = Records {
    media: http::LINES,
    push: wire::push_line,
};
const CBOR_EVENTS: Records<Event> = Records {
    media: http::CBOR_SEQUENCE,
    push: wire::push_cbor,
};

/// `GET /v1/journal/{id}/events`: a replay as JSON lines or CBOR, or a tail as server-sent events.
pub(super) async fn events(call: Call) -> Answer {
    let (id, params) = (call.id()?, call.params(&["from", "to", "max"])?);
    let from = params.number("from")?.unwrap_or(SequenceNumber::FIRST);
    let (to, max) = (params.number("to")?, params.number("max")?);
    let last: Option<SequenceNumber> = sse::last_id(&call.parts.headers)?;
    let app = &call.app;
    if sse::are_wanted(&call.parts.headers) {
        if to.is_some() || max.is_some() {
            return Err(Problem::invalid(
                "a tail has no end; leave out to and max, or ask for application/x-ndjson",
            ));
        }
        let from = last.map_or(Some(from), SequenceNumber::next);
        let from = from.ok_or_else(|| Problem::invalid("no event can follow that one"))?;
        if let Some(last) = last {
            check_exists(app, &id, last).await?;
        }
        let annals = app.annals().await?;
        return Ok(sse::response(tail::tail(app, annals.journal(), id, from)));
    }
    let window = Window::from(from)
        .to(to.unwrap_or(SequenceNumber::LAST))
        .limit(max.unwrap_or(u64::MAX));
    let annals = app.annals().await?;
    let journal = annals.journal();
    let records = match http::accepts(&call.parts.headers, http::CBOR_SEQUENCE) {
        true => CBOR_EVENTS,
        false => EVENT_LINES,
    };
    if let Some(response) = records.response(journal.replay(&id, window)).await? {
        return Ok(response);
    }
    // An empty window of an id with events is a response; an id without events is absent.
    match journal.highest(&id).await? {
        Some(_) => Ok(records.none()),
        None => Err(no_events(&id)),
    }
}

fn no_events(id: &PersistenceId) -> Problem {
    Problem::absent(format!("there are no events. id=`{id}`"))
}

/// That an event which a client has received still exists: otherwise the id was purged, and the
/// client would miss what came since.
async fn check_exists(app: &App, id: &PersistenceId, last: SequenceNumber) -> Answer<()> {
    let highest = app.annals().await?.journal().highest(id).await?;
    match highest.is_some_and(|highest| highest >= last) {
        true => Ok(()),
        false => Err(Problem::conflict(format!(
            "the id was purged and its numbering restarted at 1; follow it from the beginning, without Last-Event-ID. id=`{id}`, Last-Event-ID=`{last}`"
        ))),
    }
}

/// `GET /v1/journal/{id}/highest`
pub(super) async fn highest(call: Call) -> Answer {
    call.no_params()?;
    let id = call.id()?;
    let highest = call.app.annals().await?.journal().highest(&id).await?;
    let highest = highest.ok_or_else(|| no_events(&id))?;
    Ok(http::tagged(highest, &wire::Position::new(&id, highest)))
}

/// `DELETE /v1/journal/{id}/events?to=N`
pub(super) async fn delete(call: Call) -> Answer {
    let id = call.id()?;
    let to: Option<SequenceNumber> = call.params(&["to"])?.number("to")?;
    let to = to.ok_or_else(|| Problem::invalid("set the last number to delete: ?to=N"))?;
    let writer = call.app.clone();
    let write = async move {
        let deleted = writer.annals().await?.journal().delete_to(&id, to).await?;
        let deleted = deleted.ok_or_else(|| no_events(&id))?;
        Ok(http::json(&wire::DeletedTo::new(&id, deleted)))
    };
    call.app.finish(write).await
}

/// `DELETE /v1/journal/{id}`
pub(super) async fn purge(call: Call) -> Answer {
    call.no_params()?;
    let (id, writer) = (call.id()?, call.app.clone());
    let write = async move {
        // After the appends that this server has begun.
        let _turn = writer.append_queue().turn(&id).await;
        let purged = writer.annals().await?.purge(&id).await;
        writer.forget_ids();
        // One that failed may have removed some of it.
        writer.tails().notify_purge(&id);
        let purged = purged?;
        match purged.is_empty() {
            true => Err(no_events(&id)),
            false => Ok(http::json(&wire::Purged::new(&id, purged.snapshots))),
        }
    };
    call.app.finish(write).await
}

/// `GET /v1/journal/{id}/snapshot`: the one stored with the last append.
pub(super) async fn last_snapshot(call: Call) -> Answer {
    call.no_params()?;
    let id = call.id()?;
    let found = call
        .app
        .annals()
        .await?
        .journal()
        .last_snapshot(&id)
        .await?;
    let found = found
        .ok_or_else(|| Problem::absent(format!("the last append has no snapshot. id=`{id}`")))?;
    Ok(http::json(&wire::Snapshot::new(&found)))
}

/// `GET /v1/journal`: all ids, or a page of them. By the built-in view, where the store has a feed;
/// otherwise by a scan.
pub(super) async fn ids(call: Call) -> Answer {
    let params = call.params(&["prefix", "after", "limit"])?;
    let prefix = params.text("prefix").unwrap_or_default().to_owned();
    let after: Option<PersistenceId> = params.parsed("after")?;
    let limit: Option<u64> = params.number("limit")?;
    let to_line = |id: PersistenceId| wire::line(&wire::Id::new(&id));
    if let Some(view) = id_view::current(&call.app).await? {
        let ids = view.list(&prefix, after.as_ref(), limit);
        return http::lines(ids.map_ok(to_line)).await;
    }
    let annals = call.app.annals().await?;
    let journal = annals.journal();
    let ids = match (&after, limit) {
        (None, None) => journal.persistence_ids(&prefix),
        (after, limit) => {
            let ids = journal.persistence_ids_after(after.as_ref());
            let ids =
                ids.try_filter(move |id| std::future::ready(id.as_str().starts_with(&prefix)));
            let limit = limit.and_then(|limit| usize::try_from(limit).ok());
            IdStream::new(ids.take(limit.unwrap_or(usize::MAX)))
        }
    };
    http::lines(ids.map_ok(to_line)).await
}
