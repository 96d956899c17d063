//! The command line, parsed.
//!
//! Guarantees: an empty option or variable counts as not given; errors are one line.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use annals::items::TableName;
use annals::{Error, Result};
use annals_jvm::LayoutName;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    append, backup, bench, completions, config, copy, delete, export, feed, group, highest, ids,
    import, log, man, projection, replay, restore, serve, snapshot, state, tables, verify,
};
use crate::examples;

/// Event-sourced persistence: journals, snapshots and durable state, on this machine or on DynamoDB
#[derive(Debug, Parser)]
#[command(
    name = "annals",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
Exit codes:
  0  success
  1  not found
  2  invalid: the call, a setting or a table is wrong
  3  conflict: another writer was first
  4  unavailable: try again later
  5  corrupt: stored data is damaged"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// All commands, with the examples in their help.
    pub(crate) fn full_command() -> clap::Command {
        examples::add(Self::command())
    }

    /// Parses the arguments of this process.
    pub(crate) fn read() -> clap::error::Result<Self> {
        let matches = Self::full_command().try_get_matches()?;
        let mut args = Self::from_arg_matches(&matches)?;
        let is_typed = |flag| matches.value_source(flag) == Some(ValueSource::CommandLine);
        args.global.data_is_typed = is_typed("data");
        args.global.endpoint_is_typed = is_typed("endpoint");
        args.global.region_is_typed = is_typed("region");
        args.global.server_is_typed = is_typed("server");
        args.global.config_is_typed = is_typed("config");
        Ok(args)
    }
}

/// The error of clap in one line; `None` if it is help or the version.
pub(crate) fn problem(error: &clap::Error) -> Option<String> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let mut text = error.render().to_string();
    for (_, typed) in error.context() {
        if let ContextValue::String(typed) = typed
            && let Some(short) = shortened(typed)
        {
            text = text.replace(typed.as_str(), &short);
        }
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let typed = std::env::args_os().skip(1);
    let help = format!("see {} --help", command_path(typed).join(" "));
    // One paragraph for the problem and one per tip; the usage comes last.
    let parts = text
        .split("\n\n")
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|part| !part.is_empty());
    let parts = parts.chain([help]);
    Some(parts.collect::<Vec<_>>().join("; "))
}

/// The command that was typed, such as `annals log playback`. An error about a value does not have it.
fn command_path(typed: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut command = Args::command();
    command.build();
    let (mut at, mut path) = (&command, vec!["annals".to_owned()]);
    let mut typed = typed.filter_map(|word| word.into_string().ok());
    while let Some(word) = typed.next() {
        if let Some(option) = word.strip_prefix("--") {
            let mut options = at.get_arguments();
            let option = options.find(|it| it.get_long() == Some(option));
            // The value of an option may be the name of a command.
            if option.is_some_and(|option| option.get_action().takes_values()) {
                typed.next();
            }
            continue;
        }
        let Some(inner) = at.find_subcommand(&word) else {
            break;
        };
        path.push(word);
        at = inner;
    }
    path
}

/// The beginning of an argument that is too long for an error message.
fn shortened(typed: &str) -> Option<String> {
    const CHARS_MAX: usize = 60;
    let (cut, _) = typed.char_indices().nth(CHARS_MAX)?;
    Some(format!("{}…", typed.get(..cut)?))
}

/// An optional value; an empty string counts as not given, because scripts pass unset variables.
#[derive(Clone, Debug)]
pub(crate) struct Given<T>(Option<T>);

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let value = Some(text).filter(|text| !text.is_empty());
        Ok(Self(value.map(str::parse).transpose()?))
    }
}

/// The value, if given and not empty.
pub(crate) fn given<T: Clone>(value: &Option<Given<T>>) -> Option<T> {
    value.as_ref().and_then(|Given(value)| value.clone())
}

/// Parses an argument, and offers the shells values for it. Others may be valid, too; the help of the
/// argument lists them.
#[derive(Clone)]
pub(crate) struct Offered<T> {
    values: &'static [&'static str],
    parse: fn(&str) -> Result<T>,
}

impl<T> Offered<T> {
    pub(crate) fn new(values: &'static [&'static str], parse: fn(&str) -> Result<T>) -> Self {
        Self { values, parse }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Offered<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> clap::error::Result<T> {
        self.parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values.iter().map(PossibleValue::new)))
    }
}

/// Parses a whole number from 0 to `max`.
pub(crate) fn whole_number<T: FromStr + PartialOrd + Display>(text: &str, max: T) -> Result<T> {
    let number = text.parse().ok().filter(|number| *number <= max);
    number.ok_or_else(|| Error::invalid(format!("it must be a whole number from 0 to {max}")))
}

const LAYOUTS: &[&str] = &["annals", "akka", "j5ik2o"];

/// As [`FromStr`] of [`Given`], for paths, which need not be UTF-8.
fn given_path() -> impl clap::builder::TypedValueParser<Value = Given<PathBuf>> {
    use clap::builder::OsStringValueParser;
    OsStringValueParser::new().map(|path: OsString| {
        let path = Some(path).filter(|path| !path.is_empty());
        Given(path.map(PathBuf::from))
    })
}

