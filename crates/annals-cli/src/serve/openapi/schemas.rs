//! What goes in and comes out, and what can go wrong.

#![expect(
    clippy::indexing_slicing,
    reason = "an object of JSON takes any name, and all of these are objects"
)]

use annals::verify::Kept;
use serde_json::{Map, Value as Json, json};

/// The base64 that is taken: padded, without bits that mean nothing.
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// A moment: milliseconds since 1970, or as RFC 3339 has it.
const TIME: &str = "^([0-9]{1,15}|(19[7-9][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)$";

/// The same, of an event of the log.
const LOG_TIME: &str = "^([0-9]{1,13}|(19[7-9][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)$";

fn object(required: &[&str], properties: Json) -> Json {
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// A payload in one of its shapes, with these members besides.
fn with_payload(others: &Json) -> Json {
    let shapes = [
        (json!(["json"]), "payload", json!(true)),
        (json!(["text"]), "payload", json!({"type": "string"})),
        (
            json!(["long"]),
            "payload",
            json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}),
        ),
        (
            json!(["int"]),
            "payload",
            json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX}),
        ),
        (json!(["boolean"]), "payload", json!({"type": "boolean"})),
    ];
    let mut any_of: Vec<Json> = shapes
        .into_iter()
        .map(|(codec, name, payload)| {
            let mut members = others.clone();
            members[name] = payload;
            let is_default = codec == json!(["json"]);
            members["codec"] = json!({"type": "string", "enum": codec});
            match is_default {
                true => object(&[name], members),
                false => object(&[name, "codec"], members),
            }
        })
        .collect();
    let mut members = others.clone();
    members["payload_base64"] = json!({"type": "string", "pattern": BASE64});
    members["codec"] = json!({"type": "string", "description": "bytes where it is left out"});
    any_of.push(object(&["payload_base64"], members));
    json!({"anyOf": any_of})
}

pub(super) fn schemas() -> Json {
    let mut all = numbers();
    for more in [sent(), shown(), log()] {
        if let (Json::Object(all), Json::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
    }
    all
}

/// What the log is told and tells.
fn log() -> Json {
    let count = json!({"$ref": "#/components/schemas/Count"});
    let time = json!({"type": ["string", "null"]});
    json!({
        "Time": {"type": "string", "pattern": LOG_TIME},
        "Record": object(&["payload"], json!({
            "event_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024, "description": "1 to 1,024 bytes in UTF-8"},
            "time": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0, "maximum": 32_503_679_999_999_u64}, {"type": "string", "pattern": LOG_TIME}]},
            "payload": true,
        })),
        "Ingested": object(&["stored", "present", "refused", "problems"], json!({
            "stored": count, "present": count, "refused": count,
            "problems": {"type": "array", "items": line_problem()},
        })),
        "Swept": object(&["moved", "repeated", "late", "set_aside", "stuck", "left", "horizon"], json!({
            "moved": count, "repeated": count, "late": count, "set_aside": count,
            "stuck": count, "left": count, "horizon": time, "horizon_ahead_ms": count,
        })),
        "LogEvent": object(&["time", "event_id"], json!({
            "time": count, "event_id": {"type": "string"},
            "payload": true, "payload_base64": {"type": "string"},
        })),
        "Pumped": object(&["ids", "events", "without_payload", "passed_over", "failed"], json!({
            "ids": count, "events": count, "without_payload": count, "passed_over": count, "failed": count,
        })),
        "Linked": object(&["read", "unknown", "slots", "linked"], json!({
            "read": count, "unknown": count, "slots": count, "linked": count,
        })),
        "Horizon": object(&["horizon", "is_set_back"], json!({
            "horizon": time, "is_set_back": {"type": "boolean"},
        })),
        "Forgotten": object(&["name"], json!({"name": {"type": "string"}})),
        "LogStats": object(&["buffered", "horizon"], json!({
            "buffered": count, "oldest_buffered": time, "set_aside": count, "horizon": time,
            "days": count, "first_slot": time, "last_slot": time, "is_indexed": {"type": "boolean"},
            "time_unit_ms": count, "slot_parts": {"type": "array", "items": count},
        })),
    })
}

fn numbers() -> Json {
    json!({
        "SequenceNumber": {"type": "integer", "minimum": 1, "maximum": i64::MAX},
        "Count": {"type": "integer", "minimum": 0, "maximum": i64::MAX},
        "Schema": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "The number of the shape it has"},
    })
}

