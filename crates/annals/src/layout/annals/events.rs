//! The bytes of events (`docs/format.md`).
//!
//! Guarantees: events decode unchanged; their payloads share the bytes. No I/O.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::body::{Encoded, Out, Read};
use crate::{Codec, Error, NewEvent, Result};

pub(super) fn not_events(cause: minicbor::decode::Error) -> Error {
    Error::corrupt("stored events do not parse").because(cause)
}

/// Encodes events, uncompressed.
pub(super) fn encode_events(events: &[NewEvent]) -> Vec<u8> {
    let size: usize = events.iter().map(|event| event.payload.len() + 24).sum();
    let mut bytes = Vec::with_capacity(size);
    let mut out = Encoder::new(&mut bytes);
    let written = events
        .iter()
        .try_for_each(|event| write_event(&mut out, event));
    debug_assert!(written.is_ok());
    bytes
}

/// Unset optional fields at the end are omitted, as in the header.
pub(super) fn write_event(out: &mut Out<'_>, event: &NewEvent) -> Encoded {
    let is_set = [
        event.codec != Codec::Bytes,
        !event.manifest.is_empty(),
        event.schema > 0,
        !event.tags.is_empty(),
        !event.metadata.is_empty(),
    ];
    let optional = is_set
        .iter()
        .rposition(|is_set| *is_set)
        .map_or(0, |last| last + 1);
    out.array(1 + optional as u64)?.bytes(&event.payload)?;
    for field in 0..optional {
        match field {
            0 => write_codec(out, &event.codec)?,
            1 => out.str(&event.manifest)?.ok()?,
            2 => out.u32(event.schema)?.ok()?,
            3 => {
                out.array(event.tags.len() as u64)?;
                event.tags.iter().try_for_each(|tag| out.str(tag)?.ok())?;
            }
            _ => {
                out.map(event.metadata.len() as u64)?;
                for (name, value) in &event.metadata {
                    out.str(name)?.str(value)?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn write_codec(out: &mut Out<'_>, codec: &Codec) -> Encoded {
    let number = match codec {
        Codec::Bytes => 0,
        Codec::Json => 1,
        Codec::Text => 2,
        Codec::Cbor => 3,
        Codec::Protobuf => 4,
        Codec::Other(name) => return out.str(name)?.ok(),
    };
    out.u8(number)?.ok()
}

/// Decodes events, whose payloads share the bytes.
pub(super) fn decode_events(bytes: &Bytes) -> Result<Vec<NewEvent>> {
    let mut input = Decoder::new(bytes);
    let mut events = Vec::new();
    while input.position() < bytes.len() {
        events.push(read_event(&mut input, bytes).map_err(not_events)?);
    }
    Ok(events)
}

/// Takes the first event from the bytes. If it is the only one, its payload has the bytes alone: sharing
/// them costs more than the rest for small events.
pub(super) fn take_event(bytes: &mut Bytes, event: &mut NewEvent) -> Read<()> {
    let mut input = Decoder::new(bytes);
    let payload = read_fields(&mut input, event)?;
    let (len, read) = (payload.bytes.len(), input.position());
    let rest = match read == bytes.len() {
        true => Bytes::new(),
        false => bytes.slice(read..),
    };
    let end = payload.end;
    event.payload = std::mem::replace(bytes, rest);
    event.payload.truncate(end);
    event.payload.advance(end - len);
    Ok(())
}

/// Reads an event, whose payload shares the bytes that are read.
pub(super) fn read_event(input: &mut Decoder<'_>, bytes: &Bytes) -> Read<NewEvent> {
    let mut event = NewEvent::default();
    event.payload = bytes.slice_ref(read_fields(input, &mut event)?.bytes);
    Ok(event)
}

/// A payload in the bytes that are read.
struct PayloadIn<'b> {
    bytes: &'b [u8],
    /// Where it ends in them.
    end: usize,
}

/// Reads everything but the payload into an event that is empty, and returns the payload.
fn read_fields<'b>(input: &mut Decoder<'b>, event: &mut NewEvent) -> Read<PayloadIn<'b>> {
    let wrong = minicbor::decode::Error::message;
    let fields = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    let bytes = input.bytes()?;
    let end = input.position();
    for field in 1..fields {
        match field {
            1 => event.codec = read_codec(input)?,
            2 => event.manifest = input.str()?.to_owned(),
            3 => event.schema = input.u32()?,
            4 => {
                let tags = input.array()?.unwrap_or(0);
                let tags = (0..tags).map(|_| Ok(input.str()?.to_owned()));
                event.tags = tags.collect::<Read<_>>()?;
            }
            5 => {
                let members = input.map()?.unwrap_or(0);
                let pairs =
                    (0..members).map(|_| Ok((input.str()?.to_owned(), input.str()?.to_owned())));
                event.metadata = pairs.collect::<Read<BTreeMap<_, _>>>()?;
            }
            _ => return Err(wrong("event with unknown fields")),
        }
    }
    Ok(PayloadIn { bytes, end })
}

pub(super) fn read_codec(input: &mut Decoder<'_>) -> Read<Codec> {
    if input.datatype()? == Type::String {
        return Ok(Codec::Other(input.str()?.to_owned()));
    }
    Ok(match input.u8()? {
        0 => Codec::Bytes,
        1 => Codec::Json,
        2 => Codec::Text,
        3 => Codec::Cbor,
        4 => Codec::Protobuf,
        _ => return Err(minicbor::decode::Error::message("unknown codec")),
    })
}
