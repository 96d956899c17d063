//! Payloads and times for people: printed, typed, and from standard input.

use std::fmt::Display;
use std::io::{self, IsTerminal};

use annals::log::Time;
use annals::{Codec, Error, Result};

use crate::columns::escaped;
use crate::wire;

/// A payload for people, on one line: base64 has its codec before it, such as `protobuf:AAEC`.
pub(crate) fn to_text(codec: &Codec, bytes: &[u8]) -> String {
    match wire::to_wire(codec, bytes) {
        (Some(raw), _) => serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
        (None, base64) => format!("{codec}:{}", base64.unwrap_or_default()),
    }
}

/// The codec unless it is JSON, then the payload indented, for a terminal.
pub(crate) fn to_pretty_text(codec: &Codec, bytes: &[u8]) -> String {
    let text = to_indented_text(codec, bytes);
    match codec {
        Codec::Json => text,
        // Stored data must not control the terminal.
        other => format!("    codec: {}\n{text}", escaped(&other.to_string())),
    }
}

/// A payload for people on lines of its own, indented; JSON keeps its numbers as they are stored, and
/// text its lines.
pub(crate) fn to_indented_text(codec: &Codec, bytes: &[u8]) -> String {
    let plain = std::str::from_utf8(bytes).ok();
    let text = match (plain, wire::to_wire(codec, bytes)) {
        (Some(plain), _) if *codec == Codec::Text => plain.to_owned(),
        (_, (Some(raw), _)) => indented(raw.get()),
        (_, (None, base64)) => base64.unwrap_or_default(),
    };
    // Stored data must not control the terminal.
    let lines = text.lines().map(|line| format!("    {}", escaped(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Valid JSON with a line for each member. A parser would round numbers, and drop members with the
/// name of another.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(2 * json.len());
    let (mut depth, mut is_string, mut is_escape) = (0_usize, false, false);
    let mut chars = json.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = chars.next() {
        if is_string {
            text.push(c);
            is_string = is_escape || c != '"';
            is_escape = !is_escape && c == '\\';
            continue;
        }
        match c {
            ' ' => {}
            '"' => {
                is_string = true;
                text.push(c);
            }
            '{' | '[' => {
                while chars.next_if_eq(&' ').is_some() {}
                text.push(c);
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push(c),
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
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

/// The bytes of a payload that was typed beside `--codec`.
pub(crate) fn from_typed(codec: &Codec, text: &str, what: impl Display) -> Result<Vec<u8>> {
    if *codec != Codec::Json {
        return wire::from_typed(codec, text, what);
    }
    let text = text.trim();
    wire::is_json(text).map_err(|cause| {
        Error::invalid(format!(
            "{what} is not JSON; nothing was written. For plain text, use --codec text"
        ))
        .because(cause)
    })?;
    Ok(text.as_bytes().to_vec())
}

/// The codecs that shells offer. The first ones have values that people can type.
pub(crate) const CODECS: &[&str] = &[
    "json", "text", "long", "int", "boolean", "bytes", "cbor", "protobuf",
];

/// A time for people.
pub(crate) fn time_text(time_ms: u64) -> String {
    if time_ms == 0 {
        return "-".to_owned();
    }
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
        Error::invalid("a time is milliseconds since 1970 or like 2026-01-31T12:00:00Z")
            .fact("time", text)
    })
}

/// A time of the log as it is typed.
pub(crate) fn parse_log_time(text: &str) -> Result<Time> {
    Time::from_ms(parse_time(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_indented_line_by_line_without_control_characters() {
        let text = "one\n  two \"quoted\"\u{1b}[2J\n\nü";
        let want = "    one\n      two \"quoted\"\\u{1b}[2J\n    \n    ü";
        assert_eq!(to_indented_text(&Codec::Text, text.as_bytes()), want);
        assert_eq!(to_indented_text(&Codec::Text, b"\xff"), "    /w==");
    }

    #[test]
    fn indented_json_is_the_same_json() {
        let json = r#"{"a":[1, 2.50,{}],"b" : {"c":"x, {\"y\": [}"},"n":12345678901234567890123,"e":[ ],"a":null}"#;
        let want = r#"{
  "a": [
    1,
    2.50,
    {}
  ],
  "b": {
    "c": "x, {\"y\": [}"
  },
  "n": 12345678901234567890123,
  "e": [],
  "a": null
}"#;
        assert_eq!(indented(json), want);
        assert_eq!(indented(want), want);
        assert_eq!(indented("\"a\""), "\"a\"");
        assert_eq!(indented("12e3"), "12e3");
    }
}
