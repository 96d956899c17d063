//! The feed over HTTP: JSON lines, or server-sent events that resume by position.
//!
//! Guarantees: a client that resumes with the last id that it received misses nothing and gets nothing
//! twice. What the filter does not accept costs the client nothing: comments carry the position up to
//! which everything was read.

use annals::feed::{Batch, BatchStream, Filter, Position, Reading};
use annals::items::PageBudget;
use annals::{Error, Result};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use super::app::App;
use super::http::{Call, lines, lines_at_once};
use super::metrics::Held;
use super::problem::{Answer, Problem};
use super::sse;
use crate::commands::feed::parse_slices;
use crate::wire::{self, FeedLine};

const PARAMETERS: [&str; 7] = [
    "after", "category", "tag", "prefix", "slices", "max", "follow",
];

/// `GET /v1/feed`
pub(super) async fn feed(call: Call) -> Answer {
    let params = call.params(&PARAMETERS)?;
    let mut filter = Filter::new().prefix(params.text("prefix").unwrap_or_default());
    filter
        .categories
        .extend(params.text("category").map(str::to_owned));
    filter.tags.extend(params.text("tag").map(str::to_owned));
    filter.slices = params.text("slices").map(parse_slices).transpose()?;
    let last: Option<Position> = sse::last_id(&call.parts.headers)?;
    let after = match last {
        Some(last) => Some(last),
        None => params.parsed("after")?,
    };
    let max: Option<u64> = params.number("max")?;
    let max = max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let app = &call.app;
    let annals = app.annals().await?;
    let reading = Reading::new(annals.journal()).filter(filter);
    if sse::are_wanted(&call.parts.headers) {
        if params.number::<u64>("max")?.is_some() {
            return Err(Problem::invalid(
                "server-sent events have no end; leave out max, or ask for application/x-ndjson",
            ));
        }
        let reading = reading.after(after);
        check(&reading).await?;
        return Ok(sse::response(frames(app, reading.follow())));
    }
    let reading = reading.after(after);
    if params.is_on("follow")? {
        check(&reading).await?;
        let texts = texts(reading.follow()).take(max);
        let ends = app.closing().clone().cancelled_owned();
        return Ok(lines_at_once(texts.take_until(Box::pin(ends))));
    }
    lines(texts(reading.batches()).take(max)).await
}

/// Refuses a position that the feed does not have. A stream of new events has no other way to say so.
async fn check(reading: &Reading) -> Answer<()> {
    let one = PageBudget {
        changes: 1,
        bytes: 1,
    };
    let mut batches = reading.clone().budget(one).batches();
    batches.try_next().await?;
    Ok(())
}

fn texts(batches: BatchStream) -> impl Stream<Item = Result<String>> + Send + Unpin {
    let lines = batches.map_ok(|batch| stream::iter(wire::feed_lines(&batch).into_iter().map(Ok)));
    Box::pin(
        lines
            .try_flatten()
            .and_then(|line| async move { text(line) }),
    )
}

/// The line without its end.
fn text(line: FeedLine) -> Result<String> {
    let mut text = String::from_utf8(line.text)
        .map_err(|cause| Error::corrupt("a line of the feed is not text").because(cause))?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Frames for every batch, and a comment with the position after it if it had nothing.
fn frames(app: &App, batches: BatchStream) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
    let held = Held::tail();
    let frames = batches.map_ok(move |batch| {
        let _held = &held;
        Bytes::from(frame(&batch))
    });
    let frames = frames.take_until(app.closing().clone().cancelled_owned());
    sse::with_heartbeats(
        Box::pin(frames),
        app.clock().clone(),
        app.limits().heartbeat,
    )
}

fn frame(batch: &Batch) -> Vec<u8> {
    let lines = wire::feed_lines(batch);
    let mut bytes = Vec::new();
    for line in &lines {
        bytes.extend_from_slice(format!("id: {}\ndata: ", line.position).as_bytes());
        bytes.extend_from_slice(&line.text);
        bytes.push(b'\n');
    }
    if lines.is_empty() {
        bytes.extend_from_slice(format!(": upto={}\n\n", batch.position).as_bytes());
    }
    bytes
}
