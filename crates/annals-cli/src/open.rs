//! Opens the store: flags, environment and settings file become settings, settings become a store.
//!
//! Guarantees: a flag overrides the environment, which overrides the file, which overrides the
//! default. An error in the file names its line.

use std::env::VarError;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::Items;
use annals::memory::Memory;
use annals::{Error, ErrorKind, Result};
use annals_aws::DynamoDb;

use crate::args::{Global, given};
use crate::output::print_note;
use crate::remote::Client;
use crate::settings::{Settings, StoreKind};

const DEFAULT_FILE: &str = "annals.toml";

/// Returns the effective settings. A command that calls AWS itself has its region.
///
/// # Errors
/// `Invalid` if an option is about another store.
pub(crate) fn settings(global: &Global, calls_aws: bool) -> Result<Settings> {
    let mut settings = read_file(given(&global.config).as_deref())?;
    if let Some(data) = given(&global.data) {
        settings.data = data;
        // A folder on the command line selects the embedded store; one in the environment only says
        // where that is.
        if global.data_is_typed {
            settings.store = StoreKind::Embedded;
        }
    }
    if global.dynamodb {
        settings.store = StoreKind::DynamoDb;
    }
    if let Some(endpoint) = given(&global.endpoint) {
        // Without --dynamodb the endpoint would be ignored and a folder written instead.
        if global.endpoint_is_typed && settings.store == StoreKind::Embedded {
            return Err(Error::invalid(
                "--endpoint is for DynamoDB; add --dynamodb, or leave --endpoint out",
            ));
        }
        settings.endpoint = Some(endpoint);
    }
    let is_region_typed = global.region_is_typed && given(&global.region).is_some();
    if is_region_typed && settings.store == StoreKind::Embedded && !calls_aws {
        return Err(Error::invalid(
            "--region is for AWS; add --dynamodb, or leave --region out",
        ));
    }
    apply_names(global, &mut settings);
    Ok(settings)
}

/// The server to use, if there is one: `--server`, or its variable unless a store is named. A command
/// that calls AWS itself has its region.
///
/// # Errors
/// `Invalid` if another store is named beside `--server`.
pub(crate) fn server(global: &Global, calls_aws: bool) -> Result<Option<Client>> {
    let Some(address) = given(&global.server) else {
        // The command would change a store on this machine instead.
        return match global.server_is_typed {
            true => Err(Error::invalid(
                "--server is empty; give a URL, or leave it out",
            )),
            false => Ok(None),
        };
    };
    let refused = |flag| {
        Err(Error::invalid(format!(
            "--server uses the store and the settings of the server; leave out {flag}"
        )))
    };
    match named_store(global) {
        Some(flag) if global.server_is_typed => refused(flag),
        Some(_) => Ok(None),
        None if global.region_is_typed && !calls_aws => refused("--region"),
        None => Client::new(&address, token(global)?.as_deref()).map(Some),
    }
}

/// The flag that names a store on the command line.
fn named_store(global: &Global) -> Option<&'static str> {
    let store = [
        (global.dynamodb, "--dynamodb"),
        (global.data_is_typed, "--data"),
        (global.endpoint_is_typed, "--endpoint"),
        (global.config_is_typed, "--config"),
    ];
    let named = store.into_iter().find(|(is_given, _)| *is_given);
    named.map(|(_, flag)| flag)
}

/// Refuses a server for a command that cannot use one, before anything is sent to it.
///
/// # Errors
/// `Invalid` with this reason, and with what names the server.
pub(crate) fn refuse_server(global: &Global, why: &str) -> Result<()> {
    // A store on the command line overrides the variable.
    let is_overridden = named_store(global).is_some() && !global.server_is_typed;
    if given(&global.server).is_none() || is_overridden {
        return Ok(());
    }
    let advice = match global.server_is_typed {
        true => "leave out --server",
        false => "unset the variable ANNALS_SERVER, or name the store with --data",
    };
    Err(Error::invalid(format!("{why}; {advice}")))
}

