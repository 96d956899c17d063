//! What Akka and Pekko themselves write, whatever plugin stores it: events and snapshots as bytes,
//! payloads by their serializer's number, and who wrote an event. Beside it what the layouts that
//! share tables with a plugin have in common: the order in which rows are put, and the attributes in
//! which they keep what the plugin has no place for, a checksum among them.
//!
//! Never: knows a table or a key.

pub(super) mod attributes;
pub(super) mod checksum;
pub(super) mod frame;
pub(super) mod message;
pub(super) mod putting;
pub(super) mod serialization;
pub(super) mod writers;
