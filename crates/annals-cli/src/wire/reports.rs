//! Wire types of everything but events, snapshots and state: deletions, findings, tables, the log,
//! and problems.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals::items::{Billing, item_to_json};
use annals::layout::Hint as LayoutHint;
use annals::log::{
    Data, DeadLetter as Letter, LinkReport, LogEvent as Logged, LogStats as Stats, PumpReport,
    SweepReport, Time,
};
use annals::verify::{Finding as Found, Remedy, StoredKind};
use annals::{PersistenceId, SequenceNumber};
use annals_aws::TableConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value as Json};

use super::{Count, Number, StoredEvent, Yes};

/// A time of the log: milliseconds since 1970, or RFC 3339.
const LOG_TIME_PATTERN: &str = "^([0-9]{1,13}|(19[7-9][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)$";

/// A persistence id.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Id<'a> {
    pub(crate) persistence_id: &'a str,
}

impl<'a> Id<'a> {
    pub(crate) fn new(id: &'a PersistenceId) -> Self {
        let persistence_id = id.as_str();
        Self { persistence_id }
    }
}

/// A revision of durable state.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Revision<'a> {
    persistence_id: &'a str,
    revision: Count,
}

impl<'a> Revision<'a> {
    pub(crate) fn new(id: &'a PersistenceId, revision: u64) -> Self {
        Self {
            persistence_id: id.as_str(),
            revision: Count(revision),
        }
    }
}

/// Snapshots, or the value, of an id are deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Deleted<'a> {
    persistence_id: &'a str,
    deleted: Yes,
}

impl<'a> Deleted<'a> {
    pub(crate) fn new(id: &'a PersistenceId) -> Self {
        Self {
            persistence_id: id.as_str(),
            deleted: Yes(true),
        }
    }
}

/// The events of an id are deleted up to a sequence number.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DeletedTo<'a> {
    persistence_id: &'a str,
    deleted_to: Number,
}

impl<'a> DeletedTo<'a> {
    pub(crate) fn new(id: &'a PersistenceId, to: SequenceNumber) -> Self {
        Self {
            persistence_id: id.as_str(),
            deleted_to: to.into(),
        }
    }
}

/// Every trace of an id is removed.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Purged<'a> {
    persistence_id: &'a str,
    purged: Yes,
    snapshots_deleted: u64,
}

impl<'a> Purged<'a> {
    pub(crate) fn new(id: &'a PersistenceId, snapshots_deleted: u64) -> Self {
        Self {
            persistence_id: id.as_str(),
            purged: Yes(true),
            snapshots_deleted,
        }
    }
}

/// Something wrong with what is stored.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Finding<'a> {
    /// null: an item that belongs to no id
    persistence_id: Option<&'a str>,
    #[schemars(extend("enum" = [StoredKind::Event, StoredKind::Snapshot, StoredKind::Value].map(StoredKind::name)))]
    of: &'a str,
    problem: &'a str,
    from: Option<Number>,
    to: Option<Number>,
    detail: &'a str,
    #[schemars(extend("enum" = ["repairable", "repaired", "left"]))]
    pub(crate) remedy: &'a str,
    /// Why it is left
    pub(crate) why: Option<&'a str>,
}

impl<'a> Finding<'a> {
    pub(crate) fn new(finding: &'a Found) -> Self {
        let (remedy, why) = match finding.remedy {
            Remedy::Repairable => ("repairable", None),
            Remedy::Repaired => ("repaired", None),
            Remedy::Left(why) => ("left", Some(why)),
        };
        let (from, to) = finding.numbers.unzip();
        Self {
            persistence_id: finding.persistence_id.as_ref().map(PersistenceId::as_str),
            of: finding.kind.name(),
            problem: finding.problem.name(),
            from: from.map(Number::from),
            to: to.map(Number::from),
            detail: &finding.detail,
            remedy,
            why,
        }
    }
}

/// What is wrong with an id.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Findings<'a> {
    pub(crate) persistence_id: &'a str,
    pub(crate) findings: Vec<Finding<'a>>,
}

/// The state of a table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Table {
    table: String,
    #[schemars(extend("enum" = ["ok", "missing", "differs", "created", "exists"]))]
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<String>,
    /// What the settings would get wrong
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<Hint>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    care: Option<Care>,
}

