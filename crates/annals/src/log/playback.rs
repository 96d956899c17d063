//! Playback: a span of time, in order.
//!
//! Promises: every event of the span that is in its slot, once, by time and then by id, always in
//! the same order. Strongly consistent, in bounded memory: a few slots are opened ahead, a page
//! each. An empty stretch costs nothing where the index is complete; otherwise each slot is asked
//! that has begun by now.
//! Trusts: that slots have the length the settings say; an event that contradicts it is an error.
//! Never: leaves out what does not parse.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use super::index::Indexed;
use super::pace::paced;
use super::reader::SlotReader;
use super::{Log, LogEvent, Place, Slot, Span, Speed, Time};
use crate::{Error, Result};

/// Events as they come. An error ends it.
/// See [`Log`] for an example.
pub type LogStream = Pin<Box<dyn Stream<Item = Result<LogEvent>> + Send>>;

/// What is to be played back.
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
pub struct Playback {
    /// From this time on.
    pub start: Time,
    /// Up to this time, which does not belong to it. `None`: up to now, and as much further as clocks
    /// may differ (`allowed-lateness-ms`); a follower goes on for ever.
    pub end: Option<Time>,
    /// Only what comes behind this place, where a reader goes on.
    pub after: Option<Place>,
    /// How fast.
    pub speed: Speed,
}

impl Playback {
    /// What happened from a time on.
    pub fn since(start: Time) -> Self {
        Self {
            start,
            end: None,
            after: None,
            speed: Speed::Max,
        }
    }

    /// Only up to before this time.
    #[must_use]
    pub fn until(mut self, end: Time) -> Self {
        self.end = Some(end);
        self
    }

    /// Only what comes behind this place.
    #[must_use]
    pub fn after(mut self, place: Place) -> Self {
        self.after = Some(place);
        self
    }

    /// So fast.
    #[must_use]
    pub fn at(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// From where to where; nothing before the place that it goes on from.
    pub(super) fn span(&self) -> Result<Span> {
        let end = self.end.unwrap_or(Time::END);
        let span = Span::new(self.start, end)?;
        match &self.after {
            Some(place) if place.time > self.start => Span::new(place.time.min(end), end),
            _ => Ok(span),
        }
    }
}

impl From<Span> for Playback {
    fn from(span: Span) -> Self {
        Self::since(span.start()).until(span.end())
    }
}

impl Log {
    /// The events of a span, in order, as they come.
    ///
    /// What waits in the buffer is not among them. A span that reaches past the
    /// [horizon](Self::horizon) may be missing events that are on their way;
    /// [`follow`](Self::follow) waits for them.
    pub fn playback(&self, playback: impl Into<Playback>) -> LogStream {
        let mut playback = playback.into();
        // A start that is later is an empty span, and no mistake.
        playback
            .end
            .get_or_insert(self.latest().max(playback.start));
        let span = match playback.span() {
            Ok(span) => span,
            Err(error) => return Box::pin(stream::once(async { Err(error) })),
        };
        let events = behind(self.events(span, self.latest()), playback.after);
        paced(events, playback.speed, self.clock.clone())
    }

    /// The time behind which nothing has happened yet, by any clock that is as right as is allowed.
    fn latest(&self) -> Time {
        self.now().plus_ms(self.settings.allowed_lateness_ms)
    }

    /// The events of a span, unpaced. Where the index is not complete, slots that begin at this time or
    /// later are not asked for.
    pub(super) fn events(&self, span: Span, latest: Time) -> LogStream {
        if span.is_empty() {
            return Box::pin(stream::empty());
        }
        let log = self.clone();
        let events = async move {
            Ok::<_, Error>(match log.trusts_index().await? {
                true => log.read_ahead(log.indexed(span), span),
                false => log.walk(span, latest).await?,
            })
        };
        Box::pin(stream::once(events).try_flatten())
    }

    /// Slots whose next ones are known, opened ahead.
    fn read_ahead(
        &self,
        slots: impl Stream<Item = Result<Indexed>> + Send + 'static,
        span: Span,
    ) -> LogStream {
        let log = self.clone();
        let opened = slots.map(move |slot| {
            let log = log.clone();
            async move { log.open_slot(slot?, span).await }
        });
        let opened = opened.buffered(self.settings.playback_ahead);
        Box::pin(opened.map_ok(|reader| read(reader, None)).try_flatten())
    }

    /// Every slot of the span that has begun, one behind the other; where links are believed, only
    /// those that they lead to.
    async fn walk(&self, span: Span, latest: Time) -> Result<LogStream> {
        self.check_sample().await?;
        let end = span.end().min(latest);
        let parts = self.written().await?.all_parts();
        let unit = self.unit;
        let link: Link = Arc::default();
        let told = link.clone();
        let first = Some(Slot::of(span.start(), unit));
        let slots = stream::unfold((first, parts), move |(slot, parts)| {
            let linked = told.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A link leads on, or it is none.
            let slot = slot.map(|slot| linked.filter(|linked| *linked > slot).unwrap_or(slot));
            let found = slot.filter(|slot| slot.start() < end).map(|slot| {
                let indexed = Indexed {
                    slot,
                    parts: parts.clone(),
                };
                (Ok(indexed), (Some(slot.next(unit)), parts))
            });
            async move { found }
        });
        if !self.settings.trust_links {
            return Ok(self.read_ahead(slots, span));
        }
        let log = self.clone();
        let opened = slots.then(move |slot: Result<Indexed>| {
            let log = log.clone();
            async move { log.open_slot(slot?, span).await }
        });
        let events = opened.map_ok(move |reader| read(reader, Some(link.clone())));
        Ok(Box::pin(events.try_flatten()))
    }
}

/// Where the slot that was read says the next one is.
type Link = Arc<Mutex<Option<Slot>>>;

/// The events of an open slot.
fn read(reader: SlotReader, link: Option<Link>) -> LogStream {
    let events = stream::try_unfold((reader, link), |(mut reader, link)| async move {
        let event = reader.next().await?;
        if let (None, Some(link)) = (&event, &link) {
            *link.lock().unwrap_or_else(PoisonError::into_inner) = reader.link();
        }
        Ok(event.map(|event| (event, (reader, link))))
    });
    Box::pin(events)
}

/// Only the events behind a place.
pub(super) fn behind(events: LogStream, after: Option<Place>) -> LogStream {
    let Some(after) = after else {
        return events;
    };
    let is_passed = move |event: &LogEvent| {
        let is_passed = (event.time, &event.event_id) <= (after.time, &after.event_id);
        async move { Ok(is_passed) }
    };
    Box::pin(events.try_skip_while(is_passed))
}
