//! An event in one attribute: a `PersistentMessage` of protocol buffers.
//!
//! Guarantees: writes the bytes that Akka and Pekko write for the same message, fields in the order
//! of their numbers; reads what they read, and skips fields of older and newer releases.

use bytes::Bytes;
use prost::Message as _;

use crate::rows::NewRow;
use crate::serialization::Serialized;
use crate::writers::writer_uuid;
use annals::{Error, Result};

/// An event with its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) payload: Serialized,
    pub(crate) sequence_number: u64,
    pub(crate) persistence_id: String,
    /// The manifest of an event adapter; may be empty.
    pub(crate) adapter_manifest: String,
    pub(crate) writer_uuid: String,
    /// Since Akka 2.6.
    pub(crate) timestamp_ms: Option<u64>,
    pub(crate) metadata: Option<Serialized>,
    /// Up to Akka 2.3 a deletion could leave its event, flagged. It is not replayed.
    pub(crate) is_deleted: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PersistentMessage {
    #[prost(message, optional, tag = "1")]
    payload: Option<PersistentPayload>,
    #[prost(int64, optional, tag = "2")]
    sequence_nr: Option<i64>,
    #[prost(string, optional, tag = "3")]
    persistence_id: Option<String>,
    #[prost(bool, optional, tag = "4")]
    deleted: Option<bool>,
    #[prost(string, optional, tag = "12")]
    manifest: Option<String>,
    #[prost(string, optional, tag = "13")]
    writer_uuid: Option<String>,
    #[prost(sint64, optional, tag = "14")]
    timestamp: Option<i64>,
    #[prost(message, optional, tag = "15")]
    metadata: Option<PersistentPayload>,
}

/// Serializer id and payload are required, which is checked here: the library defaults to empty.
#[derive(Clone, PartialEq, prost::Message)]
struct PersistentPayload {
    #[prost(int32, optional, tag = "1")]
    serializer_id: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    payload: Option<Bytes>,
    #[prost(bytes = "vec", optional, tag = "3")]
    payload_manifest: Option<Vec<u8>>,
}

impl Message {
    /// The message of a new event.
    pub(crate) fn new(row: &NewRow<'_>, payload: Serialized, adapter_manifest: String) -> Self {
        Self {
            payload,
            sequence_number: row.number.get(),
            persistence_id: row.id.to_string(),
            adapter_manifest,
            writer_uuid: writer_uuid(row.token),
            timestamp_ms: Some(row.time_ms),
            metadata: None,
            is_deleted: false,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // No number here needs more than 63 bits.
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let message = PersistentMessage {
            payload: Some(PersistentPayload::from(&self.payload)),
            sequence_nr: Some(signed(self.sequence_number)),
            persistence_id: unless_empty(&self.persistence_id),
            deleted: self.is_deleted.then_some(true),
            manifest: unless_empty(&self.adapter_manifest),
            writer_uuid: unless_empty(&self.writer_uuid),
            timestamp: self.timestamp_ms.filter(|ms| *ms > 0).map(signed),
            metadata: self.metadata.as_ref().map(PersistentPayload::from),
        };
        message.encode_to_vec()
    }

    /// # Errors
    /// `Corrupt` if the bytes are not such a message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let message = PersistentMessage::decode(bytes)
            .map_err(|cause| Error::corrupt("a stored event does not parse").because(cause))?;
        let payload = message.payload;
        let payload = payload.ok_or_else(|| Error::corrupt("a stored event lacks its payload"))?;
        let number = message.sequence_nr.unwrap_or_default();
        let timestamp_ms = message.timestamp.and_then(|ms| u64::try_from(ms).ok());
        Ok(Self {
            payload: payload.try_into()?,
            sequence_number: u64::try_from(number).map_err(|cause| {
                Error::corrupt("a stored event has a negative sequence number")
                    .fact("number", number)
                    .because(cause)
            })?,
            persistence_id: message.persistence_id.unwrap_or_default(),
            adapter_manifest: message.manifest.unwrap_or_default(),
            writer_uuid: message.writer_uuid.unwrap_or_default(),
            timestamp_ms: timestamp_ms.filter(|ms| *ms > 0),
            metadata: message.metadata.map(Serialized::try_from).transpose()?,
            is_deleted: message.deleted.unwrap_or_default(),
        })
    }
}

fn unless_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl From<&Serialized> for PersistentPayload {
    fn from(serialized: &Serialized) -> Self {
        Self {
            serializer_id: Some(serialized.id),
            payload: Some(serialized.bytes.clone()),
            payload_manifest: unless_empty(&serialized.manifest).map(String::into_bytes),
        }
    }
}

impl TryFrom<PersistentPayload> for Serialized {
    type Error = Error;

    fn try_from(payload: PersistentPayload) -> Result<Self> {
        let damaged = |what: &str| Error::corrupt(format!("the payload of a stored event {what}"));
        let (Some(id), Some(bytes)) = (payload.serializer_id, payload.payload) else {
            return Err(damaged("lacks its bytes or its serializer id"));
        };
        let manifest = String::from_utf8(payload.payload_manifest.unwrap_or_default());
        Ok(Self {
            id,
            manifest: manifest
                .map_err(|e| damaged("has a manifest that is not UTF-8").because(e))?,
            bytes,
        })
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
