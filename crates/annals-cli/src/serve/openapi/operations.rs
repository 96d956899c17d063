//! What the table of routes and the wire types do not say of each operation.

use serde_json::{Value as Json, json};

use super::{OF_BODIES, Operation, content, etag, in_header, parameter, query, reference};
use crate::serve::http::{CBOR_SEQUENCE, LINES};
use crate::wire;

const EVENT_STREAM: &str = "text/event-stream";
/// A number as an entity tag, or without its quotes.
const TAG: &str = r#"^("(0|[1-9][0-9]{0,17})"|0|[1-9][0-9]{0,17})$"#;
/// A position in the log as the id of a server-sent event, percent-encoded where it is not plain.
const LOG_POSITION: &str = concat!(
    "^([0-9]{1,13}|[12][0-9]{13}|3[01][0-9]{12}|32[0-4][0-9]{11})/",
    "([!-$&-~]|%[0-7][0-9A-F]|%C[2-9A-F]%[89AB][0-9A-F]|%D[0-9A-F]%[89AB][0-9A-F]",
    "|%E0%[AB][0-9A-F]%[89AB][0-9A-F]|%E[1-9A-CEF](%[89AB][0-9A-F]){2}",
    "|%ED%[89][0-9A-F]%[89AB][0-9A-F]|%F0%[9AB][0-9A-F](%[89AB][0-9A-F]){2}",
    "|%F[1-3](%[89AB][0-9A-F]){3}|%F4%8[0-9A-F](%[89AB][0-9A-F]){2})+$",
);

/// A position in the feed.
const FEED_POSITION: &str = "^(0|[1-9][0-9]{0,8})\\.0:(0|[1-9][0-9]{0,17})(\\+[1-9][0-9]{0,17})?$";
/// Slices that are in order: one or two digits are enough for valid requests.
const SLICES: &str = "^([0-9]{1,2}|[0-9]-[1-9][0-9]{1,2})$";

fn tag() -> Json {
    json!({"type": "string", "pattern": TAG})
}

fn star() -> Json {
    json!({"type": "string", "enum": ["*"]})
}

fn switch() -> Json {
    json!({"type": "string", "enum": ["false", "true"]})
}

fn bounds() -> [Json; 4] {
    ["min_seq", "max_seq", "min_time", "max_time"].map(parameter)
}

pub(in crate::serve) fn about() -> Operation {
    let text = json!({"text/plain": {"schema": {"type": "string"}}});
    let response =
        json!({"description": "The version, and the most useful paths", "content": text});
    Operation::new("about", "What this server is, for people").response("200", response)
}

pub(in crate::serve) fn live() -> Operation {
    Operation::new("live", "Liveness: the process answers")
        .json::<wire::Status>("It does")
        .with("security", json!([]))
}

pub(in crate::serve) fn ready() -> Operation {
    Operation::new("ready", "Readiness: the store answers and its tables exist")
        .json::<wire::Status>("It does")
        .with("security", json!([]))
}

pub(in crate::serve) fn metrics() -> Operation {
    let text = json!({"text/plain": {"schema": {"type": "string"}}});
    Operation::new("metrics", "Metrics for Prometheus")
        .response("200", json!({"description": "Metrics", "content": text}))
}

pub(in crate::serve) fn openapi() -> Operation {
    let object = json!({"application/json": {"schema": {"type": "object"}}});
    let response = json!({"description": "This document", "content": object});
    Operation::new("openapi", "This document").response("200", response)
}

pub(in crate::serve) fn ids() -> Operation {
    let text = |min: u32| json!({"type": "string", "minLength": min});
    Operation::new(
        "ids",
        "List persistence ids, each once; with after or limit, page by page. On the embedded store in the order of their bytes, by a view that has every id acknowledged before; 503 while the server still builds it. On DynamoDB by a scan, in no order that means anything; on the tables of the JVM plugins each page reads the whole table",
    )
    .lines("A line for each id (schema Id)", &[])
    .parameters([
        query("prefix", "Only ids with this prefix", &json!({"type": "string"})),
        query("after", "Continue after this id, the last one of the page before", &text(1)),
        query("limit", "At most so many", &reference::<wire::Count>()),
    ])
}

pub(in crate::serve) fn purge() -> Operation {
    Operation::new(
        "purge",
        "Remove every trace of an id, its snapshots and its events; its numbering restarts at 1. Only while nobody uses it",
    )
    .json::<wire::Purged<'_>>("It is purged")
    .problems(&["404"])
}

