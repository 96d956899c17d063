//! What derived code calls.
//!
//! Promises: a schema number other than the type's own is `Corrupt` and says both: what is stored
//! has another shape, and fields that happen to have the same names must not be taken for it. What
//! is recorded as a codec of the type's own reads as the format that wrote it.

use serde::Serialize;
use serde::de::value::{Error as NoContent, UnitDeserializer};
use serde::de::{DeserializeOwned, IgnoredAny, IntoDeserializer};

use super::codec::ValueCodec;
use super::{Format, variant};
use crate::{Codec, Error, NewEvent, Payload, Result};

/// What serde writes and reads.
#[doc(hidden)]
pub trait Serde: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Serde for T {}

/// What a derived event says of itself besides its content.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The schema number that it is written with.
    pub schema: u32,
    /// Whether it stands for events that nobody knows, of any schema.
    pub is_catch_all: bool,
    /// What it is recorded as, where that is not the format's own codec.
    pub codec: Option<&'static str>,
    /// The tags that it is written with.
    pub tags: &'static [&'static str],
}

impl Shape {
    fn event(self, name: &str, payload: Payload) -> NewEvent {
        let payload = record(payload, self.codec);
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

/// What a derived state says of itself besides its content.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct StoredShape {
    /// The schema number that it is written with.
    pub schema: u32,
    /// What it is recorded as, where that is not the format's own codec.
    pub codec: Option<&'static str>,
    /// The manifest that it is written with, and others that it is read with; none: any.
    pub names: &'static [&'static str],
}

fn check_schema(stored: u32, own: u32) -> Result<()> {
    if stored != own {
        return Err(Error::corrupt(format!(
            "it has another shape. schema=`{stored}`, own=`{own}`"
        )));
    }
    Ok(())
}

/// Records a payload as a codec by name.
fn record(mut payload: Payload, codec: Option<&str>) -> Payload {
    if let Some(codec) = codec {
        payload.codec = named(codec);
    }
    payload
}

fn named(codec: &str) -> Codec {
    let Ok(codec) = codec.parse();
    codec
}

/// A payload with the codec that wrote it, where it is recorded as another.
fn recognise(mut payload: Payload, recorded: Option<&str>, own: Codec) -> Payload {
    if recorded.is_some_and(|recorded| named(recorded) == payload.codec) {
        payload.codec = own;
    }
    payload
}

/// The content of an event alone.
fn content(event: &NewEvent) -> Payload {
    Payload::new(event.codec.clone(), event.payload.clone())
}

/// An enum's variant as an event.
///
/// # Errors
/// `Invalid` where the format cannot hold it.
pub fn write_variant<T: Serialize>(value: &T, format: Format, shape: Shape) -> Result<NewEvent> {
    let (name, payload) = variant::write(format, value)?;
    Ok(shape.event(name, payload))
}

/// The enum's variant in an event, if it is one. `recorded` are codecs by name, with the formats
/// that wrote them.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_variant<T: DeserializeOwned>(
    event: &NewEvent,
    recorded: &[(&str, Format)],
    shape: impl Fn(&T) -> Shape,
) -> Result<Option<T>> {
    let payload = recorded.iter().fold(content(event), |payload, own| {
        recognise(payload, Some(own.0), own.1.codec())
    });
    let value = variant::read(&event.manifest, &payload)?;
    if let Some(value) = &value {
        shape(value).check(event.schema)?;
    }
    Ok(value)
}

/// A value as an event of this name.
///
/// # Errors
/// `Invalid` where the codec cannot hold it.
pub fn write_value<C: ValueCodec<T>, T>(value: &T, name: &str, shape: Shape) -> Result<NewEvent> {
    Ok(shape.event(name, Payload::new(C::codec(), C::write(value)?)))
}

/// The value in an event, if it has one of these names.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_value<C: ValueCodec<T>, T>(
    event: &NewEvent,
    names: &[&str],
    shape: Shape,
) -> Result<Option<T>> {
    if !names.contains(&event.manifest.as_str()) {
        return Ok(None);
    }
    shape.check(event.schema)?;
    let payload = recognise(content(event), shape.codec, C::codec());
    C::read(&payload).map(Some)
}

/// Nothing, as an empty map: mappers of other languages make an object of that.
#[doc(hidden)]
#[derive(Debug, Serialize, serde::Deserialize)]
pub struct Nothing {}

/// A struct without fields as an event of this name: an empty map, as a variant without content.
///
/// # Errors
/// Never, but for the format.
pub fn write_unit<C: ValueCodec<Nothing>>(name: &str, shape: Shape) -> Result<NewEvent> {
    write_value::<C, _>(&Nothing {}, name, shape)
}

/// The struct without fields in an event, if it has one of these names.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_unit<C: ValueCodec<Nothing>, T: DeserializeOwned>(
    event: &NewEvent,
    names: &[&str],
    shape: Shape,
) -> Result<Option<T>> {
    if !names.contains(&event.manifest.as_str()) {
        return Ok(None);
    }
    shape.check(event.schema)?;
    // Any content will do, so what it held once is passed over.
    let payload = recognise(content(event), shape.codec, C::codec());
    let _: IgnoredAny = Format::read(&payload)?;
    let unit: UnitDeserializer<NoContent> = ().into_deserializer();
    let value = T::deserialize(unit);
    value
        .map(Some)
        .map_err(|cause| Error::corrupt("a payload does not decode").because(cause))
}

/// A value as a payload.
///
/// # Errors
/// `Invalid` where the codec cannot hold it.
pub fn write_stored<C: ValueCodec<T>, T>(value: &T, shape: StoredShape) -> Result<Payload> {
    let payload = record(Payload::new(C::codec(), C::write(value)?), shape.codec);
    let name = shape.names.first().copied().unwrap_or_default();
    Ok(payload.manifest(name).schema(shape.schema))
}

/// The value in a payload.
///
/// # Errors
/// `Corrupt` where it does not decode, is called otherwise or has another shape.
pub fn read_stored<C: ValueCodec<T>, T>(payload: &Payload, shape: StoredShape) -> Result<T> {
    let manifest = payload.manifest.as_str();
    if !shape.names.is_empty() && !shape.names.contains(&manifest) {
        return Err(Error::corrupt(format!(
            "it is something else. manifest=`{manifest}`, own=`{}`",
            shape.names.join("`, `")
        )));
    }
    check_schema(payload.schema, shape.schema)?;
    C::read(&recognise(payload.clone(), shape.codec, C::codec()))
}
