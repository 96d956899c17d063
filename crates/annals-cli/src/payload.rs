//! Payloads and times as they are printed and typed.

use std::fmt::Display;
use std::io::{self, IsTerminal};

use annals::{Codec, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};

/// What the library can show of it, as JSON; anything else, and what is not what it says it is, as
/// base64 under another name. JSON itself is shown as it is stored: a parser would round numbers,
/// and drop the first of two members of one name.
fn to_json(codec: &Codec, bytes: &[u8]) -> (&'static str, String) {
    if let Some(text) = std::str::from_utf8(bytes)
        .ok()
        .filter(|_| *codec == Codec::Json)
        && is_json(text).is_ok()
    {
        // Only between its tokens can JSON have ends of lines.
        return ("payload", text.replace(['\n', '\r'], " "));
    }
    match codec.to_json(bytes) {
        Some(json) => ("payload", json.to_string()),
        None => (
            "payload_base64",
            Json::from(BASE64.encode(bytes)).to_string(),
        ),
    }
}

/// The line of an object that has members, and of a payload as the last one.
pub(crate) fn to_line(object: &Json, codec: &Codec, bytes: &[u8]) -> String {
    let ((name, payload), mut line) = (to_json(codec, bytes), object.to_string());
    line.pop();
    line.push_str(&format!(",\"{name}\":{payload}}}"));
    line
}

/// The same for people.
pub(crate) fn to_text(codec: &Codec, bytes: &[u8]) -> String {
    let (_, json) = to_json(codec, bytes);
    serde_json::from_str(&json).unwrap_or(json)
}

fn is_json(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ())
}

/// The text, if it is JSON. It is kept as it was typed.
pub(crate) fn check_json(text: &str, what: impl Display) -> Result<&str> {
    let text = text.trim();
    is_json(text).map_err(|cause| {
        Error::invalid(format!("{what} is not JSON; nothing was written")).because(cause)
    })?;
    Ok(text)
}

/// The bytes of what was typed for a codec: JSON and text as they were typed, a single value as
/// JSON, and base64 for every codec that shows no values.
pub(crate) fn from_typed(codec: &Codec, text: &str, what: impl Display) -> Result<Vec<u8>> {
    let refused = |wants: &str| {
        Error::invalid(format!(
            "{what} is not {wants}; nothing was written. codec=`{codec}`"
        ))
    };
    match codec {
        Codec::Json => Ok(check_json(text, what)?.as_bytes().to_vec()),
        Codec::Text => Ok(text.as_bytes().to_vec()),
        shown if shown.has_values() => {
            let value = serde_json::from_str(text).ok();
            let bytes = value.and_then(|value| shown.bytes_of(&value));
            bytes.ok_or_else(|| refused("a value of its codec, as JSON has it"))
        }
        _ => {
            let bytes = BASE64.decode(text.trim());
            bytes.map_err(|cause| refused("base64, as its codec takes").because(cause))
        }
    }
}

/// The bytes of a payload as it is shown: a value under `payload`, of a codec that shows values, or
/// base64 under `payload_base64`, of any.
pub(crate) fn from_shown(
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
            "{what} is of a codec that shows no values: say it as payload_base64; nothing was written. codec=`{codec}`"
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

/// The whole number that a number of JSON is, written as `7` or as `7.0`.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    /// Up to here, and no further, floating points are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(whole) = number.as_i64() {
        return Some(i128::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Some(i128::from(whole));
    }
    let float = number.as_f64()?;
    // Inside of these bounds nothing is cut off.
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i128)
}

/// Everything on standard input.
///
/// # Errors
/// `Invalid` with these words where somebody would have to type it.
pub(crate) fn piped(missing: &str) -> Result<String> {
    if io::stdin().is_terminal() {
        return Err(Error::invalid(missing));
    }
    io::read_to_string(io::stdin())
        .map_err(|cause| Error::invalid("standard input cannot be read as text").because(cause))
}

/// A JSON value that is given, or else is on standard input.
pub(crate) fn given_or_piped(given: Option<String>, what: &str) -> Result<String> {
    let text = match given {
        Some(text) => text,
        None => piped(&format!(
            "{what} is missing; say it behind the id, or pipe it in as JSON"
        ))?,
    };
    check_json(&text, what).map(str::to_owned)
}

/// A moment for people.
pub(crate) fn time_text(time_ms: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(time_ms).unwrap_or(i64::MAX));
    time.map_or_else(|_| time_ms.to_string(), |time| format!("{time:.3}"))
}

/// A moment as it is typed: milliseconds since the Unix epoch, or RFC 3339.
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
