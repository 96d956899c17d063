//! What is stored, as the JSON that everybody is shown: the command line on its lines, programs over
//! HTTP in their answers.
//!
//! Promises: the same members under the same names wherever something is shown, on one line.

use annals::items::{Billing, item_to_json};
use annals::journal::Appended;
use annals::layout::Hint;
use annals::log::{Aside, Data, LinkReport, Log, LogEvent, LogStats, PumpReport, SweepReport};
use annals::snapshot::Snapshot;
use annals::state::{Revision, State};
use annals::verify::{Finding, Remedy};
use annals::{Event, Payload, PersistenceId, SequenceNumber};
use annals_aws::TableCare;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::payload;

/// An event, with its payload last.
pub(crate) fn event(event: &Event) -> String {
    let stored = &event.data;
    let mut object = json!({
        "persistence_id": event.persistence_id.as_str(),
        "sequence_number": event.sequence_number.get(),
        "time": event.time_ms,
        "manifest": stored.manifest,
        "tags": stored.tags,
        "metadata": stored.metadata,
    });
    // What most events do not have is there only where they do.
    let cause = [
        ("causation", &event.causation),
        ("correlation", &event.correlation),
    ];
    let cause = cause.into_iter().filter_map(|(name, text)| {
        let text = text.as_deref()?;
        Some((name, json!(text)))
    });
    let schema = (stored.schema > 0).then(|| ("schema", json!(stored.schema)));
    let codec = ("codec", json!(stored.codec.to_string()));
    if let Json::Object(members) = &mut object {
        let added = schema.into_iter().chain(cause).chain([codec]);
        members.extend(added.map(|(name, value)| (name.to_owned(), value)));
    }
    payload::to_line(&object, &stored.codec, &stored.payload)
}

/// A place in a journal, or of a snapshot.
pub(crate) fn place(id: &PersistenceId, number: SequenceNumber) -> Json {
    json!({"persistence_id": id.as_str(), "sequence_number": number.get()})
}

/// What an append became.
pub(crate) fn appended(id: &PersistenceId, appended: &Appended) -> String {
    #[derive(Serialize)]
    struct Shown<'a> {
        persistence_id: &'a str,
        sequence_number: u64,
        first_sequence_number: u64,
        time: u64,
        has_snapshot: bool,
    }
    let shown = Shown {
        persistence_id: id.as_str(),
        sequence_number: appended.last.get(),
        first_sequence_number: appended.first.get(),
        time: appended.time_ms,
        has_snapshot: appended.has_snapshot,
    };
    // Text, numbers and a boolean always become JSON.
    serde_json::to_string(&shown).unwrap_or_default()
}

/// A snapshot, with its state last.
pub(crate) fn snapshot(snapshot: &Snapshot) -> String {
    let object = json!({
        "persistence_id": snapshot.persistence_id.as_str(),
        "sequence_number": snapshot.sequence_number.get(),
        "time": snapshot.time_ms,
    });
    with_payload(object, &snapshot.payload)
}

/// Durable state, with its value last.
pub(crate) fn state(state: &State, value: &Payload) -> String {
    let object = json!({
        "persistence_id": state.persistence_id.as_str(),
        "revision": state.revision,
        "time": state.time_ms,
        "tag": state.tag,
    });
    with_payload(object, value)
}

/// An object with what a payload is behind its members, and the payload last. The number of its shape
/// is there only where it has one, as with events.
fn with_payload(mut object: Json, stored: &Payload) -> String {
    let schema = (stored.schema > 0).then(|| ("schema", json!(stored.schema)));
    let codec = ("codec", json!(stored.codec.to_string()));
    let manifest = ("manifest", json!(stored.manifest));
    if let Json::Object(members) = &mut object {
        let added = [manifest].into_iter().chain(schema).chain([codec]);
        members.extend(added.map(|(name, value)| (name.to_owned(), value)));
    }
    payload::to_line(&object, &stored.codec, &stored.bytes)
}

/// A revision of durable state.
pub(crate) fn revision(id: &PersistenceId, revision: Revision) -> Json {
    json!({"persistence_id": id.as_str(), "revision": revision})
}

/// That something of an id is deleted.
pub(crate) fn deleted(id: &PersistenceId) -> Json {
    json!({"persistence_id": id.as_str(), "deleted": true})
}

/// That the events of an id are deleted up to a number.
pub(crate) fn deleted_to(id: &PersistenceId, to: SequenceNumber) -> Json {
    json!({"persistence_id": id.as_str(), "deleted_to": to.get()})
}

/// That every trace of an id is gone.
pub(crate) fn purged(id: &PersistenceId) -> Json {
    json!({"persistence_id": id.as_str(), "purged": true})
}

/// An id.
pub(crate) fn id(id: &PersistenceId) -> Json {
    json!({"persistence_id": id.as_str()})
}

