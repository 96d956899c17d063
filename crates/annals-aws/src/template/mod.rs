//! A CloudFormation template: the tables of a layout and, on request, the tables, streams, functions
//! and roles of the time-ordered log. Pure.
//!
//! Guarantees: tables get the keys and indexes that `annals tables create` gives them. A table removed
//! from the stack is retained with its data. A role may make exactly the requests its function makes.

mod functions;
mod tables;

use annals::items::{Billing, TableSpec};
use annals::layout::Tables;
use annals::log::LogTables;
use annals::settings::LogSettings;
use annals::{Error, Result};
use serde_json::{Map, Value as Json, json};

use crate::kinesis::StreamName;

/// The time-ordered log in a template: its settings and its streams.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout};
/// use annals::settings::LogSettings;
/// use annals_aws::template::{LogResources, Template};
///
/// let log = LogResources::new(LogSettings::default(), "events".parse()?, "replay".parse()?);
/// let template = Template::new(&AnnalsLayout::default().tables()?, Default::default(), Some(&log))?;
/// let stream = &template.as_json()["Resources"]["EventStream"];
/// assert_eq!(stream["Type"], "AWS::Kinesis::Stream");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogResources {
    /// The settings of the log.
    pub settings: LogSettings,
    /// The stream the pump reads.
    pub stream: StreamName,
    /// The stream the playback writes to.
    pub playback_stream: StreamName,
}

impl LogResources {
    /// A log with these settings, between these streams.
    pub fn new(settings: LogSettings, stream: StreamName, playback_stream: StreamName) -> Self {
        Self {
            settings,
            stream,
            playback_stream,
        }
    }
}

/// A CloudFormation template, as JSON. CloudFormation accepts JSON wherever it accepts YAML.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout};
/// use annals_aws::template::Template;
///
/// let template = Template::new(&AnnalsLayout::default().tables()?, Default::default(), None)?;
/// let table = &template.as_json()["Resources"]["JournalTable"];
/// assert_eq!(table["Type"], "AWS::DynamoDB::Table");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template(Json);

impl Template {
    /// Builds the template of the layout's tables and, if given, of the log.
    ///
    /// # Errors
    /// `Invalid` if two tables have the same name, or both streams are the same.
    pub fn new(layout: &Tables, billing: Billing, log: Option<&LogResources>) -> Result<Self> {
        let mut resources = layout_resources(layout, billing);
        let mut template = Map::new();
        let mut set = |name: &str, value: Json| template.insert(name.to_owned(), value);
        set("AWSTemplateFormatVersion", json!("2010-09-09"));
        set("Description", json!("Annals: event-sourced persistence"));
        if let Some(log) = log {
            let log_tables = LogTables::new(&log.settings)?;
            check_names(layout, &log_tables)?;
            let buffer = tables::table(&log_tables.buffer, billing, false);
            resources.insert("BufferTable".to_owned(), buffer);
            let event = tables::table(&log_tables.event, billing, true);
            resources.insert("EventTable".to_owned(), event);
            resources.extend(functions::log_resources(&log_tables, log)?);
            set("Parameters", functions::parameters());
        }
        set("Resources", Json::Object(resources));
        set(
            "Outputs",
            json!({
                "ApplicationPolicyArn": {
                    "Description": "For the role of the application that uses the journal",
                    "Value": {"Ref": "ApplicationPolicy"},
                },
            }),
        );
        Ok(Self(Json::Object(template)))
    }

    /// The template as JSON.
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

/// The tables of the layout, and the policy for an application that uses them.
fn layout_resources(layout: &Tables, billing: Billing) -> Map<String, Json> {
    let mut specs = vec![
        ("JournalTable", &layout.journal),
        ("SnapshotTable", &layout.snapshot),
    ];
    specs.extend(layout.state.iter().map(|state| ("StateTable", state)));
    let mut resources = Map::new();
    for (name, spec) in &specs {
        // Snapshots can be rebuilt from events, so they need no backup.
        let is_recoverable = *name != "SnapshotTable";
        let table = tables::table(spec, billing, is_recoverable);
        resources.insert((*name).to_owned(), table);
    }
    let names: Vec<&str> = specs.iter().map(|(name, _)| *name).collect();
    let indexed = specs.iter().filter(|(_, spec)| !spec.indexes().is_empty());
    let indexed: Vec<&str> = indexed.map(|(name, _)| *name).collect();
    let policy = functions::application_policy(&names, &indexed);
    resources.insert("ApplicationPolicy".to_owned(), policy);
    resources
}

fn check_names(layout: &Tables, log: &LogTables) -> Result<()> {
    let is_taken = |spec: &&TableSpec| log.all().any(|other| other.name() == spec.name());
    match layout.all().find(is_taken) {
        None => Ok(()),
        Some(spec) => Err(Error::invalid(
            "two tables have the same name; set buffer-table and event-table to other names than the layout's tables",
        )
        .fact("name", spec.name())),
    }
}