pub(in crate::serve) fn replay() -> Operation {
    let number = reference::<wire::Number>();
    let last = json!({"type": "string", "pattern": "^[1-9][0-9]{0,17}$"});
    Operation::new("replay", "Replay the events of an id, or follow it live")
        .lines(
            "A line for each event (schema Event); with `Accept: application/cbor-seq`, a CBOR map for each (RFC 8742) with the same members, but `payload` is always there and has the stored bytes as a byte string; with `Accept: text/event-stream`, the lines and then every new one, as server-sent events whose ids are sequence numbers. A connection that breaks off means that events are missing.",
            &[CBOR_SEQUENCE, EVENT_STREAM],
        )
        .problems(&["404", "409"])
        .parameters([
            query("from", "From this sequence number on", &number),
            query("to", "Up to this sequence number; not with a tail", &number),
            query("max", "At most so many; not with a tail", &reference::<wire::Count>()),
            in_header("Last-Event-ID", "Of a tail: the last event received; overrides from. 409 where the id was purged since", &last),
        ])
}

pub(in crate::serve) fn feed() -> Operation {
    let position = json!({"type": "string", "pattern": FEED_POSITION});
    let text = json!({"type": "string"});
    let slices = json!({"type": "string", "pattern": SLICES});
    Operation::new(
        "feed",
        "The events of all ids, in the order in which they were committed",
    )
    .lines(
        "A line for each event (schema Event) with its position, or for a deletion (schema FeedNotice); with `Accept: text/event-stream`, server-sent events whose ids are positions to resume from, and comments with the position up to which everything was read. A connection that breaks off means that events are missing. 400 for a position of another store.",
        &[EVENT_STREAM],
    )
    .parameters([
        query("after", "Only what follows this position", &position),
        query("category", "Only events of this entity type, what is before the | of the id", &text),
        query("tag", "Only events with this tag", &text),
        query("prefix", "Only ids that begin so", &text),
        query("slices", "Only ids of these slices, N or N-M", &slices),
        query("max", "At most so many lines; not with server-sent events", &reference::<wire::Count>()),
        query("follow", "Then every new event", &switch()),
        in_header("Last-Event-ID", "The position to resume from; overrides after", &position),
    ])
}

pub(in crate::serve) fn append() -> Operation {
    let key = json!({"type": "string", "pattern": "^[!-~]{1,255}$"});
    Operation::new(
        "append",
        "Append events, all or none, unless another event than the expected one is last",
    )
    .tagged::<wire::Appended<'_>>("201", "They are durable")
    .body::<wire::Append<'_>>()
    .problems(&["409"])
    .parameters([
        in_header("If-Match", "Fail with 409 unless this is the last sequence number, as an ETag; \"0\" for no events yet", &tag()),
        in_header("If-None-Match", "Fail with 409 unless the id has no events yet", &star()),
        in_header("Idempotency-Key", "Identifies this append when it is repeated: it is acknowledged and not appended again, also when it was deleted since. With an expectation for ever; without one, while it is among the last 128 sequence numbers (on the layout akka, the last 32 if it is deleted). The same key for other content or another expectation is 409, as far back as it is checked: those 128 numbers, or 16 before the expectation", &key),
    ])
}

pub(in crate::serve) fn append_bulk() -> Operation {
    let lines = json!({"required": true, "content": {LINES: {"schema": {"type": "string"}}}});
    Operation::new(
        "append_bulk",
        "Append many times in one request: a line of JSON for each append (schema BulkAppend), which is atomic by itself. Appends to one id run in the order of their lines",
    )
    .lines(
        "A line for each line, in the same order, empty ones left out: where it is durable (schema BulkAppended), otherwise what a single append would be answered, with the number of the line (schema Problem). One that is refused stops no other. A connection that breaks off means that results are missing: the appends may be stored, repeat them with their idempotency keys.",
        &[],
    )
    .with("requestBody", lines)
    .problems(&OF_BODIES)
}

pub(in crate::serve) fn delete_events() -> Operation {
    let to = json!({"name": "to", "in": "query", "required": true, "schema": reference::<wire::Number>()});
    Operation::new(
        "delete_events",
        "Delete the events up to a sequence number; the numbers are never used again",
    )
    .json::<wire::DeletedTo<'_>>("They are deleted, up to this number or to the last event")
    .problems(&["404"])
    .parameters([to])
}

pub(in crate::serve) fn highest() -> Operation {
    Operation::new(
        "highest",
        "The sequence number of the last event ever appended, deleted or not",
    )
    .tagged::<wire::Position<'_>>("200", "The sequence number")
    .problems(&["404"])
}

pub(in crate::serve) fn riding_snapshot() -> Operation {
    Operation::new(
        "riding_snapshot",
        "The snapshot stored with the last append",
    )
    .json::<wire::Snapshot<'_>>("The snapshot")
    .problems(&["404"])
}

