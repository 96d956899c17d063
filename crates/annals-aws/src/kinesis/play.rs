//! Playback to a stream.
//!
//! Guarantees: every event is put at least once, those of a partition key in order. A record that
//! failed is resent before the next one of its key. Everything up to the reported position is in the
//! stream, so a playback can resume there. It does not wait for events while some can be sent, and
//! sends no request after it is stopped.
//! Relies on: Kinesis putting the records of a request, or reporting those that it did not put. If a
//! response is lost, the request is retried, and its records are in the stream twice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use annals::Error;
use annals::log::{Data, EventId, LogEvent, LogPosition};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use futures::future::{self, Either};
use futures::{FutureExt, Stream, StreamExt};

use super::StreamName;
use super::client::Kinesis;
use super::record;
use super::window::{Outgoing, Window};
use crate::error::Trouble;

/// The most characters of a partition key.
const KEY_CHARS_MAX: usize = 256;

/// The progress of a playback to a stream.
///
/// See [`Kinesis::play`] for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct Played {
    /// Events that are in the stream.
    pub events: u64,
    /// Requests, including retries.
    pub requests: u64,
    /// Records that Kinesis refused and that were resent.
    pub resent: u64,
    /// Everything up to this position is in the stream. Resume a playback
    /// [after it](annals::log::Playback::after).
    pub last: Option<LogPosition>,
    /// Whether it was stopped before all events were in the stream.
    pub is_cut: bool,
    /// Why it did not complete.
    pub failure: Option<Error>,
}

/// The events of a playback, until it is stopped.
struct Source<'a, S> {
    events: S,
    stop: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
}

/// The state of a source after its available events were taken.
enum Filled {
    /// There may be more.
    SoFar,
    /// They have ended.
    Ended,
    /// It was stopped while there was nothing to send.
    Stopped,
}

impl<S: Stream<Item = annals::Result<LogEvent>> + Unpin> Source<'_, S> {
    /// Whether it is stopped. Not to be called again after that.
    fn is_stopped(&mut self) -> bool {
        (&mut self.stop).now_or_never().is_some()
    }

    /// Takes the available events, and waits only if there is nothing to send.
    async fn fill(&mut self, window: &mut Window) -> annals::Result<Filled> {
        while !window.is_full() {
            let next = match window.is_empty() {
                false => self.events.next().now_or_never(),
                true => match future::select(&mut self.stop, self.events.next()).await {
                    Either::Left(_) => return Ok(Filled::Stopped),
                    Either::Right((next, _)) => Some(next),
                },
            };
            match next {
                None => return Ok(Filled::SoFar),
                Some(None) => return Ok(Filled::Ended),
                Some(Some(event)) => window.push(outgoing_of(event?)),
            }
        }
        Ok(Filled::SoFar)
    }
}

