//! The source or target of a copy as typed: a layout, a settings file, or `key=value` pairs.
//!
//! Guarantees: a setting that is given here overrides the global options, except that a file must not
//! contradict `--region` or `--endpoint`. A setting that is not given comes from the global options and the settings file. Table
//! names belong to a layout, so another layout gets its own. An unknown key is refused; in a file with
//! its line.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use annals::{Error, Result};
use annals_jvm::LayoutName;
use toml::{Table, Value};

use crate::open;
use crate::settings::{Settings, StoreKind};

/// Settings that belong to a layout.
const TABLE_NAMES: [&str; 3] = ["journal-table", "snapshot-table", "state-table"];

/// A source or target, as typed.
#[derive(Clone, Debug)]
pub(crate) struct EndpointArg(String);

impl FromStr for EndpointArg {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.is_empty() {
            false => Ok(Self(text.to_owned())),
            true => Err(Error::invalid(USAGE)),
        }
    }
}

const USAGE: &str = "a source or target is a layout (annals, akka, j5ik2o), a settings file, or settings such as layout=akka,data=./old";

impl EndpointArg {
    /// Returns the settings of this source or target: the given ones over `shared`.
    pub(crate) fn settings(&self, shared: &Settings) -> Result<Settings> {
        let text = self.0.as_str();
        let mut all = shared.to_table()?;
        let given = match (text.parse::<LayoutName>(), self.file()) {
            (Ok(layout), _) => nested("layout", layout.to_string().into()),
            (Err(_), Some(file)) => from_file(file)?,
            (Err(_), None) => from_pairs(text, &all)?,
        };
        let layout = given.get("layout");
        if layout.is_some() && layout != all.get("layout") {
            all.retain(|name, _| !TABLE_NAMES.contains(&name));
        }
        merge(&mut all, given);
        Settings::from_table(&all).map_err(|problem| {
            let problem = problem.replace('\n', " ");
            Error::invalid(format!("settings do not parse: {problem}")).fact("given", text)
        })
    }
}

impl EndpointArg {
    /// The settings file, if this is one.
    fn file(&self) -> Option<&Path> {
        let text = self.0.as_str();
        let path = Path::new(text);
        let is_file = !text.contains('=') || path.exists();
        (is_file && text.parse::<LayoutName>().is_err()).then_some(path)
    }

    /// Checks a global option against the settings file, which would win.
    ///
    /// # Errors
    /// `Invalid` if the file has another value.
    pub(crate) fn check_option(&self, side: &str, key: &str, value: &str) -> Result<()> {
        let Some(file) = self.file() else {
            return Ok(());
        };
        let settings = from_file(file)?;
        match settings.get(key).and_then(Value::as_str) {
            Some(other) if other != value => Err(Error::invalid(format!(
                "--{key} differs from the settings file of {side}; leave out --{key}, or change the file"
            ))
            .fact("option", value)
            .fact("in the file", other)
            .fact("file", file.display())),
            _ => Ok(()),
        }
    }
}

/// Puts `given` over `all`, section by section.
fn merge(all: &mut Table, given: Table) {
    for (name, value) in given {
        match (all.get_mut(&name), value) {
            (Some(Value::Table(all)), Value::Table(given)) => merge(all, given),
            (_, value) => {
                all.insert(name, value);
            }
        }
    }
}

/// The table with one value, under `section.key`.
fn nested(path: &str, value: Value) -> Table {
    let (first, rest) = path.split_once('.').unzip();
    let inner = match rest {
        Some(rest) => Value::Table(nested(rest, value)),
        None => value,
    };
    Table::from_iter([(first.unwrap_or(path).to_owned(), inner)])
}

fn from_file(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|cause| {
        let path = path.display();
        Error::invalid(format!("{USAGE}; there is no such file"))
            .fact("file", path)
            .because(cause)
    })?;
    // The whole is checked first: its errors have lines, those of merged settings have none.
    open::parse(&text, path)?;
    let table = text.parse();
    table.map_err(|cause: toml::de::Error| Error::invalid(cause.message()))
}

/// Parses `key=value,key=value`; `known` has every setting, with a value of its type.
fn from_pairs(text: &str, known: &Table) -> Result<Table> {
    let mut given = Table::new();
    let mut store = None;
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Error::invalid(format!("{USAGE}; this key has no value")).fact("key", pair)
        })?;
        if key == "dynamodb" {
            let is_dynamodb = typed(key, value, &Value::Boolean(false))? == Value::Boolean(true);
            store = Some(if is_dynamodb { "dynamodb" } else { "embedded" });
            continue;
        }
        // A folder implies the embedded store.
        if key == "data" {
            store = store.or(Some("embedded"));
        }
        let mut path = key.split('.');
        let first = path.next().and_then(|name| known.get(name));
        let setting = path.try_fold(first, |at, name| Some(at?.as_table()?.get(name)));
        let setting = setting.flatten().ok_or_else(|| {
            Error::invalid("there is no such setting; `annals config show` lists all")
                .fact("key", key)
        })?;
        merge(&mut given, nested(key, typed(key, value, setting)?));
    }
    if let Some(store) = store {
        given.entry("store").or_insert_with(|| store.into());
    }
    Ok(given)
}

