//! The bytes of a commit: header and events (`docs/format.md`).
//!
//! Guarantees: a commit decodes unchanged; the frame detects damage. No I/O.

use std::collections::BTreeMap;

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::body::{Body, ChunkSummary};
use super::frame::{Encoded, Out, Read, read_frame, write_frame};
use crate::items::Key;
use crate::{Codec, Error, NewEvent, Payload, Result, SequenceNumber, Token};

/// A commit's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The number of sequence numbers.
    pub(super) count: u64,
    pub(super) time_ms: u64,
    pub(super) token: Token,
    /// How many of the first events are deleted.
    pub(super) gone: u64,
    /// The low watermark: everything up to it is deleted. Only on the very first commit.
    pub(super) low: Option<SequenceNumber>,
    pub(super) causation: Option<String>,
    pub(super) correlation: Option<String>,
    /// The state after its events, if it is stored inline.
    pub(super) snapshot: Option<Payload>,
}

/// A commit as stored under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCommit {
    pub(super) header: Header,
    pub(super) body: Body,
}

/// Encodes a commit for `key`.
pub(super) fn encode(commit: &StoredCommit, key: &Key) -> Vec<u8> {
    write_frame(key, &commit.body, |out| write_header(out, commit))
}

/// Decodes the commit stored under `key`.
pub(super) fn decode(bytes: &[u8], key: &Key) -> Result<StoredCommit> {
    let (header, body) = read_frame("commit", key, bytes, read_header)?;
    Ok(StoredCommit { header, body })
}

/// Three fields, then optional ones; unset optional fields at the end are omitted.
fn write_header(out: &mut Out<'_>, commit: &StoredCommit) -> Encoded {
    let header = &commit.header;
    let chunks = match &commit.body {
        Body::Chunked(chunks) => Some(chunks),
        _ => None,
    };
    let is_set = [
        header.gone > 0,
        header.low.is_some(),
        chunks.is_some(),
        header.causation.is_some(),
        header.correlation.is_some(),
        header.snapshot.is_some(),
    ];
    let optional = is_set
        .iter()
        .rposition(|is_set| *is_set)
        .map_or(0, |last| last + 1);
    out.array(3 + optional as u64)?;
    out.u64(header.count)?.u64(header.time_ms)?;
    out.bytes(&header.token.to_bytes())?;
    for field in 0..optional {
        match field {
            0 => out.u64(header.gone)?,
            1 => match header.low {
                Some(low) => out.u64(low.get())?,
                None => out.null()?,
            },
            2 => match chunks {
                Some(chunks) => {
                    chunks.write(out)?;
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

fn read_header(input: &mut Decoder<'_>) -> Read<(Header, Option<ChunkSummary>)> {
    let wrong = minicbor::decode::Error::message;
    let fields = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    if !(3..=9).contains(&fields) {
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
    let mut chunks = None;
    for field in 3..fields {
        match field {
            3 => header.gone = input.u64()?,
            _ if input.datatype()? == Type::Null => input.null()?,
            4 => header.low = SequenceNumber::new(input.u64()?),
            5 => chunks = Some(ChunkSummary::read(input)?),
            6 => header.causation = Some(input.str()?.to_owned()),
            7 => header.correlation = Some(input.str()?.to_owned()),
            _ => header.snapshot = Some(read_event(input)?.into()),
        }
    }
    Ok((header, chunks))
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
fn write_event(out: &mut Out<'_>, event: &NewEvent) -> Encoded {
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

/// Decodes events.
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
    let fields = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    let mut event = NewEvent {
        payload: Bytes::copy_from_slice(input.bytes()?),
        ..NewEvent::default()
    };
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
        _ => return Err(minicbor::decode::Error::message("unknown codec")),
    })
}
