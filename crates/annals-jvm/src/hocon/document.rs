//! A configuration as keys and values, over the plugins' defaults.
//!
//! Includes and substitutions are resolved as on the JVM, with the plugin's `reference.conf` as the
//! fallback, so that `${dynamodb-journal}` resolves. Defaults are told apart from values that the
//! file sets. Values are never printed.

use std::path::Path;

use annals::{Error, Result};
use hocon::{Config, HoconError, HoconValue, ParseOptions, ResolveOptions, ScalarType};

use super::bounds::{self, refused};
use super::keys::{AWS_CLIENT, JOURNAL, READ_JOURNAL, Row, SNAPSHOTS};

/// The plugin's core; each has its own table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    Akka,
    Pekko,
}

impl Flavour {
    pub(super) const ALL: [Self; 2] = [Self::Akka, Self::Pekko];

    /// The prefix of the core's settings and of the table names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Akka => "akka",
            Self::Pekko => "pekko",
        }
    }

    /// Detects the core by the plugin's class, or by the settings in the file.
    fn of(config: &Config) -> Option<Self> {
        let is_named = |flavour: &Self| {
            let classes = ["dynamodb-journal.class", "dynamodb-snapshot-store.class"];
            let mut classes = classes
                .iter()
                .filter_map(|path| config.get_string(path).ok());
            classes.any(|class| class.contains(&format!("{}.persistence", flavour.name())))
        };
        let is_there = |flavour: &Self| config.has(flavour.name());
        let only = |is: &dyn Fn(&Self) -> bool| {
            let mut all = Self::ALL.into_iter().filter(|flavour| is(flavour));
            all.next().filter(|_| all.next().is_none())
        };
        only(&is_named).or_else(|| only(&is_there))
    }
}

/// A value and its path.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    /// Whether it is the plugin's default.
    pub(super) is_default: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A string, number or boolean, as written.
    Scalar(String),
    Null,
    List,
    /// An undefined substitution.
    Unresolved,
}

/// The values that a configuration sets, in the order of the file.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) leaves: Vec<Leaf>,
    /// The plugin's defaults, and copies of them: few.
    defaults: Vec<Leaf>,
    /// The core, if it can be detected.
    pub(super) flavour: Option<Flavour>,
    /// The includes that do not exist.
    pub(super) missing: Vec<String>,
}

impl Document {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut missing = Vec::new();
        let text = bounds::read(path)?;
        bounds::check(path, &text, &mut missing)?;
        let fault = |error| fault(path, error);
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let options = ParseOptions::defaults().with_resolve_substitutions(false);
        let own = hocon::parse_string_with_options(&text, options.clone().with_base_dir(folder))
            .map_err(fault)?;
        let own = own.with_fallback(&substitution().map_err(fault)?);
        // Other sections may refer to values that only the JVM has.
        let lenient = || ResolveOptions::defaults().with_allow_unresolved(true);
        let flavour = Flavour::of(&own.resolve(lenient()).map_err(fault)?);
        let mut reference = reference(flavour.unwrap_or(Flavour::Akka));
        // It has many defaults, and most files do not need them.
        if ["j5ik2o", "include"].iter().any(|word| text.contains(word)) {
            reference.push_str(&super::j5ik2o::reference(MARKS));
        }
        let reference = hocon::parse_string_with_options(&reference, options).map_err(fault)?;
        let whole = own.with_fallback(&reference);
        let whole = whole.resolve(lenient()).map_err(fault)?;
        let mut leaves: Vec<Leaf> = Vec::new();
        for key in whole.keys() {
            if let Some(value) = whole.get(&quoted(key)) {
                flatten(vec![key.to_owned()], value, &mut leaves);
            }
        }
        let (defaults, leaves) = leaves.into_iter().partition(|leaf| leaf.is_default);
        Ok(Self {
            leaves,
            defaults,
            flavour,
            missing,
        })
    }

    /// The value of a key below a section.
    pub(super) fn get(&self, section: &[String], key: &str) -> Option<&Leaf> {
        let key: Vec<&str> = key.split('.').collect();
        self.leaves.iter().chain(&self.defaults).find(|leaf| {
            let below = leaf.path.strip_prefix(section);
            below.is_some_and(|below| below.iter().eq(key.iter()))
        })
    }

    /// Whether the file sets anything below this path.
    pub(super) fn has(&self, section: &[String]) -> bool {
        let mut leaves = self.leaves.iter();
        leaves.any(|leaf| leaf.path.starts_with(section))
    }

    /// Whether the section is the plugin's own, or a copy of it.
    pub(super) fn is_copy(&self, section: &[String]) -> bool {
        let mut defaults = self.defaults.iter();
        defaults.any(|leaf| leaf.path.starts_with(section))
    }
}

