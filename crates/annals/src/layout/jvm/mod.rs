//! What Akka and Pekko themselves write, whatever plugin stores it: events and snapshots as bytes,
//! payloads by their serializer's number, and who wrote an event. Beside it the attributes in which
//! layouts that share tables with a plugin keep what it has no place for.
//!
//! Never: knows a table or a key.

pub(super) mod attributes;
pub(super) mod frame;
pub(super) mod message;
pub(super) mod serialization;
pub(super) mod writers;
