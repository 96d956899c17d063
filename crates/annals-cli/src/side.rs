//! A side of a copy, as it is typed: a layout, a settings file, or settings.
//!
//! Promises: what a side does not say is as the global options and the settings file say it; tables'
//! names are the layout's they were set for, so a side of another layout has that one's own. A key
//! that is no setting is refused.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::settings::{Settings, StoreKind};
use annals::{Error, Result};
use annals_jvm::LayoutName;
use toml::{Table, Value};

/// Names of tables, which belong to a layout.
const TABLES: [&str; 3] = ["journal-table", "snapshot-table", "state-table"];

/// One of the two, as it was typed.
#[derive(Clone, Debug)]
pub(crate) struct SideText(String);

impl FromStr for SideText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.is_empty() {
            false => Ok(Self(text.to_owned())),
            true => Err(Error::invalid(USAGE)),
        }
    }
}

const USAGE: &str = "a side is a layout (annals, akka, j5ik2o), a settings file, or settings such as layout=akka,data=./old";

impl SideText {
    /// The settings of this side, over those that hold for both.
    pub(crate) fn settings(&self, both: &Settings) -> Result<Settings> {
        let text = self.0.as_str();
        let said = match text.parse::<LayoutName>() {
            Ok(layout) => Table::from_iter([("layout".to_owned(), layout.to_string().into())]),
            Err(_) if text.contains('=') && !Path::new(text).exists() => pairs(text, both)?,
            Err(_) => file(Path::new(text))?,
        };
        let mut all = table_of(both)?;
        if said
            .get("layout")
            .is_some_and(|layout| all.get("layout") != Some(layout))
        {
            all.retain(|name, _| !TABLES.contains(&name));
        }
        merge(&mut all, said);
        all.try_into().map_err(|cause: toml::de::Error| {
            let problem = cause.message().replace('\n', " ");
            Error::invalid(format!(
                "a side's settings are not understood: {problem}. side=`{text}`"
            ))
        })
    }
}

fn table_of(settings: &Settings) -> Result<Table> {
    let table = Table::try_from(settings);
    table.map_err(|cause| Error::invalid("the settings cannot be told").because(cause))
}

/// Puts what one says over what the other does, section by section.
fn merge(all: &mut Table, said: Table) {
    for (name, value) in said {
        match (all.get_mut(&name), value) {
            (Some(Value::Table(all)), Value::Table(said)) => merge(all, said),
            (_, value) => {
                all.insert(name, value);
            }
        }
    }
}

fn file(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|cause| {
        let path = path.display();
        Error::invalid(format!("{USAGE}; there is no such file. side=`{path}`")).because(cause)
    })?;
    text.parse().map_err(|cause: toml::de::Error| {
        let (problem, path) = (cause.message().replace('\n', " "), path.display());
        Error::invalid(format!(
            "settings are not understood: {problem}. file=`{path}`"
        ))
    })
}

/// What `key=value,key=value` says.
fn pairs(text: &str, both: &Settings) -> Result<Table> {
    let known = table_of(both)?;
    let mut said = Table::new();
    let mut store: Option<&str> = None;
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Error::invalid(format!(
                "{USAGE}; this has no value. side=`{text}`, key=`{pair}`"
            ))
        })?;
        match key {
            "dynamodb" => {
                let is_so = value.parse::<bool>();
                let is_so = is_so.map_err(|_| wrong((text, key, value), "true or false"))?;
                store = Some(if is_so { "dynamodb" } else { "embedded" });
            }
            // Whoever says a folder means the store in it.
            "data" => {
                store = store.or(Some("embedded"));
                said.insert(key.to_owned(), value.into());
            }
            _ => {
                let parsed = typed(&known, (text, key, value))?;
                put(&mut said, key, parsed);
            }
        }
    }
    if let Some(store) = store {
        said.entry("store").or_insert_with(|| store.into());
    }
    Ok(said)
}