/// A path as HOCON writes it, on one line.
pub(super) fn joined(path: &[String]) -> String {
    let parts: Vec<String> = path.iter().map(|part| quoted(part)).collect();
    parts.join(".")
}

fn quoted(key: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    match !key.is_empty() && key.chars().all(is_plain) {
        true => key.to_owned(),
        false => serde_json::Value::from(key).to_string(),
    }
}

/// Enclose a default, so that it is recognised after substitution. Both are noncharacters, which no
/// text contains.
const MARKS: [char; 2] = ['\u{fdd0}', '\u{fdd1}'];

/// The plugin's defaults, marked, as a fallback of every file.
fn reference(flavour: Flavour) -> String {
    let mut text = String::new();
    let [begin, end] = MARKS;
    let mut add = |section: &str, row: &Row, default: &str| {
        if !row.name.ends_with('*') {
            text.push_str(&format!(
                "{section}.{} = \"{begin}{default}{end}\"\n",
                row.name
            ));
        }
    };
    let tables = |row: &Row| match row.name {
        "journal-table" => format!("{}-persistence", flavour.name()),
        "snapshot-table" => format!("{}-persistence-snapshot", flavour.name()),
        _ => row.default.to_owned(),
    };
    for row in JOURNAL {
        add("dynamodb-journal", row, &tables(row));
    }
    for row in AWS_CLIENT {
        add("dynamodb-journal", row, "default");
    }
    // The rest of these sections is what the journal's has.
    let own = |row: &&Row| {
        matches!(
            row.name,
            "class" | "snapshot-table" | "persistence-ids-index-name"
        )
    };
    for row in SNAPSHOTS.iter().filter(own) {
        add("dynamodb-snapshot-store", row, &tables(row));
    }
    for row in READ_JOURNAL.iter().filter(own) {
        add("dynamodb-read-journal", row, row.default);
    }
    text
}

/// A substitution that resolves to nothing. The parser resolves a configuration only if one of its values
/// is a substitution. In `mine = ${dynamodb-journal}` and then `mine { … }`, as the plugin's documentation
/// has it, none is: the first value is kept beside the second one, and would be lost.
fn substitution() -> std::result::Result<Config, HoconError> {
    let [nothing, nowhere] = MARKS;
    let options = ParseOptions::defaults().with_resolve_substitutions(false);
    hocon::parse_string_with_options(&format!("\"{nothing}\" = ${{?\"{nowhere}\"}}"), options)
}

fn flatten(path: Vec<String>, value: &HoconValue, leaves: &mut Vec<Leaf>) {
    let (value, is_default) = match value {
        HoconValue::Object(fields) => {
            for (key, value) in fields {
                let mut path = path.clone();
                path.push(key.clone());
                flatten(path, value, leaves);
            }
            return;
        }
        HoconValue::Array(_) => (Value::List, false),
        HoconValue::Scalar(scalar) if scalar.value_type == ScalarType::Null => (Value::Null, false),
        HoconValue::Scalar(scalar) => {
            let inner = scalar.raw.strip_prefix(MARKS[0]);
            let inner = inner.and_then(|text| text.strip_suffix(MARKS[1]));
            let is_default = inner.is_some_and(|text| !text.contains(MARKS));
            (Value::Scalar(scalar.raw.replace(MARKS, "")), is_default)
        }
        _ => (Value::Unresolved, false),
    };
    leaves.push(Leaf {
        path,
        value,
        is_default,
    });
}

/// The parser's error, with the line but without its text.
fn fault(path: &Path, error: HoconError) -> Error {
    let (line, what) = match &error {
        HoconError::Parse(error) => (error.line, &error.message),
        HoconError::Resolve(error) => {
            // In an included file, that one is named.
            let included = Path::new(&error.path);
            let path = if included.is_file() { included } else { path };
            return refused(path, error.line, &without_contents(&error.message));
        }
        other => {
            let what = without_contents(&other.to_string());
            return refused(path, 1, &what);
        }
    };
    refused(path, line, &without_contents(what))
}

/// The parser's message without quotes from the file, which may be secrets.
pub(super) fn without_contents(message: &str) -> String {
    let mut parts = message.split('"');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), rest) = (parts.next(), parts.next()) {
        kept.push('\u{2026}');
        kept.push_str(rest.unwrap_or_default());
    }
    kept.replace('\n', " ")
}
