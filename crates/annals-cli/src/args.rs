//! What was typed, as types.

use std::path::PathBuf;

use annals::items::TableName;
use annals::layout::Layout;
use clap::{Parser, Subcommand};

use crate::commands::{bench, config, export, import, tables};

/// Event-sourced persistence: journals, snapshots and durable state, on this machine or on
/// DynamoDB.
#[derive(Debug, Parser)]
#[command(
    name = "annals",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes. A flag wins over its environment variable, which wins over the
/// file, which wins over the default.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The settings file [default: annals.toml where there is one]
    #[arg(long, global = true, value_name = "FILE", env = "ANNALS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The folder of the embedded store [default: ./annals-data]
    #[arg(long, global = true, value_name = "DIR", env = "ANNALS_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Use DynamoDB instead of the embedded store
    #[arg(long, global = true)]
    pub(crate) dynamodb: bool,
    /// The address of DynamoDB, such as http://127.0.0.1:8000
    #[arg(long, global = true, value_name = "URL", env = "ANNALS_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// The AWS region
    #[arg(long, global = true, value_name = "R", env = "ANNALS_REGION")]
    pub(crate) region: Option<String>,
    /// Whose tables to read and write: annals, akka or j5ik2o
    #[arg(long, global = true, value_name = "LAYOUT", env = "ANNALS_LAYOUT")]
    pub(crate) layout: Option<Layout>,
    /// The table of events
    #[arg(
        long,
        global = true,
        value_name = "TABLE",
        env = "ANNALS_JOURNAL_TABLE"
    )]
    pub(crate) journal_table: Option<TableName>,
    /// The table of snapshots
    #[arg(
        long,
        global = true,
        value_name = "TABLE",
        env = "ANNALS_SNAPSHOT_TABLE"
    )]
    pub(crate) snapshot_table: Option<TableName>,
    /// The table of durable state
    #[arg(long, global = true, value_name = "TABLE", env = "ANNALS_STATE_TABLE")]
    pub(crate) state_table: Option<TableName>,
    /// What journals that share a table are told apart by (layout akka)
    #[arg(long, global = true, value_name = "NAME", env = "ANNALS_JOURNAL_NAME")]
    pub(crate) journal_name: Option<String>,
    /// Print JSON lines, as is done whenever the output is not a terminal
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print at the end what it cost in requests and capacity units
    #[arg(long, global = true)]
    pub(crate) cost: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create, check or drop the tables of the layout
    #[command(subcommand)]
    Tables(tables::Tables),
    /// Print every item of a table as DynamoDB JSON lines
    Export(export::Export),
    /// Put items from DynamoDB JSON lines into a table, overwriting nothing
    Import(import::Import),
    /// Show the settings in force
    #[command(subcommand)]
    Config(config::Config),
    /// Measure this machine and store
    #[command(subcommand)]
    Bench(bench::Bench),
}
