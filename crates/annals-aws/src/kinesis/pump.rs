//! The pump: every record of a stream into the log's buffer, through resharding and restarts.
//!
//! Guarantees: every record since the start reaches the buffer, those of a partition key in order, also
//! across splits and merges. A restart resumes at the checkpoints. A record that is read twice is
//! stored once. The pump does not advance past a record that may not be stored. Two pumps of one
//! stream duplicate work, and do no other harm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals::log::{Log, Time};
use annals::{Error, Result};
use futures::FutureExt;
use futures::stream::{self, Stream, StreamExt};

use super::client::{Described, Kinesis};
use super::position::Position;
use super::reader::{Reader, ShardStep, Shared};
use super::record::Origin;
use super::shards::{Shard, ready};
use super::{Begin, ShardId, StreamName};

/// How many shards are read at once.
const SHARDS_AT_ONCE: usize = 16;
/// How long a list of shards is considered complete.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// The allowed clock skew. A pump that starts at the latest record and is stopped before the first one
/// restarts this much earlier.
const CLOCKS_DIFFER_MS: u64 = 5_000;
/// The checkpoint that says a pump has started, and with which stream.
const BEGUN: &str = "begun";

/// What one step of a pump did. Everything it counts has happened, even if the step failed.
///
/// See [`Pump`] for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct PumpStep {
    /// Shards that were read.
    pub shards: u64,
    /// Records that were read.
    pub records: u64,
    /// Of those, how many were stored in the buffer.
    pub stored: u64,
    /// Of those, how many were there already.
    pub present: u64,
    /// Of those two, how many lack their data, which is too large for the log.
    pub without_data: u64,
    /// Shards that were read to their end.
    pub finished: u64,
    /// Shards that the stream dropped before they were read to their end. Records may be lost.
    pub dropped: Vec<ShardId>,
    /// The lag of the slowest shard, in milliseconds.
    pub behind_ms: u64,
    /// Whether everything in the stream was read.
    pub is_caught_up: bool,
    /// Why records are not in the buffer, or lack their data.
    pub problems: Vec<Error>,
    /// Why some shards were not read, if the stream or the store failed. The next step reads them.
    pub failure: Option<Error>,
}

impl PumpStep {
    fn failed(error: Error) -> Self {
        Self {
            failure: Some(error),
            ..Self::default()
        }
    }

    fn add(&mut self, step: ShardStep, reader: &Reader) {
        self.records += step.records;
        self.stored += step.landing.stored;
        self.present += step.landing.present;
        self.without_data += step.landing.without_data;
        self.problems.extend(step.landing.problems);
        self.behind_ms = self.behind_ms.max(step.behind_ms);
        self.finished += u64::from(reader.position == Position::End);
        if step.is_gone {
            self.dropped.push(reader.shard.clone());
        }
    }
}

/// Pumps the records of a stream into the log's buffer.
///
/// ```no_run
/// use annals::log::Log;
/// use annals_aws::kinesis::{Begin, Kinesis, Pump};
/// use futures::StreamExt;
/// use std::sync::Arc;
///
/// # async fn example(kinesis: Arc<Kinesis>, log: Log) -> annals::Result<()> {
/// let pump = Pump::open(kinesis, "claps".parse()?, log, Begin::TrimHorizon).await?;
/// let mut steps = Box::pin(pump.steps());
/// while let Some(step) = steps.next().await {
///     println!("{} records, {} ms behind", step.records, step.behind_ms);
///     if step.is_caught_up {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pump {
    shared: Shared,
    /// The last list of shards.
    shards: Vec<Shard>,
    /// The position in each of them.
    positions: BTreeMap<ShardId, Position>,
    readers: Vec<Reader>,
    /// When the shards were listed; `None` to list them again.
    listed: Option<Duration>,
    /// Whether the shards were compared with the existing checkpoints.
    is_compared: bool,
}

