//! A CloudFormation template of everything: the tables of a layout and of the log, streams, the
//! functions of the log's steps, and roles that may do what each of them does and nothing else.
//!
//! Promises: tables have the keys and indexes that `annals tables create` makes. A table that the
//! stack lets go of stays, with everything in it.
//! Never: talks to AWS.

mod functions;
mod tables;
mod yaml;

use annals::items::Billing;
use annals::layout::Tables;
use annals::log::LogTables;
use annals::settings::LogSettings;
use annals::{Error, Result};
use serde_json::{Map, Value as Json, json};

use crate::kinesis::StreamName;

/// What a template has besides the tables of the layout.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout};
/// use annals::settings::LogSettings;
/// use annals_aws::template::{LogParts, Template};
///
/// let log = LogParts {
///     settings: LogSettings::default(),
///     stream: "events".parse()?,
///     playback_stream: "replay".parse()?,
/// };
/// let template = Template::new(&AnnalsLayout::default().tables()?, Default::default(), Some(&log))?;
/// assert!(template.to_yaml().contains("Type: AWS::Kinesis::Stream"));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogParts {
    /// The log's settings.
    pub settings: LogSettings,
    /// The stream that is pumped.
    pub stream: StreamName,
    /// The stream that is played back to.
    pub playback_stream: StreamName,
}

/// A CloudFormation template.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout};
/// use annals_aws::template::Template;
///
/// let template = Template::new(&AnnalsLayout::default().tables()?, Default::default(), None)?;
/// assert!(template.to_yaml().contains("Type: AWS::DynamoDB::Table"));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template(Json);

impl Template {
    /// The template of the layout's tables and, where its parts are named, of the log.
    ///
    /// # Errors
    /// `Invalid` where two tables have one name, or both streams are one.
    pub fn new(layout: &Tables, billing: Billing, log: Option<&LogParts>) -> Result<Self> {
        let mut resources = Map::new();
        let mut of_layout = vec![("JournalTable", &layout.journal)];
        of_layout.push(("SnapshotTable", &layout.snapshot));
        of_layout.extend(layout.state.iter().map(|state| ("StateTable", state)));
        for (name, spec) in &of_layout {
            // Snapshots can be made again.
            let is_kept = *name != "SnapshotTable";
            let table = tables::table(spec, billing, is_kept);
            resources.insert((*name).to_owned(), table);
        }
        let names: Vec<&str> = of_layout.iter().map(|(name, _)| *name).collect();
        let indexed = |spec: &annals::items::TableSpec| !spec.indexes().is_empty();
        let with_index = of_layout.iter().filter(|(_, spec)| indexed(spec));
        let with_index: Vec<&str> = with_index.map(|(name, _)| *name).collect();
        let policy = functions::application_policy(&names, &with_index);
        resources.insert("ApplicationPolicy".to_owned(), policy);
        let mut outputs = Map::new();
        outputs.insert(
            "ApplicationPolicyArn".to_owned(),
            json!({
                "Description": "For the role of what reads and writes the journal",
                "Value": {"Ref": "ApplicationPolicy"},
            }),
        );
        let mut template = Map::new();
        let mut set = |name: &str, value: Json| template.insert(name.to_owned(), value);
        set("AWSTemplateFormatVersion", json!("2010-09-09"));
        set("Description", json!("Annals: event-sourced persistence"));
        if let Some(log) = log {
            let log_tables = LogTables::new(&log.settings)?;
            let mut taken = of_layout.iter();
            if let Some((_, spec)) = taken.find(|(_, spec)| {
                let mut all = log_tables.all();
                all.any(|other| other.name() == spec.name())
            }) {
                return Err(Error::invalid(format!(
                    "two tables have one name; set buffer-table and event-table apart from those of the layout. name=`{}`",
                    spec.name()
                )));
            }
            let buffer = tables::table(&log_tables.buffer, billing, false);
            resources.insert("BufferTable".to_owned(), buffer);
            let event = tables::table(&log_tables.event, billing, true);
            resources.insert("EventTable".to_owned(), event);
            resources.extend(functions::of_log(&log_tables, log)?);
            set("Parameters", functions::parameters());
        }
        set("Resources", Json::Object(resources));
        set("Outputs", Json::Object(outputs));
        Ok(Self(Json::Object(template)))
    }

    /// As JSON.
    pub fn as_json(&self) -> &Json {
        &self.0
    }

    /// As YAML.
    pub fn to_yaml(&self) -> String {
        yaml::of(&self.0)
    }
}
