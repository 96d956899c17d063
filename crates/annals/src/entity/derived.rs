//! What derived code calls.
//!
//! Promises: a schema number other than the type's own is `Corrupt` and says both: what is stored
//! has another shape, and fields that happen to have the same names must not be taken for it.

use serde::Serialize;
use serde::de::value::{Error as NoContent, UnitDeserializer};
use serde::de::{DeserializeOwned, IgnoredAny, IntoDeserializer};

use super::{Format, variant};
use crate::{Error, NewEvent, Payload, Result};

/// What serde writes and reads.
pub trait Serde: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Serde for T {}

/// What a derived event says of itself besides its content.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The schema number that it is written with.
    pub schema: u32,
    /// Whether it stands for events that nobody knows, of any schema.
    pub is_catch_all: bool,
    /// The tags that it is written with.
    pub tags: &'static [&'static str],
}

impl Shape {
    fn event(self, name: &str, payload: Payload) -> NewEvent {
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

fn check_schema(stored: u32, own: u32) -> Result<()> {
    if stored != own {
        return Err(Error::corrupt(format!(
            "it has another shape. schema=`{stored}`, own=`{own}`"
        )));
    }
    Ok(())
}

/// An enum's variant as an event.
///
/// # Errors
/// `Invalid` where the format cannot hold it.
pub fn write_variant<T: Serialize>(value: &T, format: Format, shape: Shape) -> Result<NewEvent> {
    let (name, payload) = variant::write(format, value)?;
    Ok(shape.event(name, payload))
}

/// The enum's variant in an event, if it is one.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_variant<T: DeserializeOwned>(
    event: &NewEvent,
    shape: impl Fn(&T) -> Shape,
) -> Result<Option<T>> {
    let payload = Payload::new(event.codec.clone(), event.payload.clone());
    let value = variant::read(&event.manifest, &payload)?;
    if let Some(value) = &value {
        shape(value).check(event.schema)?;
    }
    Ok(value)
}

/// A struct as an event of this name.
///
/// # Errors
/// `Invalid` where the format cannot hold it.
pub fn write_struct<T: Serialize>(
    value: &T,
    name: &str,
    format: Format,
    shape: Shape,
) -> Result<NewEvent> {
    Ok(shape.event(name, format.write(value)?))
}

/// The struct in an event, if it has this name.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_struct<T: DeserializeOwned>(
    event: &NewEvent,
    name: &str,
    shape: Shape,
) -> Result<Option<T>> {
    if event.manifest != name {
        return Ok(None);
    }
    shape.check(event.schema)?;
    let payload = Payload::new(event.codec.clone(), event.payload.clone());
    Format::read(&payload).map(Some)
}

/// A struct without fields as an event of this name: an empty map, as a variant without content.
///
/// # Errors
/// Never, but for the format.
pub fn write_unit(name: &str, format: Format, shape: Shape) -> Result<NewEvent> {
    #[derive(Serialize)]
    struct Nothing {}
    write_struct(&Nothing {}, name, format, shape)
}

/// The struct without fields in an event, if it has this name.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_unit<T: DeserializeOwned>(
    event: &NewEvent,
    name: &str,
    shape: Shape,
) -> Result<Option<T>> {
    if read_struct::<IgnoredAny>(event, name, shape)?.is_none() {
        return Ok(None);
    }
    let unit: UnitDeserializer<NoContent> = ().into_deserializer();
    let value = T::deserialize(unit);
    value
        .map(Some)
        .map_err(|cause| Error::corrupt("a payload does not decode").because(cause))
}

/// A value as a payload.
///
/// # Errors
/// `Invalid` where the format cannot hold it.
pub fn write_stored<T: Serialize>(value: &T, format: Format, schema: u32) -> Result<Payload> {
    Ok(format.write(value)?.schema(schema))
}

/// The value in a payload.
///
/// # Errors
/// `Corrupt` where it does not decode, or has another shape.
pub fn read_stored<T: DeserializeOwned>(payload: &Payload, schema: u32) -> Result<T> {
    check_schema(payload.schema, schema)?;
    Format::read(payload)
}