pub(in crate::serve) fn verify() -> Operation {
    Operation::new(
        "verify",
        "Check the events, snapshots and value of an id; reads all of them",
    )
    .json::<wire::Findings<'_>>("What was found")
}

pub(in crate::serve) fn repair() -> Operation {
    Operation::new(
        "repair",
        "The same, and repair what is safe to repair; only while nobody deletes events of the id",
    )
    .json::<wire::Findings<'_>>("What was found, and what became of it")
}

pub(in crate::serve) fn verify_all() -> Operation {
    Operation::new(
        "verify_all",
        "Check everything that is stored, with items that belong to no id and leftovers of large writes; reads all of it",
    )
    .lines("A line for each finding, as it is found (schema Finding)", &[])
}

pub(in crate::serve) fn repair_all() -> Operation {
    Operation::new(
        "repair_all",
        "The same, and repair what is safe to repair, also if the client disconnects; only while nobody deletes events",
    )
    .lines("A line for each finding, and what became of it (schema Finding)", &[])
}

pub(in crate::serve) fn list_snapshots() -> Operation {
    Operation::new("list_snapshots", "The snapshots of an id, newest first")
        .lines("A line for each (schema Snapshot)", &[])
        .parameters(bounds())
}

pub(in crate::serve) fn delete_snapshots() -> Operation {
    Operation::new(
        "delete_snapshots",
        "Delete the snapshots of an id, all or those within the bounds",
    )
    .json::<wire::Deleted<'_>>("They are deleted")
    .problems(&["404"])
    .parameters(bounds())
}

pub(in crate::serve) fn latest_snapshot() -> Operation {
    Operation::new("latest_snapshot", "The newest snapshot within the bounds")
        .json::<wire::Snapshot<'_>>("The snapshot")
        .problems(&["404"])
        .parameters(bounds())
}

pub(in crate::serve) fn save_snapshot() -> Operation {
    Operation::new(
        "save_snapshot",
        "Save the state at a sequence number, replacing one of the same number",
    )
    .json::<wire::Position<'_>>("It is saved")
    .body::<wire::NewSnapshot<'_>>()
}

pub(in crate::serve) fn get_snapshot() -> Operation {
    Operation::new("get_snapshot", "The snapshot at a sequence number")
        .json::<wire::Snapshot<'_>>("The snapshot")
        .problems(&["404"])
}

pub(in crate::serve) fn delete_snapshot() -> Operation {
    Operation::new(
        "delete_snapshot",
        "Delete the snapshot at a sequence number",
    )
    .json::<wire::Deleted<'_>>("It is deleted")
    .problems(&["404"])
}

pub(in crate::serve) fn get_state() -> Operation {
    let unchanged =
        json!({"description": "The value is the known one", "headers": {"ETag": etag()}});
    Operation::new("get_state", "The current value; its revision is the ETag")
        .tagged::<wire::State<'_>>("200", "The value")
        .response("304", unchanged)
        .problems(&["404"])
        .parameters([in_header(
            "If-None-Match",
            "The ETag of the known value",
            &json!({"type": "string"}),
        )])
}

fn revision(description: &str) -> Json {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": i64::MAX});
    query("revision", description, &schema)
}

pub(in crate::serve) fn put_state() -> Operation {
    Operation::new(
        "put_state",
        "Write a value as a revision, if the one before it is stored. Name it by revision, If-Match or If-None-Match: one of them, or the same by several",
    )
    .tagged::<wire::Revision<'_>>("200", "It is written")
    .body::<wire::NewState<'_>>()
    .problems(&["409", "428"])
    .parameters([
        revision("The revision it becomes: 1 for the first"),
        in_header("If-Match", "The revision that is replaced, as an ETag; \"0\" for none", &tag()),
        in_header("If-None-Match", "Nothing was written yet", &star()),
    ])
}

pub(in crate::serve) fn delete_state() -> Operation {
    Operation::new(
        "delete_state",
        "Delete the value, as the next revision or as the named one",
    )
    .json::<wire::Deleted<'_>>("It is deleted")
    .problems(&["404", "409"])
    .parameters([
        revision("The revision that the deletion becomes"),
        in_header("If-Match", "The ETag of the value that is deleted", &tag()),
    ])
}

pub(in crate::serve) fn settings() -> Operation {
    let object = json!({"application/json": {"schema": {"type": "object"}}});
    let response = json!({"description": "As `annals config show --json`", "content": object});
    Operation::new("settings", "The settings of the server").response("200", response)
}

pub(in crate::serve) fn items() -> Operation {
    Operation::new(
        "items",
        "Call the store itself, as `annals --server` does. Nothing keeps such a call from damaging what is stored: use the other paths",
    )
    .json::<wire::ItemsResult>("The result; a condition that does not hold is a result")
    .body::<wire::ItemsCall>()
    .problems(&["409"])
}

