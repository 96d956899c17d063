//! Finds the sections of a configuration: the journal's, the snapshots', the core's.
//!
//! Follows `akka.persistence.journal.plugin` and similar keys, as the core does.

use annals::{Error, Result};

use super::document::{Document, Flavour, Leaf, Value, joined};
use super::j5ik2o;

/// The sections that are imported.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) journal: Vec<String>,
    /// If the file has or chooses one of the plugin's.
    pub(super) snapshots: Option<Vec<String>>,
    /// The core, if it can be detected.
    pub(super) flavour: Option<Flavour>,
}

/// The section of a value, and its key in it.
pub(super) enum Place {
    Journal(String),
    Snapshots(String),
    ReadJournal(String),
    JournalFallback(String),
    SnapshotsFallback(String),
    /// Elsewhere in the core's persistence.
    Core(String),
    /// Not imported, with the reason; without one it was used to find the sections.
    Elsewhere(Option<String>),
}

/// Other plugins, whose sections are not imported, by the first name of the path.
const OTHER_PLUGINS: &[(&str, &str)] = &[(
    "j5ik2o",
    "not applicable: belongs to j5ik2o's plugin; name its section with --section",
)];

pub(super) const FOREIGN: &str = "not applicable: not a setting of the plugin";

/// Then the imported tables may not be those of the application.
pub(super) const OTHER_JOURNAL: &str =
    "contradicts the imported section: names another journal; choose it with --section";

pub(super) const OTHER_SECTION: &str =
    "not applicable: names another section than the imported one";

/// The section that all others inherit from.
pub(super) fn standard_journal() -> Vec<String> {
    vec!["dynamodb-journal".to_owned()]
}

fn standard_snapshots() -> Vec<String> {
    vec!["dynamodb-snapshot-store".to_owned()]
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

/// Whether the core chooses a journal of the plugin's.
pub(super) fn is_chosen(document: &Document) -> bool {
    let mut all = Flavour::ALL.iter().filter_map(|flavour| {
        let section = [flavour.name(), "persistence"].map(str::to_owned);
        document.get(&section, "journal.plugin")
    });
    all.any(|leaf| match &leaf.value {
        Value::Scalar(text) => is_plugins(document, &path(text)),
        _ => false,
    })
}

impl Sections {
    /// # Errors
    /// `Invalid` if the file has no settings of the plugin, or not the section asked for.
    pub(super) fn find(document: &Document, asked: Option<&str>) -> Result<Self> {
        let flavours = document.flavour.map_or(Flavour::ALL.to_vec(), |f| vec![f]);
        let chosen = |what: &str| {
            let mut all = flavours.iter().filter_map(|flavour| {
                let section = [flavour.name(), "persistence"].map(str::to_owned);
                let leaf = document.get(&section, &format!("{what}.plugin"))?;
                match &leaf.value {
                    Value::Scalar(text) if !text.is_empty() => Some((*flavour, path(text))),
                    _ => None,
                }
            });
            all.find(|(_, section)| is_plugins(document, section))
        };
        let by_core = chosen("journal");
        let core = by_core.as_ref().map(|(flavour, _)| *flavour);
        let journal = match (asked, by_core) {
            (Some(name), _) if document.has(&path(name)) => path(name),
            (Some(name), _) => {
                return Err(
                    Error::invalid("the configuration has no such section").fact("section", name)
                );
            }
            (None, Some((_, section))) => section,
            (None, None) if document.has(&standard_journal()) => standard_journal(),
            (None, None) => {
                return Err(Error::invalid(
                    "the configuration has no journal of akka- or pekko-persistence-dynamodb, nor of j5ik2o's; name its section with --section",
                ));
            }
        };
        let own = Some(standard_snapshots()).filter(|section| document.has(section));
        Ok(Self {
            journal,
            snapshots: chosen("snapshot-store").map(|(_, section)| section).or(own),
            flavour: document.flavour.or(core),
        })
    }

    /// The section of a value.
    pub(super) fn place(&self, document: &Document, leaf: &Leaf) -> Place {
        let below = |section: &[String]| {
            let key = leaf.path.strip_prefix(section)?;
            Some(key.join("."))
        };
        if let Some(key) = below(&self.journal) {
            return Place::Journal(key);
        }
        if let Some(key) = self.snapshots.as_deref().and_then(below) {
            return Place::Snapshots(key);
        }
        if let Some(key) = below(&path("dynamodb-read-journal")) {
            return Place::ReadJournal(key);
        }
        let core = self.flavour.unwrap_or(Flavour::Akka).name();
        match below(&[core, "persistence"].map(str::to_owned)) {
            Some(key) => self.place_in_core(leaf, &key),
            None => Place::Elsewhere(self.elsewhere(document, leaf)),
        }
    }

    fn place_in_core(&self, leaf: &Leaf, key: &str) -> Place {
        if let Some(key) = key.strip_prefix("journal-plugin-fallback.") {
            return Place::JournalFallback(key.to_owned());
        }
        if let Some(key) = key.strip_prefix("snapshot-store-plugin-fallback.") {
            return Place::SnapshotsFallback(key.to_owned());
        }
        let (used, other) = match key {
            "journal.plugin" => (Some(&self.journal), OTHER_JOURNAL),
            "snapshot-store.plugin" => (self.snapshots.as_ref(), OTHER_SECTION),
            _ => return Place::Core(key.to_owned()),
        };
        let is_used = match (&leaf.value, used) {
            (Value::Scalar(text), Some(used)) => path(text) == *used,
            _ => false,
        };
        Place::Elsewhere((!is_used).then(|| other.to_owned()))
    }

    /// Why a value outside of the sections is not imported.
    fn elsewhere(&self, document: &Document, leaf: &Leaf) -> Option<String> {
        let first = leaf.path.first()?;
        let other = OTHER_PLUGINS.iter().find(|(name, _)| first == name);
        if let Some((_, reason)) = other {
            return Some((*reason).to_owned());
        }
        let section = std::slice::from_ref(first);
        if !document.is_copy(section) {
            return Some(FOREIGN.to_owned());
        }
        // Inherited values were imported or reported in the section that inherits them.
        let key = leaf.path.get(1..).unwrap_or_default().join(".");
        let ours = document.get(&self.journal, &key);
        let is_inherited = ours.is_some_and(|ours| ours.value == leaf.value);
        let reason = format!(
            "not applicable: {} is another section of the plugin; name it with --section",
            joined(section)
        );
        (!is_inherited).then_some(reason)
    }
}

/// Whether a section is this plugin's, according to the file.
fn is_plugins(document: &Document, section: &[String]) -> bool {
    let class = document.get(section, "class").map(|leaf| &leaf.value);
    match class {
        Some(Value::Scalar(class)) if class.contains("persistence.dynamodb") => {
            !class.contains("j5ik2o")
        }
        _ => document.is_copy(section) && !j5ik2o::is_plugins(document, section),
    }
}
