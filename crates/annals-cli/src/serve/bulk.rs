//! `POST /v1/append`: many appends in one request, a line of JSON for each.
//!
//! Promises: a result for each line, in the same order; each append is atomic, durable when its result
//! is sent, and as one of `POST /v1/journal/{id}/events`. Appends to one id run in the order of their
//! lines. A line that is refused stops no other. All lines of a body that was received are appended,
//! also if the client disconnects; a shutdown waits for them. Memory is bounded: a client that does not
//! read results keeps later lines from being read, and never an append that was begun.

use std::io::BufRead as _;
use std::sync::Arc;

use annals::journal::in_order;
use annals::{Annals, Error, Result};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tracing::{Instrument, Span};

use super::app::App;
use super::http::{self, Call, LINES};
use super::journal;
use super::problem::{Answer, Kind, Problem};
use crate::bulk::{LineNumbers, Outcome, parse};

/// A body of at most so many lines is answered whole, a larger one as results come.
const WHOLE_LINES: usize = 256;
/// The most results of a request that were not sent yet, and appends that have no result yet.
const UNSENT_LINES: usize = 1_024;

/// `POST /v1/append`
pub(super) async fn append(call: Call) -> Answer {
    call.no_params()?;
    let (app, _, (_, body)) = call.read(&[LINES]).await?;
    let annals = app.annals().await?;
    let ends = body.iter().filter(|byte| **byte == b'\n').count();
    let lines = Lines { body, number: 0 };
    // Some may be empty.
    if ends >= WHOLE_LINES && lines.clone().nth(WHOLE_LINES).is_some() {
        return Ok(streamed(&app, annals, lines));
    }
    let results = results(&app, annals, stream::iter(lines));
    let write = async move { Ok(frames(results).concat().await) };
    let results = app.finish(write).await?;
    Ok(http::bytes(LINES, results))
}

/// Appends in a task of its own, which never waits for the client while appends are in flight.
fn streamed(app: &App, annals: Arc<Annals>, lines: Lines) -> http::Response {
    let unsent = Arc::new(Semaphore::new(UNSENT_LINES));
    let room = unsent.clone();
    let lines = stream::iter(lines).then(move |line| {
        let room = room.clone();
        async move {
            // Closed once the client is gone: nobody keeps results any more.
            if let Ok(permit) = room.acquire().await {
                permit.forget();
            }
            line
        }
    });
    let (sender, sent) = mpsc::unbounded_channel();
    let mut frames = frames(results(app, annals, lines));
    let write = async move {
        while let Some(frame) = frames.next().await {
            // A client that is gone needs no results.
            let _ = sender.send(Some(frame));
            // Lines that are refused wait for nothing: other tasks get their turn.
            tokio::task::yield_now().await;
        }
        let _ = sender.send(None);
    };
    app.detach(write.instrument(Span::current()));
    let reader = Reader { sent, unsent };
    let frames = stream::try_unfold(reader, |mut reader| async {
        let frame = reader.next().await?;
        Ok(frame.map(|frame| (Bytes::from(frame), reader)))
    });
    http::streamed(LINES, frames)
}

/// The results on their way to the client.
struct Reader {
    /// `None` after the last one.
    sent: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    unsent: Arc<Semaphore>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(frame) = self.sent.recv().await else {
            // Its task panicked. The connection breaks, so that nobody takes a part for the whole.
            return Err(Error::unavailable("the appends were aborted"));
        };
        if let Some(frame) = &frame {
            let lines = frame.iter().filter(|byte| **byte == b'\n').count();
            self.unsent.add_permits(lines);
        }
        Ok(frame)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.unsent.close();
    }
}

/// The results that are there at the same time go together.
fn frames(
    results: impl Stream<Item = Outcome> + Send + Unpin,
) -> impl Stream<Item = Vec<u8>> + Send + Unpin {
    results.ready_chunks(UNSENT_LINES).map(|some| {
        let mut frame = Vec::with_capacity(some.len() * 160);
        some.iter().for_each(|result| result.write_line(&mut frame));
        frame
    })
}

/// Appends the lines; the results, in order.
fn results<S: Stream<Item = (u64, Bytes)> + Send + 'static>(
    app: &App,
    annals: Arc<Annals>,
    lines: S,
) -> impl Stream<Item = Outcome> + Send + Unpin + use<S> {
    let numbers = LineNumbers::default();
    let read = numbers.clone();
    let appends = lines.map(move |(number, line)| {
        read.push(number);
        parse(&line)
    });
    let writer = app.clone();
    let appended = in_order(appends, move |one| {
        let (app, annals) = (writer.clone(), annals.clone());
        async move {
            let id = one.persistence_id;
            let appended = journal::append_to(&app, &annals, &id, (one.expected, one.append)).await;
            appended.map(|appended| Outcome::Appended(id, appended))
        }
    });
    let conflicts = app.conflicts().clone();
    appended.map(move |result| {
        let number = numbers.pop();
        let refused = match result {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(problem)) => problem,
            Err(error) => Problem::from(error),
        };
        if refused.kind() == Kind::Conflict {
            conflicts.increment(1);
        }
        Outcome::Refused(refused).at_line(number)
    })
}

/// The lines of a body with their numbers, from 1; empty ones are left out.
#[derive(Clone)]
struct Lines {
    body: Bytes,
    /// The number of the last line.
    number: u64,
}

impl Iterator for Lines {
    type Item = (u64, Bytes);

    fn next(&mut self) -> Option<(u64, Bytes)> {
        while !self.body.is_empty() {
            // Searches many bytes at once. Memory has no errors.
            let len = (&*self.body).skip_until(b'\n');
            let line = self.body.split_to(len.unwrap_or(self.body.len()));
            self.number += 1;
            if !line.trim_ascii().is_empty() {
                return Some((self.number, line));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_are_left_out() {
        let lines = |body: &'static str| {
            let lines = Lines {
                body: Bytes::from_static(body.as_bytes()),
                number: 0,
            };
            let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
            let lines = lines.map(|(number, line)| (number, text(line)));
            lines.collect::<Vec<_>>()
        };
        let line = |number, text: &str| (number, text.to_owned());
        assert_eq!(lines("a\n\n \r\nb"), [line(1, "a\n"), line(4, "b")]);
        assert_eq!(lines("a\n"), [line(1, "a\n")]);
        assert!(lines("").is_empty() && lines("\n\n").is_empty());
    }
}
