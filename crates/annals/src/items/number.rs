//! DynamoDB's numbers: decimal, exact, up to 38 digits.
//!
//! Guarantees: DynamoDB accepts every [`Number`]; equal values are equal whatever text they were
//! parsed from; the order is numeric. Binary floats are never involved.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Maximum significant digits.
const DIGITS_MAX: usize = 38;
/// Range of the decimal exponent of the first digit (1E-130 to 9.99…E+125).
const MAGNITUDE_MIN: i32 = -130;
const MAGNITUDE_MAX: i32 = 125;

/// An exact decimal number within DynamoDB's limits.
///
/// ```
/// use annals::items::Number;
///
/// let price: Number = "0012.50".parse()?;
/// assert_eq!(price.to_string(), "12.5");
/// assert!(price < Number::from(13u64));
/// assert!("1e200".parse::<Number>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    /// Not divisible by ten, and (0, 0) for zero: one representation per value.
    mantissa: i128,
    exponent: i16,
}

impl Number {
    /// Zero.
    pub const ZERO: Self = Self {
        mantissa: 0,
        exponent: 0,
    };

    fn normalised(mut mantissa: i128, mut exponent: i32) -> Result<Self> {
        if mantissa == 0 {
            return Ok(Self::ZERO);
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let magnitude = exponent + digits_of(mantissa) as i32 - 1;
        if !(MAGNITUDE_MIN..=MAGNITUDE_MAX).contains(&magnitude) {
            return Err(
                Error::invalid("number is outside DynamoDB's range of 1E-130 to 9.9E+125")
                    .fact("magnitude", magnitude),
            );
        }
        let exponent = i16::try_from(exponent).map_err(|e| Error::invalid("number").because(e))?;
        Ok(Self { mantissa, exponent })
    }

    /// `mantissa × 10^exponent`, for stores that encode numbers themselves.
    pub fn parts(self) -> (i128, i16) {
        (self.mantissa, self.exponent)
    }

    /// The number `mantissa × 10^exponent`.
    ///
    /// # Errors
    /// `Invalid` outside DynamoDB's range.
    pub fn from_parts(mantissa: i128, exponent: i16) -> Result<Self> {
        if digits_of(mantissa) > DIGITS_MAX {
            return Err(too_long());
        }
        Self::normalised(mantissa, exponent.into())
    }

    /// This number as an unsigned integer, if it is one.
    pub fn to_u64(self) -> Option<u64> {
        self.to_integer().and_then(|n| u64::try_from(n).ok())
    }

    /// This number as a signed integer, if it is one.
    pub fn to_i64(self) -> Option<i64> {
        self.to_integer().and_then(|n| i64::try_from(n).ok())
    }

    fn to_integer(self) -> Option<i128> {
        let zeros = u32::try_from(self.exponent).ok()?;
        self.mantissa.checked_mul(10i128.checked_pow(zeros)?)
    }

    /// Its share of an item's size: a byte for two digits on either side of the decimal point, one
    /// more, and one for a minus sign.
    pub(crate) fn size(self) -> usize {
        if self.mantissa == 0 {
            return 1;
        }
        let digits = digits_of(self.mantissa) as i32;
        let before_point = (digits + i32::from(self.exponent)).clamp(0, digits);
        let after_point = digits - before_point;
        let halves = (before_point as usize).div_ceil(2) + (after_point as usize).div_ceil(2);
        halves + 1 + usize::from(self.mantissa < 0)
    }
}

fn digits_of(mantissa: i128) -> usize {
    mantissa
        .unsigned_abs()
        .checked_ilog10()
        .map_or(1, |n| n as usize + 1)
}

fn too_long() -> Error {
    Error::invalid("number has more than 38 significant digits; store it as text")
}

impl FromStr for Number {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid("not a decimal number").fact("text", text);
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i16>().map_err(|_| malformed())?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let leading = all().take_while(|b| *b == b'0').count();
        let significant = whole.len() + fraction.len() - leading;
        let trailing = all().rev().take_while(|b| *b == b'0').count();
        let trailing = trailing.min(significant);
        if significant - trailing > DIGITS_MAX {
            return Err(too_long());
        }
        let magnitude = all()
            .skip(leading)
            .take(significant - trailing)
            .fold(0i128, |n, digit| n * 10 + i128::from(digit - b'0'));
        let shift = trailing as i64 - fraction.len() as i64 + i64::from(exponent);
        let exponent = i32::try_from(shift).map_err(|_| malformed())?;
        Self::normalised(if negative { -magnitude } else { magnitude }, exponent)
    }
}

impl fmt::Display for Number {
    /// Plain notation, as DynamoDB returns it: no exponent, no leading or trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa < 0 {
            f.write_str("-")?;
        }
        let digits = self.mantissa.unsigned_abs().to_string();
        if self.exponent >= 0 {
            let width = digits.len() + self.exponent as usize;
            return write!(f, "{digits:0<width$}");
        }
        let fraction = usize::from(self.exponent.unsigned_abs());
        match digits.len().checked_sub(fraction) {
            None | Some(0) => write!(f, "0.{digits:0>fraction$}"),
            Some(whole) => {
                let (whole, fraction) = digits.split_at(whole);
                write!(f, "{whole}.{fraction}")
            }
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs.is_ne() || self.mantissa == 0 {
            return signs;
        }
        let magnitude = |n: &Self| digits_of(n.mantissa) as i32 + i32::from(n.exponent);
        // Of the same magnitude: scale the one with the larger exponent to the smaller. Both then
        // have at most 38 digits, which fit into an i128.
        let aligned = |n: &Self, exponent: i16| {
            n.mantissa.unsigned_abs() * 10u128.pow((n.exponent - exponent).unsigned_abs().into())
        };
        let absolute = magnitude(self).cmp(&magnitude(other)).then_with(|| {
            let exponent = self.exponent.min(other.exponent);
            aligned(self, exponent).cmp(&aligned(other, exponent))
        });
        if self.mantissa < 0 {
            absolute.reverse()
        } else {
            absolute
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Integers of up to 64 bits are always in range.
fn from_integer(mut mantissa: i128) -> Number {
    let mut exponent = 0;
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    Number { mantissa, exponent }
}

impl From<u64> for Number {
    fn from(n: u64) -> Self {
        from_integer(n.into())
    }
}

impl From<i64> for Number {
    fn from(n: i64) -> Self {
        from_integer(n.into())
    }
}

impl From<u32> for Number {
    fn from(n: u32) -> Self {
        from_integer(n.into())
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
