//! Strings in Java's object serialization, which Akka up to 2.5 used for text events.
//!
//! Guarantees: the text that Java would read, or `None` for any other object. Lengths and every byte
//! are checked.

use annals::{Error, Result};

/// The start of every stream: the magic number and the only format version.
const HEADER: [u8; 4] = [0xAC, 0xED, 0x00, 0x05];
const TC_STRING: u8 = 0x74;
const TC_LONGSTRING: u8 = 0x7C;

/// The string in a stream; `None` if it is another object or more than one, or the string has half
/// of a surrogate pair, and so no UTF-8.
///
/// # Errors
/// `Corrupt` if it is a string that Java could not read either.
pub(super) fn string(bytes: &[u8]) -> Result<Option<String>> {
    let Some([tag, body @ ..]) = bytes.strip_prefix(&HEADER) else {
        return Ok(None);
    };
    let split = match *tag {
        TC_STRING => body
            .split_first_chunk()
            .map(|(len, text)| (u64::from(u16::from_be_bytes(*len)), text)),
        TC_LONGSTRING => body
            .split_first_chunk()
            .map(|(len, text)| (u64::from_be_bytes(*len), text)),
        _ => return Ok(None),
    };
    let cut = || Error::corrupt("a string serialized by Java is cut short");
    let (len, text) = split.ok_or_else(cut)?;
    if (text.len() as u64) < len {
        return Err(cut());
    }
    if text.len() as u64 > len {
        return Ok(None);
    }
    let units = units(text)
        .ok_or_else(|| Error::corrupt("a string serialized by Java is not valid modified UTF-8"));
    Ok(String::from_utf16(&units?).ok())
}

/// The UTF-16 in Java's modified UTF-8: one to three bytes for each unit, two for zero.
fn units(mut bytes: &[u8]) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(bytes.len());
    let low = |byte: u8| u16::from(byte & 0x3F);
    loop {
        let (unit, rest) = match bytes {
            [] => return Some(units),
            [a @ 0..=0x7F, rest @ ..] => (u16::from(*a), rest),
            [a @ 0xC0..=0xDF, b @ 0x80..=0xBF, rest @ ..] => {
                (u16::from(a & 0x1F) << 6 | low(*b), rest)
            }
            [a @ 0xE0..=0xEF, b @ 0x80..=0xBF, c @ 0x80..=0xBF, rest @ ..] => {
                (u16::from(a & 0x0F) << 12 | low(*b) << 6 | low(*c), rest)
            }
            _ => return None,
        };
        units.push(unit);
        bytes = rest;
    }
}

#[cfg(test)]
#[path = "java_tests.rs"]
mod tests;
