//! The time-ordered log over HTTP: statistics, maintenance, and playback.
//!
//! Promises: a playback that ends properly is whole; one that a shutdown cuts off breaks. Records are
//! taken in `ingest`.

use annals::log::{JournalPump, LogEvent, LogStream, Playback, Span, Speed, Time};
use annals::{Error, Result};
use futures::stream::{self, Stream};
use futures::{StreamExt, TryStreamExt};

use super::http::Call;
use super::problem::{Answer, Problem};
use super::{http, sse};
use crate::wire;

/// `GET /v1/log`: what the log holds, and how far it is swept.
pub(super) async fn stats(call: Call) -> Answer {
    call.no_params()?;
    let log = call.app.log().await?;
    let stats = log.stats().await?;
    Ok(http::json(&wire::LogStats::new(&stats)))
}

/// `POST /v1/log/sweep`: moves buffered records into slots, now.
pub(super) async fn sweep(call: Call) -> Answer {
    call.no_params()?;
    let writer = call.app.clone();
    let write = async move {
        let report = writer.log().await?.sweep().await;
        match report.failure.clone() {
            Some(failure) => Err(failure.into()),
            None => Ok(http::json(&wire::Swept::new(&report))),
        }
    };
    call.app.finish(write).await
}

/// `POST /v1/log/pump`: copies new events of every journal into the buffer.
pub(super) async fn pump(call: Call) -> Answer {
    call.no_params()?;
    let writer = call.app.clone();
    let write = async move {
        let (annals, log) = (writer.annals().await?, writer.log().await?);
        // Journals in other tables may have the same ids.
        let table = writer.journal_table()?;
        let pump = JournalPump::new(annals.journal().clone(), (*log).clone(), table.as_str());
        let report = pump.pass().await?;
        for problem in &report.problems {
            tracing::warn!(%problem, "the pump leaves out an event");
        }
        for failure in &report.failures {
            tracing::warn!(%failure, "the pump does not reach the end of an id");
        }
        let pumped = wire::Pumped::new(&report);
        match report.failure() {
            // The rest is in the buffer, but a client that reads the status alone must not take it
            // for all.
            Some(failure) => {
                Err(Problem::from(failure.clone()).with(|it| it.report = Some(pumped)))
            }
            None => Ok(http::json(&pumped)),
        }
    };
    call.app.finish(write).await
}

/// `POST /v1/log/link`: completes the index of slots, and writes the links of a span.
pub(super) async fn link(call: Call) -> Answer {
    let params = call.params(&["start", "end"])?;
    let (start, end) = (params.parsed("start")?, params.parsed("end")?);
    let span = Span::new(start.unwrap_or(Time::FIRST), end.unwrap_or(Time::END))?;
    let writer = call.app.clone();
    let write = async move {
        let report = writer.log().await?.link(span).await?;
        Ok(http::json(&wire::Linked::new(&report)))
    };
    call.app.finish(write).await
}

/// `POST /v1/log/horizon?set_back=T`: after a sweeper's clock was wrong and is corrected.
pub(super) async fn set_back(call: Call) -> Answer {
    let to: Option<Time> = call.params(&["set_back"])?.parsed("set_back")?;
    let to = to.ok_or_else(|| {
        Problem::invalid("set the time: ?set_back=T, milliseconds since 1970 or RFC 3339")
    })?;
    let writer = call.app.clone();
    let write = async move {
        let log = writer.log().await?;
        let is_set_back = log.set_back_horizon(to).await?;
        let horizon = wire::Horizon::new(log.horizon().await?, is_set_back);
        Ok(http::json(&horizon))
    };
    call.app.finish(write).await
}

/// `GET /v1/log/dead-letters`: the records that could not become events, whole, with the reason.
pub(super) async fn dead_letters(call: Call) -> Answer {
    call.no_params()?;
    let records = call.app.log().await?.dead_letters();
    let lines = records.map_ok(|record| wire::line(&wire::DeadLetter::new(&record)));
    http::lines(Box::pin(lines)).await
}

/// `DELETE /v1/log/dead-letters/{name}`: deletes one of them, for good.
pub(super) async fn forget(call: Call) -> Answer {
    call.no_params()?;
    let (name, writer) = (call.segment(3)?.into_owned(), call.app.clone());
    let write = async move {
        match writer.log().await?.delete_dead_letter(&name).await? {
            true => Ok(http::json(&wire::Forgotten { name })),
            false => Err(Problem::absent(format!(
                "there is no such dead letter. name=`{name}`"
            ))),
        }
    };
    call.app.finish(write).await
}

/// The playback that is asked for, and whether it follows.
fn plan(call: &Call) -> Answer<(Playback, bool)> {
    let params = call.params(&["start", "end", "speed", "follow"])?;
    let start: Option<Time> = params.parsed("start")?;
    let start = start.ok_or_else(|| {
        Problem::invalid("set start, the first time: milliseconds since 1970 or RFC 3339")
    })?;
    let mut playback = Playback::since(start);
    playback.end = params.parsed("end")?;
    playback.speed = params.parsed("speed")?.unwrap_or_default();
    if let Some(end) = playback.end {
        Span::new(playback.start, end)?;
    }
    playback.after = sse::last_id(&call.parts.headers)?;
    Ok((playback, params.is_on("follow")?))
}

/// `GET /v1/log/events`: a span of time, as JSON lines or as server-sent events.
pub(super) async fn playback(call: Call) -> Answer {
    let (playback, follows) = plan(&call)?;
    let (app, speed) = (&call.app, playback.speed);
    let log = app.log().await?;
    let closing = app.closing().clone().cancelled_owned();
    let events = match (follows, speed) {
        // Without an end of its own, it ends with the server.
        (true, _) => {
            let events = log.follow(playback);
            events.take_until(Box::pin(closing)).boxed()
        }
        (false, Speed::Max) => log.playback(playback).boxed(),
        // A slow playback is not waited for: it breaks off.
        (false, _) => broken_by(closing, log.playback(playback)).boxed(),
    };
    if !sse::are_wanted(&call.parts.headers) {
        let lines = events.map_ok(|event| wire::line(&wire::LogEvent::new(&event)));
        let lines = Box::pin(lines);
        return match follows {
            true => Ok(http::lines_at_once(lines)),
            false => http::lines(lines).await,
        };
    }
    let frames = events.map_ok(|event| {
        let line = wire::line(&wire::LogEvent::new(&event));
        sse::frame(event.position(), line)
    });
    let (clock, heartbeat) = (app.clock().clone(), app.limits().heartbeat);
    Ok(sse::response(sse::with_heartbeats(
        frames, clock, heartbeat,
    )))
}

/// The events, with an error where the server stops before their end.
fn broken_by(
    closing: impl Future<Output = ()> + Send,
    events: LogStream,
) -> impl Stream<Item = Result<LogEvent>> + Send {
    let whole = events
        .map_ok(Some)
        .chain(stream::once(async { Ok(None::<LogEvent>) }));
    let broken = stream::once(closing).map(|()| {
        Err(Error::unavailable(
            "the server stops before the playback ends; continue after the last event",
        ))
    });
    stream::select(whole, broken)
        .try_take_while(|event| std::future::ready(Ok(event.is_some())))
        .try_filter_map(|event| std::future::ready(Ok(event)))
}
