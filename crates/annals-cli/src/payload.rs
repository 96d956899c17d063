//! Payloads and times: printed, typed, and on the wire.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal};

use annals::{Codec, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Number;
use serde_json::value::{RawValue, to_raw_value};

/// A payload for the wire: JSON where its codec has values, otherwise, or where it is not what its
/// codec says, base64. JSON is passed on as it is stored: a parser would round numbers, and drop the
/// first of two members of one name.
pub(crate) fn to_wire<'a>(
    codec: &Codec,
    bytes: &'a [u8],
) -> (Option<Cow<'a, RawValue>>, Option<String>) {
    let text = std::str::from_utf8(bytes).ok();
    let json = text.filter(|_| *codec == Codec::Json);
    let raw = match json.and_then(|text| serde_json::from_str::<&RawValue>(text).ok()) {
        // JSON can have line ends between its tokens only.
        Some(raw) if raw.get().contains(['\n', '\r']) => {
            let text = raw.get().replace(['\n', '\r'], " ");
            RawValue::from_string(text).ok().map(Cow::Owned)
        }
        Some(raw) => Some(Cow::Borrowed(raw)),
        None => {
            let json = codec.to_json(bytes);
            json.and_then(|json| to_raw_value(&json).ok())
                .map(Cow::Owned)
        }
    };
    match raw {
        Some(raw) => (Some(raw), None),
        None => (None, Some(BASE64.encode(bytes))),
    }
}

/// A payload for people.
pub(crate) fn to_text(codec: &Codec, bytes: &[u8]) -> String {
    match to_wire(codec, bytes) {
        (Some(raw), _) => serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
        (None, base64) => base64.unwrap_or_default(),
    }
}

fn is_json(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ())
}

/// The text, if it is JSON, unchanged.
pub(crate) fn check_json(text: &str, what: impl Display) -> Result<&str> {
    let text = text.trim();
    is_json(text).map_err(|cause| {
        Error::invalid(format!("{what} is not JSON; nothing was written")).because(cause)
    })?;
    Ok(text)
}

/// The bytes of a payload that was typed: JSON and text unchanged, a single value as JSON, and base64
/// for every codec without values.
pub(crate) fn from_typed(codec: &Codec, text: &str, what: impl Display) -> Result<Vec<u8>> {
    let refused = |wants: &str| {
        Error::invalid(format!(
            "{what} is not {wants}; nothing was written. codec=`{codec}`"
        ))
    };
    match codec {
        Codec::Json => Ok(check_json(text, what)?.as_bytes().to_vec()),
        Codec::Text => Ok(text.as_bytes().to_vec()),
        codec if codec.has_values() => {
            let value = serde_json::from_str(text).ok();
            let bytes = value.and_then(|value| codec.bytes_of(&value));
            bytes.ok_or_else(|| refused("a value of its codec, as JSON has it"))
        }
        _ => {
            let bytes = BASE64.decode(text.trim());
            bytes.map_err(|cause| refused("base64, as its codec takes").because(cause))
        }
    }
}

/// The bytes of a payload on the wire: a value under `payload`, of a codec that has values, or base64
/// under `payload_base64`, of any codec.
pub(crate) fn from_wire(
    codec: &Codec,
    payload: Option<&RawValue>,
    base64: Option<&str>,
    what: impl Display,
) -> Result<Vec<u8>> {
    let text = match (payload, base64) {
        (Some(payload), None) => payload.get(),
        (None, Some(base64)) => return from_typed(&Codec::Bytes, base64, what),
        _ => {
            return Err(Error::invalid(format!(
                "{what} has either payload or payload_base64; nothing was written"
            )));
        }
    };
    if !codec.has_values() {
        return Err(Error::invalid(format!(
            "{what} has a codec without JSON values: send it as payload_base64; nothing was written. codec=`{codec}`"
        )));
    }
    match codec {
        Codec::Text => {
            let text = serde_json::from_str::<String>(text).map_err(|cause| {
                Error::invalid(format!(
                    "{what} is not a text; nothing was written. codec=`{codec}`"
                ))
                .because(cause)
            })?;
            from_typed(codec, &text, what)
        }
        // Parsed already, or it would be no value.
        Codec::Json => Ok(text.as_bytes().to_vec()),
        _ => {
            let number: Option<Number> = serde_json::from_str(text).ok();
            let number = number.and_then(|number| whole(&number));
            let text = number.map_or_else(|| text.to_owned(), |whole| whole.to_string());
            from_typed(codec, &text, what)
        }
    }
}

/// A JSON number as an integer, written as `7` or as `7.0`.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    /// Up to here floating-point numbers are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(whole) = number.as_i64() {
        return Some(i128::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Some(i128::from(whole));
    }
    let float = number.as_f64()?;
    // Within these bounds the cast is exact.
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i128)
}

/// Everything on standard input.
///
/// # Errors
/// `Invalid` with this message where standard input is a terminal.
pub(crate) fn piped(missing: &str) -> Result<String> {
    if io::stdin().is_terminal() {
        return Err(Error::invalid(missing));
    }
    io::read_to_string(io::stdin())
        .map_err(|cause| Error::invalid("standard input cannot be read as text").because(cause))
}

/// The text of the argument, or else of standard input.
pub(crate) fn given_or_piped(given: Option<String>, what: &str) -> Result<String> {
    match given {
        Some(text) => Ok(text),
        None => piped(&format!(
            "{what} is missing; give it after the id, or pipe it in"
        )),
    }
}

/// A time for people.
pub(crate) fn time_text(time_ms: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(time_ms).unwrap_or(i64::MAX));
    time.map_or_else(|_| time_ms.to_string(), |time| format!("{time:.3}"))
}

/// A time as it is typed: milliseconds since the Unix epoch, or RFC 3339.
pub(crate) fn parse_time(text: &str) -> Result<u64> {
    if let Ok(time_ms) = text.parse() {
        return Ok(time_ms);
    }
    let time = text.parse::<jiff::Timestamp>().ok();
    let time = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    time.ok_or_else(|| {
        Error::invalid(format!(
            "a time is milliseconds since 1970 or like 2026-01-31T12:00:00Z. time=`{text}`"
        ))
    })
}
