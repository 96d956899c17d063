//! Responses match `/openapi.json` in a case that the fuzzer seldom reaches: a damaged store.

use serde_json::{Value as Json, json};

use crate::run::{Annals, large_json};
use crate::serve_client::Server;

/// Checks a value against a schema of the document; returns the errors.
fn mismatch(document: &Json, schema: &Json, value: &Json) -> Option<String> {
    if let Some(to) = schema["$ref"].as_str() {
        let to = document.pointer(to.strip_prefix('#').unwrap()).unwrap();
        return mismatch(document, to, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let is_none = any.iter().all(|it| mismatch(document, it, value).is_some());
        return is_none.then(|| format!("{value} is none of {any:?}"));
    }
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let allowed = match &schema["type"] {
        Json::String(one) => vec![one.as_str()],
        Json::Array(some) => some.iter().map(|it| it.as_str().unwrap()).collect(),
        _ => vec![kind],
    };
    if !allowed.contains(&kind) {
        return Some(format!("{value} is no {allowed:?}"));
    }
    if let Some(some) = schema["enum"].as_array()
        && !some.contains(value)
    {
        return Some(format!("{value} is none of {some:?}"));
    }
    if let Json::Array(values) = value {
        let mut values = values.iter();
        return values.find_map(|it| mismatch(document, &schema["items"], it));
    }
    let Json::Object(members) = value else {
        return None;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required {
        if !members.contains_key(name.as_str().unwrap()) {
            return Some(format!("{value} has no {name}"));
        }
    }
    members.iter().find_map(|(name, value)| {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Json::Null, Json::Bool(false)) => Some(format!("{name} is not described")),
            (Json::Null, other) => mismatch(document, other, value),
            (known, _) => mismatch(document, known, value),
        }
    })
}

#[track_caller]
pub(crate) fn check(document: &Json, name: &str, value: &Json) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(mismatch(document, &schema, value), None, "{name}: {value}");
}

/// A store with a gap in its events, an unreadable snapshot, a stray item, and orphaned chunks.
fn damaged() -> Annals {
    let (from, to) = (Annals::embedded(), Annals::embedded());
    for n in 1..=5 {
        from.run(&["append", "Cart|1", &n.to_string()]).ok();
    }
    from.run(&["snapshot", "save", "Cart|1", "--at", "5", "1"])
        .ok();
    from.run_with(&["state", "put", "Cart|2", "--revision", "1"], large_json())
        .ok();
    to.run(&["tables", "create"]).ok();
    let exported = |table: &str| from.run(&["export", table]).ok().out;
    let events = exported("annals-journal");
    let is_third = |line: &&str| line.contains("{\"N\":\"3\"}");
    let left: Vec<&str> = events.lines().filter(|line| !is_third(line)).collect();
    assert_eq!(left.len() + 1, events.lines().count());
    let stray = r#"{"Item":{"p":{"S":"nobody"},"n":{"N":"1"}}}"#;
    let left = [&left[..], &[stray]].concat().join("\n");
    to.run_with(&["import", "annals-journal"], left).ok();
    let snapshots = exported("annals-snapshot");
    let mut snapshot: Json = serde_json::from_str(snapshots.lines().next().unwrap()).unwrap();
    let bytes = snapshot["Item"].as_object_mut().unwrap();
    for (_, value) in bytes.iter_mut().filter(|(_, value)| value["B"].is_string()) {
        *value = json!({"B": "AAAA"});
    }
    to.run_with(&["import", "annals-snapshot"], snapshot.to_string())
        .ok();
    let states = exported("annals-state");
    let parts = states.lines().filter(|line| line.contains("\"S\":\"p:"));
    // Old enough that they are not in flight.
    let old = parts.map(|line| {
        let mut item: Json = serde_json::from_str(line).unwrap();
        item["Item"]["t"]["N"] = "1000".into();
        item.to_string()
    });
    let old: Vec<String> = old.collect();
    to.run_with(&["import", "annals-state"], old.join("\n"))
        .ok();
    to
}

