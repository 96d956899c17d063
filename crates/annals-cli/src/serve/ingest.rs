//! Records for the log over HTTP: requests as events, and records, one or many.
//!
//! Promises: an event that was acknowledged is in the buffer, durably, and reaches its slot. A wrong
//! line is named and keeps no other out; a batch of which nothing is stored, or nobody knows, is not
//! a success.
//! Never: stores credentials or cookies of a request.

use std::sync::LazyLock;

use annals::log::{EventId, Ingested, Log, Record};
use annals::{Error, ErrorKind, Random};
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, EXPIRES, HeaderName, HeaderValue, PRAGMA, REFERER, USER_AGENT};
use hyper::{Method, Uri};
use serde_json::{Map, Value as Json, json};

use super::http::Call;
use super::http::{self, LINES};
use super::problem::{Answer, Kind, Problem};
use crate::records::record;
use crate::wire::{self, Count};

/// One transparent pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
static RANDOM: LazyLock<Random> = LazyLock::new(Random::from_machine);

/// `GET /track.gif`: the request becomes an event, the response is one pixel that is never cached.
/// `HEAD` shows no pixel to anybody, and becomes none.
pub(super) async fn track(call: Call) -> Answer {
    if call.parts.method == Method::GET {
        store_request(&call).await?;
    }
    let mut response = http::bytes("image/gif", PIXEL);
    let headers = response.headers_mut();
    for (name, value) in [
        (
            CACHE_CONTROL,
            "no-store, no-cache, must-revalidate, private",
        ),
        (PRAGMA, "no-cache"),
        (EXPIRES, "0"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

async fn store_request(call: &Call) -> Answer<bool> {
    let (uri, headers) = (&call.parts.uri, &call.parts.headers);
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let payload = json!({
        "path": uri.path(),
        "query": pairs(uri),
        "user_agent": text(&USER_AGENT),
        "referer": text(&REFERER),
    });
    let writer = call.app.clone();
    let write = async move {
        let log = writer.log().await?;
        let id = format!("{:016x}{:016x}", RANDOM.bits(), RANDOM.bits());
        let record = Record::json("track", id.parse::<EventId>()?, log.now(), &payload);
        stored(log.ingest_one(record).await)
    };
    call.app.finish(write).await
}

/// The query parameters: a text for each name, or a list where a name is repeated.
fn pairs(uri: &Uri) -> Json {
    let mut members = Map::new();
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let value = Json::from(value);
        match members.get_mut(&*name) {
            None => {
                members.insert(name.into_owned(), value);
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
pub(super) async fn ingest(call: Call) -> Answer {
    let source = call.params(&["source"])?;
    let source = source.text("source").unwrap_or("http").to_owned();
    let (app, _, (media, body)) = call.read(&["application/json", LINES]).await?;
    let writer = app.clone();
    let write = async move {
        let log = writer.log().await?;
        match media == LINES {
            true => ingest_lines(&log, &source, &body).await,
            false => ingest_one(&log, &source, &body).await,
        }
    };
    app.finish(write).await
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
    let (mut numbers, mut records, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (line, number) in body.split(|byte| *byte == b'\n').zip(1u64..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match record(line, source, log.now()) {
            Ok(record) => {
                numbers.push(number);
                records.push(record);
            }
            Err(error) => problems.push((number, error)),
        }
    }
    let outcome = log.ingest(records).await;
    let refused = outcome.problems().filter_map(|(at, error)| {
        let number = numbers.get(at)?;
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
    /// A batch of which some records were refused is a success: the others are stored. One that the
    /// store failed should be sent again, whole: what is stored is recognised. One of which nothing
    /// is stored is the caller's mistake.
    fn answer(self) -> Answer {
        let is_of = |kind| move |(_, error): &(u64, Error)| error.kind() == kind;
        let is_conflict = is_of(ErrorKind::Conflict);
        let ours = |it: &&(u64, Error)| !is_conflict(it) && !is_of(ErrorKind::Invalid)(it);
        let failure = self.problems.iter().find(ours);
        if failure.is_none() && (self.problems.is_empty() || self.stored + self.present > 0) {
            return Ok(http::json(&self.ingested()));
        }
        let detail = "no record was stored; see problems, by line";
        let problem = match failure {
            Some((_, failure)) => Problem::from(failure.clone()),
            None if self.problems.iter().all(is_conflict) => Problem::conflict(detail),
            None => Problem::invalid(detail),
        };
        let ingested = self.ingested();
        Err(problem.with(|it| {
            it.stored = Some(ingested.stored);
            it.present = Some(ingested.present);
            it.refused = Some(ingested.refused);
            it.problems = Some(ingested.problems);
        }))
    }

    fn ingested(&self) -> wire::Ingested {
        let problems = self.problems.iter().map(|(line, error)| wire::LineProblem {
            line: Count(*line),
            kind: Kind::new(error).name(),
            detail: error.to_string(),
        });
        wire::Ingested {
            stored: Count(self.stored as u64),
            present: Count(self.present as u64),
            refused: Count(self.problems.len() as u64),
            problems: problems.collect(),
        }
    }
}
