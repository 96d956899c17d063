//! Wire types: the JSON that the command line prints and the server sends and takes.
//!
//! Promises: one type for one thing in both, serialised on one line in the order of its fields; the
//! schemas at `/openapi.json` are derived from the same types. JSON payloads keep their bytes.
//! Stored events are in `event`, appends in `append`, snapshots and state here, schemas of payloads in
//! `shapes`, calls of the store in `items` and `changes`, the feed in `feed`, projections in
//! `projections`, consumer groups in `group`, everything else in `reports`.

mod append;
mod changes;
mod event;
mod feed;
mod group;
pub(crate) mod items;
mod projections;
mod reports;
mod shapes;

pub(crate) use append::{Append, Appended, BulkAppend, BulkAppended, expected};
pub(crate) use changes::ChangesRead;
pub(crate) use event::{StoredEvent, push_cbor, push_line};
pub(crate) use feed::{FeedLine, FeedNotice, feed_lines};
pub(crate) use group::*;
pub(crate) use items::{ItemsCall, ItemsResult, ItemsTable};
pub(crate) use projections::*;
pub(crate) use reports::*;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;

use annals::{
    Codec, Error, NewEvent as Event, Payload, PersistenceId, Result, Scalar, SequenceNumber,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Number as JsonNumber, Value as Json};

