//! The composition root: flags, environment and file become settings, settings become a store.

use std::path::Path;
use std::sync::Arc;

use crate::settings::{Settings, StoreKind};
use annals::embedded::Embedded;
use annals::items::Items;
use annals::memory::Memory;
use annals::store::Store;
use annals::{Error, Result};
use annals_aws::DynamoDb;

use crate::args::{Global, given};

const DEFAULT_FILE: &str = "annals.toml";

/// The settings in force: flag over environment over file over default.
pub(crate) fn settings(global: &Global) -> Result<Settings> {
    let mut settings = read_file(given(&global.config).as_deref())?;
    if let Some(data) = given(&global.data) {
        settings.data = data;
        // A folder that is typed is the store meant; one in the environment only says where the
        // embedded store is, if that is the one.
        if global.data_is_typed {
            settings.store = StoreKind::Embedded;
        }
    }
    if global.dynamodb {
        settings.store = StoreKind::DynamoDb;
    }
    if let Some(endpoint) = given(&global.endpoint) {
        // Typed without --dynamodb, an address would be passed over and a folder written instead.
        if global.endpoint_is_typed && settings.store == StoreKind::Embedded {
            return Err(Error::invalid(
                "an endpoint is for DynamoDB; say --dynamodb as well, or leave the endpoint out",
            ));
        }
        settings.endpoint = Some(endpoint);
    }
    settings.region = given(&global.region).or(settings.region);
    settings.journal_table = given(&global.journal_table).or(settings.journal_table);
    settings.snapshot_table = given(&global.snapshot_table).or(settings.snapshot_table);
    settings.state_table = given(&global.state_table).or(settings.state_table);
    settings.layout = given(&global.layout).unwrap_or(settings.layout);
    settings.journal_name = given(&global.journal_name).unwrap_or(settings.journal_name);
    Ok(settings)
}

fn read_file(named: Option<&Path>) -> Result<Settings> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if named.is_none() && cause.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Settings::default());
        }
        Err(cause) => {
            let message = format!("cannot read the settings file. file=`{}`", path.display());
            return Err(Error::invalid(message).because(cause));
        }
    };
    parse(&text).map_err(|problem| Error::invalid(format!("{problem}, file=`{}`", path.display())))
}

/// The settings in a text, or what is wrong with it and where, in one line.
fn parse(text: &str) -> std::result::Result<Settings, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        let message = error.message().replace('\n', " ");
        format!("settings are not understood: {message}; fix or remove the line. line=`{line}`")
    })
}

/// What to do where the folder of the embedded store holds none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Make one, to write to.
    Create,
    /// Leave the disk alone and answer as a store without tables does.
    Empty,
}

/// The store the settings name, counting what it does.
pub(crate) async fn store(settings: &Settings, absent: Absent) -> Result<Store> {
    let items: Arc<dyn Items> = match settings.store {
        StoreKind::Embedded if absent == Absent::Empty && holds_no_store(&settings.data) => {
            Arc::new(Memory::new())
        }
        StoreKind::Embedded => Arc::new(Embedded::open(&settings.data, &settings.embedded)?),
        StoreKind::DynamoDb => Arc::new(DynamoDb::open(&settings.aws()).await?),
    };
    Ok(Store::from_items(items))
}

/// The file FORMAT is written last when a store is made. What cannot be told, opening reports.
fn holds_no_store(folder: &Path) -> bool {
    matches!(folder.join("FORMAT").try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_the_default() {
        let shipped = include_str!("../../../annals.toml");
        assert_eq!(parse(shipped).unwrap(), Settings::default());
    }

    #[test]
    fn the_shipped_file_names_every_setting() {
        let shipped: toml::Table = include_str!("../../../annals.toml").parse().unwrap();
        let all = toml::Table::try_from(Settings::default()).unwrap();
        assert_eq!(shipped, all);
    }

    #[test]
    fn an_unknown_setting_is_named_with_its_line() {
        let problem = parse("layout = \"akka\"\njornal-table = \"x\"\n").unwrap_err();
        assert!(problem.contains("`jornal-table`"), "{problem}");
        assert!(problem.contains("line=`2`"), "{problem}");
        assert!(!problem.contains('\n'), "{problem}");
    }

    #[test]
    fn a_table_name_that_cannot_be_is_refused() {
        let problem = parse("journal-table = \"no spaces\"\n").unwrap_err();
        assert!(problem.contains("name=`no spaces`"), "{problem}");
    }
}
