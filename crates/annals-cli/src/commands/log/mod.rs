//! `annals log`: events of every source by time.

mod aside;
mod every;
mod horizon;
mod ingest;
mod link;
mod playback;
mod pump;
mod stats;
mod sweep;

use std::process::ExitCode;
use std::sync::Arc;

use crate::settings::StoreKind;
use annals::log::Log;
use annals::store::Store;
use annals::{Result, SystemClock};
use clap::Subcommand;

use super::{Context, Purpose};
pub(crate) use every::Every;

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Bring records into the buffer: JSON lines {"event_id":…,"time":…,"payload":…} on standard
    /// input
    Ingest(ingest::Ingest),
    /// Bring the events of the journals, or of a Kinesis stream, into the buffer
    Pump(pump::Pump),
    /// Move what waits in the buffer into slots of time
    Sweep(sweep::Sweep),
    /// Make the index of slots complete, and write the links that the original reads
    Link(link::Link),
    /// What the log holds, and how far it is
    Stats(stats::Stats),
    /// The time before which nothing more arrives; set back where a sweeper's clock was wrong
    Horizon(horizon::Horizon),
    /// The records that could not become events, with the reason
    Aside(aside::Aside),
    /// Play a span of time back, in order
    Playback(playback::Playback),
}

impl LogCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Ingest(command) => command.run(context).await,
            Self::Pump(command) => command.run(context).await,
            Self::Sweep(command) => command.run(context).await,
            Self::Link(command) => command.run(context).await,
            Self::Stats(command) => command.run(context).await,
            Self::Horizon(command) => command.run(context).await,
            Self::Aside(command) => command.run(context).await,
            Self::Playback(command) => command.run(context).await,
        }
    }
}

impl Context {
    /// The log, and the store to ask for the cost: on this machine with its tables, made where they
    /// are missing and something is to be written. On DynamoDB somebody has to want them.
    pub(crate) async fn log(&self, purpose: Purpose) -> Result<(Log, Store)> {
        let store = match purpose {
            Purpose::Read => self.existing_store().await?,
            Purpose::Write => self.store().await?,
        };
        let log = self.log_on(&store, purpose).await?;
        store.take_counts();
        Ok((log, store))
    }

    /// The log in a store that is open.
    pub(crate) async fn log_on(&self, store: &Store, purpose: Purpose) -> Result<Log> {
        let settings = &self.settings.log;
        match (purpose, self.settings.store) {
            (Purpose::Write, StoreKind::Embedded) => Log::create(store, settings).await,
            _ => Log::open(store, settings).await,
        }
    }
}