/// Something the settings would get wrong with a table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Hint {
    /// Whether something would be lost or misread
    wrong: bool,
    detail: String,
}

/// How a table on DynamoDB is paid for and protected.
#[derive(Clone, Debug, Serialize)]
struct Care {
    billing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_units: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_units: Option<u32>,
    deletion_protection: bool,
    point_in_time_recovery: Option<bool>,
    expires_by: Option<String>,
}

impl Table {
    pub(crate) fn new(name: &str, status: &'static str, differences: Vec<String>) -> Self {
        Self {
            table: name.to_owned(),
            status,
            differences,
            hints: Vec::new(),
            care: None,
        }
    }

    /// With what the settings get wrong, and on DynamoDB how it is paid for and protected.
    pub(crate) fn checked(mut self, hints: &[&LayoutHint], care: Option<&TableConfig>) -> Self {
        let hints = hints.iter().map(|hint| Hint {
            wrong: hint.is_wrong,
            detail: hint.detail.clone(),
        });
        self.hints = hints.collect();
        self.care = care.map(|care| {
            let (billing, units) = match care.billing {
                Billing::OnDemand => ("on-demand", None),
                Billing::Provisioned {
                    read_units,
                    write_units,
                } => ("provisioned", Some((read_units, write_units))),
            };
            let (read_units, write_units) = units.unzip();
            Care {
                billing,
                read_units,
                write_units,
                deletion_protection: care.is_protected,
                point_in_time_recovery: care.is_recoverable,
                expires_by: care.expires_by.clone(),
            }
        });
        self
    }
}

/// The tables of the layout, and of the log.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Tables {
    pub(crate) tables: Vec<Table>,
}

/// Whether the server is alive, or ready.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Status {
    #[schemars(extend("enum" = ["ok", "ready"]))]
    pub(crate) status: &'static str,
    /// Of readiness: whether the log's tables exist
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(crate) log: Option<bool>,
}

/// A time of the log.
pub(crate) struct LogTime;

impl JsonSchema for LogTime {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": LOG_TIME_PATTERN})
    }
}

/// A record for the log, as it is sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record<'a> {
    /// 1 to 1,024 bytes in UTF-8; made from the record if left out
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) event_id: Option<String>,
    /// Milliseconds since 1970, or RFC 3339; now if left out
    #[serde(default)]
    #[schemars(schema_with = "record_time")]
    pub(crate) time: Option<Json>,
    #[serde(borrow)]
    #[schemars(with = "Json")]
    pub(crate) payload: &'a RawValue,
}

fn record_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "null"},
        {"type": "integer", "minimum": 0, "maximum": 32_503_679_999_999_u64},
        {"type": "string", "pattern": LOG_TIME_PATTERN},
    ]})
}

/// What became of records.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Ingested {
    pub(crate) stored: Count,
    pub(crate) present: Count,
    pub(crate) refused: Count,
    pub(crate) problems: Vec<LineProblem>,
}

/// What is wrong with one of many records.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LineProblem {
    pub(crate) line: Count,
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
}

/// An event of the log.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LogEvent<'a> {
    time: Count,
    event_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    payload_base64: Option<String>,
}

impl<'a> LogEvent<'a> {
    pub(crate) fn new(event: &'a Logged) -> Self {
        // JSON as it came: a parser would round numbers, and drop the first of two members of one
        // name.
        let text = event.payload.to_text();
        let (payload, payload_base64) = match text.map(RawValue::from_string) {
            Some(Ok(raw)) => (Some(raw), None),
            _ => match event.data() {
                Data::Json(json) => (to_raw_value(&json).ok(), None),
                Data::Bytes(bytes) => (None, Some(BASE64.encode(bytes))),
            },
        };
        Self {
            time: Count(event.time.ms()),
            event_id: event.event_id.as_str(),
            payload,
            payload_base64,
        }
    }

    /// The payload for people.
    pub(crate) fn payload_text(&self) -> &str {
        let json = self.payload.as_deref().map(RawValue::get);
        json.or(self.payload_base64.as_deref()).unwrap_or_default()
    }
}

fn text(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}