/// What is wrong with what is stored.
pub(crate) fn finding(finding: &Finding) -> Json {
    let (remedy, why) = remedy(finding);
    let numbers = finding.numbers;
    json!({
        "persistence_id": finding.persistence_id.as_ref().map(PersistenceId::as_str),
        "of": finding.of.name(),
        "problem": finding.problem.name(),
        "from": numbers.map(|(from, _)| from.get()),
        "to": numbers.map(|(_, to)| to.get()),
        "detail": finding.detail,
        "remedy": remedy,
        "why": why,
    })
}

/// What becomes of a finding, and why nothing does.
pub(crate) fn remedy(finding: &Finding) -> (&'static str, Option<&'static str>) {
    match finding.remedy {
        Remedy::Repairable => ("repairable", None),
        Remedy::Repaired => ("repaired", None),
        Remedy::Left(why) => ("left", Some(why)),
    }
}

/// How a table is.
pub(crate) fn table(name: &str, status: &str, differences: &[String]) -> Json {
    let mut object = json!({"table": name, "status": status});
    if let (Json::Object(members), false) = (&mut object, differences.is_empty()) {
        members.insert("differences".to_owned(), json!(differences));
    }
    object
}

/// A table as `tables check` shows it: how it is, what its settings get wrong, and on DynamoDB how it
/// is paid for and cared for.
pub(crate) fn checked_table(table: Json, hints: &[&Hint], care: Option<&TableCare>) -> Json {
    let mut object = table;
    let Json::Object(members) = &mut object else {
        return object;
    };
    let hints = hints
        .iter()
        .map(|hint| json!({"wrong": hint.is_wrong, "detail": hint.detail}));
    let hints: Vec<Json> = hints.collect();
    if !hints.is_empty() {
        members.insert("hints".to_owned(), json!(hints));
    }
    if let Some(care) = care {
        let (billing, units) = match care.billing {
            Billing::OnDemand => ("on-demand", None),
            Billing::Provisioned {
                read_units,
                write_units,
            } => ("provisioned", Some((read_units, write_units))),
        };
        members.insert("billing".to_owned(), json!(billing));
        if let Some((read, write)) = units {
            members.insert("read_units".to_owned(), json!(read));
            members.insert("write_units".to_owned(), json!(write));
        }
        let is_protected = json!(care.is_protected);
        members.insert("deletion_protection".to_owned(), is_protected);
        let recovery = json!(care.is_recoverable);
        members.insert("point_in_time_recovery".to_owned(), recovery);
        members.insert("expires_by".to_owned(), json!(care.expires_by));
    }
    object
}

/// An event of the log.
pub(crate) fn log_event(event: &LogEvent) -> String {
    let (time, id) = (event.time.ms(), Json::from(event.event_id.as_str()));
    let (name, payload) = match (event.payload.to_text(), event.data()) {
        // As it came: a parser would round numbers, and drop the first of two members of one name.
        (Some(text), _) => ("payload", text),
        (None, Data::Json(json)) => ("payload", json.to_string()),
        (None, Data::Bytes(bytes)) => (
            "payload_base64",
            Json::from(BASE64.encode(bytes)).to_string(),
        ),
    };
    format!(r#"{{"time":{time},"event_id":{id},"{name}":{payload}}}"#)
}

/// What a sweep did.
pub(crate) fn sweep(report: &SweepReport) -> Json {
    json!({
        "moved": report.moved,
        "repeated": report.repeated,
        "late": report.late,
        "set_aside": report.set_aside,
        "stuck": report.stuck,
        "left": report.left,
        "horizon": report.horizon.map(|time| time.to_string()),
        "horizon_ahead_ms": report.horizon_ahead_ms,
    })
}

/// What a pump brought from the journals.
pub(crate) fn pumped(report: &PumpReport) -> Json {
    json!({
        "ids": report.ids,
        "events": report.events,
        "without_payload": report.without_payload,
        "passed_over": report.problems.len(),
        "failed": report.failures.len(),
    })
}

/// What linking did.
pub(crate) fn linked(report: &LinkReport) -> Json {
    json!({
        "read": report.read,
        "unknown": report.unknown,
        "slots": report.slots,
        "linked": report.linked,
    })
}

/// A record that could not become an event, whole.
pub(crate) fn aside(aside: &Aside) -> Json {
    let record = item_to_json(&aside.record);
    json!({"name": aside.name, "reason": aside.reason, "record": record})
}

/// What the log holds, and how far it is.
pub(crate) fn log_stats(log: &Log, stats: &LogStats) -> Json {
    let (first, last) = stats.slots.unzip();
    json!({
        "buffered": stats.buffered,
        "oldest_buffered": stats.oldest_buffered.map(|time| time.to_string()),
        "set_aside": stats.set_aside,
        "horizon": stats.horizon.map(|time| time.to_string()),
        "days": stats.days,
        "first_slot": first.map(|slot| slot.to_string()),
        "last_slot": last.map(|slot| slot.to_string()),
        "is_indexed": stats.is_indexed,
        "time_unit_ms": log.time_unit().ms(),
        "slot_parts": stats.slot_parts,
    })
}
