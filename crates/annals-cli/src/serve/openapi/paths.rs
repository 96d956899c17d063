//! Paths and what they answer.

#![expect(
    clippy::indexing_slicing,
    reason = "an object of JSON takes any name, and all of these are objects"
)]

use serde_json::{Map, Value as Json, json};

const LINES: &str = "application/x-ndjson";
/// A number as an entity tag of ours, or without its quotes.
const TAG: &str = r#"^("(0|[1-9][0-9]{0,17})"|0|[1-9][0-9]{0,17})$"#;
/// A place in the log as the id of a server-sent event: what is not plain is percent-encoded.
const PLACE: &str = concat!(
    "^([0-9]{1,13}|[12][0-9]{13}|3[01][0-9]{12}|32[0-4][0-9]{11})/",
    "([!-$&-~]|%[0-7][0-9A-F]|%C[2-9A-F]%[89AB][0-9A-F]|%D[0-9A-F]%[89AB][0-9A-F]",
    "|%E0%[AB][0-9A-F]%[89AB][0-9A-F]|%E[1-9A-CEF](%[89AB][0-9A-F]){2}",
    "|%ED%[89][0-9A-F]%[89AB][0-9A-F]|%F0%[9AB][0-9A-F](%[89AB][0-9A-F]){2}",
    "|%F[1-3](%[89AB][0-9A-F]){3}|%F4%8[0-9A-F](%[89AB][0-9A-F]){2})+$",
);

