//! Times of events: milliseconds since the Unix epoch, and their text in the event table.
//!
//! Guarantees: the text of a [`Time`] has a year of four digits, so texts sort as times do.
//! This code reads no clock.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::{Error, Result};

/// The time of an event, in milliseconds, in the years 1970 to 2999.
///
/// Any other time is a wrong unit or a placeholder such as the years 1 and 9999, and is refused.
///
/// ```
/// use annals::log::Time;
///
/// let time: Time = "2018-03-16T19:56:03.5Z".parse()?;
/// assert_eq!(time.to_string(), "2018-03-16T19:56:03.500Z");
/// assert_eq!(time, "1521230163500".parse()?);
/// assert!("9999-12-31T23:59:59Z".parse::<Time>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of 1970.
    pub const FIRST: Self = Self(0);
    /// The start of the year 3000, later than every event.
    pub const END: Self = Self(32_503_680_000_000);

    /// A time in milliseconds since 1970.
    ///
    /// # Errors
    /// `Invalid` if that is after the year 2999.
    pub fn from_ms(ms: u64) -> Result<Self> {
        match Self(ms) {
            time if time < Self::END => Ok(time),
            _ => Err(out_of_range(&ms.to_string())),
        }
    }

    /// A time in seconds since 1970, rounded up to a millisecond: the arrival time of a Kinesis
    /// record.
    ///
    /// # Errors
    /// `Invalid` if that is before 1970, after the year 2999, or not a number.
    pub fn from_seconds(seconds: f64) -> Result<Self> {
        let ms = (seconds * 1_000.0).ceil();
        if !(0.0..Self::END.0 as f64).contains(&ms) {
            return Err(out_of_range(&format!("{seconds} s")));
        }
        Self::from_ms(ms as u64)
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// This time plus some milliseconds, at most [`END`](Self::END).
    pub(super) fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms)).min(Self::END)
    }

    /// This time minus some milliseconds, at least [`FIRST`](Self::FIRST).
    pub(super) fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// The latest multiple of `unit_ms` that is not later.
    pub(super) fn floor(self, unit_ms: u64) -> Self {
        Self(self.0 - self.0 % unit_ms)
    }

    /// The time of a clock, at most [`END`](Self::END).
    pub(super) fn from_clock(now_ms: u64) -> Self {
        Self(now_ms).min(Self::END)
    }

    /// Parses a time of the event table; `None` if it has another form.
    pub(super) fn from_stored(text: &str) -> Option<Self> {
        const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
        let fits = |(byte, form): (&u8, &u8)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        };
        let is_formed = text.len() == FORM.len() && text.as_bytes().iter().zip(FORM).all(fits);
        is_formed.then(|| Self::from_rfc3339(text)).flatten()
    }

    fn from_rfc3339(text: &str) -> Option<Self> {
        let timestamp: Timestamp = text.parse().ok()?;
        let ms = u64::try_from(timestamp.as_millisecond()).ok()?;
        Self::from_ms(ms).ok()
    }
}

fn out_of_range(time: &str) -> Error {
    Error::invalid("a time must be in the years 1970 to 2999, in milliseconds or RFC 3339")
        .fact("time", time)
}

/// Milliseconds since 1970 as a whole number, or RFC 3339, truncated to milliseconds.
impl FromStr for Time {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse::<u64>() {
            Ok(ms) => Self::from_ms(ms),
            Err(_) => Self::from_rfc3339(text).ok_or_else(|| out_of_range(text)),
        }
    }
}

/// As in the event table, `2018-03-16T19:56:03.000Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX);
        let timestamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
        write!(f, "{timestamp:.3}")
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A span of time, from its start (included) to its end (excluded).
///
/// ```
/// use annals::log::Span;
///
/// let span = Span::new("2018-03-16T19:00:00Z".parse()?, "2018-03-16T20:00:00Z".parse()?)?;
/// assert_eq!(span.end().ms() - span.start().ms(), 3_600_000);
/// assert!(Span::new(span.end(), span.start()).is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: Time,
    end: Time,
}

impl Span {
    /// All of time.
    pub const ALL: Self = Self {
        start: Time::FIRST,
        end: Time::END,
    };

    /// From `start` to before `end`.
    ///
    /// # Errors
    /// `Invalid` if the end is before the start.
    pub fn new(start: Time, end: Time) -> Result<Self> {
        if end < start {
            return Err(
                Error::invalid("a span ends before it starts; swap start and end")
                    .fact("start", start)
                    .fact("end", end),
            );
        }
        Ok(Self { start, end })
    }

    /// The first time in the span.
    pub fn start(self) -> Time {
        self.start
    }

    /// The first time after the span.
    pub fn end(self) -> Time {
        self.end
    }

    /// Whether the span contains no time.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The last time in the span, which must not be empty.
    pub(super) fn last(self) -> Time {
        self.end.minus_ms(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<u64>) {
        assert_eq!(text.parse::<Time>().ok().map(Time::ms), want, "{text}");
    }

    #[test]
    fn times_are_milliseconds_or_rfc_3339() {
        check("0", Some(0));
        check("1970-01-01T00:00:00Z", Some(0));
        check("2018-03-16T19:56:03.123999Z", Some(1_521_230_163_123));
        check("2018-03-16T20:56:03.123+01:00", Some(1_521_230_163_123));
        check("2999-12-31T23:59:59.999Z", Some(Time::END.ms() - 1));
        for refused in [
            "3000-01-01T00:00:00Z",
            "9999-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "-1",
            "32503680000000",
            "18446744073709551615",
            "yesterday",
            "",
        ] {
            check(refused, None);
        }
    }

    #[test]
    fn a_stored_time_has_one_form() {
        let time = Time(1_521_230_163_007);
        assert_eq!(time.to_string(), "2018-03-16T19:56:03.007Z");
        assert_eq!(Time::from_stored(&time.to_string()), Some(time));
        for other in [
            "2018-03-16T19:56:03Z",
            "2018-03-16T19:56:03.0000Z",
            "2018-03-16t19:56:03.000z",
            "2018-13-16T19:56:03.000Z",
            "annals#days",
        ] {
            assert_eq!(Time::from_stored(other), None, "{other}");
        }
        assert_eq!(Time::END.to_string(), "3000-01-01T00:00:00.000Z");
    }

    #[test]
    fn seconds_are_rounded_up() {
        let ms = |seconds| Time::from_seconds(seconds).ok().map(Time::ms);
        assert_eq!(ms(1_521_230_163.123_1), Some(1_521_230_163_124));
        assert_eq!(ms(1_521_230_163.0), Some(1_521_230_163_000));
        assert_eq!(ms(-1.0), None);
        assert_eq!(ms(f64::NAN), None);
        assert_eq!(ms(1e300), None);
    }

    #[test]
    fn a_span_does_not_end_before_it_starts() {
        assert!(Span::new(Time(2), Time(1)).is_err());
        assert!(Span::new(Time(1), Time(1)).unwrap().is_empty());
    }
}
