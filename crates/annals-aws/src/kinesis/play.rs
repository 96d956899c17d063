//! Playback to a stream.
//!
//! Promises: every event is put at least once, those of a partition key in order; what failed is
//! sent again before what comes behind it under its key. What is told as the last place has all that
//! is before it in the stream, so that a playback goes on from there.
//! Trusts: Kinesis to put a request's records or to say which it did not. Where an answer is lost,
//! the request is repeated, and its records are in the stream twice.
//! Never: waits for more events while some can be sent; sends anything more once it is told to stop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use annals::Error;
use annals::log::{Data, LogEvent, LogStream, Place};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use futures::future::{self, Either};
use futures::{FutureExt, StreamExt};
use sha2::{Digest, Sha256};

use super::StreamName;
use super::client::Kinesis;
use super::record;
use super::window::{Outgoing, Window};
use crate::error::Trouble;

/// The most characters of a partition key.
const KEY_CHARS_MAX: usize = 256;

/// How far a playback to a stream came.
///
/// See [`Kinesis::play`] for an example.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Events that are in the stream.
    pub events: u64,
    /// Requests that were made, repeated ones included.
    pub requests: u64,
    /// Records that Kinesis refused, and that were sent again.
    pub resent: u64,
    /// Everything up to this place is in the stream. A playback goes on
    /// [behind it](annals::log::Playback::after).
    pub last: Option<Place>,
    /// Whether it was stopped before all events were in.
    pub is_cut: bool,
    /// Why it did not get through, where it did not.
    pub failure: Option<Error>,
}

/// What a playback is told to stop by.
struct Stop<'a>(Pin<&'a mut (dyn Future<Output = ()> + Send)>);

impl Stop<'_> {
    /// Whether it is told to by now. Not asked again once it was.
    fn is_told(&mut self) -> bool {
        (&mut self.0).now_or_never().is_some()
    }

    /// What comes, unless it is told to stop before.
    async fn or<T>(&mut self, coming: impl Future<Output = T> + Unpin) -> Option<T> {
        match future::select(&mut self.0, coming).await {
            Either::Left(_) => None,
            Either::Right((came, _)) => Some(came),
        }
    }
}

/// How far the events have been taken in.
enum Filled {
    /// There may be more.
    SoFar,
    /// They have ended.
    Ended,
    /// It was told to stop while there was nothing to do but to wait.
    Stopped,
}

impl Kinesis {
    /// Puts events into a stream as they come, until they end or something fails. Tells how far it
    /// is after every request.
    ///
    /// Each event goes under the partition key that its record had; those of other sources under
    /// the persistence id in their data, and otherwise under their event id. Its data are the bytes
    /// that came in, or the JSON that they stand for.
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
        events: LogStream,
        tell: impl FnMut(&Played),
    ) -> Played {
        let stop = Stop(std::pin::pin!(future::pending()));
        self.play_all(stream, (events, stop), tell).await
    }

    /// As [`play`](Self::play), until `stop` is ready: the request that is under way then is the
    /// last one. What was looked ahead is let go, so [`last`](Played::last) is where to go on, and
    /// what is in the stream behind it comes once more.
    ///
    /// ```no_run
    /// use annals::log::{Log, Playback};
    /// use annals_aws::kinesis::Kinesis;
    ///
    /// # async fn example(kinesis: Kinesis, log: Log) -> annals::Result<()> {
    /// let events = log.playback(Playback::since("2018-03-16T19:56:03Z".parse()?));
    /// let mut stop = Box::pin(async { /* until somebody has enough */ });
    /// let played = kinesis.play_until(&"replay".parse()?, events, stop.as_mut()).await;
    /// if played.is_cut {
    ///     println!("go on behind {:?}", played.last);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn play_until(
        &self,
        stream: &StreamName,
        events: LogStream,
        stop: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Played {
        self.play_all(stream, (events, Stop(stop)), |_| ()).await
    }

    async fn play_all(
        &self,
        stream: &StreamName,
        (mut events, mut stop): (LogStream, Stop<'_>),
        mut tell: impl FnMut(&Played),
    ) -> Played {
        let (mut played, mut window) = (Played::default(), Window::default());
        let mut is_over = false;
        loop {
            if !is_over {
                match fill(&mut window, &mut events, &mut stop).await {
                    Ok(Filled::SoFar) => {}
                    Ok(Filled::Ended) => is_over = true,
                    Ok(Filled::Stopped) => {
                        played.is_cut = true;
                        return played;
                    }
                    // What came before it is still played.
                    Err(error) => {
                        played.failure = Some(error);
                        is_over = true;
                    }
                }
            }
            if window.is_empty() {
                return played;
            }
            if stop.is_told() {
                played.is_cut = true;
                // Whoever goes on meets it again.
                played.failure = None;
                return played;
            }
            if let Err(error) = self.send(stream, &mut window, &mut played).await {
                played.failure = Some(error);
                return played;
            }
            tell(&played);
        }
    }

    /// Sends until at least one record of the window is put.
    async fn send(
        &self,
        stream: &StreamName,
        window: &mut Window,
        played: &mut Played,
    ) -> annals::Result<()> {
        let places = window.next();
        let outgoing = places.iter().filter_map(|place| window.get(*place));
        let entries: Vec<_> = outgoing.map(entry_of).collect();
        let mut call = self.sender.call();
        loop {
            let before = call.requests();
            let answered = self.put(&mut call, stream, &entries).await;
            played.requests += call.requests() - before;
            let refused = answered?;
            let each = places.iter().zip(&refused);
            let put = each.filter(|(_, refused)| refused.is_none());
            let put: Vec<usize> = put.map(|(place, _)| *place).collect();
            let why = refused.into_iter().flatten().next();
            if let Some(why) = why {
                played.resent += (places.len() - put.len()) as u64;
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

/// Takes in what is there, and waits only where nothing else is to be done.
async fn fill(
    window: &mut Window,
    events: &mut LogStream,
    stop: &mut Stop<'_>,
) -> annals::Result<Filled> {
    while !window.is_full() {
        let next = match window.is_empty() {
            true => match stop.or(events.next()).await {
                None => return Ok(Filled::Stopped),
                came => came,
            },
            false => events.next().now_or_never(),
        };
        match next {
            None => return Ok(Filled::SoFar),
            Some(None) => return Ok(Filled::Ended),
            Some(Some(event)) => window.push(outgoing_of(event?)),
        }
    }
    Ok(Filled::SoFar)
}

fn entry_of(outgoing: &Outgoing) -> PutRecordsRequestEntry {
    let entry = PutRecordsRequestEntry::builder()
        .data(Blob::new(outgoing.data.to_vec()))
        .partition_key(&*outgoing.key)
        .build();
    // The data is the only part that must be there, and is.
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
        // As text, which has every digit that came.
        (None, Data::Json(json)) => {
            let text = event.payload.to_text();
            text.unwrap_or_else(|| json.to_string()).into()
        }
        (None, Data::Bytes(bytes)) => bytes,
    };
    Outgoing {
        place: event.place(),
        key,
        data,
    }
}

/// The text as a partition key; its hash where it is too long.
fn key_of(text: &str) -> Arc<str> {
    if (1..=KEY_CHARS_MAX).contains(&text.chars().count()) {
        return text.into();
    }
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.into()
}
