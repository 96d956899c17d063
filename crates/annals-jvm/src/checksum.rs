//! Our checksum on items of tables that are shared with the JVM, whose formats have none.
//!
//! It covers a list of attributes by position, since their names are settings. Attributes that
//! other tools add, or that may change later, are not covered.
//!
//! Guarantees: if an attribute of the list was altered, removed or added since the item was written,
//! the item is `Corrupt`. An item without a checksum is accepted, because the plugins write none.

use crc32fast::Hasher;

use super::attributes::improper;
use annals::items::limits::ITEM_BYTES_MAX;
use annals::items::{Item, Value, item_size};
use annals::{Error, Result};

/// Its attribute: CRC-32 (IEEE), 4 bytes, big-endian.
pub(crate) const NAME: &str = "crc";

/// Adds a checksum over these attributes, if the item has room for it.
pub(crate) fn sealed<'a>(item: Item, names: impl Iterator<Item = &'a str>) -> Item {
    let sum = sum(&item, names);
    let sealed = item.with(NAME, sum.to_vec());
    match item_size(&sealed) > ITEM_BYTES_MAX {
        true => without(sealed),
        false => sealed,
    }
}

fn without(mut item: Item) -> Item {
    item.remove(NAME);
    item
}

/// Whether an item has a checksum.
pub(crate) fn is_sealed(item: &Item) -> bool {
    item.get(NAME).is_some()
}

/// # Errors
/// `Corrupt` if the item has a checksum that does not match these attributes.
pub(crate) fn check<'a>(item: &Item, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let Some(kept) = item.get(NAME) else {
        return Ok(());
    };
    let kept = kept.as_bytes().ok_or_else(|| improper(NAME))?;
    match **kept == sum(item, names) {
        true => Ok(()),
        false => Err(Error::corrupt(
            "its attributes do not match its checksum: it was altered since it was written",
        )),
    }
}

fn sum<'a>(item: &Item, names: impl Iterator<Item = &'a str>) -> [u8; 4] {
    let mut hasher = Hasher::new();
    for (place, name) in (0u8..).zip(names) {
        if let Some(value) = item.get(name) {
            hasher.update(&[place]);
            add(&mut hasher, value);
        }
    }
    hasher.finalize().to_be_bytes()
}

/// Type, length and bytes, so that different values have different input.
fn add(hasher: &mut Hasher, value: &Value) {
    let mut bytes = |kind: &[u8; 1], bytes: &[u8]| {
        hasher.update(kind);
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    match value {
        Value::S(text) => bytes(b"S", text.as_bytes()),
        Value::B(value) => bytes(b"B", value),
        Value::Bool(value) => bytes(b"T", &[u8::from(*value)]),
        Value::N(number) => {
            let (mantissa, exponent) = number.parts();
            let number = [&mantissa.to_be_bytes()[..], &exponent.to_be_bytes()].concat();
            bytes(b"N", &number);
        }
        Value::L(values) => {
            bytes(b"L", &(values.len() as u64).to_be_bytes());
            for value in values {
                add(hasher, value);
            }
        }
        // None of ours has another type: the item was altered.
        other => bytes(b"?", other.type_name().as_bytes()),
    }
}

#[cfg(test)]
#[path = "checksum_tests.rs"]
mod tests;