/// What callers send.
fn sent() -> Json {
    let schema = json!({"$ref": "#/components/schemas/Schema"});
    let state = json!({"manifest": {"type": "string"}, "schema": schema});
    let mut tagged = state.clone();
    tagged["tag"] = json!({"type": "string", "description": "What to find it by"});
    let event = json!({
        "manifest": {"type": "string", "description": "The name that says what it is"},
        "schema": schema,
        "tags": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
    });
    json!({
        "NewEvent": with_payload(&event),
        "NewSnapshot": with_payload(&state),
        "NewState": with_payload(&tagged),
        "Append": object(&["events"], json!({
            "events": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/NewEvent"}},
            "expect": {"type": "integer", "minimum": 0, "maximum": i64::MAX, "description": "The number that is expected to be last; 0 for none. If another one is, 409"},
            "causation": {"type": "string", "description": "What caused it; at most 1,024 bytes"},
            "correlation": {"type": "string", "description": "What it belongs to; at most 1,024 bytes"},
            "snapshot": {"description": "The state the events lead to, kept beside them where that costs nothing"},
        })),
    })
}

/// What callers are shown.
fn shown() -> Json {
    let id = json!({"type": "string"});
    let number = json!({"$ref": "#/components/schemas/SequenceNumber"});
    let count = json!({"$ref": "#/components/schemas/Count"});
    let text = json!({"type": "string"});
    let yes = json!({"type": "boolean", "enum": [true]});
    let schema = json!({"$ref": "#/components/schemas/Schema"});
    let stored = json!({
        "persistence_id": id, "sequence_number": number, "time": count, "manifest": text,
        "schema": schema, "codec": text, "payload": true, "payload_base64": text,
    });
    let mut event = stored.clone();
    event["tags"] = json!({"type": "array", "items": text});
    event["metadata"] = json!({"type": "object", "additionalProperties": text});
    event["causation"] = text.clone();
    event["correlation"] = text.clone();
    let common = ["persistence_id", "time", "manifest", "codec"];
    json!({
        "Status": object(&["status"], json!({
            "status": {"type": "string", "enum": ["ok", "ready"]},
            "log": {"type": "boolean", "description": "Of readiness: whether the log's tables are there"},
        })),
        "Place": object(&["persistence_id", "sequence_number"], json!({"persistence_id": id, "sequence_number": number})),
        "Appended": object(&["persistence_id", "sequence_number", "first_sequence_number", "time", "has_snapshot"], json!({
            "persistence_id": id, "sequence_number": number, "first_sequence_number": number, "time": count, "has_snapshot": {"type": "boolean"},
        })),
        "Event": object(&[&common[..], &["sequence_number", "tags", "metadata"]].concat(), event),
        "Snapshot": object(&[&common[..], &["sequence_number"]].concat(), stored),
        "State": object(&[&common[..], &["revision", "tag"]].concat(), json!({
            "persistence_id": id, "revision": count, "time": count, "tag": text, "manifest": text,
            "schema": schema, "codec": text, "payload": true, "payload_base64": text,
        })),
        "Revision": object(&["persistence_id", "revision"], json!({"persistence_id": id, "revision": count})),
        "Deleted": object(&["persistence_id", "deleted"], json!({"persistence_id": id, "deleted": yes})),
        "DeletedTo": object(&["persistence_id", "deleted_to"], json!({"persistence_id": id, "deleted_to": number})),
        "Purged": object(&["persistence_id", "purged"], json!({"persistence_id": id, "purged": yes})),
        "Findings": object(&["persistence_id", "findings"], json!({"persistence_id": id, "findings": {"type": "array", "items": {"$ref": "#/components/schemas/Finding"}}})),
        "Finding": finding(),
        "Tables": object(&["tables"], json!({"tables": {"type": "array", "items": table()}})),
        "Problem": problem(),
    })
}

fn finding() -> Json {
    let number =
        json!({"anyOf": [{"$ref": "#/components/schemas/SequenceNumber"}, {"type": "null"}]});
    let text = json!({"type": "string"});
    let text_or_null = json!({"type": ["string", "null"]});
    let kept = [Kept::Event, Kept::Snapshot, Kept::Value].map(Kept::name);
    let members = [
        "persistence_id",
        "of",
        "problem",
        "from",
        "to",
        "detail",
        "remedy",
        "why",
    ];
    object(
        &members,
        json!({
            "persistence_id": {"type": ["string", "null"], "description": "null: it belongs to nobody"},
            "of": {"type": "string", "enum": kept},
            "problem": text, "from": number, "to": number, "detail": text,
            "remedy": {"type": "string", "enum": ["repairable", "repaired", "left"]},
            "why": text_or_null,
        }),
    )
}

