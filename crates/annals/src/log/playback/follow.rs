//! Following: the events before the horizon, and then those that the horizon passes.
//!
//! Guarantees: every event except late ones, once, in order, and never an event at or after the
//! horizon. The horizon is read first and the events before it afterwards, so none of them is still
//! to be stored.

use std::time::Duration;

use futures::stream::{self, TryStreamExt};

use super::super::index::horizon;
use super::super::{Span, Time};
use super::{LogStream, Playback, Player};
use crate::{Error, Result};

impl Player {
    /// The events of a span, each as soon as no earlier one can arrive.
    pub(in crate::log) fn follow(&self, playback: Playback) -> LogStream {
        let span = match playback.span() {
            Ok(span) => span,
            Err(error) => return LogStream::failed(error),
        };
        let (player, start) = (self.clone(), (self.clone(), span));
        let passed = stream::try_unfold(start, |(player, rest)| async move {
            let passed = player.wait_for_horizon(rest).await?;
            Ok::<_, Error>(passed.map(|(passed, rest)| (passed, (player, rest))))
        });
        // Every slot of it: the horizon may be in the future by this machine's clock.
        let events = passed.map_ok(move |passed| player.events(passed, Time::END));
        self.finish(events.try_flatten(), playback)
    }

    /// Waits until the horizon has passed the start of a span. Returns the part before the horizon and
    /// the rest; `None` for an empty span.
    async fn wait_for_horizon(&self, span: Span) -> Result<Option<(Span, Span)>> {
        while !span.is_empty() {
            let horizon = horizon::read(&self.shared).await?.unwrap_or(Time::FIRST);
            let end = horizon.min(span.end());
            if end > span.start() {
                return Ok(Some((
                    Span::new(span.start(), end)?,
                    Span::new(end, span.end())?,
                )));
            }
            let pause = Duration::from_millis(self.shared.settings.follow_poll_ms.max(1));
            self.shared.store.clock().sleep(pause).await;
        }
        Ok(None)
    }
}
