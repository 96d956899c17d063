//! One file a command: what it takes, what it does, what it prints.
//!
//! Never: an `if` about the domain. That belongs in the library.

pub(crate) mod append;
mod append_bulk;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod feed;
pub(crate) mod group;
pub(crate) mod highest;
pub(crate) mod ids;
pub(crate) mod import;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod projection;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod tables;
pub(crate) mod verify;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use crate::settings::{Settings, StoreKind};
use annals::items::{Items, TableName, TableSpec, missing_table};
use annals::journal::Journal;
use annals::layout::Layout;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::store::Store;
use annals::{Error, Result};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Args, Command, given};
use crate::open::{self, Absent, Access, Opened};
use crate::output::{self, Output};
use crate::remote::RemoteItems;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
    /// The store of a running server, which is used instead of the settings' own.
    pub(crate) server: Option<Arc<RemoteItems>>,
}

impl Context {
    /// The store, counting; made where there is none.
    pub(crate) async fn store(&self) -> Result<Store> {
        self.open(Absent::Create, Access::Write).await
    }

    /// The store, counting; an error where there is none.
    pub(crate) async fn existing_store(&self, access: Access) -> Result<Store> {
        self.open(Absent::Refuse, access).await
    }

    /// The store, counting; an empty one where there is none. For commands about tables, which report
    /// that they are missing.
    pub(crate) async fn store_or_empty(&self, access: Access) -> Result<Store> {
        self.open(Absent::Empty, access).await
    }

    /// Refuses a folder without a store, which is most likely mistyped: for commands that write, but
    /// find nothing to do in a new store.
    pub(crate) fn refuse_no_store(&self) -> Result<()> {
        match self.is_alone() {
            true => open::refuse_no_store(&self.settings.data),
            false => Ok(()),
        }
    }

    pub(crate) async fn open(&self, absent: Absent, access: Access) -> Result<Store> {
        match &self.server {
            Some(server) => Ok(Store::from_items(server.clone())),
            None => {
                let opened = self.open_here(absent, access).await?;
                Ok(Store::from_items(opened.items))
            }
        }
    }

    async fn open_here(&self, absent: Absent, access: Access) -> Result<Opened> {
        let opened = open::store(&self.settings, absent, access).await;
        opened.map_err(open::suggest_server)
    }

    /// The journal, its store, and what was wrong with the store's index.
    pub(crate) async fn checked_journal(
        &self,
        access: Access,
    ) -> Result<(Journal, Store, Option<Error>)> {
        let (store, damage) = match &self.server {
            Some(_) => (self.existing_store(access).await?, None),
            None => {
                let opened = self.open_here(Absent::Refuse, access).await?;
                (Store::from_items(opened.items), opened.damage)
            }
        };
        let journal = self.journal_in(&store).await?;
        store.take_counts();
        Ok((journal, store, damage))
    }

    /// Where the store is, for people: without credentials.
    pub(crate) fn location(&self) -> String {
        let folder = || self.settings.data.display();
        match (&self.server, self.settings.store) {
            (Some(server), _) => format!("on {}", server.address()),
            (None, StoreKind::Embedded) => format!("in {}", folder()),
            (None, StoreKind::DynamoDb) => match (&self.settings.endpoint, self.region()) {
                (Some(endpoint), Some(region)) => {
                    format!("on DynamoDB at {endpoint} in {region}")
                }
                (Some(endpoint), None) => format!("on DynamoDB at {endpoint}"),
                (None, Some(region)) => format!("on DynamoDB in {region}"),
                (None, None) => "on DynamoDB".to_owned(),
            },
        }
    }

    /// The region, if a setting or a variable names it; otherwise only AWS's own chain knows it.
    fn region(&self) -> Option<String> {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let set = self.settings.region.clone();
        set.or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
    }

    /// An error about a missing table, with the region where it is missing.
    pub(crate) fn with_region(&self, error: Error) -> Error {
        let is_dynamodb = self.server.is_none() && self.settings.store == StoreKind::DynamoDb;
        let table = error.fact_value("table").map(str::parse::<TableName>);
        let is_missing = table.is_some_and(|table| {
            table.is_ok_and(|table| missing_table(&table).message() == error.message())
        });
        match self.region().filter(|_| is_dynamodb && is_missing) {
            Some(region) => error.fact("region", region),
            None => error,
        }
    }