/// A type of JSON value whose schema says more than its Rust type.
macro_rules! scalar {
    ($(#[$doc:meta])* $name:ident($inner:ty) as $schema_name:literal: $schema:tt) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Serialize)]
        #[serde(transparent)]
        pub(crate) struct $name(pub(crate) $inner);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema_name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

scalar!(
    /// A sequence number.
    Number(u64) as "SequenceNumber": {"type": "integer", "minimum": 1, "maximum": i64::MAX}
);
scalar!(
    /// How many, or a time in milliseconds since 1970.
    Count(u64) as "Count": {"type": "integer", "minimum": 0, "maximum": i64::MAX}
);
scalar!(
    /// The version of a payload's shape.
    Version(u32) as "Schema": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "The version of the payload's shape"}
);
scalar!(
    /// True.
    Yes(bool) as "Yes": {"type": "boolean", "enum": [true]}
);

impl From<SequenceNumber> for Number {
    fn from(number: SequenceNumber) -> Self {
        Self(number.get())
    }
}

impl Version {
    /// The version, unless it is 0: that is left out.
    fn new(version: u32) -> Option<Self> {
        (version > 0).then_some(Self(version))
    }
}

/// The line of a value. Text, numbers and maps with text as keys always become JSON.
pub(crate) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

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
        Some(raw) if has_line_ends(raw.get()) => {
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

/// Whether there are line ends, many bytes at a time: nearly always there are none.
fn has_line_ends(text: &str) -> bool {
    let mut pieces = text.as_bytes().chunks(64);
    pieces.any(|piece| {
        let found = piece.iter().fold(0, |found, byte| {
            found | u8::from(*byte == b'\n') | u8::from(*byte == b'\r')
        });
        found > 0
    })
}

/// Whether the text is JSON, or where it is not.
pub(crate) fn is_json(text: &str) -> serde_json::Result<()> {
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
        Error::invalid(format!("{what} is not {wants}; nothing was written")).fact("codec", codec)
    };
    match codec {
        Codec::Json => Ok(check_json(text, what)?.as_bytes().to_vec()),
        Codec::Text => Ok(text.as_bytes().to_vec()),
        codec if codec.has_values() => {
            let value = serde_json::from_str(text).ok();
            let bytes = value.and_then(|value| codec.bytes_of(&value));
            let wants = match Scalar::named(&codec.to_string()) {
                Some(Scalar::Int) => format!("a whole number from {} to {}", i32::MIN, i32::MAX),
                Some(Scalar::Long) => format!("a whole number from {} to {}", i64::MIN, i64::MAX),
                Some(Scalar::Boolean) => "true or false".to_owned(),
                _ => "a value of its codec, as JSON has it".to_owned(),
            };
            bytes.ok_or_else(|| refused(&wants))
        }
        _ => {
            let bytes = BASE64.decode(text.trim());
            bytes.map_err(|cause| refused("base64, as its codec takes").because(cause))
        }
    }
}

/// The bytes of a payload on the wire: a value under `payload`, of a codec that has values, or base64
/// under `payload_base64`, of any codec.
fn from_wire(
    codec: &Codec,
    payload: Option<&RawValue>,
    base64: Option<&str>,
    what: impl Display,
) -> Result<Vec<u8>> {
    let text = match (payload, base64) {
        (Some(payload), None) => payload.get(),
        (None, Some(base64)) => {
            let bytes = from_typed(&Codec::Bytes, base64, &what)?;
            return check_bytes(codec, bytes, what);
        }
        _ => {
            return Err(Error::invalid(format!(
                "{what} has either payload or payload_base64; nothing was written"
            )));
        }
    };
    if !codec.has_values() {
        return Err(Error::invalid(format!(
            "{what} has a codec without JSON values: send it as payload_base64; nothing was written"
        ))
        .fact("codec", codec));
    }
    match codec {
        Codec::Text => {
            let text = serde_json::from_str::<String>(text).map_err(|cause| {
                Error::invalid(format!("{what} is not a text; nothing was written"))
                    .fact("codec", codec)
                    .because(cause)
            })?;
            from_typed(codec, &text, what)
        }
        // Parsed already, or it would be no value.
        Codec::Json => Ok(text.as_bytes().to_vec()),
        _ => {
            let number: Option<JsonNumber> = serde_json::from_str(text).ok();
            let number = number.and_then(|number| integer(&number));
            let text = number.map_or_else(|| text.to_owned(), |whole| whole.to_string());
            from_typed(codec, &text, what)
        }
    }
}

/// The bytes, unless their codec has values and they are none of them.
fn check_bytes(codec: &Codec, bytes: Vec<u8>, what: impl Display) -> Result<Vec<u8>> {
    let is_value = match codec {
        Codec::Json => std::str::from_utf8(&bytes).is_ok_and(|text| is_json(text).is_ok()),
        codec => !codec.has_values() || codec.to_json(&bytes).is_some(),
    };
    match is_value {
        true => Ok(bytes),
        false => Err(Error::invalid(format!(
            "{what} has bytes that its codec cannot read; fix them, or name another codec. nothing was written"
        ))
        .fact("codec", codec)),
    }
}

/// A JSON number as an integer, written as `7` or as `7.0`.
pub(crate) fn integer(number: &JsonNumber) -> Option<i128> {
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

/// A payload as it is sent and typed in the body of a request.
macro_rules! payload_body {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(transform = shapes::payload_shapes)]
        pub(crate) struct $name<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            payload: Option<&'a RawValue>,
            #[serde(default, deserialize_with = "present")]
            payload_base64: Option<String>,
            #[serde(default, deserialize_with = "present")]
            codec: Option<String>,
            /// The name of the payload's type
            #[serde(default)]
            manifest: String,
            #[serde(default, deserialize_with = "whole")]
            #[schemars(with = "Version")]
            schema: u32,
            $($(#[$attribute])* $field: $type,)*
        }

        impl $name<'_> {
            /// The codec and the bytes.
            fn bytes(&self, what: impl std::fmt::Display) -> Result<(Codec, Vec<u8>)> {
                let codec = codec(self.codec.as_deref(), self.payload.is_some())?;
                let base64 = self.payload_base64.as_deref();
                let bytes = from_wire(&codec, self.payload, base64, what)?;
                Ok((codec, bytes))
            }
        }
    };
}

payload_body!(
    /// An event to be appended.
    NewEvent {
        #[serde(default)]
        #[schemars(inner(length(min = 1)))]
        tags: Vec<String>,
        #[serde(default)]
        metadata: BTreeMap<String, String>,
    }
);
payload_body!(
    /// A snapshot to be saved.
    NewSnapshot {}
);
payload_body!(
    /// A value to be written.
    NewState {
        /// The tag to find it by
        #[serde(default)]
        tag: String,
    }
);

/// The codec that is named; otherwise JSON for values, and bytes for base64.
fn codec(name: Option<&str>, is_value: bool) -> Result<Codec> {
    match name {
        Some(name) => parse_codec(name),
        None if is_value => Ok(Codec::Json),
        None => Ok(Codec::Bytes),
    }
}

/// A codec as it is typed and sent. Codecs are open, so a typo would be stored as another codec: one
/// that we do not know needs the prefix `other:`.
pub(crate) fn parse_codec(text: &str) -> Result<Codec> {
    let own = text.strip_prefix("other:").filter(|name| !name.is_empty());
    let number = text.strip_prefix("akka:");
    let is_serializer = number.is_some_and(|number| number.parse::<i32>().is_ok());
    let parsed: Result<Codec, Infallible> = own.unwrap_or(text).parse();
    match parsed {
        Ok(Codec::Other(_)) if own.is_none() && Scalar::named(text).is_none() && !is_serializer => {
            Err(Error::invalid(
                "unknown codec; use json, text, long, int, boolean, bytes, cbor, protobuf or akka:N, or other:NAME for a codec of your own",
            )
            .fact("codec", text))
        }
        Ok(codec) => Ok(codec),
    }
}

impl NewEvent<'_> {
    /// The event, number `place` of its append.
    pub(crate) fn event(self, place: usize) -> Result<Event> {
        let (codec, bytes) = self.bytes(format_args!("event {place}"))?;
        let mut event = Event::new(codec, bytes).manifest(self.manifest);
        event.schema = self.schema;
        event.tags = self.tags;
        event.metadata = self.metadata;
        Ok(event)
    }
}

