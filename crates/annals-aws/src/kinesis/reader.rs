//! One shard: read, ingest, save the checkpoint, in this order.
//!
//! Guarantees: the position advances, here and in the checkpoint, only after the records before it are
//! known to be stored. A step can be dropped at any point, and is repeated then. A step never waits for
//! new records.

use annals::log::{Checkpoints, Log};
use annals::{Error, Result};

use super::client::{Kinesis, Read};
use super::landing::Landing;
use super::position::Position;
use super::record::Origin;
use super::{ShardId, StreamName};

/// What all shards of a pump share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) kinesis: std::sync::Arc<Kinesis>,
    pub(super) stream: StreamName,
    pub(super) origin: Origin,
    pub(super) log: Log,
    pub(super) checkpoints: Checkpoints,
}

/// A shard that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) shard: ShardId,
    pub(super) position: Position,
    /// The iterator to read with. It expires after five minutes; a new one starts at the position.
    iterator: Option<String>,
}

/// What a step of a shard did.
#[derive(Debug)]
pub(super) struct ShardStep {
    pub(super) records: u64,
    pub(super) landing: Landing,
    pub(super) behind_ms: u64,
    /// Whether the stream dropped the shard before it was read to its end.
    pub(super) is_gone: bool,
}

impl Reader {
    pub(super) fn new(shard: ShardId, position: Position) -> Self {
        Self {
            shard,
            position,
            iterator: None,
        }
    }

    /// Reads some records and ingests them.
    pub(super) async fn step(&mut self, shared: &Shared) -> Result<ShardStep> {
        let (records, next, behind_ms) = match self.read(shared).await? {
            Read::Some {
                records,
                next,
                behind_ms,
            } => (records, next, behind_ms),
            Read::Expired => {
                return Err(Error::unavailable(
                    "Kinesis says that a new iterator has expired; check this machine's clock",
                )
                .fact("shard", &self.shard));
            }
            Read::Gone => return self.end(shared).await,
        };
        let (mut kept, mut problems) = (Vec::new(), Vec::new());
        for record in &records {
            match shared.origin.record(&self.shard, record) {
                Ok(record) => kept.push(record),
                Err(error) => problems.push(error),
            }
        }
        let mut landing = Landing::ingest(&shared.log, kept).await;
        if let Some((_, error)) = landing.unknown {
            return Err(error);
        }
        landing.problems.append(&mut problems);
        let position = match (&next, records.last()) {
            (None, _) => Some(Position::End),
            (Some(_), Some(last)) => Some(Position::After(last.sequence_number.clone())),
            (Some(_), None) => None,
        };
        if let Some(position) = &position {
            self.save(shared, position).await?;
        }
        // Nothing is awaited from here on.
        self.iterator = next;
        self.position = position.unwrap_or_else(|| self.position.clone());
        Ok(ShardStep {
            records: records.len() as u64,
            landing,
            behind_ms,
            is_gone: false,
        })
    }

    async fn save(&self, shared: &Shared, position: &Position) -> Result<()> {
        let position = (self.shard.as_str(), position.to_string());
        shared.checkpoints.save([position]).await
    }

    /// Reads, with a new iterator if this one has expired.
    async fn read(&mut self, shared: &Shared) -> Result<Read> {
        let (kinesis, stream) = (&shared.kinesis, &shared.stream);
        if let Some(iterator) = &self.iterator {
            match kinesis.read(stream, iterator).await? {
                Read::Expired => self.iterator = None,
                read => return Ok(read),
            }
            // The latest record now is not the latest record then.
            if let Position::Latest(time) = self.position {
                self.position = Position::At(time);
            }
        }
        self.seek(shared).await?;
        match &self.iterator {
            Some(iterator) => kinesis.read(stream, iterator).await,
            None => Ok(Read::Gone),
        }
    }

    /// Gets an iterator. Records that are put into the shard from then on are read.
    pub(super) async fn seek(&mut self, shared: &Shared) -> Result<()> {
        let (kinesis, stream) = (&shared.kinesis, &shared.stream);
        let found = kinesis.iterator(stream, &self.shard, &self.position);
        self.iterator = found.await?;
        Ok(())
    }

    async fn end(&mut self, shared: &Shared) -> Result<ShardStep> {
        self.save(shared, &Position::End).await?;
        self.position = Position::End;
        Ok(ShardStep {
            records: 0,
            landing: Landing::default(),
            behind_ms: 0,
            is_gone: true,
        })
    }
}
