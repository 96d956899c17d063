//! The interval of a repeated command: `60s`, `500ms`, `5m`, `1h`.

use std::str::FromStr;
use std::time::Duration;

use annals::{Clock, Error, Result, SystemClock};

/// The interval of a repeated command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every(Duration);

impl FromStr for Every {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid("an interval must be a number with ms, s, m or h, at least 1ms")
                .fact("every", text)
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let ms = match unit {
            "ms" => Some(number),
            "s" => number.checked_mul(1_000),
            "m" => number.checked_mul(60_000),
            "h" => number.checked_mul(3_600_000),
            _ => None,
        };
        let ms = ms.filter(|ms| *ms > 0).ok_or_else(wrong)?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

impl Every {
    pub(crate) fn duration(self) -> Duration {
        self.0
    }

    pub(crate) async fn pause(self) {
        SystemClock::new().sleep(self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_unit() {
        let ms = |text: &str| text.parse::<Every>().ok().map(|every| every.0.as_millis());
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("60s"), Some(60_000));
        assert_eq!(ms("5m"), Some(300_000));
        assert_eq!(ms("1h"), Some(3_600_000));
        for refused in [
            "",
            "60",
            "s",
            "0s",
            "-1s",
            "1d",
            "1.5s",
            "99999999999999999999s",
        ] {
            assert_eq!(ms(refused), None, "{refused}");
        }
    }
}
