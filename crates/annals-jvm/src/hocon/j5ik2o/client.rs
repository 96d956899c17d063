//! The client's keys: those of the chosen version and type become settings.
//!
//! There is one client: the journal's, or that of the first section in the file. Differences in
//! other sections are reported.

use std::collections::BTreeMap;

use annals::{Error, Result};
use toml::Value as Toml;

use super::super::document::{Document, Leaf, Value, joined};
use super::super::keys::Kind;
use super::super::{NotTaken, values};
use super::client_keys::CLIENTS;
use super::keys::{self, Fate, Row};
use super::not_applicable;
use super::sections::{Sections, Which};

/// The keys and values of a section's client, by setting.
type Found = BTreeMap<&'static str, (String, Toml)>;

pub(super) struct Client<'a> {
    document: &'a Document,
    kinds: [Variety; 3],
    found: [Found; 3],
    /// The revision number that durable state stores, if set.
    stored_revision: Option<&'static str>,
}

/// Which of the plugin's clients a section chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variety {
    is_v1: bool,
    is_sync: bool,
    /// Whether the keys are directly in the client's section, as before v1.1.0.
    is_flat: bool,
}

const PROXY: [&str; 3] = [
    "aws-client-config.proxy-host",
    "aws-client-config.proxy-port",
    "aws-client-config.proxy-username",
];