/// The settings of a server, with the flags for layout and tables.
pub(crate) async fn server_settings(global: &Global, server: &Client) -> Result<Settings> {
    let settings = server.settings().await?;
    let mut settings = Settings::from_json(settings).map_err(|problem| {
        Error::invalid(format!(
            "the server's settings do not parse; use its version of annals: {problem}"
        ))
    })?;
    // Of the AWS clients of this process, such as the target of a copy.
    if settings.store == StoreKind::Embedded {
        settings.endpoint = given(&global.endpoint).or(settings.endpoint);
    }
    apply_names(global, &mut settings);
    Ok(settings)
}

/// The token of the server, from the file or the environment.
pub(crate) fn token(global: &Global) -> Result<Option<String>> {
    let Some(path) = given(&global.token_file) else {
        // A server would need no token.
        if global.token_file.is_some() {
            return Err(Error::invalid(
                "--token-file is empty; name a file, or leave it out",
            ));
        }
        return match std::env::var("ANNALS_TOKEN") {
            Ok(token) => Ok(Some(token).filter(|token| !token.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(Error::invalid("ANNALS_TOKEN is not text")),
        };
    };
    let read = std::fs::read_to_string(&path).map_err(|cause| {
        Error::invalid("cannot read the token")
            .fact("file", path.display())
            .because(cause)
    });
    read.map(Some)
}

/// Flags about the region, the layout and its tables. Table names belong to a layout, so another layout
/// gets its own.
fn apply_names(global: &Global, settings: &mut Settings) {
    if let Some(layout) = given(&global.layout).filter(|layout| *layout != settings.layout) {
        settings.layout = layout;
        settings.journal_table = None;
        settings.snapshot_table = None;
        settings.state_table = None;
    }
    settings.region = given(&global.region).or(settings.region.take());
    settings.journal_table = given(&global.journal_table).or(settings.journal_table.take());
    settings.snapshot_table = given(&global.snapshot_table).or(settings.snapshot_table.take());
    settings.state_table = given(&global.state_table).or(settings.state_table.take());
    if let Some(name) = given(&global.journal_name) {
        settings.journal_name = name;
    }
}

fn read_file(named: Option<&Path>) -> Result<Settings> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if named.is_none() && cause.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Settings::default());
        }
        Err(cause) => {
            return Err(Error::invalid("cannot read the settings file")
                .fact("file", path.display())
                .because(cause));
        }
    };
    parse(&text, path)
}

/// Parses the text of a settings file.
///
/// # Errors
/// `Invalid`, in one line, with the line in the file.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Settings> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        let (message, file) = (error.message().replace('\n', " "), path.display());
        Error::invalid(format!(
            "settings do not parse: {message}; fix or remove the line"
        ))
        .fact("line", line)
        .fact("file", file)
    })
}

/// What to do if the folder has no embedded store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Create one.
    Create,
    /// Leave the disk alone and use an empty store in memory.
    Empty,
    /// Fail: a read from a folder without a store is most likely a mistyped folder.
    Refuse,
}

/// What a command does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It only reads: it takes no lock, and changes nothing but the folder `readers` of the store.
    Read,
    /// The same again and again, so that it is not said each time.
    Follow,
    Write,
}

/// A store that was opened.
pub(crate) struct Opened {
    pub(crate) items: Arc<dyn Items>,
    /// What was wrong with the index of an embedded store. It reads all the same.
    pub(crate) damage: Option<Error>,
}

/// Opens the store of these settings.
pub(crate) async fn store(settings: &Settings, absent: Absent, access: Access) -> Result<Opened> {
    let items: Arc<dyn Items> = match settings.store {
        StoreKind::Embedded if absent == Absent::Empty && has_no_store(&settings.data) => {
            Arc::new(Memory::new())
        }
        StoreKind::Embedded => {
            let opened = embedded(settings, absent, access)?;
            return Ok(Opened {
                damage: opened.index_damage().cloned(),
                items: Arc::new(opened),
            });
        }
        StoreKind::DynamoDb => Arc::new(DynamoDb::open(&settings.aws()).await?),
    };
    let damage = None;
    Ok(Opened { items, damage })
}

