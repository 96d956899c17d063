//! Playback: a span of time in, a stream of events out. The last stage of the log.
//!
//! Guarantees: every event of the span that is in its slot, once, by time and then by id, always in
//! the same order. Reads are strongly consistent, in bounded memory: a few slots are opened ahead, a
//! page each. An empty stretch costs nothing if the index is complete; otherwise every slot up to now
//! is read. An event that does not parse is an error; it is never skipped.
//! Relies on: slots having the length in the settings. An event that contradicts it is an error.

mod follow;
mod pace;
mod reader;

pub use pace::Speed;

use std::iter::successors;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use self::pace::paced;
use self::reader::SlotReader;
use super::index::{Coverage, Index, IndexedSlot};
use super::shared::Shared;
use super::{LogEvent, LogPosition, Span, Time};
use crate::{Error, Result, ResultStream};

/// A stream of events of the log, page by page. An error ends it.
///
/// See [`Log`](super::Log) for an example.
pub type LogStream = ResultStream<LogEvent>;

/// What to play back.
///
/// ```
/// use annals::log::{Playback, Speed};
///
/// let since = Playback::since("2018-03-16T19:56:03Z".parse()?);
/// let playback = since.after("1521230163217/clap-1".parse()?).at(Speed::REAL_TIME);
/// assert_eq!(playback.end, None);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Playback {
    /// The first time to play.
    pub start: Time,
    /// The first time not to play. `None`: up to now plus the allowed clock skew
    /// (`allowed-lateness-ms`); a follower never ends.
    pub end: Option<Time>,
    /// Only events after this position, to resume.
    pub after: Option<LogPosition>,
    /// How fast.
    pub speed: Speed,
}

impl Playback {
    /// Everything since a time.
    pub fn since(start: Time) -> Self {
        Self {
            start,
            end: None,
            after: None,
            speed: Speed::Max,
        }
    }

    /// Only events before this time.
    #[must_use]
    pub fn until(mut self, end: Time) -> Self {
        self.end = Some(end);
        self
    }

    /// Only events after this position.
    #[must_use]
    pub fn after(mut self, position: LogPosition) -> Self {
        self.after = Some(position);
        self
    }

    /// At this speed.
    #[must_use]
    pub fn at(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// The span to read: nothing before the position to resume after.
    fn span(&self) -> Result<Span> {
        let end = self.end.unwrap_or(Time::END);
        let span = Span::new(self.start, end)?;
        match &self.after {
            Some(after) if after.time > self.start => Span::new(after.time.min(end), end),
            _ => Ok(span),
        }
    }
}

impl From<Span> for Playback {
    fn from(span: Span) -> Self {
        Self::since(span.start()).until(span.end())
    }
}

/// The playback stage.
#[derive(Clone, Debug)]
pub(super) struct Player {
    pub(super) shared: Arc<Shared>,
    pub(super) index: Index,
}

impl Player {
    /// The events of a span.
    pub(super) fn play(&self, mut playback: Playback) -> LogStream {
        let skew = self.shared.settings.allowed_lateness_ms;
        let latest = self.shared.now().plus_ms(skew);
        // A start in the future is an empty span, not an error.
        playback.end.get_or_insert(latest.max(playback.start));
        match playback.span() {
            Ok(span) => self.finish(self.events(span, latest), playback),
            Err(error) => LogStream::failed(error),
        }
    }

    /// Skips to the position to resume after, and keeps the pace.
    fn finish(
        &self,
        events: impl Stream<Item = Result<LogEvent>> + Send + 'static,
        playback: Playback,
    ) -> LogStream {
        let after = playback.after;
        let events = events.try_skip_while(move |event| {
            let is_played = after.as_ref().is_some_and(|after| {
                (event.time, &event.event_id) <= (after.time, &after.event_id)
            });
            futures::future::ok(is_played)
        });
        paced(events, playback.speed, self.shared.store.clock().clone())
    }

    /// The events of a span. If the index is not complete, slots from `latest` on are not read.
    fn events(&self, span: Span, latest: Time) -> LogStream {
        if span.is_empty() {
            return LogStream::empty();
        }
        let player = self.clone();
        let events = async move {
            let format = &player.shared.format;
            let (unit, first) = (format.unit, format.slot(span.start()));
            let end = span.end().min(latest);
            let events = match player.index.coverage().await? {
                Coverage::Complete => player.read_ahead(player.index.slots(span), span),
                Coverage::Unknown(parts) if player.shared.settings.trust_links => {
                    let shared = player.shared.clone();
                    in_order(Walk {
                        shared,
                        next: IndexedSlot { slot: first, parts },
                        span,
                        end,
                        open: None,
                    })
                }
                Coverage::Unknown(parts) => {
                    let slots = successors(Some(first), move |slot| Some(slot.next(unit)))
                        .take_while(move |slot| slot.start() < end)
                        .map(move |slot| {
                            let parts = parts.clone();
                            Ok(IndexedSlot { slot, parts })
                        });
                    player.read_ahead(stream::iter(slots), span)
                }
            };
            Ok::<_, Error>(events)
        };
        LogStream::new(stream::once(events).try_flatten())
    }

    /// The events of slots that are opened ahead.
    fn read_ahead(
        &self,
        slots: impl Stream<Item = Result<IndexedSlot>> + Send + 'static,
        span: Span,
    ) -> LogStream {
        let shared = self.shared.clone();
        let opened = slots.map(move |slot| {
            let shared = shared.clone();
            async move { SlotReader::open(&shared, slot?, span).await }
        });
        let opened = opened.buffered(self.shared.settings.playback_ahead);
        LogStream::new(opened.map_ok(in_order).try_flatten())
    }
}

/// Something that is read event by event.
trait Read: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Result<Option<LogEvent>>> + Send;
}

/// The events of a reader.
fn in_order(reader: impl Read) -> LogStream {
    let events = stream::try_unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Ok(event.map(|event| (event, reader)))
    });
    LogStream::new(events)
}

/// Slots without an index, each found by the link of the one before it.
struct Walk {
    shared: Arc<Shared>,
    next: IndexedSlot,
    span: Span,
    end: Time,
    open: Option<SlotReader>,
}

impl Read for Walk {
    async fn next(&mut self) -> Result<Option<LogEvent>> {
        while self.next.slot.start() < self.end {
            let reader = match &mut self.open {
                Some(reader) => reader,
                None => {
                    let slot = self.next.clone();
                    let opened = SlotReader::open(&self.shared, slot, self.span);
                    self.open.insert(opened.await?)
                }
            };
            if let Some(event) = reader.next().await? {
                return Ok(Some(event));
            }
            // A link that does not lead forward is ignored.
            let next = self.next.slot.next(self.shared.format.unit);
            self.next.slot = reader.link().map_or(next, |link| link.max(next));
            self.open = None;
        }
        Ok(None)
    }
}