fn table() -> Json {
    let hint = object(
        &["wrong", "detail"],
        json!({
            "wrong": {"type": "boolean", "description": "Whether something would be lost or misread"},
            "detail": {"type": "string"},
        }),
    );
    object(
        &["table", "status"],
        json!({
            "table": {"type": "string"},
            "status": {"type": "string", "enum": ["ok", "missing", "differs", "created", "exists"]},
            "differences": {"type": "array", "items": {"type": "string"}},
            "hints": {"type": "array", "items": hint, "description": "What the settings would get wrong"},
        }),
    )
}

fn problem() -> Json {
    object(
        &["type", "title", "status", "kind", "detail"],
        json!({
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "kind": {"type": "string", "enum": ["conflict", "unavailable", "invalid", "corrupt", "absent", "unauthorized"]},
            "detail": {"type": "string"},
            "causes": {"type": "array", "items": {"type": "string"}},
            "found": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}, "description": "Of a conflict: what is known to have been appended since"},
            "revision": {"$ref": "#/components/schemas/Count"},
            "tables": {"type": "array", "items": table()},
            "stored": {"$ref": "#/components/schemas/Count"},
            "present": {"$ref": "#/components/schemas/Count"},
            "refused": {"$ref": "#/components/schemas/Count"},
            "problems": {"type": "array", "items": line_problem(), "description": "Of records: what became of them"},
            "report": {"$ref": "#/components/schemas/Pumped", "description": "Of a pump: what it did nevertheless"},
        }),
    )
}

/// What is wrong with one of many records.
fn line_problem() -> Json {
    object(
        &["line", "kind", "detail"],
        json!({
            "line": {"$ref": "#/components/schemas/Count"},
            "kind": {"type": "string"},
            "detail": {"type": "string"},
        }),
    )
}

/// The problems by status.
pub(super) fn problems() -> Json {
    let all = [
        ("400", "The call is wrong; fix it. Nothing was written"),
        ("401", "The token is missing or wrong"),
        (
            "403",
            "Without a token, only loopback names of this machine are answered to, and nothing is changed for a page of another site",
        ),
        ("404", "It is not there"),
        ("408", "The body takes too long to arrive"),
        (
            "409",
            "Somebody else was first, the idempotency key was used for something else, or what a tail received last is purged; reload and decide again",
        ),
        ("413", "The body is too large"),
        ("415", "The body is not application/json"),
        ("428", "No revision is named"),
        ("431", "The path and the headers are too large"),
        (
            "500",
            "What is stored does not parse, or the server has a bug; an operator looks",
        ),
        (
            "503",
            "Not now; the same call later. A write may have landed",
        ),
    ];
    let content =
        json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    let all = all.into_iter().map(|(status, description)| {
        let mut response = json!({"description": description, "content": content});
        if status == "503" {
            response["headers"] = json!({"Retry-After": {"schema": {"type": "string"}}});
        }
        (status.to_owned(), response)
    });
    Json::Object(all.collect::<Map<_, _>>())
}

pub(super) fn parameters() -> Json {
    let number = json!({"$ref": "#/components/schemas/SequenceNumber"});
    let time = json!({"type": "string", "pattern": TIME});
    let bound = |name: &str, description: &str, schema: &Json| json!({"name": name, "in": "query", "description": description, "schema": schema});
    json!({
        "persistence_id": {
            "name": "persistence_id", "in": "path", "required": true,
            "description": "Whose: any text of 1 to 2,000 bytes, percent-encoded as one segment",
            "schema": {"type": "string", "minLength": 1},
        },
        "sequence_number": {"name": "sequence_number", "in": "path", "required": true, "schema": number},
        "min_seq": bound("min_seq", "From this sequence number on", &number),
        "max_seq": bound("max_seq", "Up to this sequence number", &number),
        "min_time": bound("min_time", "Saved at this time or later: milliseconds since 1970, or RFC 3339", &time),
        "max_time": bound("max_time", "Saved at this time or before", &time),
    })
}
