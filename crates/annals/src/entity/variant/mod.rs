//! A variant of an enum with its name apart: the name is the manifest, and the content alone is the
//! payload.
//!
//! | Variant | JSON | CBOR |
//! | --- | --- | --- |
//! | `Closed` | `{}` | an empty map |
//! | `Named("a")` | `"a"` | what it holds |
//! | `Moved(1, 2)` | `[1,2]` | an array |
//! | `Deposited { amount: 10 }` | `{"amount":10}` | a map |
//!
//! Promises: the names are serde's, renamed and with aliases as it has them; what was written reads
//! back; a name that no variant has is told apart from content that does not decode. A variant
//! without content is an empty map: mappers of other languages make an object of that, and nothing
//! of `null`. It reads any content, so what it held once is passed over.
//! Trusts: that serde tags the enum from outside, which is its default.
//! Never: builds a tree of the content on the way.

mod naming;
mod reading;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use serde::de::value::{Error as NoContent, UnitDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer};
use serde::{Serialize, Serializer};

use super::Format;
use crate::{Error, Payload, Result};
use naming::Naming;
use reading::{Reading, Sight};

/// The name of a variant, and its content.
///
/// # Errors
/// `Invalid` where the format cannot hold it, or the value is no variant.
pub(super) fn write<T: Serialize + ?Sized>(
    format: Format,
    value: &T,
) -> Result<(&'static str, Payload)> {
    let name = Cell::new(None);
    let payload = format.write(&Apart { name: &name, value })?;
    let missing = || Error::invalid("a value is no variant of an enum, so it has no name");
    Ok((name.get().ok_or_else(missing)?, payload))
}

/// A value that is written without its name.
struct Apart<'a, T: ?Sized> {
    name: &'a Cell<Option<&'static str>>,
    value: &'a T,
}

impl<T: Serialize + ?Sized> Serialize for Apart<'_, T> {
    fn serialize<S: Serializer>(&self, content: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Naming {
            name: self.name,
            content,
        })
    }
}

/// The variant of this name with this content; `None` where no variant has the name.
///
/// # Errors
/// `Corrupt` where the content is not the variant's.
pub(super) fn read<T: DeserializeOwned>(name: &str, payload: &Payload) -> Result<Option<T>> {
    let sight = Cell::new(Sight::Unasked);
    let reading = Reading::new(name, &sight);
    if let Err(foreign) = Format::of(&payload.codec) {
        let content: UnitDeserializer<NoContent> = ().into_deserializer();
        return match (reading.deserialize(content), sight.get()) {
            (_, Sight::Unknown) => Ok(None),
            // Without content it does not matter that nobody can read it.
            (Ok(value), Sight::Bare) => Ok(Some(value)),
            _ => Err(foreign),
        };
    }
    match (Format::read_seed(payload, reading), sight.get()) {
        (Ok(value), _) => Ok(Some(value)),
        (Err(_), Sight::Unknown) => Ok(None),
        (Err(error), _) => Err(error),
    }
}
