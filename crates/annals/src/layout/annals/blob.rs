//! The bytes of a commit: its header and its events (`docs/format.md`).
//!
//! Promises: what was written reads back the same.
//! Trusts: the frame around them to tell damage.
//! Never: reads the store.

use std::collections::BTreeMap;

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::body::{Body, PartsRecord};
use super::frame::{Encoded, Out, Read, frame, unframe};
use crate::items::Key;
use crate::{Codec, Error, NewEvent, Payload, Result, SequenceNumber, Token};

/// What a commit says of itself besides its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// How many sequence numbers it takes.
    pub(super) count: u64,
    pub(super) time_ms: u64,
    pub(super) token: Token,
    /// How many of its first events were deleted, their payloads with them.
    pub(super) gone: u64,
    /// Everything up to this number is deleted; kept on the very first commit alone.
    pub(super) low: Option<SequenceNumber>,
    pub(super) causation: Option<String>,
    pub(super) correlation: Option<String>,
    /// The state that its events lead to, where it rides along.
    pub(super) snapshot: Option<Payload>,
}

/// A commit as stored under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) header: Header,
    pub(super) body: Body,
}

/// The bytes of a commit to be stored under `key`.
pub(super) fn encode(blob: &Blob, key: &Key) -> Vec<u8> {
    frame(key, &blob.body, |out| write_header(out, blob))
}

/// The commit that was stored under `key`.
pub(super) fn decode(bytes: &[u8], key: &Key) -> Result<Blob> {
    let (header, body) = unframe(("commit", key), bytes, read_header)?;
    Ok(Blob { header, body })
}

/// What each place after the third means; the last ones are left out while they say nothing.
fn write_header(out: &mut Out<'_>, blob: &Blob) -> Encoded {
    let header = &blob.header;
    let parts = match &blob.body {
        Body::Parts(parts) => Some(parts),
        _ => None,
    };
    let says = [
        header.gone > 0,
        header.low.is_some(),
        parts.is_some(),
        header.causation.is_some(),
        header.correlation.is_some(),
        header.snapshot.is_some(),
    ];
    let optional = says
        .iter()
        .rposition(|says| *says)
        .map_or(0, |last| last + 1);
    out.array(3 + optional as u64)?;
    out.u64(header.count)?.u64(header.time_ms)?;
    out.bytes(&header.token.to_bytes())?;
    for place in 0..optional {
        match place {
            0 => out.u64(header.gone)?,
            1 => match header.low {
                Some(low) => out.u64(low.get())?,
                None => out.null()?,
            },
            2 => match parts {
                Some(parts) => {
                    parts.write(out)?;
                    &mut *out
                }
                None => out.null()?,
            },
            3 => write_text(out, header.causation.as_deref())?,
            4 => write_text(out, header.correlation.as_deref())?,
            _ => {
                if let Some(snapshot) = header.snapshot.clone() {
                    write_event(out, &snapshot.into())?;
                }
                &mut *out
            }
        };
    }
    Ok(())
}

fn write_text<'e, 'a>(
    out: &'e mut Out<'a>,
    text: Option<&str>,
) -> std::result::Result<&'e mut Out<'a>, minicbor::encode::Error<std::convert::Infallible>> {
    match text {
        Some(text) => out.str(text),
        None => out.null(),
    }
}

fn read_header(input: &mut Decoder<'_>) -> Read<(Header, Option<PartsRecord>)> {
    let wrong = minicbor::decode::Error::message;
    let places = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    if !(3..=9).contains(&places) {
        return Err(wrong("header of another length"));
    }
    let (count, time_ms) = (input.u64()?, input.u64()?);
    let token = <[u8; Token::BYTES]>::try_from(input.bytes()?);
    let token = token.map_err(|_| wrong("token of another length"))?;
    let mut header = Header {
        count,
        time_ms,
        token: Token::from_bytes(token),
        gone: 0,
        low: None,
        causation: None,
        correlation: None,
        snapshot: None,
    };
    let mut parts = None;
    for place in 3..places {
        match place {
            3 => header.gone = input.u64()?,
            _ if input.datatype()? == Type::Null => input.null()?,
            4 => header.low = SequenceNumber::new(input.u64()?),
            5 => parts = Some(PartsRecord::read(input)?),
            6 => header.causation = Some(input.str()?.to_owned()),
            7 => header.correlation = Some(input.str()?.to_owned()),
            _ => header.snapshot = Some(read_event(input)?.into()),
        }
    }
    Ok((header, parts))
}

/// The bytes of events, not compressed.
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

/// As with the header, the last places are left out while they say nothing.
fn write_event(out: &mut Out<'_>, event: &NewEvent) -> Encoded {
    let says = [
        event.codec != Codec::Bytes,
        !event.manifest.is_empty(),
        event.schema > 0,
        !event.tags.is_empty(),
        !event.metadata.is_empty(),
    ];
    let optional = says
        .iter()
        .rposition(|says| *says)
        .map_or(0, |last| last + 1);
    out.array(1 + optional as u64)?.bytes(&event.payload)?;
    for place in 0..optional {
        match place {
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

/// The events in such bytes.
pub(super) fn decode_events(bytes: &[u8]) -> Result<Vec<NewEvent>> {
    let mut input = Decoder::new(bytes);
    let mut events = Vec::new();
    while input.position() < bytes.len() {
        let event = read_event(&mut input);
        events.push(event.map_err(|e| Error::corrupt("stored events do not parse").because(e))?);
    }
    Ok(events)
}

fn read_event(input: &mut Decoder<'_>) -> Read<NewEvent> {
    let wrong = minicbor::decode::Error::message;
    let places = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    let mut event = NewEvent {
        payload: Bytes::copy_from_slice(input.bytes()?),
        ..NewEvent::default()
    };
    for place in 1..places {
        match place {
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
            _ => return Err(wrong("event with more places than there are")),
        }
    }
    Ok(event)
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
        _ => return Err(minicbor::decode::Error::message("no such codec")),
    })
}