impl Kinesis {
    /// Puts events into a stream until they end or something fails. Calls `progress` after every
    /// request.
    ///
    /// An event has the partition key of its record; events of other sources have the persistence id
    /// in their data, or their event id. Its data are the original bytes, or the JSON that they were
    /// decoded to.
    ///
    /// ```no_run
    /// use annals::log::{Log, Playback};
    /// use annals_aws::kinesis::Kinesis;
    ///
    /// # async fn example(kinesis: Kinesis, log: Log) -> annals::Result<()> {
    /// let events = log.playback(Playback::since("2018-03-16T19:56:03Z".parse()?));
    /// let played = kinesis.play(&"replay".parse()?, events, |_| ()).await;
    /// assert!(played.failure.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn play(
        &self,
        stream: &StreamName,
        events: impl Stream<Item = annals::Result<LogEvent>> + Send + Unpin,
        progress: impl FnMut(&Played),
    ) -> Played {
        let stop = std::pin::pin!(future::pending());
        self.play_all(stream, Source { events, stop }, progress)
            .await
    }

    /// As [`play`](Self::play), until `stop` is ready: the request that is in flight then is the last
    /// one. Events that were read ahead are dropped; resume after [`last`](Played::last). Events after
    /// it that are in the stream already are put again.
    ///
    /// ```no_run
    /// use annals::log::{Log, Playback};
    /// use annals_aws::kinesis::Kinesis;
    ///
    /// # async fn example(kinesis: Kinesis, log: Log) -> annals::Result<()> {
    /// let events = log.playback(Playback::since("2018-03-16T19:56:03Z".parse()?));
    /// let mut stop = Box::pin(async { /* until a deadline, for example */ });
    /// let played = kinesis.play_until(&"replay".parse()?, events, stop.as_mut()).await;
    /// if played.is_cut {
    ///     println!("resume after {:?}", played.last);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn play_until(
        &self,
        stream: &StreamName,
        events: impl Stream<Item = annals::Result<LogEvent>> + Send + Unpin,
        stop: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Played {
        self.play_all(stream, Source { events, stop }, |_| ()).await
    }

    async fn play_all<S>(
        &self,
        stream: &StreamName,
        mut source: Source<'_, S>,
        mut progress: impl FnMut(&Played),
    ) -> Played
    where
        S: Stream<Item = annals::Result<LogEvent>> + Send + Unpin,
    {
        let (mut played, mut window) = (Played::default(), Window::default());
        let mut is_over = false;
        loop {
            if !is_over {
                match source.fill(&mut window).await {
                    Ok(Filled::SoFar) => {}
                    Ok(Filled::Ended) => is_over = true,
                    Ok(Filled::Stopped) => {
                        played.is_cut = true;
                        return played;
                    }
                    // The events before the error are still played.
                    Err(error) => {
                        played.failure = Some(error);
                        is_over = true;
                    }
                }
            }
            if window.is_empty() {
                return played;
            }
            if source.is_stopped() {
                played.is_cut = true;
                // The error occurs again when the playback resumes.
                played.failure = None;
                return played;
            }
            if let Err(error) = self.send(stream, &mut window, &mut played).await {
                played.failure = Some(error);
                return played;
            }
            progress(&played);
        }
    }

    /// Sends until at least one record of the window is put.
    async fn send(
        &self,
        stream: &StreamName,
        window: &mut Window,
        played: &mut Played,
    ) -> annals::Result<()> {
        let indexes = window.next();
        let outgoing = indexes.iter().filter_map(|index| window.get(*index));
        let entries: Vec<_> = outgoing.map(entry_of).collect();
        let mut call = self.sender.call();
        loop {
            let before = call.requests();
            let answered = self.put(&mut call, stream, &entries).await;
            played.requests += call.requests() - before;
            let refused = answered?;
            let each = indexes.iter().zip(&refused);
            let put = each.filter(|(_, refused)| refused.is_none());
            let put: Vec<usize> = put.map(|(index, _)| *index).collect();
            let why = refused.into_iter().flatten().next();
            if let Some(why) = why {
                played.resent += (indexes.len() - put.len()) as u64;
                let cause = Error::unavailable(format!("Kinesis refused a record: {why}"));
                let paused = call.pause(Trouble::Throttled, cause).await;
                if put.is_empty() {
                    paused?;
                    continue;
                }
            }
            played.events += put.len() as u64;
            played.last = window.settle(&put).or(played.last.take());
            return Ok(());
        }
    }
}

fn entry_of(outgoing: &Outgoing) -> PutRecordsRequestEntry {
    let entry = PutRecordsRequestEntry::builder()
        .data(Blob::new(outgoing.data.to_vec()))
        .partition_key(&*outgoing.key)
        .build();
    // Only the data is required, and it is set.
    entry.unwrap_or_else(|error| unreachable!("{error}"))
}

fn outgoing_of(event: LogEvent) -> Outgoing {
    let data = event.data();
    let persistence_id = match &data {
        Data::Json(json) => json.get("persistence_id").and_then(|id| id.as_str()),
        Data::Bytes(_) => None,
    };
    let key = record::partition_key(&event.payload).or(persistence_id);
    let key = key_of(key.unwrap_or(event.event_id.as_str()));
    let data = match (record::raw_data(&event.payload), data) {
        (Some(raw), _) => raw.into(),
        // As text, which keeps every digit.
        (None, Data::Json(json)) => {
            let text = event.payload.to_text();
            text.unwrap_or_else(|| json.to_string()).into()
        }
        (None, Data::Bytes(bytes)) => bytes,
    };
    Outgoing {
        position: event.position(),
        key,
        data,
    }
}

/// A text as a partition key; its hash if it is too long.
fn key_of(text: &str) -> Arc<str> {
    if (1..=KEY_CHARS_MAX).contains(&text.chars().count()) {
        return text.into();
    }
    EventId::from_content(text.as_bytes()).as_str().into()
}
