//! Imports a HOCON configuration of akka- or pekko-persistence-dynamodb as settings; `j5ik2o` does
//! the same for j5ik2o's plugin.
//!
//! Every key of the file is imported or reported with a reason. The printed settings read back the
//! same. Credentials, and values that are not settings, are never printed.

mod bounds;
#[cfg(test)]
mod copied_section_tests;
mod document;
mod j5ik2o;
mod keys;
#[cfg(test)]
mod message_tests;
mod sections;
#[cfg(test)]
mod test_settings;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;

use annals::{Error, Result};
use serde::Serialize;
use toml::{Table, Value as Toml};

use self::document::{Document, Flavour, Leaf, Value, joined};
use self::keys::{
    AWS_CLIENT, CORE, Fate, JOURNAL, JOURNAL_CORE, Kind, READ_JOURNAL, Row, SNAPSHOTS,
    SNAPSHOTS_CORE,
};
use self::sections::{Place, Sections};

/// The result of an import.
///
/// See [`import_hocon`](crate::import_hocon) for an example.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// The settings, as in `annals.toml`.
    pub settings: Table,
    /// The keys that were not imported.
    pub not_taken: Vec<NotTaken>,
}

/// A key that was not imported. See [`import_hocon`](crate::import_hocon) for an
/// example.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotTaken {
    /// Its full path.
    pub key: String,
    /// Why it was not imported.
    pub reason: String,
}

impl NotTaken {
    /// How much it matters that this key was not imported.
    pub fn concern(&self) -> Concern {
        match self.reason.as_str() {
            sections::FOREIGN => Concern::Unrelated,
            reason if reason.starts_with("contradicts ") => Concern::Contradiction,
            reason if reason.starts_with("other keys: ") => Concern::OtherKeys,
            reason if reason.starts_with("not applicable: ") => Concern::NotApplicable,
            _ => Concern::Unknown,
        }
    }
}

/// How much it matters that a key was not imported, most first.
///
/// ```
/// use annals_jvm::Concern;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// let file = folder.path().join("application.conf");
/// std::fs::write(&file, "http.port = 80, dynamodb-journal { what = 1 }").expect("a file");
/// let mut left = annals_jvm::import_hocon(&file, None, |_settings| Ok(()))?.not_taken;
/// left.sort_by_key(|left| left.concern());
/// let keys: Vec<_> = left.iter().map(|left| left.key.as_str()).collect();
/// assert!(keys.starts_with(&["dynamodb-journal.what"]));
/// assert!(keys.ends_with(&["http.port"]));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Concern {
    /// Without it, items get other keys than those of the plugin.
    OtherKeys,
    /// It contradicts a key that was imported.
    Contradiction,
    /// The plugin has no such key, or a value or an included file is missing.
    Unknown,
    /// A key of the plugin without a meaning here.
    NotApplicable,
    /// Not a key of the plugin.
    Unrelated,
}

/// Checks the imported settings, including those that are not the layout's. See
/// [`import_hocon`](crate::import_hocon) for an example.
pub type Check = fn(&Table) -> Result<(), String>;

/// The settings of the journal in `section`, or of the one that the file chooses.
///
/// ```
/// # let folder = tempfile::tempdir().expect("a folder");
/// let file = folder.path().join("application.conf");
/// std::fs::write(&file, "dynamodb-journal.journal-table = orders").expect("a file");
/// let imported = annals_jvm::import_hocon(&file, None, |_settings| Ok(()))?;
/// assert_eq!(imported.settings["journal-table"].as_str(), Some("orders"));
/// # Ok::<(), annals::Error>(())
/// ```
///
/// # Errors
/// `Invalid` if the file cannot be read or understood, has no settings of the plugin, or
/// settings that `check` refuses.
pub fn import(file: &Path, section: Option<&str>, check: Check) -> Result<Imported> {
    let work = || {
        let document = Document::read(file)?;
        let imported = if j5ik2o::is_meant(&document, section) {
            j5ik2o::import(&document, section)?
        } else {
            let sections = Sections::find(&document, section)?;
            Import::new(&document, &sections).run()?
        };
        // Each value has its type by now, but a number may be too large.
        check(&imported.settings).map_err(|problem| {
            let problem = problem.replace('\n', " ");
            let message = format!("the configuration has a value that cannot be set: {problem}");
            Error::invalid(message.trim())
        })?;
        Ok(imported)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bounds::STACK);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::unavailable("cannot start a thread").because(e))?;
        let outcome = thread.join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct Import<'a> {
    document: &'a Document,
    sections: &'a Sections,
    imported: Imported,
}

impl<'a> Import<'a> {
    fn new(document: &'a Document, sections: &'a Sections) -> Self {
        Self {
            document,
            sections,
            imported: Imported::default(),
        }
    }

