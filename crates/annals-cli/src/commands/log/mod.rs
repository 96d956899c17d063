//! `annals log`: the time-ordered log.

mod dead_letters;
mod every;
mod horizon;
mod ingest;
mod link;
mod playback;
mod pump;
mod stats;
mod sweep;

use std::process::ExitCode;

use crate::open::Access;
use crate::settings::StoreKind;
use annals::Result;
use annals::log::{Log, LogTables};
use annals::memory::Memory;
use annals::store::Store;
use clap::Subcommand;

use super::{Context, Purpose};
pub(crate) use every::Every;

/// The commands of the log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Store records in the buffer: JSON lines {"event_id":…,"time":…,"payload":…} on standard input
    Ingest(ingest::Ingest),
    /// Copy the events of the journal, or of a Kinesis stream, into the buffer
    Pump(pump::Pump),
    /// Move the buffer into slots of time
    Sweep(sweep::Sweep),
    /// Complete the index of slots, and write the links that the original reads
    Link(link::Link),
    /// Print statistics
    Stats(stats::Stats),
    /// Print the time before which no more events arrive, or set it back
    Horizon(horizon::Horizon),
    /// List the records that could not become events, with the reason
    #[command(alias = "aside")]
    DeadLetters(dead_letters::DeadLetters),
    /// Play back a span of time, in order
    Playback(playback::Playback),
}

impl LogCommand {
    /// Whether it reads or writes a Kinesis stream.
    pub(crate) fn uses_kinesis(&self) -> bool {
        match self {
            Self::Pump(command) => command.uses_kinesis(),
            Self::Playback(command) => command.uses_kinesis(),
            _ => false,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Ingest(command) => command.run(context).await,
            Self::Pump(command) => command.run(context).await,
            Self::Sweep(command) => command.run(context).await,
            Self::Link(command) => command.run(context).await,
            Self::Stats(command) => command.run(context).await,
            Self::Horizon(command) => command.run(context).await,
            Self::DeadLetters(command) => command.run(context).await,
            Self::Playback(command) => command.run(context).await,
        }
    }
}

impl Context {
    /// The log, and its store, which counts the cost. A command that writes creates missing tables in
    /// the embedded store. On DynamoDB run `annals tables create` first.
    pub(crate) async fn log(&self, purpose: Purpose) -> Result<(Log, Store)> {
        let store = match purpose {
            Purpose::Read => self.existing_store(Access::Read).await?,
            Purpose::Follow => self.existing_store(Access::Follow).await?,
            Purpose::Change => self.existing_store(Access::Write).await?,
            Purpose::Write => self.store().await?,
        };
        let log = self.log_on(&store, purpose).await?;
        store.take_counts();
        Ok((log, store))
    }

    /// The log, for a command that creates nothing. The embedded store creates the log's
    /// tables with the first write, or when a server starts: without them the log is empty.
    pub(crate) async fn log_or_empty(&self, access: Access) -> Result<(Log, Store)> {
        let store = self.existing_store(access).await?;
        let is_empty =
            self.settings.store == StoreKind::Embedded && self.has_no_log_table(&store).await?;
        let (log, store) = match is_empty {
            true => {
                let nothing = Store::new(Memory::new());
                (Log::create(&nothing, &self.settings.log).await?, nothing)
            }
            false => (self.log_on(&store, Purpose::Read).await?, store),
        };
        store.take_counts();
        Ok((log, store))
    }

    async fn has_no_log_table(&self, store: &Store) -> Result<bool> {
        for table in LogTables::new(&self.settings.log)?.all() {
            if store.describe_table(table.name()).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The log in an open store.
    pub(crate) async fn log_on(&self, store: &Store, purpose: Purpose) -> Result<Log> {
        let settings = &self.settings.log;
        match (purpose, self.settings.store) {
            (Purpose::Write, StoreKind::Embedded) => Log::create(store, settings).await,
            _ => Log::open(store, settings).await,
        }
    }
}
