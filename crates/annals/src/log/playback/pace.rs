//! The speed of a playback: as fast as possible, real time, or a factor.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};

use super::super::{LogEvent, Time};
use super::LogStream;
use crate::{Clock, Error, Result};

/// The speed of a playback.
///
/// ```
/// use annals::log::Speed;
///
/// assert_eq!("max".parse::<Speed>()?, Speed::Max);
/// assert_eq!("1".parse::<Speed>()?, Speed::REAL_TIME);
/// assert!("0".parse::<Speed>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Speed {
    /// As fast as possible.
    #[default]
    Max,
    /// A multiple of real time, greater than zero; any other number means [`Max`](Self::Max).
    Times(f64),
}

impl Speed {
    /// Real time.
    pub const REAL_TIME: Self = Self::Times(1.0);

    /// The delay of an event after the first one.
    fn due(self, since_first_ms: u64) -> Duration {
        match self {
            Self::Times(factor) if factor > 0.0 && factor.is_finite() => {
                // Bounded, so that the duration does not overflow.
                let seconds = (since_first_ms as f64 / 1_000.0 / factor).min(1e9);
                Duration::from_secs_f64(seconds)
            }
            _ => Duration::ZERO,
        }
    }
}

impl std::str::FromStr for Speed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let factor = text.parse::<f64>().ok();
        let factor = factor.filter(|factor| *factor > 0.0 && factor.is_finite());
        factor.map(Self::Times).ok_or_else(|| {
            Error::invalid("a speed must be `max` or a number greater than zero; 1 is real time")
                .fact("speed", text)
        })
    }
}

/// The events, none before it is due. The first one is due at once.
pub(super) fn paced(
    events: impl Stream<Item = Result<LogEvent>> + Send + 'static,
    speed: Speed,
    clock: Arc<dyn Clock>,
) -> LogStream {
    if speed == Speed::Max {
        return LogStream::new(events);
    }
    let mut first: Option<(Time, Duration)> = None;
    let paced = events.then(move |event| {
        let clock = clock.clone();
        let wait = event.as_ref().ok().and_then(|event| {
            let now = clock.monotonic();
            let (first, start) = *first.get_or_insert((event.time, now));
            let since = event.time.ms().saturating_sub(first.ms());
            (start + speed.due(since)).checked_sub(now)
        });
        async move {
            if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
                clock.sleep(wait).await;
            }
            event
        }
    });
    LogStream::new(paced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_divides_the_delay() {
        assert_eq!(Speed::Max.due(5_000), Duration::ZERO);
        assert_eq!(Speed::REAL_TIME.due(5_000), Duration::from_secs(5));
        assert_eq!(Speed::Times(10.0).due(5_000), Duration::from_millis(500));
        for refused in ["-1", "0", "NaN", "inf", "fast", ""] {
            assert!(refused.parse::<Speed>().is_err(), "{refused}");
        }
    }
}
