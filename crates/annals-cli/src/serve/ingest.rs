//! Bringing events into the log over HTTP: requests as events, and records, one or many.
//!
//! Promises: an event that was answered waits in the buffer, durably, and reaches its slot. A line
//! that is wrong is named and keeps no other out; a batch of which nothing came in, or of which it is
//! not known, is not answered as if it had.
//! Never: stores credentials or cookies of a request.

use std::sync::LazyLock;

use annals::log::{EventId, Ingested, Log, Record};
use annals::{Error, ErrorKind, Random};
use axum::Json as JsonBody;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, PRAGMA, REFERER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::response::IntoResponse;
use bytes::Bytes;
use serde_json::{Map, Value as Json, json};

use super::app::App;
use super::lines;
use super::problem::{Answer, Problem};
use super::request::{Params, media_body};
use crate::records::record;

/// One transparent pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
static RANDOM: LazyLock<Random> = LazyLock::new(Random::from_machine);

/// `GET /track.gif`: the request is the event, the answer one pixel that nobody keeps. Who asks for
/// the head alone shows no pixel to anybody, and is no event.
pub(super) async fn track(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    if method == Method::GET {
        keep_track(&app, &uri, &headers).await?;
    }
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

async fn keep_track(app: &App, uri: &Uri, headers: &HeaderMap) -> Answer<bool> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let query = pairs(uri);
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
    app.accept(write).await
}

/// The parameters as they came: a text for each name, and a list where a name is there again.
fn pairs(uri: &Uri) -> Json {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map(|pairs| pairs.0).unwrap_or_default();
    let mut members = Map::new();
    for (name, value) in pairs {
        let value = Json::from(value);
        match members.get_mut(&name) {
            None => {
                members.insert(name, value);
            }
            Some(Json::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Json::Object(members)
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
            true => ingest_lines(log, &source, &body).await,
            false => ingest_one(log, &source, &body).await,
        }
    };
    app.accept(write).await
}

async fn ingest_one(log: &Log, source: &str, body: &Bytes) -> Answer {
    let record = record(body, source, log.now())?;
    let is_new = stored(log.ingest_one(record).await)?;
    Report {
        stored: usize::from(is_new),
        present: usize::from(!is_new),
        problems: Vec::new(),
    }
    .answer()
}

async fn ingest_lines(log: &Log, source: &str, body: &Bytes) -> Answer {
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
    Report {
        stored: outcome.stored(),
        present: outcome.present(),
        problems,
    }
    .answer()
}

/// What became of the records.
struct Report {
    stored: usize,
    present: usize,
    /// By line.
    problems: Vec<(u64, Error)>,
}

impl Report {
    /// A batch of which some were refused is answered as done: the others are in. One that the store
    /// failed is to be sent again, whole: what is in is known again. One of which nothing is in is a
    /// mistake of the caller's.
    fn answer(self) -> Answer {
        let is_of = |kind| move |(_, error): &(u64, Error)| error.kind() == kind;
        let is_conflict = is_of(ErrorKind::Conflict);
        let theirs = |it: &&(u64, Error)| !is_conflict(it) && !is_of(ErrorKind::Invalid)(it);
        if let Some((_, failure)) = self.problems.iter().find(theirs) {
            let problem = Problem::from(failure.clone());
            return Err(self.told_with(problem));
        }
        if self.problems.is_empty() || self.stored + self.present > 0 {
            let members = self.members().into_iter();
            let object: Map<_, _> = members.map(|(k, v)| (k.to_owned(), v)).collect();
            return Ok(JsonBody(Json::Object(object)).into_response());
        }
        let detail = "no record was brought in; problems tells why, line by line";
        let problem = match self.problems.iter().all(is_conflict) {
            true => Problem::conflict(detail),
            false => Problem::invalid(detail),
        };
        Err(self.told_with(problem))
    }

    fn told_with(&self, problem: Problem) -> Problem {
        let members = self.members().into_iter();
        members.fold(problem, |problem, (name, value)| problem.with(name, value))
    }

    fn members(&self) -> [(&'static str, Json); 4] {
        let told = |(line, error): &(u64, Error)| {
            let kind = Problem::kind_of(error).name();
            json!({"line": line, "kind": kind, "detail": error.to_string()})
        };
        [
            ("stored", json!(self.stored)),
            ("present", json!(self.present)),
            ("refused", json!(self.problems.len())),
            ("problems", self.problems.iter().map(told).collect()),
        ]
    }
}