/// A value of the type that its setting has.
fn typed(known: &Table, (text, key, value): (&str, &str, &str)) -> Result<Value> {
    let mut path = key.split('.');
    let first = path.next().and_then(|name| known.get(name));
    let found = path.try_fold(first, |at, name| Some(at?.as_table()?.get(name)));
    let parsed = match found.flatten() {
        Some(Value::String(_)) => Ok(Value::from(value)),
        Some(Value::Integer(_)) => value
            .parse()
            .map(Value::Integer)
            .map_err(|_| "a whole number"),
        Some(Value::Boolean(_)) => value
            .parse()
            .map(Value::Boolean)
            .map_err(|_| "true or false"),
        Some(_) => Err("in a settings file, and not on a line"),
        None => {
            return Err(Error::invalid(format!(
                "there is no such setting; annals config show lists them. side=`{text}`, key=`{key}`"
            )));
        }
    };
    parsed.map_err(|wanted| wrong((text, key, value), wanted))
}

fn wrong((text, key, value): (&str, &str, &str), wanted: &str) -> Error {
    Error::invalid(format!(
        "this setting is {wanted}. side=`{text}`, key=`{key}`, value=`{value}`"
    ))
}

/// Puts a value under `section.key`.
fn put(said: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            said.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = said.entry(section).or_insert_with(|| Table::new().into());
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Whether two sides are in one store.
pub(crate) fn share_store(one: &Settings, other: &Settings) -> bool {
    let place = |settings: &Settings| {
        let (endpoint, region) = (settings.endpoint.clone(), settings.region.clone());
        (endpoint, region, settings.profile.clone())
    };
    match (one.store, other.store) {
        (StoreKind::Embedded, StoreKind::Embedded) => folder(&one.data) == folder(&other.data),
        (StoreKind::DynamoDb, StoreKind::DynamoDb) => place(one) == place(other),
        _ => false,
    }
}

/// A folder by its one name, also where it is not there yet.
fn folder(path: &Path) -> PathBuf {
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

    fn side(text: &str, both: &Settings) -> Result<Settings> {
        text.parse::<SideText>()?.settings(both)
    }

    fn named() -> Settings {
        Settings {
            journal_table: Some("mine".parse().unwrap()),
            region: Some("eu-west-1".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn a_layout_is_a_side_with_its_own_tables() {
        let akka = side("akka", &named()).unwrap();
        assert_eq!(akka.layout, LayoutName::Akka);
        assert_eq!((akka.journal_table, akka.region), (None, named().region));
        assert_eq!(side("annals", &named()).unwrap(), named());
    }

    #[test]
    fn settings_are_typed_and_stand_over_those_of_both() {
        let text = "layout=akka,data=./old,sequence-shards=20,jvm-deletes=true,j5ik2o.dynamo-db-journal.shard-count=3";
        let old = side(text, &named()).unwrap();
        assert_eq!((old.sequence_shards, old.jvm_deletes), (20, true));
        assert_eq!(old.data, Path::new("./old"));
        assert_eq!(old.j5ik2o.dynamo_db_journal.shard_count, 3);
        let away = Settings {
            store: StoreKind::DynamoDb,
            ..named()
        };
        assert_eq!(
            side("data=./old", &away).unwrap().store,
            StoreKind::Embedded
        );
        let away = side("dynamodb=true,endpoint=http://127.0.0.1:8000", &named()).unwrap();
        assert_eq!(away.store, StoreKind::DynamoDb);
        assert_eq!(away.endpoint.unwrap(), "http://127.0.0.1:8000");
    }

    #[test]
    fn what_is_no_setting_is_refused_with_its_name() {
        for (text, says) in [
            ("", "a side is"),
            ("nowhere.toml", "no such file"),
            ("jornal-table=x", "key=`jornal-table`"),
            ("layout=akka,oops", "key=`oops`"),
            ("layout=other", "other"),
            ("sequence-shards=many", "a whole number"),
            ("dynamodb=maybe", "true or false"),
            ("j5ik2o=x", "settings file"),
            ("j5ik2o.nothing=x", "key=`j5ik2o.nothing`"),
            ("journal-table=a b", "name=`a b`"),
        ] {
            let error = side(text, &named()).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn one_folder_is_one_store_however_it_is_written() {
        let at = |data: &str| Settings {
            data: data.into(),
            ..Settings::default()
        };
        assert!(share_store(&at("x"), &at("./x")));
        assert!(share_store(&at("src"), &at("src/../src")));
        assert!(!share_store(&at("x"), &at("y")));
        let away = Settings {
            store: StoreKind::DynamoDb,
            ..at("x")
        };
        assert!(!share_store(&at("x"), &away));
        assert!(share_store(&away, &away));
    }
}