/// Options of every command. A flag overrides its environment variable, which overrides the settings
/// file, which overrides the default.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The settings file [default: annals.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "ANNALS_CONFIG", value_parser = given_path())]
    pub(crate) config: Option<Given<PathBuf>>,
    /// The folder of the embedded store [default: ./annals-data]
    #[arg(long, global = true, value_name = "DIR", env = "ANNALS_DATA", value_parser = given_path())]
    pub(crate) data: Option<Given<PathBuf>>,
    /// Use DynamoDB instead of the embedded store
    #[arg(long, global = true)]
    pub(crate) dynamodb: bool,
    /// The endpoint of DynamoDB, such as http://127.0.0.1:8000
    #[arg(long, global = true, value_name = "URL", env = "ANNALS_ENDPOINT")]
    pub(crate) endpoint: Option<Given<String>>,
    /// The AWS region
    #[arg(long, global = true, value_name = "R", env = "ANNALS_REGION")]
    pub(crate) region: Option<Given<String>>,
    /// Run the command on a running `annals serve`, such as http://127.0.0.1:7070, with its settings
    #[arg(long, global = true, value_name = "URL", env = "ANNALS_SERVER")]
    pub(crate) server: Option<Given<String>>,
    /// The file with the token of the server: the one to send with --server, or the one that `annals
    /// serve` asks for; without it, the token is the value of the variable ANNALS_TOKEN, if that is set
    #[arg(long, global = true, value_name = "FILE", value_parser = given_path())]
    pub(crate) token_file: Option<Given<PathBuf>>,
    /// The layout of the tables: annals, akka or j5ik2o
    #[arg(
        long,
        global = true,
        value_name = "LAYOUT",
        env = "ANNALS_LAYOUT",
        value_parser = Offered::new(LAYOUTS, str::parse::<Given<LayoutName>>),
        hide_possible_values = true
    )]
    pub(crate) layout: Option<Given<LayoutName>>,
    /// The table of events
    #[arg(
        long,
        global = true,
        value_name = "TABLE",
        env = "ANNALS_JOURNAL_TABLE"
    )]
    pub(crate) journal_table: Option<Given<TableName>>,
    /// The table of snapshots
    #[arg(
        long,
        global = true,
        value_name = "TABLE",
        env = "ANNALS_SNAPSHOT_TABLE"
    )]
    pub(crate) snapshot_table: Option<Given<TableName>>,
    /// The table of durable state
    #[arg(long, global = true, value_name = "TABLE", env = "ANNALS_STATE_TABLE")]
    pub(crate) state_table: Option<Given<TableName>>,
    /// Distinguishes journals that share a table (layout akka)
    #[arg(long, global = true, value_name = "NAME", env = "ANNALS_JOURNAL_NAME")]
    pub(crate) journal_name: Option<Given<String>>,
    /// Print JSON lines; the default unless standard output is a terminal
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print the cost at the end, in requests and capacity units
    #[arg(long, global = true)]
    pub(crate) cost: bool,
    /// Whether `--data` was given on the command line, not in the environment.
    #[arg(skip)]
    pub(crate) data_is_typed: bool,
    /// The same for `--endpoint`.
    #[arg(skip)]
    pub(crate) endpoint_is_typed: bool,
    /// The same for `--region`.
    #[arg(skip)]
    pub(crate) region_is_typed: bool,
    /// The same for `--server`.
    #[arg(skip)]
    pub(crate) server_is_typed: bool,
    /// The same for `--config`.
    #[arg(skip)]
    pub(crate) config_is_typed: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Append events to a journal, all or none
    Append(append::Append),
    /// Print the events of an id
    Replay(replay::Replay),
    /// Print the events of all ids, in the order in which they were committed
    Feed(feed::Feed),
    /// Consumer groups: members share the events of the feed, each commit for one of them
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Print the last sequence number of an id
    Highest(highest::Highest),
    /// List persistence ids
    Ids(ids::Ids),
    /// Delete the events of an id up to a sequence number, or the whole id
    Delete(delete::Delete),
    /// Save, load, list or delete snapshots
    #[command(subcommand)]
    Snapshot(snapshot::Snapshot),
    /// Get, put or delete durable state
    #[command(subcommand)]
    State(state::State),
    /// The time-ordered log: ingest, pump, sweep, play back
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Projections: list, status, pause, resume, rebuild, switch, dead letters
    #[command(subcommand)]
    Projection(projection::Projection),
    /// Create, check or drop the tables of the layout, or print a CloudFormation template
    #[command(subcommand)]
    Tables(tables::Tables),
    /// Print every item of a table as DynamoDB JSON lines
    Export(export::Export),
    /// Import items from DynamoDB JSON lines into a table, overwriting nothing
    Import(import::Import),
    /// Copy journals, snapshots and durable state from one layout or store to another
    Copy(copy::Copy),
    /// Back up the embedded store into a folder, also while it is in use
    Backup(backup::Backup),
    /// Restore a backup as the embedded store, whole or up to a position or a time
    Restore(restore::Restore),
    /// Check stored data and print what is damaged
    Verify(verify::Verify),
    /// Show the effective settings, or import those of a JVM plugin
    #[command(subcommand)]
    Config(config::Config),
    /// Serve the HTTP API
    Serve(serve::Serve),
    /// Measure this machine and its store
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the manual page, or write the pages of all commands into a folder
    Man(man::Man),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_found_among_options_and_their_values() {
        let path = |line: &str| {
            let words = line.split_whitespace().map(OsString::from);
            command_path(words).join(" ")
        };
        assert_eq!(path(""), "annals");
        assert_eq!(path("append --codec xml a"), "annals append");
        assert_eq!(
            path("--data log --json log --cost playback --start yesterday"),
            "annals log playback"
        );
        assert_eq!(path("--data=ids replay append"), "annals replay");
        assert_eq!(path("frobnicate append"), "annals");
    }

    #[test]
    fn every_layout_is_offered() {
        assert_eq!(LayoutName::ALL.map(|layout| layout.to_string()), LAYOUTS);
    }
}
