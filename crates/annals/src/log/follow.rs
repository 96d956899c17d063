//! Following: what is before the horizon, and then what the horizon passes.
//!
//! Promises: every event but late ones, once, in order; never an event at or behind the horizon.
//! The horizon is read first, and what is before it afterwards, so nothing of it is still to come.

use std::time::Duration;

use futures::stream::{self, TryStreamExt};

use super::pace::paced;
use super::playback::behind;
use super::{Log, LogStream, Playback, Span, Time};
use crate::{Error, Result};

/// Where a follower is.
struct Following {
    log: Log,
    /// What was read up to: all of it has been given, or is in `events`.
    reached: Time,
    end: Time,
    events: LogStream,
}

impl Following {
    /// Waits until the horizon is further, and opens what it has passed; false where the end is
    /// reached.
    async fn go_on(&mut self) -> Result<bool> {
        while self.reached < self.end {
            let horizon = self.log.horizon().await?.unwrap_or(Time::FIRST);
            let end = horizon.min(self.end);
            if end > self.reached {
                // Every slot of it: by this machine's clock the horizon may be in the future.
                let span = Span::new(self.reached, end)?;
                self.events = self.log.events(span, Time::END);
                self.reached = end;
                return Ok(true);
            }
            let pause = Duration::from_millis(self.log.settings.follow_poll_ms.max(1));
            self.log.clock.sleep(pause).await;
        }
        Ok(false)
    }
}

impl Log {
    /// The events from a time on, and then every later one as soon as nothing earlier can come.
    ///
    /// Ends at the playback's end, if it has one; dropping it ends it. An error ends it too: whoever
    /// keeps the [place](super::LogEvent::place) of the last event goes on behind it with
    /// [`Playback::after`].
    ///
    /// ```
    /// use annals::log::{Log, Playback, Record};
    /// use annals::memory::Memory;
    /// use annals::settings::LogSettings;
    /// use annals::{Clock, ManualClock};
    /// use futures::TryStreamExt;
    /// use serde_json::json;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// let clock = Arc::new(ManualClock::at_ms(1_521_230_163_217));
    /// let log = Log::create(Arc::new(Memory::new()), &LogSettings::default(), clock.clone()).await?;
    /// let start = log.now();
    /// log.ingest_one(Record::json("web", "clap-1".parse()?, start, &json!(1))).await;
    /// clock.advance(Duration::from_secs(60));
    /// log.sweep().await;
    ///
    /// let mut events = log.follow(Playback::since(start));
    /// let first = events.try_next().await?;
    /// assert_eq!(first.map(|event| event.time), Some(start));
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, playback: impl Into<Playback>) -> LogStream {
        let playback = playback.into();
        let span = match playback.span() {
            Ok(span) => span,
            Err(error) => return Box::pin(stream::once(async { Err(error) })),
        };
        let following = Following {
            log: self.clone(),
            reached: span.start(),
            end: span.end(),
            events: Box::pin(stream::empty()),
        };
        let events = stream::try_unfold(following, |mut following| async move {
            loop {
                if let Some(event) = following.events.try_next().await? {
                    return Ok::<_, Error>(Some((event, following)));
                }
                if !following.go_on().await? {
                    return Ok(None);
                }
            }
        });
        let events = behind(Box::pin(events), playback.after);
        paced(events, playback.speed, self.clock.clone())
    }
}
