//! Encodes an enum variant with its name apart: the name is the manifest, the content is the payload.
//!
//! | Variant | JSON | CBOR |
//! | --- | --- | --- |
//! | `Closed` | `{}` | an empty map |
//! | `Named("a")` | `"a"` | what it holds |
//! | `Moved(1, 2)` | `[1,2]` | an array |
//! | `Deposited { amount: 10 }` | `{"amount":10}` | a map |
//!
//! Guarantees: names are serde's, with its renames and aliases. A written variant reads back. A name
//! that no variant has is distinguished from content that does not decode. A variant without content
//! is written as an empty map, which mappers of other languages read as an object, and it ignores
//! content that an earlier release wrote.
//! Assumes: the enum is externally tagged, serde's default.

mod deserialize;
mod serialize;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use serde::de::value::{Error as NoContent, UnitDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer};
use serde::{Serialize, Serializer};

use crate::payload::SerdeFormat;
use crate::{Error, Payload, Result};
use deserialize::{NameMatch, VariantSeed};
use serialize::VariantSerializer;

/// Encode a variant: its name and its content.
///
/// # Errors
/// `Invalid` if the format cannot represent it, or the value is not an enum variant.
pub(super) fn write<T: Serialize + ?Sized>(
    format: SerdeFormat,
    value: &T,
) -> Result<(&'static str, Payload)> {
    let name = Cell::new(None);
    let payload = format.write(&Content { name: &name, value })?;
    let missing = || {
        Error::invalid(
            "a value is not an enum variant, so it has no manifest; derive `EntityEvent` for an enum or a struct",
        )
    };
    Ok((name.get().ok_or_else(missing)?, payload))
}

/// A variant that serializes without its name.
struct Content<'a, T: ?Sized> {
    name: &'a Cell<Option<&'static str>>,
    value: &'a T,
}

impl<T: Serialize + ?Sized> Serialize for Content<'_, T> {
    fn serialize<S: Serializer>(&self, content: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(VariantSerializer {
            name: self.name,
            content,
        })
    }
}

/// Decode the variant with this name; `None` if no variant has it.
///
/// # Errors
/// `Corrupt` if the content does not decode.
pub(super) fn read<T: DeserializeOwned>(name: &str, payload: &Payload) -> Result<Option<T>> {
    let name_match = Cell::new(NameMatch::Unchecked);
    let seed = VariantSeed::new(name, &name_match);
    if let Err(foreign) = SerdeFormat::from_codec(&payload.codec) {
        let content: UnitDeserializer<NoContent> = ().into_deserializer();
        return match (seed.deserialize(content), name_match.get()) {
            (_, NameMatch::Unknown) => Ok(None),
            // A unit variant ignores its content, readable or not.
            (Ok(value), NameMatch::Unit) => Ok(Some(value)),
            _ => Err(foreign),
        };
    }
    match (SerdeFormat::read_seed(payload, seed), name_match.get()) {
        (Ok(value), _) => Ok(Some(value)),
        (Err(_), NameMatch::Unknown) => Ok(None),
        (Err(error), _) => Err(error),
    }
}
