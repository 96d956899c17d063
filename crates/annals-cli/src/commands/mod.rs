//! One file a command: what it takes, what it does, what it prints.
//!
//! Never: an `if` about the domain. That belongs in the library.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod tables;

use std::process::ExitCode;
use std::sync::Arc;

use annals::Result;
use annals::counting::Counting;
use annals::items::{Items, TableName, TableSpec, missing_table};
use annals::settings::Settings;

use crate::args::{Args, Command};
use crate::open::{self, Absent};
use crate::output::Output;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
}

impl Context {
    /// The store, counting; made where there is none.
    pub(crate) async fn store(&self) -> Result<Arc<Counting>> {
        open::store(&self.settings, Absent::Create).await
    }

    /// The store, counting; one without tables where there is none. For what creates nothing.
    pub(crate) async fn existing_store(&self) -> Result<Arc<Counting>> {
        open::store(&self.settings, Absent::Empty).await
    }

    /// Prints what the store has cost so far, if that was asked for.
    pub(crate) fn print_cost(&self, store: &Counting) -> Result<()> {
        self.output.cost(store.counts().total().cost)
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let context = Context {
        settings: open::settings(&args.global)?,
        output: Output::new(&args.global),
    };
    match args.command {
        Command::Tables(command) => command.run(&context).await,
        Command::Export(command) => command.run(&context).await,
        Command::Import(command) => command.run(&context).await,
        Command::Config(command) => command.run(&context),
        Command::Bench(command) => command.run(&context).await,
    }
}

/// The table of that name as the store has it.
async fn existing_table(items: &dyn Items, name: &TableName) -> Result<Arc<TableSpec>> {
    let found = items.describe_table(name).await?;
    found.map(Arc::new).ok_or_else(|| missing_table(name))
}
