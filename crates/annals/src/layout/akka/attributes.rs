//! What the items of events and snapshots have in common: a payload as its serializer left it, and
//! what of it the serializer does not carry.
//!
//! Promises: what was written reads back the same; an attribute that is not what it should be is
//! told as `Corrupt`.

use super::serialization::Serialized;
use crate::items::{Item, Value};
use crate::{Error, Payload, Result};

/// Ours: manifest and schema number, where the serializer does not carry both.
const MANIFEST: &str = "type";
const SCHEMA: &str = "schema";

/// Under which names a serialized payload is kept.
pub(super) struct Names {
    pub(super) bytes: &'static str,
    pub(super) id: &'static str,
    pub(super) manifest: &'static str,
}

pub(super) fn improper(name: &str) -> Error {
    Error::corrupt(format!("attribute `{name}` is missing or improper"))
}

/// The text of an attribute, where it is there.
pub(super) fn text<'a>(item: &'a Item, name: &str) -> Result<Option<&'a str>> {
    let value = item.get(name);
    let text = value.map(|value| value.as_str().ok_or_else(|| improper(name)));
    text.transpose()
}

impl Names {
    pub(super) fn insert(&self, item: &mut Item, serialized: Serialized) {
        item.insert(self.id, i64::from(serialized.id));
        if !serialized.manifest.is_empty() {
            item.insert(self.manifest, serialized.manifest);
        }
        item.insert(self.bytes, serialized.bytes);
    }

    pub(super) fn read(&self, item: &Item) -> Result<Serialized> {
        let bytes = item.get(self.bytes).and_then(Value::as_bytes);
        let id = item.get(self.id).and_then(Value::as_number);
        let id = id.and_then(|id| id.to_string().parse().ok());
        Ok(Serialized {
            id: id.ok_or_else(|| improper(self.id))?,
            manifest: text(item, self.manifest)?.unwrap_or_default().to_owned(),
            bytes: bytes.ok_or_else(|| improper(self.bytes))?.clone(),
        })
    }
}

/// Keeps manifest and schema number of a payload whose serializer does not.
pub(super) fn keep_type(item: &mut Item, payload: &Payload) {
    if !payload.manifest.is_empty() {
        item.insert(MANIFEST, payload.manifest.as_str());
    }
    if payload.schema > 0 {
        item.insert(SCHEMA, u64::from(payload.schema));
    }
}

/// A payload with the manifest and schema number that were kept. Where one of them was, both are
/// ours to tell: the serializer may have taken a manifest for one with a number.
pub(super) fn with_kept_type(item: &Item, payload: Payload) -> Result<Payload> {
    let manifest = text(item, MANIFEST)?;
    let schema = item.get(SCHEMA).map(|schema| {
        let schema = schema.as_u64().and_then(|schema| schema.try_into().ok());
        schema.ok_or_else(|| improper(SCHEMA))
    });
    match (manifest, schema.transpose()?) {
        (None, None) => Ok(payload),
        (manifest, schema) => Ok(payload
            .manifest(manifest.unwrap_or_default())
            .schema(schema.unwrap_or(0))),
    }
}
