//! Imports a HOCON configuration of j5ik2o's akka-persistence-dynamodb: its three sections and its
//! client.
//!
//! Every key of the file is imported or reported with a reason. Values from `dynamo-db-defaults` are
//! reported there, once.

mod client;
mod client_keys;
pub(super) mod keys;
mod sections;
#[cfg(test)]
mod tests;

use annals::Result;
use toml::{Table, Value as Toml};

use self::client::Client;
use self::keys::{COMMON, Fate, JOURNAL, READ_JOURNAL, Row, SNAPSHOT, STATE};
use self::sections::{Place, Sections, Which};
use super::document::{Document, Leaf, Value, joined};
use super::keys::{self as core, Fate as CoreFate, Kind};
use super::{Imported, NotTaken, values};

pub(super) use self::sections::is_plugins;

/// Whether to import this plugin's configuration: the given section, or the one that the core
/// chooses, belongs to it; or the file has sections of no other plugin.
pub(super) fn is_meant(document: &Document, section: Option<&str>) -> bool {
    match section {
        Some(asked) => {
            let path: Vec<String> = asked.split('.').map(str::to_owned).collect();
            document.has(&path) && is_plugins(document, &path)
        }
        None => {
            let has_other = document.has(&super::sections::standard_journal())
                || super::sections::is_chosen(document);
            let is_chosen = |what: &&str| sections::chosen(document, what).is_some();
            let mut others = ["snapshot-store", "state"].iter();
            is_chosen(&"journal")
                || (!has_other && (sections::are_there(document) || others.any(is_chosen)))
        }
    }
}

/// The settings of the journal in `section`, or of the one that the file chooses.
pub(super) fn import(document: &Document, section: Option<&str>) -> Result<Imported> {
    let sections = Sections::find(document, section);
    let import = Import {
        document,
        client: Client::new(document, &sections),
        sections: &sections,
        imported: Imported::default(),
    };
    import.run()
}

/// The plugin's defaults as a fallback of every file, each between these marks. The sections get
/// their client from `dynamo-db-defaults`.
pub(super) fn reference([begin, end]: [char; 2]) -> String {
    let mut text = String::new();
    let mut add = |section: &str, row: &Row| {
        if !row.name.ends_with('*') {
            let (name, default) = (row.name, row.default);
            text.push_str(&format!(
                "j5ik2o.{section}.{name} = \"{begin}{default}{end}\"\n"
            ));
        }
    };
    for row in client_keys::CLIENTS.iter().flat_map(|rows| rows.iter()) {
        add("dynamo-db-defaults.dynamo-db-client", row);
    }
    for which in Which::ALL {
        for row in which.rows().iter().chain(COMMON) {
            add(which.name(), row);
        }
    }
    for which in Which::ALL {
        let name = which.name();
        text.push_str(&format!(
            "j5ik2o.{name}.dynamo-db-client = ${{j5ik2o.dynamo-db-defaults.dynamo-db-client}}\n"
        ));
        for shared in ["write-backoff", "read-backoff"] {
            text.push_str(&format!(
                "j5ik2o.{name}.{shared} = ${{?j5ik2o.dynamo-db-defaults.{shared}}}\n"
            ));
        }
    }
    text
}

impl Which {
    /// The keys that only this section has.
    fn rows(self) -> &'static [Row] {
        match self {
            Self::Journal => JOURNAL,
            Self::Snapshot => SNAPSHOT,
            Self::State => STATE,
        }
    }

    /// The core's keys that it may have.
    fn core_rows(self) -> &'static [core::Row] {
        match self {
            Self::Journal => core::JOURNAL_CORE,
            Self::Snapshot => core::SNAPSHOTS_CORE,
            Self::State => &[],
        }
    }
}

struct Import<'a> {
    document: &'a Document,
    sections: &'a Sections,
    client: Client<'a>,
    imported: Imported,
}