fn place(which: Which) -> usize {
    match which {
        Which::Journal => 0,
        Which::Snapshot => 1,
        Which::State => 2,
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(document: &'a Document, sections: &Sections) -> Self {
        let kinds = Which::ALL.map(|which| {
            let text = |key: &str| {
                let leaf = document.get(sections.of(which), key)?;
                values::text(leaf).ok()
            };
            let is = |key: &str, what: fn(&str) -> bool| text(key).is_some_and(|text| what(&text));
            Variety {
                is_v1: is("dynamo-db-client.client-version", |text| {
                    text.starts_with("v1")
                }),
                is_sync: is("dynamo-db-client.client-type", |text| text == "sync"),
                is_flat: is("legacy-config-format", |text| {
                    matches!(text, "true" | "yes" | "on")
                }),
            }
        });
        Self {
            document,
            kinds,
            found: Default::default(),
            stored_revision: None,
        }
    }

    fn variety(&self, which: Which) -> Variety {
        let [journal, snapshot, state] = self.kinds;
        match which {
            Which::Journal => journal,
            Which::Snapshot => snapshot,
            Which::State => state,
        }
    }

    /// The meaning of a key in a section's client.
    pub(super) fn row(&self, which: Which, key: &str) -> Option<&'static Row> {
        let flat = self.variety(which).is_flat.then(|| {
            let key = format!("v2.async.{key}");
            keys::find(&CLIENTS, &key)
        });
        flat.flatten().or_else(|| keys::find(&CLIENTS, key))
    }

    /// Imports a value, or returns why not.
    pub(super) fn take(&mut self, leaf: &Leaf, which: Which, key: &str) -> Result<Option<String>> {
        let Some(row) = self.row(which, key) else {
            return Ok(Some("unknown".to_owned()));
        };
        if let Fate::NotApplicable(why) = row.fate {
            return Ok(not_applicable(leaf, why));
        }
        if leaf.value == Value::Null {
            return Ok(None);
        }
        if !self.is_read(which, key, row) {
            let why = "client-version, client-type and legacy-config-format choose other keys";
            return Ok(not_applicable(leaf, why));
        }
        match row.fate {
            Fate::Becomes(setting, kind) => self.become_of(leaf, (which, setting), kind),
            _ if key == "client-version" => self.choose(leaf, which),
            _ => Ok(None),
        }
    }

    /// Whether the chosen client reads a key.
    fn is_read(&self, which: Which, key: &str, row: &Row) -> bool {
        let variety = self.variety(which);
        let is_flat = key != row.name;
        match row.name {
            name if name.starts_with("v2.async.") => {
                !variety.is_v1 && !variety.is_sync && variety.is_flat == is_flat
            }
            name if name.starts_with("v2.sync.") => !variety.is_v1 && variety.is_sync,
            name if name.starts_with("v2.") => !variety.is_v1,
            name if name.starts_with("v1.") => variety.is_v1,
            _ => true,
        }
    }

    fn become_of(
        &mut self,
        leaf: &Leaf,
        (which, setting): (Which, &'static str),
        kind: Kind,
    ) -> Result<Option<String>> {
        let mut value = values::read(leaf, kind)?;
        if values::is_no_limit(kind, &value) {
            let why = "not applicable: 0 is no limit on the JVM; leave it out for the default";
            return Ok(Some(why.to_owned()));
        }
        if let (Kind::Endpoint, Some(text)) = (kind, value.as_str())
            && !text.is_empty()
            && !text.contains("://")
        {
            value = format!("{}://{text}", self.scheme(leaf)).into();
        }
        let found = self.found.get_mut(place(which));
        if let Some(found) = found {
            found.insert(setting, (joined(&leaf.path), value));
        }
        Ok(None)
    }

    /// The scheme for an address without one, from the same section as this value.
    fn scheme(&self, endpoint: &Leaf) -> &'static str {
        let client = endpoint.path.split_last().map_or(&[][..], |(_, rest)| rest);
        let protocol = self
            .document
            .get(client, "v1.client-configuration.protocol");
        match protocol.and_then(|leaf| values::text(leaf).ok()) {
            Some(protocol) if protocol.eq_ignore_ascii_case("http") => "http",
            _ => "https",
        }
    }

    fn choose(&mut self, leaf: &Leaf, which: Which) -> Result<Option<String>> {
        let text = values::text(leaf)?;
        let module = match text.as_str() {
            "v1" => "v1",
            "v2" => "v2",
            "v1-dax" | "v2-dax" => {
                let why = "not applicable: DAX, which the plugin cannot start either";
                return Ok(Some(why.to_owned()));
            }
            _ => {
                let key = joined(&leaf.path);
                return Err(
                    Error::invalid("a key is v1, v2, v1-dax or v2-dax; fix it").fact("key", key)
                );
            }
        };
        if which == Which::State {
            self.stored_revision = Some(module);
        }
        Ok(None)
    }

    /// Chooses the client, and reports the differences of the others.
    pub(super) fn settle(&self, sections: &Sections) -> (Vec<(&'static str, Toml)>, Vec<NotTaken>) {
        let used = |which: &Which| sections.is_used(self.document, *which);
        let main = Which::ALL.into_iter().find(used).unwrap_or(Which::Journal);
        let mut left = Vec::new();
        for other in Which::ALL
            .into_iter()
            .filter(|which| *which != main && used(which))
        {
            self.compare(main, (other, sections), &mut left);
        }
        let mut ours: BTreeMap<_, _> = self.of(main).clone();
        let has = |ours: &Found, setting: &str| ours.contains_key(setting);
        let [host, port, user] = PROXY;
        let is_whole = has(&ours, host) && has(&ours, port);
        for half in [host, port, user] {
            if !is_whole && let Some((key, _)) = ours.remove(half) {
                let reason =
                    "not applicable: only proxy-host and proxy-port together have an effect";
                left.push(NotTaken {
                    key,
                    reason: reason.to_owned(),
                });
            }
        }
        let mut settings: Vec<_> = ours.into_iter().map(|(k, (_, value))| (k, value)).collect();
        if let Some(module) = self.stored_revision {
            settings.push(("j5ik2o.dynamo-db-state.stored-revision", module.into()));
        }
        (settings, left)
    }

    fn of(&self, which: Which) -> &Found {
        let [journal, snapshot, state] = &self.found;
        match which {
            Which::Journal => journal,
            Which::Snapshot => snapshot,
            Which::State => state,
        }
    }

    fn compare(
        &self,
        main: Which,
        (other, sections): (Which, &Sections),
        left: &mut Vec<NotTaken>,
    ) {
        let section = joined(sections.of(other));
        let (ours, theirs) = (self.of(main), self.of(other));
        let mut all: Vec<_> = ours.keys().chain(theirs.keys()).collect();
        all.sort_unstable();
        all.dedup();
        for setting in all {
            let (own, its) = (ours.get(setting), theirs.get(setting));
            if own.map(|(_, value)| value) == its.map(|(_, value)| value) {
                continue;
            }
            let name = joined(sections.of(main));
            let here = its.map_or_else(|| "not set".to_owned(), |(_, value)| shown(value));
            let reason = match own {
                Some((key, value)) => format!(
                    "contradicts {key}: {here} here, {} there; there is one client for all, and that one is used",
                    shown(value)
                ),
                None => format!(
                    "contradicts {name}, which does not set it: {here} here; there is one client for all, and that one is used"
                ),
            };
            let unset = || format!("{section}.dynamo-db-client, for {setting}");
            left.push(NotTaken {
                key: its.map_or_else(unset, |(key, _)| key.clone()),
                reason,
            });
        }
    }
}

/// A value for a message, without an address that has a password.
fn shown(value: &Toml) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    match text.contains('@') {
        true => "a value that may have a password".to_owned(),
        false => format!("`{}`", values::shortened(&text)),
    }
}