fn embedded(settings: &Settings, absent: Absent, access: Access) -> Result<Embedded> {
    let folder = &settings.data;
    if absent == Absent::Refuse || access != Access::Write {
        refuse_no_store(folder)?;
    }
    if access != Access::Write {
        let opened = Embedded::open_read_only(folder, &settings.embedded)?;
        if let Some(owner) = Embedded::owner(folder)
            && access == Access::Read
            && std::io::stderr().is_terminal()
        {
            print_note(&format!(
                "annals: process {owner} has the store open; this reads it as it is now"
            ));
        }
        return Ok(opened);
    }
    let is_new = has_no_store(folder);
    let opened =
        Embedded::open(folder, &settings.embedded).map_err(|error| match error.kind() {
            // Most likely mistyped: its files, or a file in its place.
            ErrorKind::Invalid if is_new => check_data(error),
            _ => error,
        })?;
    // For people, who may have mistyped the folder.
    if is_new && std::io::stdout().is_terminal() {
        let folder = folder.display();
        print_note(&format!("annals: created a store in {folder}"));
    }
    Ok(opened)
}

/// The error about a folder that is no store, which names the option first.
fn check_data(error: Error) -> Error {
    let first = Error::new(error.kind(), format!("check --data: {}", error.message()));
    let facts = error.facts();
    let checked = facts.fold(first, |checked, (name, value)| {
        checked.fact(name.to_owned(), value)
    });
    match std::error::Error::source(&error) {
        Some(cause) => checked.because(cause.to_string()),
        None => checked,
    }
}

/// The process that has the store open, if that is the problem.
fn owner(error: &Error) -> Option<&str> {
    let process = error.fact_value("process");
    process.filter(|_| error.kind() == ErrorKind::Unavailable)
}

/// Adds the option for a store that `annals serve` has open: only this program has it, and of its
/// commands all but `serve`.
pub(crate) fn suggest_server(error: Error) -> Error {
    if owner(&error).is_none() {
        return error;
    }
    let message = format!(
        "{}, or add --server URL if it is `annals serve`",
        error.message()
    );
    let hinted = Error::new(error.kind(), message);
    let facts = error.facts();
    facts.fold(hinted, |hinted, (name, value)| {
        hinted.fact(name.to_owned(), value)
    })
}

/// Refuses a folder without an embedded store, which is most likely mistyped.
pub(crate) fn refuse_no_store(folder: &Path) -> Result<()> {
    let problem = match has_no_store(folder) {
        false => return Ok(()),
        true if is_backup(folder) => "this is a backup; restore it first with `annals restore`",
        true => {
            "check --data: there is no store in this folder. `annals tables create` creates one"
        }
    };
    Err(Error::invalid(problem).fact("data", folder.display()))
}

/// `annals backup` marks its folder before it writes anything else.
fn is_backup(folder: &Path) -> bool {
    ["BACKUP", "MANIFEST"]
        .iter()
        .any(|name| folder.join(name).is_file())
}

/// The file FORMAT is written last when a store is created. If it cannot be read, opening fails.
fn has_no_store(folder: &Path) -> bool {
    matches!(folder.join("FORMAT").try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let error = parse(text, Path::new("annals.toml")).unwrap_err();
        error.to_string()
    }

    #[test]
    fn the_shipped_file_has_the_defaults() {
        let shipped = include_str!("../../../annals.toml");
        assert_eq!(
            parse(shipped, Path::new("annals.toml")).unwrap(),
            Settings::default()
        );
    }

    #[test]
    fn the_shipped_file_lists_every_setting() {
        let shipped: toml::Table = include_str!("../../../annals.toml").parse().unwrap();
        let all = toml::Table::try_from(Settings::default()).unwrap();
        assert_eq!(shipped, all);
    }

    #[test]
    fn an_unknown_setting_is_reported_with_its_line() {
        let problem = problem("layout = \"akka\"\njornal-table = \"x\"\n");
        assert!(problem.contains("`jornal-table`"), "{problem}");
        assert!(problem.contains("line=`2`"), "{problem}");
        assert!(!problem.contains('\n'), "{problem}");
    }

    #[test]
    fn refuses_an_invalid_table_name() {
        let problem = problem("journal-table = \"no spaces\"\n");
        assert!(problem.contains("name=`no spaces`"), "{problem}");
    }
}