/// Parses a value of the same type as `example`.
fn typed(key: &str, value: &str, example: &Value) -> Result<Value> {
    let parsed = match example {
        Value::String(_) => Some(Value::from(value)),
        Value::Integer(_) => value.parse().ok().map(Value::Integer),
        Value::Boolean(_) => value.parse().ok().map(Value::Boolean),
        // Sections and lists go into a settings file.
        _ => None,
    };
    parsed.ok_or_else(|| {
        let wanted = example.type_str();
        Error::invalid("the setting has another type; give a value of it, or a settings file")
            .fact("type", wanted)
            .fact("key", key)
            .fact("value", value)
    })
}

/// Whether both settings name the same store.
pub(crate) fn is_same_store(one: &Settings, other: &Settings) -> bool {
    let location = |settings: &Settings| {
        let (endpoint, region) = (settings.endpoint.clone(), settings.region.clone());
        (endpoint, region, settings.profile.clone())
    };
    match (one.store, other.store) {
        (StoreKind::Embedded, StoreKind::Embedded) => {
            canonical(&one.data) == canonical(&other.data)
        }
        (StoreKind::DynamoDb, StoreKind::DynamoDb) => location(one) == location(other),
        _ => false,
    }
}

/// The canonical path of a folder, which need not exist.
fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parent = absolute
        .parent()
        .and_then(|parent| parent.canonicalize().ok());
    let named = parent
        .zip(absolute.file_name())
        .map(|(parent, name)| parent.join(name));
    absolute.canonicalize().ok().or(named).unwrap_or(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, shared: &Settings) -> Result<Settings> {
        text.parse::<EndpointArg>()?.settings(shared)
    }

    fn named() -> Settings {
        Settings {
            journal_table: Some("mine".parse().unwrap()),
            region: Some("eu-west-1".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn a_layout_gets_its_own_tables() {
        let akka = settings("akka", &named()).unwrap();
        assert_eq!(akka.layout, LayoutName::Akka);
        assert_eq!((akka.journal_table, akka.region), (None, named().region));
        assert_eq!(settings("annals", &named()).unwrap(), named());
    }

    #[test]
    fn pairs_have_the_types_of_their_settings_and_override() {
        let text = "layout=akka,data=./old,sequence-shards=20,jvm-deletes=true,j5ik2o.dynamo-db-journal.shard-count=3";
        let old = settings(text, &named()).unwrap();
        assert_eq!((old.sequence_shards, old.jvm_deletes), (20, true));
        assert_eq!(old.data, Path::new("./old"));
        assert_eq!(old.j5ik2o.dynamo_db_journal.shard_count, 3);
        let away = Settings {
            store: StoreKind::DynamoDb,
            ..named()
        };
        assert_eq!(
            settings("data=./old", &away).unwrap().store,
            StoreKind::Embedded
        );
        let away = settings("dynamodb=true,endpoint=http://127.0.0.1:8000", &named()).unwrap();
        assert_eq!(away.store, StoreKind::DynamoDb);
        assert_eq!(away.endpoint.unwrap(), "http://127.0.0.1:8000");
    }

    #[test]
    fn refuses_unknown_settings_by_name() {
        for (text, says) in [
            ("", "a source or target is"),
            ("nowhere.toml", "no such file"),
            ("jornal-table=x", "key=`jornal-table`"),
            ("layout=akka,oops", "key=`oops`"),
            ("layout=other", "other"),
            ("sequence-shards=many", "type=`integer`"),
            ("dynamodb=maybe", "type=`boolean`"),
            ("j5ik2o=x", "type=`table`"),
            ("j5ik2o.nothing=x", "key=`j5ik2o.nothing`"),
            ("journal-table=a b", "name=`a b`"),
        ] {
            let error = settings(text, &named()).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_file_is_checked_with_its_lines_and_overrides() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a=b.toml");
        let text = path.to_str().unwrap();
        std::fs::write(&path, "[log]\ntime-unit-ms = 60000\n").unwrap();
        let read = settings(text, &named()).unwrap();
        assert_eq!(
            (read.log.time_unit_ms, read.region),
            (60_000, named().region)
        );
        std::fs::write(&path, "\n\njornal-table = \"x\"\n").unwrap();
        let error = settings(text, &named()).unwrap_err().to_string();
        assert!(
            error.contains("`jornal-table`") && error.contains("line=`3`"),
            "{error}"
        );
    }

    #[test]
    fn the_same_folder_is_the_same_store() {
        let at = |data: &str| Settings {
            data: data.into(),
            ..Settings::default()
        };
        assert!(is_same_store(&at("x"), &at("./x")));
        assert!(is_same_store(&at("src"), &at("src/../src")));
        assert!(!is_same_store(&at("x"), &at("y")));
        let away = Settings {
            store: StoreKind::DynamoDb,
            ..at("x")
        };
        assert!(!is_same_store(&at("x"), &away));
        assert!(is_same_store(&away, &away));
    }
}