impl Import<'_> {
    fn run(mut self) -> Result<Imported> {
        self.set("store", "dynamodb".into());
        self.set("layout", "j5ik2o".into());
        for name in &self.document.missing {
            let key = format!("include {}", serde_json::Value::from(name.as_str()));
            self.leave(key, "not found; its content is not imported");
        }
        for leaf in &self.document.leaves {
            if let Some(reason) = self.leaf(leaf)? {
                self.leave(joined(&leaf.path), &reason);
            }
        }
        let (settings, left) = self.client.settle(self.sections);
        for (key, value) in settings {
            self.set(key, value);
        }
        self.imported.not_taken.extend(left);
        Ok(self.imported)
    }

    /// Imports a value, or returns why not.
    fn leaf(&mut self, leaf: &Leaf) -> Result<Option<String>> {
        match self.sections.place(leaf) {
            Place::Section(which, key) => self.of_section(leaf, which, &key),
            Place::Defaults(key) => Ok(self.of_defaults(leaf, &key)),
            Place::ReadJournal(key) => Ok(self.of_read_journal(leaf, &key)),
            Place::Fallback(which, key) => self.of_fallback(leaf, which, &key),
            Place::Core(key) => self.of_core(leaf, &key, core::CORE),
            Place::Elsewhere(reason) => {
                let reason = reason.filter(|_| !self.is_copied(leaf));
                Ok(reason.map(str::to_owned))
            }
        }
    }

    fn of_section(&mut self, leaf: &Leaf, which: Which, key: &str) -> Result<Option<String>> {
        if let Some(key) = key.strip_prefix("dynamo-db-client.") {
            let found = self.client.take(leaf, which, key)?;
            return Ok(found.filter(|_| !self.is_inherited(leaf, which)));
        }
        let Some(row) = keys::find(&[which.rows(), COMMON], key) else {
            return self.of_core(leaf, key, which.core_rows());
        };
        match row.fate {
            Fate::Works(kind) => self.take(leaf, (which, key), kind),
            Fate::NotApplicable(why) if !self.is_inherited(leaf, which) => {
                Ok(not_applicable(leaf, why))
            }
            _ => Ok(None),
        }
    }

    fn take(
        &mut self,
        leaf: &Leaf,
        (which, key): (Which, &str),
        kind: Kind,
    ) -> Result<Option<String>> {
        if leaf.value == Value::Null {
            return Ok(None);
        }
        let value = values::read(leaf, kind)?;
        if let (Kind::Class(classes), Some(name)) = (kind, value.as_str()) {
            return Ok(self.take_class((which, key), classes, name));
        }
        self.set(&format!("j5ik2o.{}.{key}", which.name()), value);
        Ok(None)
    }

    /// A class of the plugin's, by its short name.
    fn take_class(
        &mut self,
        (which, key): (Which, &str),
        classes: &[&str],
        name: &str,
    ) -> Option<String> {
        let short = name.rsplit(['$', '.']).next().unwrap_or(name);
        let is_plugins = name == short || name.starts_with("com.github.j5ik2o.");
        if !is_plugins || !classes.contains(&short) {
            let classes = classes.join(" or ");
            return Some(format!(
                "other keys: a class of your own, or of an older release; use {classes}, or pass Resolvers in code"
            ));
        }
        self.set(&format!("j5ik2o.{}.{key}", which.name()), short.into());
        None
    }

    /// Values that the sections inherit from `dynamo-db-defaults` are imported there.
    fn of_defaults(&self, leaf: &Leaf, key: &str) -> Option<String> {
        let found = match key.strip_prefix("dynamo-db-client.") {
            Some(key) => self.client.row(Which::Journal, key),
            None => keys::find(&[COMMON], key),
        };
        match found.map(|row| &row.fate) {
            None => Some("unknown".to_owned()),
            Some(Fate::NotApplicable(why)) => not_applicable(leaf, why),
            Some(_) => None,
        }
    }

    /// Whether a value is inherited from a place where it was imported or reported.
    fn is_copied(&self, leaf: &Leaf) -> bool {
        let Some([first, _, key @ ..]) = leaf.path.get(..) else {
            return false;
        };
        let key = key.join(".");
        let defaults = ["j5ik2o", "dynamo-db-defaults"].map(str::to_owned);
        let mut sections = [&defaults[..], self.sections.of(Which::Journal)].into_iter();
        first == "j5ik2o"
            && sections.any(|section| {
                let there = self.document.get(section, &key);
                there.is_some_and(|there| !there.is_default && there.value == leaf.value)
            })
    }

    fn is_inherited(&self, leaf: &Leaf, which: Which) -> bool {
        self.sections.is_inherited(self.document, leaf, which)
    }

    fn of_read_journal(&self, leaf: &Leaf, key: &str) -> Option<String> {
        match keys::find(&[READ_JOURNAL], key).map(|row| &row.fate) {
            None => Some("unknown".to_owned()),
            Some(Fate::NotApplicable(why)) => not_applicable(leaf, why),
            Some(_) => {
                let journal = self.sections.of(Which::Journal);
                let ours = self.document.get(journal, key);
                let is_same = ours.is_some_and(|ours| ours.value == leaf.value);
                let is_secret = key.ends_with("access-key-id") || key.ends_with("access-key");
                (!is_same && !is_secret && leaf.value != Value::Null).then(|| {
                    let journal = joined(journal);
                    let here = values::shown_leaf(leaf);
                    let there = ours.map_or_else(|| "not set".to_owned(), values::shown_leaf);
                    format!("contradicts {journal}.{key}: {here} here, {there} there; there is one setting for both, and that one is used")
                })
            }
        }
    }

    /// The core's settings for every journal apply if the journal's section has none.
    fn of_fallback(&mut self, leaf: &Leaf, which: Which, key: &str) -> Result<Option<String>> {
        let section = self.sections.of(which);
        if self
            .document
            .get(section, key)
            .is_some_and(|own| !own.is_default)
        {
            return Ok(Some(format!("{}.{key} overrides it", joined(section))));
        }
        self.of_core(leaf, key, which.core_rows())
    }

    fn of_core(
        &mut self,
        leaf: &Leaf,
        key: &str,
        rows: &'static [core::Row],
    ) -> Result<Option<String>> {
        match core::find(&[rows], key).map(|row| &row.fate) {
            Some(CoreFate::Works(kind, _)) if leaf.value != Value::Null => {
                self.set(key, values::read(leaf, *kind)?);
                Ok(None)
            }
            Some(CoreFate::NotApplicable(why)) => Ok(not_applicable(leaf, why)),
            Some(_) => Ok(None),
            None => Ok(Some("unknown".to_owned())),
        }
    }

    /// Sets a value in nested tables.
    fn set(&mut self, key: &str, value: Toml) {
        let mut path: Vec<&str> = key.split('.').collect();
        let name = path.pop().unwrap_or(key);
        let mut table = &mut self.imported.settings;
        for part in path {
            let inner = table.entry(part).or_insert_with(|| Table::new().into());
            match inner.as_table_mut() {
                Some(inner) => table = inner,
                None => return,
            }
        }
        table.insert(name.to_owned(), value);
    }

    fn leave(&mut self, key: String, reason: &str) {
        let reason = reason.to_owned();
        self.imported.not_taken.push(NotTaken { key, reason });
    }
}

/// The reason, unless the value counts as unset.
fn not_applicable(leaf: &Leaf, why: &str) -> Option<String> {
    let is_unset = match &leaf.value {
        Value::Null => true,
        Value::Scalar(text) => text.is_empty(),
        _ => false,
    };
    (!is_unset).then(|| format!("not applicable: {why}"))
}