fn log_tables() -> [Json; 1] {
    [query("log", "The log's tables as well", &switch())]
}

pub(in crate::serve) fn check_tables() -> Operation {
    Operation::new(
        "check_tables",
        "Check the tables of the layout, and what the settings would get wrong with them",
    )
    .json::<wire::Tables>("The tables")
    .parameters(log_tables())
}

pub(in crate::serve) fn create_tables() -> Operation {
    Operation::new("create_tables", "Create the tables that are missing")
        .json::<wire::Tables>("The tables")
        .parameters(log_tables())
}

pub(in crate::serve) fn track() -> Operation {
    let pixel = json!({"description": "One pixel; the request is an event of the log", "content": {"image/gif": {"schema": {"type": "string", "format": "binary"}}}});
    Operation::new("track", "The request as an event of the log").response("200", pixel)
}

pub(in crate::serve) fn ingest() -> Operation {
    let description = "What became of them; of many, some may be refused. 400 or 409 where none is stored; 503 where the store failed: send all of them again";
    let source = "Where they come from; ids are distinguished by it";
    let records = json!({"required": true, "content": {
        "application/json": {"schema": reference::<wire::Record<'_>>()},
        LINES: {"schema": {"type": "string"}},
    }});
    Operation::new(
        "ingest",
        "Store records in the log: one as JSON, many as JSON lines",
    )
    .response("200", content::<wire::Ingested>(description))
    .problems(&["408", "409", "413", "415"])
    .with("requestBody", records)
    .parameters([query("source", source, &json!({"type": "string"}))])
}

pub(in crate::serve) fn log_stats() -> Operation {
    Operation::new(
        "log_stats",
        "What the log holds, and how far it is swept; reads the whole buffer",
    )
    .json::<wire::LogStats>("Its statistics")
}

pub(in crate::serve) fn sweep() -> Operation {
    Operation::new("sweep", "Move buffered records into their slots, now")
        .json::<wire::Swept>("What was moved")
}

pub(in crate::serve) fn pump() -> Operation {
    Operation::new(
        "pump",
        "Copy new events of every journal into the buffer; reads the whole journal for its ids",
    )
    .json::<wire::Pumped>("What was copied")
}

pub(in crate::serve) fn link() -> Operation {
    let time = reference::<wire::LogTime>();
    Operation::new(
        "link",
        "Complete the index of slots, and write the links of a span",
    )
    .json::<wire::Linked>("What was linked")
    .parameters([
        query(
            "start",
            "The first time whose slots are linked; without it, all",
            &time,
        ),
        query("end", "The first time whose slots are not", &time),
    ])
}

pub(in crate::serve) fn set_back_horizon() -> Operation {
    let mut to = query("set_back", "To this time", &reference::<wire::LogTime>());
    if let Json::Object(members) = &mut to {
        members.insert("required".to_owned(), json!(true));
    }
    Operation::new(
        "set_back_horizon",
        "Set the horizon back, where a sweeper's clock was ahead; correct that clock first",
    )
    .json::<wire::Horizon>("The horizon")
    .parameters([to])
}

pub(in crate::serve) fn playback() -> Operation {
    let time = reference::<wire::LogTime>();
    let mut start = query("start", "The first time that is played", &time);
    if let Json::Object(members) = &mut start {
        members.insert("required".to_owned(), json!(true));
    }
    let speed = json!({"type": "string", "pattern": "^(max|[1-9][0-9]{0,8})$"});
    let last = json!({"type": "string", "pattern": LOG_POSITION});
    Operation::new("playback", "Play a span of time back, in order")
        .lines(
            "A line for each event (schema LogEvent), by time and then by id; with `Accept: text/event-stream`, server-sent events whose ids are positions to resume from. A connection that breaks off means that events are missing.",
            &[EVENT_STREAM],
        )
        .parameters([
            start,
            query("end", "The first time that is not; without it, now", &time),
            query("speed", "max, or times as fast as it happened", &speed),
            query("follow", "Then every new event", &switch()),
            in_header("Last-Event-ID", "The position to resume from", &last),
        ])
}

pub(in crate::serve) fn dead_letters() -> Operation {
    Operation::new(
        "dead_letters",
        "Dead letters: the records that could not become events",
    )
    .lines("A line for each (schema DeadLetter)", &[])
}

pub(in crate::serve) fn forget_dead_letter() -> Operation {
    Operation::new("forget_dead_letter", "Delete a dead letter, for good")
        .json::<wire::Forgotten>("It is deleted")
        .problems(&["404"])
}