    /// Whether the command works on the files of an embedded store.
    pub(crate) fn is_alone(&self) -> bool {
        self.server.is_none() && self.settings.store == StoreKind::Embedded
    }

    /// The store for reading, or for writing: on this machine with the layout's tables, made where
    /// they are missing. On DynamoDB, where they cost money, somebody has to want them.
    async fn store_for(&self, purpose: Purpose) -> Result<Store> {
        match purpose {
            Purpose::Read => return self.existing_store(Access::Read).await,
            Purpose::Follow => return self.existing_store(Access::Follow).await,
            Purpose::Change => return self.existing_store(Access::Write).await,
            Purpose::Write => {}
        }
        let store = self.store().await?;
        self.make_tables(&store).await?;
        store.take_counts();
        Ok(store)
    }

    /// Makes the layout's tables where they are missing, on this machine.
    async fn make_tables(&self, store: &Store) -> Result<()> {
        if self.settings.store == StoreKind::Embedded {
            self.settings.tables()?.create_missing(store).await?;
        }
        Ok(())
    }

    /// The journal in a store that is open.
    pub(crate) async fn journal_in(&self, store: &Store) -> Result<Journal> {
        self.settings.layout().journal(store).await
    }

    /// The journal, and the store to ask for the cost: opening is not part of it.
    pub(crate) async fn journal(&self, purpose: Purpose) -> Result<(Journal, Store)> {
        let store = self.store_for(purpose).await?;
        let journal = self.settings.layout().journal(&store).await?;
        if purpose == Purpose::Write {
            journal.prepare().await?;
        }
        store.take_counts();
        Ok((journal, store))
    }

    /// The snapshots, and the store to ask for the cost.
    pub(crate) async fn snapshots(&self, purpose: Purpose) -> Result<(Snapshots, Store)> {
        let store = self.store_for(purpose).await?;
        let snapshots = self.settings.layout().snapshots(&store)?;
        Ok((snapshots, store))
    }

    /// The durable state, and the store to ask for the cost.
    pub(crate) async fn states(&self, purpose: Purpose) -> Result<(States, Store)> {
        let store = self.store_for(purpose).await?;
        let states = self.settings.layout().states(&store)?;
        Ok((states, store))
    }

    /// The snapshots in a store that is open, if it has their table.
    pub(crate) async fn snapshots_in(&self, store: &Store) -> Result<Option<Snapshots>> {
        let table = self.settings.tables()?.snapshot;
        if store.describe_table(table.name()).await?.is_none() {
            return Ok(None);
        }
        self.settings.layout().snapshots(store).map(Some)
    }

    /// The durable state in a store that is open, if the layout has such a table and the store too.
    pub(crate) async fn states_in(&self, store: &Store) -> Result<Option<States>> {
        let Some(table) = self.settings.tables()?.state else {
            return Ok(None);
        };
        if store.describe_table(table.name()).await?.is_none() {
            return Ok(None);
        }
        self.settings.layout().states(store).map(Some)
    }

    /// Prints what the store has cost so far, if that was asked for.
    pub(crate) fn print_cost(&self, store: &Store) -> Result<()> {
        self.output.cost(store.counts().total().cost)
    }
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Also while another process has the embedded store open.
    Read,
    /// The same, to read it again later.
    Follow,
    /// To delete or repair what is stored.
    Change,
    Write,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    // The server logs in its own way.
    if !matches!(args.command, Command::Serve(_)) {
        print_warnings();
    }
    let (settings, server) = match &args.command {
        Command::Config(command) if !command.needs_settings() => (Settings::default(), None),
        Command::Completions(_) | Command::Man(_) => (Settings::default(), None),
        command => {
            if let Some(why) = needs_own_store(command) {
                open::refuse_server(&args.global, why)?;
            }
            match open::server(&args.global, calls_aws(command))? {
                Some(server) => {
                    let settings = open::server_settings(&args.global, &server).await?;
                    (settings, Some(Arc::new(RemoteItems::new(server))))
                }
                None => {
                    refuse_unused_folder(&args)?;
                    (open::settings(&args.global, calls_aws(command))?, None)
                }
            }
        }
    };
    let context = Context {
        settings,
        output: Output::new(&args.global),
        server,
    };
    let is_copy = matches!(args.command, Command::Copy(_));
    let outcome = run_in(&context, args).await;
    // A copy has two stores, and names their regions itself.
    outcome.map_err(|error| match is_copy {
        true => error,
        false => context.with_region(error),
    })
}

