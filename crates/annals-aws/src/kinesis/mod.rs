//! Kinesis: a stream pumped into the log's buffer, and the log played back to a stream.
//!
//! ```text
//! client      opening, and the five requests
//! name        names of streams and shards
//! position    positions in a shard, and their checkpoints
//! shards      which shards can be read: a parent is finished before its children (pure)
//! record      a record of a stream as the log stores it (pure)
//! landing     ingests records, and reports those that do not fit
//! reader      one shard: read, ingest, save the checkpoint
//! pump        all shards of a stream, through resharding and restarts
//! window      the next request, such that every partition key keeps its order (pure)
//! play        plays the log back to a stream
//! ```
//!
//! Guarantees: a record is pumped at least once, and stored once. A checkpoint is saved after the
//! records before it. Playback keeps the order of each partition key, whatever fails. Streams are not
//! deleted, and their shards not changed.
//! Relies on: a sequence number identifying one record of a stream.

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

// For annals-lambda, which Lambda hands the records of a shard.
#[doc(hidden)]
pub use landing::Landing;
#[doc(hidden)]
pub use record::record_of_event;
