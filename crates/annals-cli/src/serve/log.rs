//! The time-ordered log over HTTP: requests and records as events, how far it is, and playback.
//!
//! Promises: an event that was answered waits in the buffer, durably, and reaches its slot. A line
//! that is wrong is named and keeps no other out.
//! Never: stores credentials or cookies of a request.

use std::sync::LazyLock;

use annals::log::{EventId, Ingested, Log, Playback, Record, Span, Time};
use annals::{Error, Random};
use axum::Json as JsonBody;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, PRAGMA, REFERER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value as Json, json};

use super::app::App;
use super::problem::{Answer, Problem};
use super::request::{Name, Params, media_body};
use super::{lines, sse};
use crate::records::record;
use crate::shown;

/// One transparent pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
static RANDOM: LazyLock<Random> = LazyLock::new(Random::from_machine);

/// `GET /track.gif`: the request is the event, the answer one pixel that nobody keeps.
pub(super) async fn track(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Answer {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let query = url_pairs(&uri);
    let payload = json!({
        "path": uri.path(),
        "query": query,
        "user_agent": text(&USER_AGENT),
        "referer": text(&REFERER),
    });
    let writer = app.clone();
    let write = async move {
        let log = writer.log().await?;
        let id = format!("{:016x}{:016x}", RANDOM.bits(), RANDOM.bits());
        let record = Record::json("track", id.parse::<EventId>()?, log.now(), &payload);
        stored(log.ingest_one(record).await)
    };
    app.accept(write).await?;
    let never_kept = [
        (CONTENT_TYPE, "image/gif"),
        (
            CACHE_CONTROL,
            "no-store, no-cache, must-revalidate, private",
        ),
        (PRAGMA, "no-cache"),
        (EXPIRES, "0"),
    ];
    Ok((never_kept, PIXEL).into_response())
}

/// The parameters as they came, each name with its last value.
fn url_pairs(uri: &Uri) -> Json {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map(|pairs| pairs.0).unwrap_or_default();
    Json::Object(pairs.into_iter().map(|(k, v)| (k, Json::from(v))).collect())
}

fn stored(ingested: Ingested) -> Answer<bool> {
    match ingested {
        Ingested::Stored => Ok(true),
        Ingested::Present => Ok(false),
        Ingested::Conflict(error) | Ingested::Rejected(error) | Ingested::Unknown(error) => {
            Err(error.into())
        }
    }
}

/// `POST /events`: one record as JSON, or many as JSON lines.
pub(super) async fn ingest(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let params = Params::of(&uri, &["source"])?;
    let source = params.text("source").unwrap_or("http").to_owned();
    let media = ["application/json", lines::LINES];
    let (media, body) = media_body(&headers, body, &media, app.limits()).await?;
    let writer = app.clone();
    let write = async move {
        let log = writer.log().await?;
        match media == lines::LINES {
            true => Ok(ingest_lines(log, &source, &body).await),
            false => ingest_one(log, &source, &body).await,
        }
    };
    app.accept(write).await
}

async fn ingest_one(log: &Log, source: &str, body: &Bytes) -> Answer {
    let record = record(body, source, log.now())?;
    let is_new = stored(log.ingest_one(record).await)?;
    Ok(report(usize::from(is_new), usize::from(!is_new), &[]))
}

async fn ingest_lines(log: &Log, source: &str, body: &Bytes) -> Response {
    let (mut places, mut records, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (line, number) in body.split(|byte| *byte == b'\n').zip(1u64..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match record(line, source, log.now()) {
            Ok(record) => {
                places.push(number);
                records.push(record);
            }
            Err(error) => problems.push((number, error)),
        }
    }
    let outcome = log.ingest(records).await;
    let refused = outcome.problems().filter_map(|(at, error)| {
        let number = places.get(at)?;
        Some((*number, error.clone()))
    });
    problems.extend(refused);
    problems.sort_by_key(|(number, _)| *number);
    report(outcome.stored(), outcome.present(), &problems)
}

/// What became of the records. A batch of which some were refused is answered as done: the others
/// are in.
fn report(stored: usize, present: usize, problems: &[(u64, Error)]) -> Response {
    let told = |(line, error): &(u64, Error)| {
        let problem = Problem::from(error.clone());
        json!({"line": line, "kind": problem.kind().name(), "detail": error.to_string()})
    };
    let problems: Vec<Json> = problems.iter().map(told).collect();
    let refused = problems.len();
    let object = json!({
        "stored": stored,
        "present": present,
        "refused": refused,
        "problems": problems,
    });
    JsonBody(object).into_response()
}

/// `GET /v1/log`: what the log holds, and how far it is.
pub(super) async fn stats(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let log = app.log().await?;
    let stats = log.stats().await?;
    Ok(JsonBody(shown::log_stats(log, &stats)).into_response())
}

/// `POST /v1/log/sweep`: moves what waits in the buffer into slots, now.
pub(super) async fn sweep(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    let write = async move {
        let report = writer.log().await?.sweep().await;
        match report.failure.clone() {
            Some(failure) => Err(failure.into()),
            None => Ok(JsonBody(shown::sweep(&report)).into_response()),
        }
    };
    app.accept(write).await
}

/// `GET /v1/log/aside`: the records that could not become events, whole, with the reason.
pub(super) async fn aside(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let records = app.log().await?.set_aside();
    let lines = records.map_ok(|aside| shown::aside(&aside).to_string());
    let answer = lines::answer(Box::pin(lines)).await?;
    Ok(answer.unwrap_or_else(lines::none))
}

/// `DELETE /v1/log/aside/{name}`: forgets one of them, for good.
pub(super) async fn forget(State(app): State<App>, Name(name): Name, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    let write = async move {
        writer.log().await?.forget_aside(&name).await?;
        Ok(JsonBody(json!({"name": name})).into_response())
    };
    app.accept(write).await
}

/// `GET /v1/log/events`: a span of time, as JSON lines or as server-sent events.
pub(super) async fn playback(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Answer {
    let params = Params::of(&uri, &["start", "end", "speed", "follow"])?;
    let start = params.text("start").ok_or_else(|| {
        Problem::invalid("where to begin: say start, in milliseconds since 1970 or RFC 3339")
    })?;
    let mut playback = Playback::since(start.parse::<Time>()?);
    playback.end = params.text("end").map(str::parse).transpose()?;
    let speed = params.text("speed").map(str::parse).transpose()?;
    playback.speed = speed.unwrap_or_default();
    if let Some(end) = playback.end {
        Span::new(playback.start, end)?;
    }
    playback.after = sse::last_id(&headers)?;
    let follows = match params.text("follow") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("follow is true or false")),
    };
    let log = app.log().await?;
    let events = match follows {
        true => log.follow(playback),
        false => log.playback(playback),
    };
    let closing = app.closing().clone().cancelled_owned();
    let events = events.take_until(Box::pin(closing));
    if !sse::are_wanted(&headers) {
        let lines = events.map_ok(|event| shown::log_event(&event).to_string());
        let lines = Box::pin(lines);
        return match follows {
            true => Ok(lines::at_once(lines)),
            false => Ok(lines::answer(lines).await?.unwrap_or_else(lines::none)),
        };
    }
    let frames = events.map_ok(|event| {
        let (place, line) = (event.place(), shown::log_event(&event));
        sse::frame(place, line)
    });
    Ok(sse::answer(frames))
}
