//! The time-ordered log over HTTP: how far it is, what moves it on, and playback.
//!
//! Promises: a playback that ends properly is whole; one that the server's end cuts off breaks.
//! Bringing records in is `ingest`'s.

use annals::log::{JournalPump, LogEvent, LogStream, Playback, Span, Speed, Time};
use annals::{Error, Result};
use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::IntoResponse;
use futures::stream::{self, Stream};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;

use super::app::App;
use super::problem::{Answer, Problem};
use super::request::{Name, Params};
use super::{lines, sse};
use crate::shown;

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

/// `POST /v1/log/pump`: brings what is new of every journal into the buffer.
pub(super) async fn pump(State(app): State<App>, uri: Uri) -> Answer {
    Params::of(&uri, &[])?;
    let writer = app.clone();
    let write = async move {
        let (annals, log) = (writer.annals().await?, writer.log().await?);
        // Journals of other tables are other journals, whose ids may be the same.
        let table = writer.journal_table()?;
        let pump = JournalPump::new(annals.journal().clone(), log.clone(), table.as_str());
        let report = pump.pass().await?;
        for problem in &report.problems {
            tracing::warn!(%problem, "an event is passed over by the pump");
        }
        for failure in &report.failures {
            tracing::warn!(%failure, "an id is not pumped to its end");
        }
        let pumped = shown::pumped(&report);
        match report.failure() {
            // What came through is in the buffer; a caller that looks at the status alone must not
            // take that for all.
            Some(failure) => Err(Problem::from(failure.clone()).with("report", pumped)),
            None => Ok(JsonBody(pumped).into_response()),
        }
    };
    app.accept(write).await
}

/// `POST /v1/log/link`: makes the index of slots complete, and writes the original's links of a span.
pub(super) async fn link(State(app): State<App>, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["start", "end"])?;
    let time = |name: &str| params.text(name).map(str::parse::<Time>).transpose();
    let (start, end) = (time("start")?, time("end")?);
    let span = Span::new(start.unwrap_or(Time::FIRST), end.unwrap_or(Time::END))?;
    let writer = app.clone();
    let write = async move {
        let report = writer.log().await?.link(span).await?;
        Ok(JsonBody(shown::linked(&report)).into_response())
    };
    app.accept(write).await
}

/// `POST /v1/log/horizon?set_back=T`: where a sweeper's clock was wrong, and is right by now.
pub(super) async fn set_back(State(app): State<App>, uri: Uri) -> Answer {
    let params = Params::of(&uri, &["set_back"])?;
    let to = params.text("set_back").ok_or_else(|| {
        Problem::invalid("say to which time: ?set_back=T, milliseconds since 1970 or RFC 3339")
    })?;
    let to: Time = to.parse()?;
    let writer = app.clone();
    let write = async move {
        let log = writer.log().await?;
        let is_set_back = log.set_back_horizon(to).await?;
        let horizon = log.horizon().await?.map(|time| time.to_string());
        let object = json!({"horizon": horizon, "is_set_back": is_set_back});
        Ok(JsonBody(object).into_response())
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

/// What is to be played, and whether what comes is, too.
fn plan(params: &Params, headers: &HeaderMap) -> Answer<(Playback, bool)> {
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
    playback.after = sse::last_id(headers)?;
    Ok((playback, params.is("follow")?))
}

/// `GET /v1/log/events`: a span of time, as JSON lines or as server-sent events.
pub(super) async fn playback(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Answer {
    let params = Params::of(&uri, &["start", "end", "speed", "follow"])?;
    let (playback, follows) = plan(&params, &headers)?;
    let speed = playback.speed;
    let log = app.log().await?;
    let closing = app.closing().clone().cancelled_owned();
    let events = match (follows, speed) {
        // What has no end of its own ends with the server.
        (true, _) => {
            let events = log.follow(playback);
            events.take_until(Box::pin(closing)).boxed()
        }
        (false, Speed::Max) => log.playback(playback),
        // What takes its time is not waited for, and that something is left out is told.
        (false, _) => broken_by(closing, log.playback(playback)).boxed(),
    };
    if !sse::are_wanted(&headers) {
        let lines = events.map_ok(|event| shown::log_event(&event));
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
    let (clock, heartbeat) = (app.clock().clone(), app.limits().heartbeat);
    Ok(sse::answer(sse::beating(frames, clock, heartbeat)))
}

/// The events, which fail where the server stops before their end.
fn broken_by(
    closing: impl Future<Output = ()> + Send,
    events: LogStream,
) -> impl Stream<Item = Result<LogEvent>> + Send {
    let whole = events
        .map_ok(Some)
        .chain(stream::once(async { Ok(None::<LogEvent>) }));
    let broken = stream::once(closing).map(|()| {
        Err(Error::unavailable(
            "the server stops before all of it is played back; go on behind the last event",
        ))
    });
    stream::select(whole, broken)
        .try_take_while(|event| std::future::ready(Ok(event.is_some())))
        .try_filter_map(|event| std::future::ready(Ok(event)))
}
