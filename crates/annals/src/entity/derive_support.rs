//! Functions that derived code calls.
//!
//! Guarantees: a payload with another schema number than the type's is `Corrupt`, and the error names
//! both; fields that happen to have the same names are not mistaken for the type's. A payload stored
//! under a custom codec name is read with the format that wrote it.

use serde::Serialize;
use serde::de::value::{Error as NoContent, UnitDeserializer};
use serde::de::{DeserializeOwned, IgnoredAny, IntoDeserializer};

use super::codec::ValueCodec;
use super::variant;
use crate::payload::SerdeFormat;
use crate::{Codec, Error, NewEvent, Payload, Result};

/// A serde type.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a serde type",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, or choose another format in the derive"
)]
pub trait Serde: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Serde for T {}

/// The attributes of a derived event.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The schema number to write.
    pub schema: u32,
    /// Whether it accepts unknown events, of any schema number.
    pub is_catch_all: bool,
    /// The codec name to store, if it is not the format's own.
    pub codec: Option<&'static str>,
    /// The tags to write.
    pub tags: &'static [&'static str],
}

impl Shape {
    fn event(self, name: &str, payload: Payload) -> NewEvent {
        let payload = rename_codec(payload, self.codec);
        let mut event = NewEvent::from(payload.manifest(name).schema(self.schema));
        event.tags = self.tags.iter().map(|tag| (*tag).to_owned()).collect();
        event
    }

    fn check(self, stored: u32) -> Result<()> {
        match self.is_catch_all {
            true => Ok(()),
            false => check_schema(stored, self.schema),
        }
    }
}

/// The attributes of a derived state.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct StoredShape {
    /// The schema number to write.
    pub schema: u32,
    /// The codec name to store, if it is not the format's own.
    pub codec: Option<&'static str>,
    /// The manifest to write, then others to accept; empty: accept any.
    pub names: &'static [&'static str],
}

fn check_schema(stored: u32, own: u32) -> Result<()> {
    if stored != own {
        return Err(Error::corrupt(
            "a payload has another schema number; convert it with an adapter",
        )
        .fact("schema", stored)
        .fact("expected", own));
    }
    Ok(())
}

/// Store a payload under a codec name.
fn rename_codec(mut payload: Payload, codec: Option<&str>) -> Payload {
    if let Some(codec) = codec {
        payload.codec = codec_named(codec);
    }
    payload
}

fn codec_named(codec: &str) -> Codec {
    let Ok(codec) = codec.parse();
    codec
}

/// Undo [`rename_codec`]: the payload with the codec that wrote it.
fn restore_codec(mut payload: Payload, renamed: Option<&str>, own: Codec) -> Payload {
    if renamed.is_some_and(|renamed| codec_named(renamed) == payload.codec) {
        payload.codec = own;
    }
    payload
}

/// The payload of an event without its manifest and schema number.
fn content(event: &NewEvent) -> Payload {
    Payload::new(event.codec.clone(), event.payload.clone())
}

/// Encode an enum variant as an event.
///
/// # Errors
/// `Invalid` if the format cannot represent it.
pub fn write_variant<T: Serialize>(
    value: &T,
    format: SerdeFormat,
    shape: Shape,
) -> Result<NewEvent> {
    let (name, payload) = variant::write(format, value)?;
    Ok(shape.event(name, payload))
}

/// Decode an enum variant; `None` if no variant has the manifest. `renamed` lists custom codec names
/// with the formats that wrote them.
///
/// # Errors
/// `Corrupt` if it does not decode or has another schema number.
pub fn read_variant<T: DeserializeOwned>(
    event: &NewEvent,
    renamed: &[(&str, SerdeFormat)],
    shape: impl Fn(&T) -> Shape,
) -> Result<Option<T>> {
    let payload = renamed.iter().fold(content(event), |payload, own| {
        restore_codec(payload, Some(own.0), own.1.codec())
    });
    let value = variant::read(&event.manifest, &payload)?;
    if let Some(value) = &value {
        shape(value).check(event.schema)?;
    }
    Ok(value)
}

/// Encode a value as an event with this manifest.
///
/// # Errors
/// `Invalid` if the codec cannot represent it.
pub fn write_value<C: ValueCodec<T>, T>(value: &T, name: &str, shape: Shape) -> Result<NewEvent> {
    Ok(shape.event(name, Payload::new(C::codec(), C::write(value)?)))
}

/// Decode a value; `None` if the event has none of these manifests.
///
/// # Errors
/// `Corrupt` if it does not decode or has another schema number.
pub fn read_value<C: ValueCodec<T>, T>(
    event: &NewEvent,
    names: &[&str],
    shape: Shape,
) -> Result<Option<T>> {
    if !names.contains(&event.manifest.as_str()) {
        return Ok(None);
    }
    shape.check(event.schema)?;
    let payload = restore_codec(content(event), shape.codec, C::codec());
    C::read(&payload).map(Some)
}

/// No content, as an empty map, which mappers of other languages read as an object.
#[doc(hidden)]
#[derive(Debug, Serialize, serde::Deserialize)]
pub struct Nothing {}

/// Encode a unit struct as an event with this manifest: an empty map, like a unit variant.
///
/// # Errors
/// `Invalid` if the codec fails.
pub fn write_unit<C: ValueCodec<Nothing>>(name: &str, shape: Shape) -> Result<NewEvent> {
    write_value::<C, _>(&Nothing {}, name, shape)
}

/// Decode a unit struct; `None` if the event has none of these manifests.
///
/// # Errors
/// `Corrupt` if it does not decode or has another schema number.
pub fn read_unit<C: ValueCodec<Nothing>, T: DeserializeOwned>(
    event: &NewEvent,
    names: &[&str],
    shape: Shape,
) -> Result<Option<T>> {
    if !names.contains(&event.manifest.as_str()) {
        return Ok(None);
    }
    shape.check(event.schema)?;
    // Ignore any content: the struct may have had fields in an earlier release.
    let payload = restore_codec(content(event), shape.codec, C::codec());
    let _: IgnoredAny = SerdeFormat::read(&payload)?;
    let unit: UnitDeserializer<NoContent> = ().into_deserializer();
    let value = T::deserialize(unit);
    value
        .map(Some)
        .map_err(|cause| Error::corrupt("a payload does not decode").because(cause))
}

/// Encode a value as a payload.
///
/// # Errors
/// `Invalid` if the codec cannot represent it.
pub fn write_stored<C: ValueCodec<T>, T>(value: &T, shape: StoredShape) -> Result<Payload> {
    let payload = rename_codec(Payload::new(C::codec(), C::write(value)?), shape.codec);
    let name = shape.names.first().copied().unwrap_or_default();
    Ok(payload.manifest(name).schema(shape.schema))
}

/// Decode a value.
///
/// # Errors
/// `Corrupt` if it does not decode, or has another manifest or schema number.
pub fn read_stored<C: ValueCodec<T>, T>(payload: &Payload, shape: StoredShape) -> Result<T> {
    let manifest = payload.manifest.as_str();
    if !shape.names.is_empty() && !shape.names.contains(&manifest) {
        return Err(
            Error::corrupt("a payload has another manifest; add an alias")
                .fact("manifest", manifest)
                .fact("expected", shape.names.join("`, `")),
        );
    }
    check_schema(payload.schema, shape.schema)?;
    C::read(&restore_codec(payload.clone(), shape.codec, C::codec()))
}