impl NewSnapshot<'_> {
    /// The state.
    pub(crate) fn state(self) -> Result<Payload> {
        let (codec, bytes) = self.bytes("the state")?;
        let state = Payload::new(codec, bytes).manifest(self.manifest);
        Ok(state.schema(self.schema))
    }
}

impl NewState<'_> {
    /// The value with its tag.
    pub(crate) fn value(self) -> Result<annals::state::NewState> {
        let (codec, bytes) = self.bytes("the value")?;
        let value = Payload::new(codec, bytes).manifest(self.manifest);
        let value = value.schema(self.schema);
        Ok(annals::state::NewState::from(value).tag(self.tag))
    }
}

/// A member that may be left out, but is not null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number, which JSON may have as `7.0` as well.
fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let whole = integer(&number).and_then(|whole| u64::try_from(whole).ok());
    let fitting = whole.and_then(|whole| T::try_from(whole).ok());
    fitting.ok_or_else(|| serde::de::Error::custom(format!("number out of range: {number}")))
}

fn whole_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u64>, D::Error> {
    whole(deserializer).map(Some)
}

/// A stored snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Snapshot<'a> {
    persistence_id: &'a str,
    sequence_number: Number,
    time: Count,
    manifest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Version")]
    schema: Option<Version>,
    codec: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    payload: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    payload_base64: Option<String>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(snapshot: &'a annals::snapshot::Snapshot) -> Self {
        let state = &snapshot.payload;
        let (payload, payload_base64) = to_wire(&state.codec, &state.bytes);
        Self {
            persistence_id: snapshot.persistence_id.as_str(),
            sequence_number: snapshot.sequence_number.into(),
            time: Count(snapshot.time_ms),
            manifest: &state.manifest,
            schema: Version::new(state.schema),
            codec: state.codec.to_string(),
            payload,
            payload_base64,
        }
    }
}

/// Durable state: a stored value.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct State<'a> {
    persistence_id: &'a str,
    revision: Count,
    time: Count,
    tag: &'a str,
    manifest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Version")]
    schema: Option<Version>,
    codec: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    payload: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    payload_base64: Option<String>,
}

impl<'a> State<'a> {
    pub(crate) fn new(state: &'a annals::state::State, value: &'a Payload) -> Self {
        let (payload, payload_base64) = to_wire(&value.codec, &value.bytes);
        Self {
            persistence_id: state.persistence_id.as_str(),
            revision: Count(state.revision),
            time: Count(state.time_ms),
            tag: &state.tag,
            manifest: &value.manifest,
            schema: Version::new(value.schema),
            codec: value.codec.to_string(),
            payload,
            payload_base64,
        }
    }
}

/// An event's, or a snapshot's, persistence id and sequence number.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Position<'a> {
    persistence_id: &'a str,
    sequence_number: Number,
}

impl<'a> Position<'a> {
    pub(crate) fn new(id: &'a PersistenceId, number: SequenceNumber) -> Self {
        Self {
            persistence_id: id.as_str(),
            sequence_number: number.into(),
        }
    }
}