/// What a sweep did.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Swept {
    moved: Count,
    repeated: Count,
    late: Count,
    set_aside: Count,
    stuck: Count,
    left: Count,
    horizon: Option<String>,
    horizon_ahead_ms: Count,
}

impl Swept {
    pub(crate) fn new(report: &SweepReport) -> Self {
        Self {
            moved: Count(report.moved),
            repeated: Count(report.repeated),
            late: Count(report.late),
            set_aside: Count(report.dead_letters),
            stuck: Count(report.stuck),
            left: Count(report.left),
            horizon: text(report.horizon),
            horizon_ahead_ms: Count(report.horizon_ahead_ms),
        }
    }
}

/// What a pump copied from the journals.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Pumped {
    ids: Count,
    events: Count,
    without_payload: Count,
    passed_over: Count,
    failed: Count,
}

impl Pumped {
    pub(crate) fn new(report: &PumpReport) -> Self {
        Self {
            ids: Count(report.ids),
            events: Count(report.events),
            without_payload: Count(report.without_payload),
            passed_over: Count(report.problems.len() as u64),
            failed: Count(report.failures.len() as u64),
        }
    }
}

/// What linking did.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Linked {
    read: Count,
    unknown: Count,
    slots: Count,
    linked: Count,
}

impl Linked {
    pub(crate) fn new(report: &LinkReport) -> Self {
        Self {
            read: Count(report.read),
            unknown: Count(report.unknown),
            slots: Count(report.slots),
            linked: Count(report.linked),
        }
    }
}

/// A record that could not become an event, whole.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DeadLetter {
    name: String,
    reason: String,
    record: Json,
}

impl DeadLetter {
    pub(crate) fn new(letter: &Letter) -> Self {
        Self {
            name: letter.name.clone(),
            reason: letter.reason.clone(),
            record: item_to_json(&letter.record),
        }
    }
}

/// The name of a dead letter that was deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Forgotten {
    pub(crate) name: String,
}

/// The log's horizon, and whether it was set back.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Horizon {
    horizon: Option<String>,
    is_set_back: bool,
}

impl Horizon {
    pub(crate) fn new(horizon: Option<Time>, is_set_back: bool) -> Self {
        Self {
            horizon: text(horizon),
            is_set_back,
        }
    }
}

/// What the log holds, and how far it is swept.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LogStats {
    buffered: Count,
    oldest_buffered: Option<String>,
    set_aside: Count,
    horizon: Option<String>,
    days: Count,
    first_slot: Option<String>,
    last_slot: Option<String>,
    is_indexed: bool,
    time_unit_ms: Count,
    slot_parts: Vec<Count>,
}

impl LogStats {
    pub(crate) fn new(stats: &Stats) -> Self {
        Self {
            buffered: Count(stats.buffered),
            oldest_buffered: text(stats.oldest_buffered),
            set_aside: Count(stats.dead_letters),
            horizon: text(stats.horizon),
            days: Count(stats.days),
            first_slot: stats.first_slot.map(|slot| slot.to_string()),
            last_slot: stats.last_slot.map(|slot| slot.to_string()),
            is_indexed: stats.is_indexed,
            time_unit_ms: Count(stats.time_unit_ms),
            slot_parts: stats
                .slot_parts
                .iter()
                .map(|part| Count((*part).into()))
                .collect(),
        }
    }
}

/// An error, as `application/problem+json`.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) title: &'static str,
    #[schemars(with = "Count")]
    pub(crate) status: u16,
    #[schemars(extend("enum" = ["conflict", "unavailable", "invalid", "corrupt", "absent", "unauthorized"]))]
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
    /// What the error is about, by name; the detail has the same at its end
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) facts: Map<String, Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
    /// Of a conflict: the next events after the expected one, not necessarily all of them
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<StoredEvent<'static>>")]
    pub(crate) found: Option<Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Count")]
    pub(crate) revision: Option<Count>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<Table>,
    /// Of records: what became of them
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Count")]
    pub(crate) stored: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Count")]
    pub(crate) present: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Count")]
    pub(crate) refused: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<LineProblem>")]
    pub(crate) problems: Option<Vec<LineProblem>>,
    /// Of a pump that failed: what it did nevertheless
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Pumped")]
    pub(crate) report: Option<Pumped>,
}