impl Pump {
    /// The pump of a stream. Its checkpoints are in the log; without checkpoints it starts at `begin`.
    ///
    /// # Errors
    /// `Invalid` if there is no such stream, if it was deleted and created again since the pump
    /// started, or if `begin` is in the future. Otherwise as the stream or the store fails.
    pub async fn open(
        kinesis: Arc<Kinesis>,
        stream: StreamName,
        log: Log,
        begin: Begin,
    ) -> Result<Self> {
        let described = kinesis.describe(&stream).await?;
        let shared = Shared {
            checkpoints: log.checkpoints(format!("kinesis:{}", described.arn)),
            origin: Origin {
                arn: described.arn.clone(),
                invoked_as: None,
            },
            kinesis,
            stream,
            log,
        };
        let mut pump = Self {
            shared,
            shards: Vec::new(),
            positions: BTreeMap::new(),
            readers: Vec::new(),
            listed: None,
            is_compared: false,
        };
        if !pump.has_begun(&described).await? {
            pump.begin(&described, begin).await?;
        }
        Ok(pump)
    }

    /// The role under which AWS Lambda passes records of the same stream. If a function pumps the stream
    /// too, or did before, set it, so that both write the same records. Otherwise records that both
    /// pump conflict, and the second of each becomes a dead letter.
    #[must_use]
    pub fn invoked_as(mut self, role_arn: impl Into<String>) -> Self {
        self.shared.origin.invoked_as = Some(role_arn.into());
        self
    }

    async fn has_begun(&self, described: &Described) -> Result<bool> {
        let begun = self.shared.checkpoints.load(&[BEGUN]).await?;
        let Some(begun) = begun.into_iter().next().flatten() else {
            return Ok(false);
        };
        if begun == described.created_s.to_string() {
            return Ok(true);
        }
        Err(Error::invalid(
            "the stream was deleted and created again since it was first pumped; give the new one another name, or pump it into another log",
        )
        .fact("stream", &self.shared.stream))
    }

    /// Saves where every shard starts, so that a restart knows which shards are newer: those are read
    /// from their first record.
    async fn begin(&mut self, described: &Described, begin: Begin) -> Result<()> {
        let shards = self.shared.kinesis.shards(&self.shared.stream).await?;
        let now_ms = self.shared.kinesis.clock().now_ms();
        // A saved future start would make every step fail until then.
        if let Begin::At(time) = begin
            && time.ms() > now_ms.saturating_add(CLOCKS_DIFFER_MS)
        {
            return Err(Error::invalid(
                "a pump cannot start in the future; use latest for new records",
            )
            .fact("begin", time));
        }
        let now = Time::from_ms(now_ms.saturating_sub(CLOCKS_DIFFER_MS))?;
        let position = |shard: &Shard| match begin {
            Begin::TrimHorizon => Position::TrimHorizon,
            Begin::At(time) => Position::At(time),
            Begin::Latest if shard.is_closed => Position::End,
            Begin::Latest => Position::Latest(now),
        };
        let positions = shards
            .iter()
            .map(|shard| (shard.id.clone(), position(shard)));
        self.positions = positions.collect();
        for shard in shards.iter().filter(|shard| !shard.is_closed) {
            if let Some(position @ Position::Latest(_)) = self.positions.get(&shard.id) {
                // Now, so that records before the first step are not missed.
                let mut reader = Reader::new(shard.id.clone(), position.clone());
                reader.seek(&self.shared).await?;
                self.readers.push(reader);
            }
        }
        let positions: Vec<(&str, String)> = self
            .positions
            .iter()
            .map(|(id, position)| (id.as_str(), position.to_string()))
            .collect();
        self.shared.checkpoints.save(positions).await?;
        // Last: a pump that dies before this starts over.
        let created = described.created_s.to_string();
        self.shared.checkpoints.save([(BEGUN, created)]).await
    }

