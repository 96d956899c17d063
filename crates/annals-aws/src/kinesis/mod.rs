//! Kinesis: a stream pumped into the log's buffer, and the log played back to a stream.
//!
//! ```text
//! client      opening, and the five requests that are made
//! name        streams and shards, by name
//! position    how far a shard is read, and how that is kept
//! shards      which shards may be read: a parent is finished before its children (pure)
//! record      a record of a stream as the log keeps it (pure)
//! landing     records into the buffer, and what is told of those that do not fit
//! reader      one shard: read, ingest, checkpoint
//! pump        all shards of a stream, through resharding and restarts
//! window      what is sent next, so that the order of a partition key is kept (pure)
//! play        the log to a stream
//! ```
//!
//! Promises: a record is pumped at least once, and stored once. A checkpoint is saved after what it
//! stands for. Playback keeps the order of each partition key, whatever fails on the way.
//! Trusts: that a sequence number names one record of a stream.
//! Never: deletes a stream, or changes its shards.

mod client;
mod landing;
mod name;
mod play;
mod position;
mod pump;
mod reader;
mod record;
mod shards;
mod window;

pub use client::Kinesis;
pub use name::{ShardId, StreamName};
pub use play::Played;
pub use position::Begin;
pub use pump::{Pump, PumpStep};

pub use landing::Landing;
pub use record::record_of_event;