/// Why a command cannot use the store of a server.
fn needs_own_store(command: &Command) -> Option<&'static str> {
    match command {
        Command::Serve(_) | Command::Bench(_) => Some("this command needs a store of its own"),
        Command::Backup(_) => Some(
            "`annals backup` needs the folder of an embedded store; run it where the folder is",
        ),
        Command::Restore(_) => Some(
            "`annals restore` needs the folder of an embedded store; run it where the folder is",
        ),
        Command::Verify(command) => command.needs_own_store(),
        _ => None,
    }
}

/// Whether a command calls AWS itself, whatever its store is: for a copy, or for Kinesis.
fn calls_aws(command: &Command) -> bool {
    match command {
        Command::Copy(_) => true,
        Command::Log(command) => command.uses_kinesis(),
        _ => false,
    }
}

/// Refuses a folder next to `--dynamodb`, which would be ignored. One of the stores of a copy may be in
/// it.
fn refuse_unused_folder(args: &Args) -> Result<()> {
    let (global, is_copy) = (&args.global, matches!(args.command, Command::Copy(_)));
    let has_folder = global.data_is_typed && given(&global.data).is_some();
    match has_folder && global.dynamodb && !is_copy {
        true => Err(Error::invalid(
            "--data is for the embedded store; leave out --data, or --dynamodb",
        )),
        false => Ok(()),
    }
}

async fn run_in(context: &Context, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Append(command) => command.run(context).await,
        Command::Replay(command) => command.run(context).await,
        Command::Feed(command) => command.run(context).await,
        Command::Group(command) => command.run(context).await,
        Command::Highest(command) => command.run(context).await,
        Command::Ids(command) => command.run(context).await,
        Command::Delete(command) => command.run(context).await,
        Command::Snapshot(command) => command.run(context).await,
        Command::State(command) => command.run(context).await,
        Command::Log(command) => command.run(context).await,
        Command::Tables(command) => command.run(context).await,
        Command::Projection(command) => command.run(context).await,
        Command::Export(command) => command.run(context).await,
        Command::Import(command) => command.run(context).await,
        Command::Copy(command) => {
            command.check_options(&args.global)?;
            command.run(context).await
        }
        Command::Backup(command) => command.run(context).await,
        Command::Restore(command) => command.run(context).await,
        Command::Verify(command) => command.run(context).await,
        Command::Config(command) => command.run(context),
        Command::Serve(command) => {
            let token = open::token(&args.global)?;
            command.run(context, token.as_deref()).await
        }
        Command::Bench(command) => command.run(context).await,
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}

/// Prints the library's warnings on standard error, such as events that a replay leaves out; at a
/// terminal also its progress, to those who wait for a store to open.
fn print_warnings() {
    let progress = match std::io::stderr().is_terminal() {
        true => LevelFilter::INFO,
        false => LevelFilter::WARN,
    };
    let lines = tracing_subscriber::fmt::layer()
        .without_time()
        .with_target(false)
        .with_ansi(output::is_coloured(&std::io::stderr()))
        .with_writer(std::io::stderr);
    let ours = Targets::new()
        .with_target("annals", LevelFilter::WARN)
        .with_target("annals::progress", progress)
        // Late events, which `annals log sweep` prints from its report.
        .with_target("annals::log::sweep::page", LevelFilter::ERROR);
    let lines = tracing_subscriber::registry().with(lines.with_filter(ours));
    // Fails only if there is a subscriber already.
    let _ = lines.try_init();
}

/// The table of that name as the store has it.
async fn existing_table(items: &dyn Items, name: &TableName) -> Result<Arc<TableSpec>> {
    let found = items.describe_table(name).await?;
    found.map(Arc::new).ok_or_else(|| missing_table(name))
}