    /// Reads once from every shard that can be read, and ingests the records.
    ///
    /// Can be dropped at any point: records after the checkpoint are read again.
    pub async fn step(&mut self) -> PumpStep {
        let mut step = PumpStep::default();
        if let Err(error) = self.list(&mut step).await {
            return PumpStep::failed(error);
        }
        let shared = &self.shared;
        let mut reading = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            let stepping = async move {
                let stepped = reader.step(shared).await;
                (reader, stepped)
            };
            reading.push(stepping.boxed());
        }
        let mut reading = stream::iter(reading).buffer_unordered(SHARDS_AT_ONCE);
        while let Some((reader, stepped)) = reading.next().await {
            step.shards += 1;
            match stepped {
                Ok(done) => step.add(done, reader),
                Err(error) => step.failure = step.failure.or(Some(error)),
            }
        }
        drop(reading);
        self.keep();
        let is_all_read = step.behind_ms == 0 && step.finished == 0;
        step.is_caught_up = is_all_read && step.failure.is_none();
        step
    }

    /// Updates the positions from the readers, and drops readers that are done.
    fn keep(&mut self) {
        for reader in &self.readers {
            let position = reader.position.clone();
            self.positions.insert(reader.shard.clone(), position);
        }
        self.readers.retain(|reader| {
            let is_done = reader.position == Position::End;
            if is_done {
                self.listed = None;
            }
            !is_done
        });
    }

    /// Lists the shards, if that is due, and opens those whose parents are finished.
    async fn list(&mut self, step: &mut PumpStep) -> Result<()> {
        // A step that was dropped did not update the positions.
        self.keep();
        let clock = self.shared.kinesis.clock();
        let now = clock.monotonic();
        let is_fresh = |listed: Duration| now.saturating_sub(listed) < LIST_EVERY;
        if self.listed.is_some_and(is_fresh) {
            return Ok(());
        }
        let shards = self.shared.kinesis.shards(&self.shared.stream).await?;
        let unknown = shards.iter().map(|shard| &shard.id);
        let unknown: Vec<&ShardId> = unknown
            .filter(|id| !self.positions.contains_key(*id))
            .collect();
        let names: Vec<&str> = unknown.iter().map(|id| id.as_str()).collect();
        let found = match names.as_slice() {
            [] => Vec::new(),
            names => self.shared.checkpoints.load(names).await?,
        };
        let mut loaded = Vec::with_capacity(found.len());
        for (id, found) in unknown.into_iter().zip(found) {
            // A shard that is newer than the pump is read from its first record.
            let position = found.map_or(Ok(Position::TrimHorizon), |text| text.parse());
            loaded.push((id.clone(), position?));
        }
        self.positions.extend(loaded);
        self.drop_missing(&shards, step).await?;
        let positions = &self.positions;
        let is_finished = |id: &ShardId| positions.get(id) == Some(&Position::End);
        for shard in ready(&shards, is_finished) {
            let is_read = self.readers.iter().any(|reader| reader.shard == shard.id);
            if let (false, Some(position)) = (is_read, positions.get(&shard.id)) {
                let reader = Reader::new(shard.id.clone(), position.clone());
                self.readers.push(reader);
            }
        }
        self.shards = shards;
        self.listed = Some(now);
        Ok(())
    }

    /// Drops shards that the stream no longer lists, with their checkpoints, and reports those that were
    /// not read to their end. The first list is also compared with the checkpoints of earlier pumps.
    async fn drop_missing(&mut self, shards: &[Shard], step: &mut PumpStep) -> Result<()> {
        let is_there = |id: &str| shards.iter().any(|shard| shard.id.as_str() == id);
        if !self.is_compared {
            let names = self.shared.checkpoints.names().await?;
            let gone = names.iter().map(String::as_str);
            let gone: Vec<&str> = gone.filter(|id| *id != BEGUN && !is_there(id)).collect();
            let found = self.shared.checkpoints.load(&gone).await?;
            for (id, found) in gone.into_iter().zip(found) {
                if let Some(found) = found {
                    self.positions.insert(id.into(), found.parse()?);
                }
            }
        }
        let gone = self
            .positions
            .iter()
            .filter(|(id, _)| !is_there(id.as_str()));
        let gone: Vec<(ShardId, Position)> = gone.map(|(i, p)| (i.clone(), p.clone())).collect();
        let names: Vec<&str> = gone.iter().map(|(id, _)| id.as_str()).collect();
        if !names.is_empty() {
            self.shared.checkpoints.delete(&names).await?;
        }
        let lost = gone
            .iter()
            .filter(|(_, position)| *position != Position::End);
        step.dropped.extend(lost.map(|(id, _)| id.clone()));
        self.readers
            .retain(|reader| is_there(reader.shard.as_str()));
        self.positions.retain(|id, _| is_there(id.as_str()));
        self.is_compared = true;
        Ok(())
    }

    /// Step after step, with a pause of `kinesis.poll-ms` when caught up or after a failure. It never
    /// ends, and can be dropped at any point.
    pub fn steps(self) -> impl Stream<Item = PumpStep> + Send {
        stream::unfold((self, false), |(mut pump, waits)| async move {
            if waits {
                let pause = Duration::from_millis(pump.shared.kinesis.poll_ms);
                pump.shared.kinesis.clock().sleep(pause).await;
            }
            let step = pump.step().await;
            let waits = step.is_caught_up || step.failure.is_some();
            Some((step, (pump, waits)))
        })
    }
}
