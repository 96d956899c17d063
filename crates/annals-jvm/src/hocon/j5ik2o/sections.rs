//! Finds the sections of j5ik2o's plugin in a configuration.
//!
//! Follows `akka.persistence.journal.plugin` and similar keys, as the core does. Durable state has
//! a fixed path, as in the plugin.

use super::super::document::{Document, Leaf, Value};
use super::super::sections::{FOREIGN, OTHER_JOURNAL, OTHER_SECTION};

/// The plugin's sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Journal,
    Snapshot,
    State,
}

impl Which {
    pub(super) const ALL: [Self; 3] = [Self::Journal, Self::Snapshot, Self::State];

    /// The name of the section.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Journal => "dynamo-db-journal",
            Self::Snapshot => "dynamo-db-snapshot",
            Self::State => "dynamo-db-state",
        }
    }

    /// The core's name for its purpose.
    fn core(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Snapshot => "snapshot-store",
            Self::State => "state",
        }
    }
}

/// The section of a value, and its key in it.
pub(super) enum Place {
    Section(Which, String),
    /// `dynamo-db-defaults`.
    Defaults(String),
    ReadJournal(String),
    /// The core's fallback for every section of a kind.
    Fallback(Which, String),
    /// Elsewhere in the core's persistence.
    Core(String),
    /// Not imported, with the reason; without one it was used to find the sections.
    Elsewhere(Option<&'static str>),
}

const OTHER: &str = "not applicable: belongs to akka- or pekko-persistence-dynamodb; name its section with --section";
const UNUSED: &str = "not applicable: another section of the plugin; name it with --section";

#[derive(Debug)]
pub(super) struct Sections {
    paths: [Vec<String>; 3],
    /// The sections that the core chooses.
    chosen: [bool; 3],
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

/// The section that the core chooses for a purpose, if it is this plugin's.
pub(in super::super) fn chosen(document: &Document, what: &str) -> Option<Vec<String>> {
    ["akka", "pekko"].into_iter().find_map(|core| {
        let section = [core, "persistence"].map(str::to_owned);
        let leaf = document.get(&section, &format!("{what}.plugin"))?;
        match &leaf.value {
            Value::Scalar(text) => Some(path(text)).filter(|path| is_plugins(document, path)),
            _ => None,
        }
    })
}

/// Whether a section is this plugin's: its class says so, or it is a copy of one that is.
pub(in super::super) fn is_plugins(document: &Document, section: &[String]) -> bool {
    let class = document.get(section, "class").map(|leaf| &leaf.value);
    match class {
        Some(Value::Scalar(class)) if class.contains("j5ik2o") => true,
        Some(Value::Scalar(class)) if class.contains("persistence.dynamodb") => false,
        _ => {
            let own = "columns-def.persistence-id-column-name";
            document.get(section, own).is_some()
        }
    }
}

/// Whether the file has any of the plugin's own sections.
pub(in super::super) fn are_there(document: &Document) -> bool {
    document.has(&path("j5ik2o"))
}

impl Sections {
    pub(super) fn find(document: &Document, asked: Option<&str>) -> Self {
        let found = Which::ALL.map(|which| {
            let chosen = match which {
                // The plugin reads it from a fixed path.
                Which::State => chosen(document, which.core()).map(|_| own(which)),
                _ => chosen(document, which.core()),
            };
            match (which, asked) {
                (Which::Journal, Some(asked)) => Some(path(asked)),
                _ => chosen,
            }
        });
        Self {
            chosen: found.each_ref().map(Option::is_some),
            paths: [0, 1, 2].map(|n: usize| {
                let which = Which::ALL.get(n).copied().unwrap_or(Which::State);
                let found = found.get(n).cloned().flatten();
                found.unwrap_or_else(|| own(which))
            }),
        }
    }

    pub(super) fn of(&self, which: Which) -> &[String] {
        let [journal, snapshot, state] = &self.paths;
        match which {
            Which::Journal => journal,
            Which::Snapshot => snapshot,
            Which::State => state,
        }
    }

    fn is_chosen(&self, which: Which) -> bool {
        let [journal, snapshot, state] = self.chosen;
        match which {
            Which::Journal => journal,
            Which::Snapshot => snapshot,
            Which::State => state,
        }
    }

    /// Whether the file uses this section: it is chosen, or has a value of its own.
    pub(super) fn is_used(&self, document: &Document, which: Which) -> bool {
        let mut leaves = document.leaves.iter();
        self.is_chosen(which)
            || leaves.any(|leaf| {
                leaf.path.starts_with(self.of(which)) && !self.is_inherited(document, leaf, which)
            })
    }

    /// Whether a section has a value from `dynamo-db-defaults`.
    pub(super) fn is_inherited(&self, document: &Document, leaf: &Leaf, which: Which) -> bool {
        let key = leaf.path.strip_prefix(self.of(which)).unwrap_or_default();
        let defaults = document.get(&path("j5ik2o.dynamo-db-defaults"), &key.join("."));
        defaults.is_some_and(|theirs| !theirs.is_default && theirs.value == leaf.value)
    }

    /// The section of a value.
    pub(super) fn place(&self, leaf: &Leaf) -> Place {
        let below = |section: &[String]| {
            let key = leaf.path.strip_prefix(section)?;
            Some(key.join("."))
        };
        for which in Which::ALL {
            if let Some(key) = below(self.of(which)) {
                return Place::Section(which, key);
            }
        }
        if let Some(key) = below(&path("j5ik2o.dynamo-db-defaults")) {
            return Place::Defaults(key);
        }
        if let Some(key) = below(&path("j5ik2o.dynamo-db-read-journal")) {
            return Place::ReadJournal(key);
        }
        let cores = ["akka.persistence", "pekko.persistence"];
        match cores.iter().find_map(|core| below(&path(core))) {
            Some(key) => self.place_in_core(leaf, key),
            None => Place::Elsewhere(Some(match leaf.path.first().map(String::as_str) {
                Some("j5ik2o") => UNUSED,
                Some("dynamodb-journal" | "dynamodb-snapshot-store" | "dynamodb-read-journal") => {
                    OTHER
                }
                _ => FOREIGN,
            })),
        }
    }

    fn place_in_core(&self, leaf: &Leaf, key: String) -> Place {
        for which in Which::ALL {
            let core = which.core();
            if let Some(key) = key.strip_prefix(&format!("{core}-plugin-fallback.")) {
                return Place::Fallback(which, key.to_owned());
            }
            if key == format!("{core}.plugin") {
                let is_used = match &leaf.value {
                    Value::Scalar(text) => path(text) == self.of(which),
                    _ => false,
                };
                let other = match which {
                    Which::Journal => OTHER_JOURNAL,
                    _ => OTHER_SECTION,
                };
                return Place::Elsewhere((!is_used).then_some(other));
            }
        }
        Place::Core(key)
    }
}

fn own(which: Which) -> Vec<String> {
    vec!["j5ik2o".to_owned(), which.name().to_owned()]
}