    fn run(mut self) -> Result<Imported> {
        self.set("store", "dynamodb".into());
        self.set("layout", "akka".into());
        for name in &self.document.missing {
            let key = format!("include {}", serde_json::Value::from(name.as_str()));
            self.leave(key, "not found; its content is not imported");
        }
        for leaf in &self.document.leaves {
            self.leaf(leaf)?;
        }
        self.tables();
        self.inherited_by_snapshots();
        self.whole_proxy();
        self.region();
        Ok(self.imported)
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<()> {
        let reason = match self.sections.place(self.document, leaf) {
            Place::Journal(key) => self.of_tables(leaf, &key, &[JOURNAL, AWS_CLIENT, JOURNAL_CORE]),
            Place::Snapshots(key) => self.of_tables(leaf, &key, &[SNAPSHOTS, SNAPSHOTS_CORE]),
            Place::ReadJournal(key) => self.of_tables(leaf, &key, &[READ_JOURNAL]),
            Place::JournalFallback(key) => self.fallback(leaf, &key),
            Place::SnapshotsFallback(key) => self.of_tables(leaf, &key, &[SNAPSHOTS_CORE]),
            Place::Core(key) => self.of_tables(leaf, &key, &[CORE]),
            Place::Elsewhere(reason) => Ok(reason),
        }?;
        if let Some(reason) = reason {
            self.leave(joined(&leaf.path), &reason);
        }
        Ok(())
    }

    /// Imports the value, or returns why not.
    fn of_tables(
        &mut self,
        leaf: &Leaf,
        key: &str,
        tables: &[&'static [Row]],
    ) -> Result<Option<String>> {
        let Some(row) = keys::find(tables, key) else {
            return Ok(Some("unknown".to_owned()));
        };
        match row.fate {
            Fate::NotApplicable(why) => {
                let is_unset = values::is_unset(key, &leaf.value);
                Ok((!is_unset).then(|| format!("not applicable: {why}")))
            }
            Fate::Works(kind, _) => self.take(leaf, key, kind),
            Fate::Same => self.compare(leaf, key),
        }
    }

    fn take(&mut self, leaf: &Leaf, key: &str, kind: Kind) -> Result<Option<String>> {
        if kind == Kind::Protocol || values::is_unset(key, &leaf.value) {
            return Ok(None);
        }
        let value = match kind {
            Kind::Endpoint => self.endpoint(leaf)?,
            _ => values::read(leaf, kind)?,
        };
        if values::is_no_limit(kind, &value) {
            let why = "not applicable: 0 is no limit on the JVM; leave it out for the default";
            return Ok(Some(why.to_owned()));
        }
        self.set(key, value);
        Ok(None)
    }

    /// The core's settings for every journal apply if the journal's section has none.
    fn fallback(&mut self, leaf: &Leaf, key: &str) -> Result<Option<String>> {
        let own = self.document.get(&self.sections.journal, key);
        if own.is_some_and(|own| !own.is_default) {
            let section = joined(&self.sections.journal);
            return Ok(Some(format!("{section}.{key} overrides it")));
        }
        self.of_tables(leaf, key, &[JOURNAL_CORE])
    }

    /// A value of another section that shares a setting with the journal.
    fn compare(&mut self, leaf: &Leaf, key: &str) -> Result<Option<String>> {
        let Some(row) = keys::find(&[JOURNAL, AWS_CLIENT, JOURNAL_CORE], key) else {
            return Ok(Some("unknown".to_owned()));
        };
        if let Fate::NotApplicable(why) = row.fate {
            let is_unset = values::is_unset(key, &leaf.value);
            return Ok((!is_unset).then(|| format!("not applicable: {why}")));
        }
        let ours = self.document.get(&self.sections.journal, key);
        let is_same = values::are_same(row, Some(leaf), ours);
        let is_snapshots = |section: &Vec<String>| leaf.path.starts_with(section);
        let is_snapshots = self.sections.snapshots.as_ref().is_some_and(is_snapshots);
        Ok((!is_same).then(|| self.contradicts(row, Some(leaf), is_snapshots)))
    }

    /// Why a value that differs from the journal's is not imported, and what follows from that.
    fn contradicts(&self, row: &Row, theirs: Option<&Leaf>, is_snapshots: bool) -> String {
        let journal = joined(&self.sections.journal);
        let ours = self.document.get(&self.sections.journal, row.name);
        let (here, there) = (values::shown(row, theirs), values::shown(row, ours));
        let mut reason = format!(
            "contradicts {journal}.{}: {here} here, {there} there; there is one setting for both, and that one is used",
            row.name
        );
        if is_snapshots && row.name == "journal-name" {
            reason.push_str(&format!(
                ", so snapshots that are stored under {here} are not found"
            ));
        }
        reason
    }

    /// The snapshots' section inherits from `dynamodb-journal`, which may not be the imported
    /// journal.
    fn inherited_by_snapshots(&mut self) {
        let standard = sections::standard_journal();
        let Some(snapshots) = self.sections.snapshots.as_ref() else {
            return;
        };
        if self.sections.journal == standard {
            return;
        }
        let is_shared = |row: &&Row| {
            let shared = keys::find(&[SNAPSHOTS], row.name);
            shared.is_some_and(|row| matches!(row.fate, Fate::Same))
                && matches!(row.fate, Fate::Works(..))
        };
        let document = self.document;
        for row in JOURNAL.iter().chain(AWS_CLIENT).filter(is_shared) {
            let own = document.get(snapshots, row.name);
            let inherited = document.get(&standard, row.name);
            let ours = document.get(&self.sections.journal, row.name);
            if own.is_none() && !values::are_same(row, inherited, ours) {
                let reason = self.contradicts(row, inherited, true);
                self.leave(format!("{}.{}", joined(snapshots), row.name), &reason);
            }
        }
    }

    /// The plugin's default table names, if they differ from ours.
    fn tables(&mut self) {
        for (key, rest) in [("journal-table", ""), ("snapshot-table", "-snapshot")] {
            if self.imported.settings.contains_key(key) {
                continue;
            }
            match self.sections.flavour {
                Some(Flavour::Akka) => {}
                Some(Flavour::Pekko) => {
                    self.set(key, format!("pekko-persistence{rest}").into());
                }
                None => {
                    let reason = format!(
                        "not set, and nothing distinguishes Akka from Pekko; akka-persistence{rest} is assumed"
                    );
                    self.leave(key.to_owned(), &reason);
                }
            }
        }
    }

    /// The address with the scheme that the JVM's SDK would give it.
    fn endpoint(&self, leaf: &Leaf) -> Result<Toml> {
        let address = values::read(leaf, Kind::Endpoint)?;
        let text = address.as_str().unwrap_or_default();
        if text.is_empty() || text.contains("://") {
            return Ok(address);
        }
        let protocol = "aws-client-config.protocol";
        let protocol = self.document.get(&self.sections.journal, protocol);
        let is_http = protocol.is_some_and(|leaf| leaf.value == Value::Scalar("HTTP".to_owned()));
        let scheme = if is_http { "http" } else { "https" };
        Ok(format!("{scheme}://{text}").into())
    }

    /// The plugin signs for the region in the address, or else for `us-east-1`.
    fn region(&mut self) {
        let endpoint = self.imported.settings.get("endpoint");
        let endpoint = endpoint.and_then(Toml::as_str).unwrap_or_default();
        if !endpoint.is_empty() {
            let region = values::region_in(endpoint)
                .unwrap_or("us-east-1")
                .to_owned();
            self.set("region", region.into());
        }
    }

    /// Leaves out incomplete proxy settings, which the JVM's SDK ignores.
    fn whole_proxy(&mut self) {
        let section = self.sections.journal.clone();
        let has = |key: &str| {
            let leaf = self.document.get(&section, key);
            leaf.is_some_and(|leaf| !values::is_unset(key, &leaf.value))
        };
        let [host, port, user, password] = ["host", "port", "username", "password"]
            .map(|part| format!("aws-client-config.proxy-{part}"));
        let is_whole = has(&host) && has(&port);
        let has_user = is_whole && has(&user) && has(&password);
        let parts = [
            (&host, is_whole, "proxy-host and proxy-port"),
            (&port, is_whole, "proxy-host and proxy-port"),
            (
                &user,
                has_user,
                "a proxy, proxy-username and proxy-password",
            ),
        ];
        let halves: Vec<_> = parts
            .into_iter()
            .filter(|(key, is_used, _)| has(key) && !is_used)
            .collect();
        for (key, _, all) in halves {
            self.unset(key);
            let reason = format!("not applicable: only {all} together have an effect");
            self.leave(format!("{}.{key}", joined(&section)), &reason);
        }
    }

    fn set(&mut self, key: &str, value: Toml) {
        let (table, name) = match key.split_once('.') {
            None => (&mut self.imported.settings, key),
            Some((table, name)) => {
                let settings = &mut self.imported.settings;
                let inner = settings.entry(table).or_insert_with(|| Table::new().into());
                match inner.as_table_mut() {
                    Some(inner) => (inner, name),
                    None => return,
                }
            }
        };
        table.insert(name.to_owned(), value);
    }

    /// Removes a setting from its table.
    fn unset(&mut self, key: &str) {
        let settings = &mut self.imported.settings;
        let Some((table, name)) = key.split_once('.') else {
            return;
        };
        let inner = settings.get_mut(table).and_then(Toml::as_table_mut);
        let is_empty = inner.is_some_and(|inner| {
            inner.remove(name);
            inner.is_empty()
        });
        if is_empty {
            settings.remove(table);
        }
    }

    fn leave(&mut self, key: String, reason: &str) {
        let reason = reason.to_owned();
        self.imported.not_taken.push(NotTaken { key, reason });
    }
}