/// A reference to a schema.
fn schema(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn parameter(name: &str) -> Json {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// An answer of one JSON value.
fn answers(description: &str, name: &str) -> Json {
    json!({"description": description, "content": {"application/json": {"schema": schema(name)}}})
}

/// The same with an entity tag.
fn tagged(description: &str, name: &str) -> Json {
    let mut answer = answers(description, name);
    answer["headers"] = json!({"ETag": etag()});
    answer
}

fn etag() -> Json {
    json!({"description": "The number, in quotes", "schema": {"type": "string"}})
}

/// An answer of JSON lines.
fn lines(description: &str) -> Json {
    json!({"description": description, "content": {LINES: {"schema": {"type": "string"}}}})
}

fn body(name: &str) -> Json {
    json!({"required": true, "content": {"application/json": {"schema": schema(name)}}})
}

/// An operation: its answers where it succeeds, and the problems it may have besides those that
/// every operation may have.
struct Operation {
    id: &'static str,
    summary: &'static str,
    answers: Vec<(&'static str, Json)>,
    problems: &'static [&'static str],
}

impl Operation {
    fn json(self) -> Json {
        let mut responses = Map::new();
        for (status, answer) in self.answers {
            responses.insert(status.to_owned(), answer);
        }
        let everywhere = ["400", "401", "403", "431", "500", "503"];
        for status in everywhere.iter().chain(self.problems) {
            let to = format!("#/components/responses/{status}");
            responses.insert((*status).to_owned(), json!({"$ref": to}));
        }
        json!({"operationId": self.id, "summary": self.summary, "responses": responses})
    }

    fn with(self, name: &str, value: Json) -> Json {
        let mut operation = self.json();
        operation[name] = value;
        operation
    }
}

/// What reads or writes a body may answer besides.
const OF_BODIES: [&str; 3] = ["408", "413", "415"];

pub(super) fn paths() -> Json {
    let mut paths = watching();
    let others = [
        journal(),
        snapshots(),
        state(),
        tables(),
        ingest(),
        log(),
        playback(),
    ];
    for more in others {
        if let (Json::Object(paths), Json::Object(more)) = (&mut paths, more) {
            paths.extend(more);
        }
    }
    paths
}

fn watching() -> Json {
    json!({
        "/healthz": {"get": Operation {
            id: "live", summary: "Whether the process answers", problems: &[],
            answers: vec![("200", answers("It does", "Status"))],
        }.with("security", json!([]))},
        "/readyz": {"get": Operation {
            id: "ready", summary: "Whether the store answers and its tables are there", problems: &[],
            answers: vec![("200", answers("It does", "Status"))],
        }.with("security", json!([]))},
        "/metrics": {"get": Operation {
            id: "metrics", summary: "Everything that is counted, as Prometheus reads it", problems: &[],
            answers: vec![("200", json!({"description": "Metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}))],
        }.json()},
        "/openapi.json": {"get": Operation {
            id: "openapi", summary: "This document", problems: &[],
            answers: vec![("200", json!({"description": "This document", "content": {"application/json": {"schema": {"type": "object"}}}}))],
        }.json()},
    })
}

fn journal() -> Json {
    let id = [parameter("persistence_id")];
    json!({
        "/v1/journal": {"get": Operation {
            id: "ids", summary: "Whose events there are: in no order as they come, or with after or limit in order, page by page", problems: &[],
            answers: vec![("200", lines("A line for each id: {\"persistence_id\"}"))],
        }.with("parameters", json!([
            {"name": "prefix", "in": "query", "description": "Only ids that begin so", "schema": {"type": "string"}},
            {"name": "after", "in": "query", "description": "Only ids behind this one", "schema": {"type": "string", "minLength": 1}},
            {"name": "limit", "in": "query", "description": "No more than so many", "schema": {"$ref": "#/components/schemas/Count"}},
        ]))},
        "/v1/journal/{persistence_id}": {"parameters": id, "delete": Operation {
            id: "purge", summary: "Remove every trace of an id, whose numbers begin anew; only while nobody uses it", problems: &[],
            answers: vec![("200", answers("It is purged", "Purged"))],
        }.json()},
        "/v1/journal/{persistence_id}/events": {
            "parameters": id,
            "get": events(),
            "post": append(),
            "delete": Operation {
                id: "delete_events", summary: "Delete the events up to a number, whose numbers are never used again", problems: &[],
                answers: vec![("200", answers("They are deleted", "DeletedTo"))],
            }.with("parameters", json!([
                {"name": "to", "in": "query", "required": true, "schema": schema("SequenceNumber")},
            ])),
        },
        "/v1/journal/{persistence_id}/highest": {"parameters": id, "get": Operation {
            id: "highest", summary: "The number of the last event ever appended, deleted or not", problems: &["404"],
            answers: vec![("200", tagged("The number", "Place"))],
        }.json()},
        "/v1/journal/{persistence_id}/snapshot": {"parameters": id, "get": Operation {
            id: "riding_snapshot", summary: "The snapshot that rides in the last append", problems: &["404"],
            answers: vec![("200", answers("The snapshot", "Snapshot"))],
        }.json()},
        "/v1/journal/{persistence_id}/findings": {"parameters": id, "get": Operation {
            id: "verify", summary: "What is wrong with the events, snapshots and value of an id; reads all of them", problems: &[],
            answers: vec![("200", answers("What was found", "Findings"))],
        }.json()},
        "/v1/journal/{persistence_id}/repair": {"parameters": id, "post": Operation {
            id: "repair", summary: "The same, and what is safe to repair is repaired; only while nobody deletes events of the id", problems: &[],
            answers: vec![("200", answers("What was found, and what became of it", "Findings"))],
        }.json()},
        "/v1/findings": {"get": Operation {
            id: "verify_all", summary: "What is wrong with everything there is, with what belongs to nobody and what large writes left behind; reads all of it", problems: &[],
            answers: vec![("200", lines("A line for each finding, as it is found (schema Finding)"))],
        }.json()},
        "/v1/repair": {"post": Operation {
            id: "repair_all", summary: "The same, and what is safe to repair is repaired, also when the caller goes away; only while nobody deletes events", problems: &[],
            answers: vec![("200", lines("A line for each finding, and what became of it (schema Finding)"))],
        }.json()},
    })
}

fn events() -> Json {
    let answer = json!({
        "description": "A line for each event (schema Event); with `Accept: text/event-stream`, those and then every one that comes, as server-sent events whose ids are sequence numbers. A connection that breaks off means that something is missing.",
        "content": {
            LINES: {"schema": {"type": "string"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    });
    Operation {
        id: "replay",
        summary: "Replay the events of an id, or follow it live",
        problems: &["404", "409"],
        answers: vec![("200", answer)],
    }
    .with(
        "parameters",
        json!([
            {"name": "from", "in": "query", "description": "From this number on", "schema": schema("SequenceNumber")},
            {"name": "to", "in": "query", "description": "Up to this number; not with a tail", "schema": schema("SequenceNumber")},
            {"name": "max", "in": "query", "description": "No more than so many; not with a tail", "schema": schema("Count")},
            {"name": "Last-Event-ID", "in": "header", "description": "Of a tail: the event that was received last; wins over from. 409 where the id has no such number any more: it was purged", "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}},
        ]),
    )
}

fn append() -> Json {
    let operation = Operation {
        id: "append",
        summary: "Append events, all or none, if what is expected to be last is last",
        problems: &["408", "409", "413", "415"],
        answers: vec![("201", tagged("They are durable", "Appended"))],
    };
    let mut operation = operation.with("requestBody", body("Append"));
    operation["parameters"] = json!([
        {"name": "If-Match", "in": "header", "description": "The number that is expected to be last, as an ETag of ours; \"0\" for none. If another one is, 409", "schema": {"type": "string", "pattern": TAG}},
        {"name": "If-None-Match", "in": "header", "description": "That the id has no event yet", "schema": {"type": "string", "enum": ["*"]}},
        {"name": "Idempotency-Key", "in": "header", "description": "What the same append is known by when it is repeated: it is acknowledged and not appended again, also when it was deleted since. With an expectation for ever; without one, while fewer than 128 events came behind it (on the layout akka fewer than 32 that are deleted). The same key for other content or another expectation is 409, as far back as it is looked for: those 128 events, or 16 before the expectation", "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"}},
    ]);
    operation
}

fn snapshots() -> Json {
    let id = [parameter("persistence_id")];
    let bounds = ["min_seq", "max_seq", "min_time", "max_time"].map(parameter);
    json!({
        "/v1/snapshots/{persistence_id}": {
            "parameters": id,
            "get": Operation {
                id: "list_snapshots", summary: "The snapshots of an id, newest first", problems: &[],
                answers: vec![("200", lines("A line for each (schema Snapshot)"))],
            }.with("parameters", json!(bounds)),
            "delete": Operation {
                id: "delete_snapshots", summary: "Delete the snapshots of an id, all or those within the bounds", problems: &[],
                answers: vec![("200", answers("They are deleted", "Deleted"))],
            }.with("parameters", json!(bounds)),
        },
        "/v1/snapshots/{persistence_id}/latest": {"parameters": id, "get": Operation {
            id: "latest_snapshot", summary: "The newest snapshot within the bounds", problems: &["404"],
            answers: vec![("200", answers("The snapshot", "Snapshot"))],
        }.with("parameters", json!(bounds))},
        "/v1/snapshots/{persistence_id}/{sequence_number}": {
            "parameters": [parameter("persistence_id"), parameter("sequence_number")],
            "put": Operation {
                id: "save_snapshot", summary: "Save the state at a number, over one of the same number", problems: &OF_BODIES,
                answers: vec![("200", answers("It is saved", "Place"))],
            }.with("requestBody", body("NewSnapshot")),
            "get": Operation {
                id: "get_snapshot", summary: "The snapshot at a number", problems: &["404"],
                answers: vec![("200", answers("The snapshot", "Snapshot"))],
            }.json(),
            "delete": Operation {
                id: "delete_snapshot", summary: "Delete the snapshot at a number", problems: &[],
                answers: vec![("200", answers("It is deleted", "Deleted"))],
            }.json(),
        },
    })
}

fn state() -> Json {
    let put = Operation {
        id: "put_state",
        summary: "Write a value as a revision, if the one before it is there. Say which: by revision, If-Match or If-None-Match, one of them or the same by several",
        problems: &["408", "409", "413", "415", "428"],
        answers: vec![("200", tagged("It is written", "Revision"))],
    };
    let mut put = put.with("requestBody", body("NewState"));
    put["parameters"] = json!([
        {"name": "revision", "in": "query", "description": "The revision it becomes: 1 where nothing was written yet", "schema": {"type": "integer", "minimum": 1, "maximum": i64::MAX}},
        {"name": "If-Match", "in": "header", "description": "The revision that is replaced, as an ETag of ours; \"0\" for none", "schema": {"type": "string", "pattern": TAG}},
        {"name": "If-None-Match", "in": "header", "description": "That nothing was written yet", "schema": {"type": "string", "enum": ["*"]}},
    ]);
    let not_modified =
        json!({"description": "The value is the one that is known", "headers": {"ETag": etag()}});
    json!({
        "/v1/state/{persistence_id}": {
            "parameters": [parameter("persistence_id")],
            "get": Operation {
                id: "get_state", summary: "The current value; its revision is the ETag", problems: &["404"],
                answers: vec![("200", tagged("The value", "State")), ("304", not_modified)],
            }.with("parameters", json!([
                {"name": "If-None-Match", "in": "header", "description": "The ETag of the value that is known", "schema": {"type": "string"}},
            ])),
            "put": put,
            "delete": Operation {
                id: "delete_state", summary: "Delete the value, as the next revision or as the one that is named", problems: &["409"],
                answers: vec![("200", answers("It is deleted", "Deleted"))],
            }.with("parameters", json!([
                {"name": "revision", "in": "query", "description": "The revision the deletion becomes", "schema": {"type": "integer", "minimum": 1, "maximum": i64::MAX}},
                {"name": "If-Match", "in": "header", "description": "The ETag of the value that is deleted", "schema": {"type": "string", "pattern": TAG}},
            ])),
        },
    })
}

fn tables() -> Json {
    let log = json!({"name": "log", "in": "query", "description": "The log's tables as well", "schema": {"type": "string", "enum": ["false", "true"]}});
    json!({
        "/v1/tables": {
            "get": Operation {
                id: "check_tables", summary: "How the tables of the layout are, and what the settings would get wrong with them", problems: &[],
                answers: vec![("200", answers("The tables", "Tables"))],
            }.with("parameters", json!([log])),
            "post": Operation {
                id: "create_tables", summary: "Make the tables that are missing", problems: &[],
                answers: vec![("200", answers("The tables", "Tables"))],
            }.with("parameters", json!([log])),
        },
    })
}

/// What brings events into the log.
fn ingest() -> Json {
    let pixel = json!({"description": "One pixel; the request is an event of the log", "content": {"image/gif": {"schema": {"type": "string", "format": "binary"}}}});
    let records = json!({"required": true, "content": {
        "application/json": {"schema": schema("Record")},
        LINES: {"schema": {"type": "string"}},
    }});
    let mut ingest = Operation {
        id: "ingest",
        summary: "Bring records into the log: one as JSON, many as JSON lines",
        problems: &["408", "409", "413", "415"],
        answers: vec![(
            "200",
            answers(
                "What became of them; of many, some may be refused. Where none is in, 400 or 409; where the store failed, 503: send all of them again",
                "Ingested",
            ),
        )],
    }
    .with("requestBody", records);
    ingest["parameters"] = json!([{"name": "source", "in": "query", "description": "Where they come from; ids are told apart by it", "schema": {"type": "string"}}]);
    json!({
        "/track.gif": {"get": Operation {
            id: "track", summary: "The request as an event of the log", problems: &[],
            answers: vec![("200", pixel)],
        }.json()},
        "/events": {"post": ingest},
    })
}

/// How far the log is, and what moves it on.
fn log() -> Json {
    let time = schema("Time");
    json!({
        "/v1/log": {"get": Operation {
            id: "log_stats", summary: "What the log holds, and how far it is; reads the whole buffer", problems: &[],
            answers: vec![("200", answers("How it is", "LogStats"))],
        }.json()},
        "/v1/log/sweep": {"post": Operation {
            id: "sweep", summary: "Move what waits in the buffer into its slots, now", problems: &[],
            answers: vec![("200", answers("What was moved", "Swept"))],
        }.json()},
        "/v1/log/pump": {"post": Operation {
            id: "pump", summary: "Bring what is new of every journal into the buffer; reads the whole journal for its ids", problems: &[],
            answers: vec![("200", answers("What was brought", "Pumped"))],
        }.json()},
        "/v1/log/link": {"post": Operation {
            id: "link", summary: "Make the index of slots complete, and write the original's links of a span", problems: &[],
            answers: vec![("200", answers("What was linked", "Linked"))],
        }.with("parameters", json!([
            {"name": "start", "in": "query", "description": "The first time whose slots are linked; without it, all", "schema": time},
            {"name": "end", "in": "query", "description": "The first time whose slots are not", "schema": time},
        ]))},
        "/v1/log/horizon": {"post": Operation {
            id: "set_back_horizon", summary: "Set the horizon back, where a sweeper's clock was ahead; first set that clock right", problems: &[],
            answers: vec![("200", answers("The horizon", "Horizon"))],
        }.with("parameters", json!([
            {"name": "set_back", "in": "query", "required": true, "description": "To this time", "schema": time},
        ]))},
    })
}

/// What comes out of it.
fn playback() -> Json {
    let time = schema("Time");
    let played = json!({
        "description": "A line for each event (schema LogEvent), by time and then by id; with `Accept: text/event-stream` server-sent events whose ids are places to go on from. A connection that breaks off means that something is missing.",
        "content": {
            LINES: {"schema": {"type": "string"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    });
    json!({
        "/v1/log/events": {"get": Operation {
            id: "playback", summary: "Play a span of time back, in order", problems: &[],
            answers: vec![("200", played)],
        }.with("parameters", json!([
            {"name": "start", "in": "query", "required": true, "description": "The first time that is played", "schema": time},
            {"name": "end", "in": "query", "description": "The first time that is not; without it, now", "schema": time},
            {"name": "speed", "in": "query", "description": "max, or times as fast as it happened", "schema": {"type": "string", "pattern": "^(max|[1-9][0-9]{0,8})$"}},
            {"name": "follow", "in": "query", "description": "Then every event that comes", "schema": {"type": "string", "enum": ["false", "true"]}},
            {"name": "Last-Event-ID", "in": "header", "description": "The place to go on from", "schema": {"type": "string", "pattern": PLACE}},
        ]))},
        "/v1/log/aside": {"get": Operation {
            id: "aside", summary: "The records that could not become events", problems: &[],
            answers: vec![("200", lines("A line for each: its name, the reason, and the record whole"))],
        }.json()},
        "/v1/log/aside/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}],
            "delete": Operation {
                id: "forget_aside", summary: "Forget one of the records that were set aside, for good", problems: &[],
                answers: vec![("200", answers("It is forgotten", "Forgotten"))],
            }.json(),
        },
    })
}