#[test]
fn findings_are_as_the_document_says() {
    let annals = damaged();
    let by_command = annals.run(&["verify"]).json();
    let server = Server::start(&annals);
    let document = server.get("/openapi.json").json(200);
    let found = server.get("/v1/findings").lines();
    assert_eq!(found, by_command, "the same as the command line prints");
    for of in ["event", "snapshot"] {
        let is_of = |finding: &&Json| finding["of"] == of;
        assert!(found.iter().any(|it| is_of(&it)), "{of}: {found:?}");
    }
    assert!(found.iter().any(|it| it["persistence_id"].is_null()));
    for finding in &found {
        check(&document, "Finding", finding);
    }
    let of_one = server.get("/v1/journal/Cart%7C1/findings").json(200);
    check(&document, "Findings", &of_one);
    let of_one = of_one["findings"].as_array().unwrap();
    for of in ["event", "snapshot"] {
        assert!(of_one.iter().any(|it| it["of"] == of), "{of}: {of_one:?}");
    }
    let corrupt = server.get("/v1/journal/Cart%7C1/events?from=4&to=3");
    assert_eq!(corrupt.status, 200);
    // A replay that fails midway is not a success, over HTTP or on the command line.
    let pumped = server.send("POST", "/v1/log/pump", &[]);
    let pumped = pumped.problem(500, "corrupt");
    check(&document, "Problem", &pumped);
    check(&document, "Pumped", &pumped["report"]);
    assert_eq!(pumped["report"]["failed"], 1, "{pumped}");
    let repaired = server.send("POST", "/v1/repair", &[]).lines();
    assert_eq!(repaired.len(), found.len());
    for finding in &repaired {
        check(&document, "Finding", finding);
    }
    let is = |remedy: &str| repaired.iter().filter(|it| it["remedy"] == remedy).count();
    assert!(is("repaired") > 0 && is("left") > 0 && is("repairable") == 0);
    assert_eq!(server.get("/v1/findings").lines().len(), is("left"));
    drop(server);
    let pumped = annals.run(&["log", "pump", "--journal"]);
    assert_eq!(pumped.code, Some(5), "{pumped:?}");
    assert_eq!(pumped.json()[0]["failed"], 1, "{pumped:?}");
}

#[test]
fn responses_are_as_the_document_says() {
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let document = server.get("/openapi.json").json(200);
    let body = r#"{"payload":1,"schema":7,"manifest":"M"}"#;
    server.put("/v1/snapshots/a/1", body).json(200);
    server.put("/v1/state/a?revision=1", body).json(200);
    let event = r#"{"events":[{"payload":1,"schema":7}],"causation":"c"}"#;
    check(
        &document,
        "Appended",
        &server.post("/v1/journal/a/events", event).json(201),
    );
    server.post("/events", r#"{"payload":1}"#).json(200);
    let post = |path: &str| server.send("POST", path, &[]).json(200);
    for (name, answer) in [
        ("Status", server.get("/readyz").json(200)),
        ("Tables", server.get("/v1/tables?log=true").json(200)),
        ("Tables", post("/v1/tables?log=true")),
        ("Snapshot", server.get("/v1/snapshots/a/latest").json(200)),
        ("State", server.get("/v1/state/a").json(200)),
        (
            "Event",
            server.get("/v1/journal/a/events").lines().remove(0),
        ),
        ("Pumped", post("/v1/log/pump")),
        ("Swept", post("/v1/log/sweep")),
        ("Linked", post("/v1/log/link")),
        ("Horizon", post("/v1/log/horizon?set_back=1000")),
        ("LogStats", server.get("/v1/log").json(200)),
        (
            "LogEvent",
            server.get("/v1/log/events?start=0").lines().remove(0),
        ),
        ("Problem", server.get("/v1/state/none").json(404)),
    ] {
        check(&document, name, &answer);
    }
    let lines = [("content-type", "application/x-ndjson")];
    let refused = server
        .send_body(("POST", "/events"), &lines, b"no")
        .json(400);
    check(&document, "Problem", &refused);
    let bulk = r#"{"persistence_id":"bulk","expect":0,"events":[{"payload":1}]}"#;
    let bulk = format!("{bulk}\n{bulk}\nno");
    let results = server.send_body(("POST", "/v1/append"), &lines, bulk.as_bytes());
    for (name, line) in ["BulkAppended", "Problem", "Problem"]
        .iter()
        .zip(results.lines())
    {
        check(&document, name, &line);
    }
}

/// The check itself works.
#[test]
fn the_check_finds_a_wrong_response() {
    let document = json!({"components": {"schemas": {"A": {
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
    }}}});
    let schema = json!({"$ref": "#/components/schemas/A"});
    for (value, is_right) in [
        (json!({"a": null, "b": 1}), true),
        (json!({"a": "x"}), true),
        (json!({}), false),
        (json!({"a": 1}), false),
        (json!({"a": "x", "b": "y"}), false),
        (json!({"a": "x", "c": 1}), false),
        (json!([]), false),
    ] {
        let found = mismatch(&document, &schema, &value);
        assert_eq!(found.is_none(), is_right, "{value}: {found:?}");
    }
}
