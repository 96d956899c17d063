//! Attributes that events and snapshots share: a serialized payload, and metadata that the
//! serializer does not carry.
//!
//! Guarantees: reads what was written; an attribute of another type is `Corrupt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::serialization::Serialized;
use annals::items::{Item, Value};
use annals::{Error, NewEvent, Payload, Result};

/// The metadata key of the manifest that the JVM's event adapter gave an event.
pub(crate) const ADAPTER: &str = "adapter-manifest";
/// Ours: manifest and schema version, where the serializer does not carry both.
const MANIFEST: &str = "type";
const SCHEMA: &str = "schema";
/// Ours: metadata and causes of an event.
const METADATA: &str = "metadata";
const CAUSATION: &str = "causation";
const CORRELATION: &str = "correlation";
/// All of these, for checksums: never in another order.
pub(crate) const KEPT: [&str; 5] = [MANIFEST, SCHEMA, METADATA, CAUSATION, CORRELATION];

/// The attribute names of a serialized payload.
pub(crate) struct Names {
    pub(crate) bytes: &'static str,
    pub(crate) id: &'static str,
    pub(crate) manifest: &'static str,
}

pub(crate) fn improper(name: &str) -> Error {
    Error::corrupt(format!(
        "attribute `{name}` is missing or of the wrong type"
    ))
}

/// The text of an attribute, if the item has it.
pub(crate) fn text<'a>(item: &'a Item, name: &str) -> Result<Option<&'a str>> {
    let value = item.get(name);
    let text = value.map(|value| value.as_str().ok_or_else(|| improper(name)));
    text.transpose()
}

impl Names {
    pub(crate) fn insert(&self, item: &mut Item, serialized: Serialized) {
        item.insert(self.id, i64::from(serialized.id));
        if !serialized.manifest.is_empty() {
            item.insert(self.manifest, serialized.manifest);
        }
        item.insert(self.bytes, serialized.bytes);
    }

    pub(crate) fn read(&self, item: &Item) -> Result<Serialized> {
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

/// Stores manifest and schema version of a payload whose serializer does not.
pub(crate) fn keep_type(item: &mut Item, payload: &Payload) {
    if !payload.manifest.is_empty() {
        item.insert(MANIFEST, payload.manifest.as_str());
    }
    if payload.schema > 0 {
        item.insert(SCHEMA, u64::from(payload.schema));
    }
}

/// A payload with the stored manifest and schema version. If one of them is stored, both are used:
/// the serializer may have misread a manifest as one with a version.
pub(crate) fn with_kept_type(item: &Item, payload: Payload) -> Result<Payload> {
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

/// Stores the metadata of an event: as text, since a map attribute cannot have an empty key.
pub(crate) fn keep_metadata(item: &mut Item, metadata: BTreeMap<String, String>) {
    if !metadata.is_empty() {
        let pairs = metadata.into_iter().map(|(k, v)| (k, v.into()));
        let object = serde_json::Value::Object(pairs.collect());
        item.insert(METADATA, object.to_string());
    }
}

/// The stored metadata.
fn metadata(item: &Item) -> Result<BTreeMap<String, String>> {
    let read = text(item, METADATA)?.map(serde_json::from_str).transpose();
    let read = read.map_err(|cause| improper(METADATA).because(cause))?;
    Ok(read.unwrap_or_default())
}

/// An event with its stored manifest, metadata and adapter name.
pub(crate) fn event(item: &Item, payload: Payload, adapter: String) -> Result<NewEvent> {
    let mut event = NewEvent::from(with_kept_type(item, payload)?);
    event.metadata = metadata(item)?;
    if !adapter.is_empty() {
        event.metadata.insert(ADAPTER.to_owned(), adapter);
    }
    Ok(event)
}

/// Stores the causation and correlation of an append.
pub(crate) fn keep_causes(item: &mut Item, causation: Option<&str>, correlation: Option<&str>) {
    for (name, text) in [(CAUSATION, causation), (CORRELATION, correlation)] {
        if let Some(text) = text {
            item.insert(name, text);
        }
    }
}

pub(crate) fn causation(item: &Item) -> Option<Arc<str>> {
    item.get(CAUSATION).and_then(Value::as_str).map(Arc::from)
}

pub(crate) fn correlation(item: &Item) -> Option<Arc<str>> {
    item.get(CORRELATION).and_then(Value::as_str).map(Arc::from)
}
