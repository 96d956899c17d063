//! The JVM's own plugins, Pekko's, Akka's and j5ik2o's, and we, in the same tables of AWS's DynamoDB
//! Local.
//!
//! The programs in `interop/` are started and spoken to in lines; nothing of the plugins is
//! imitated. Runs where `scripts/conformance` says so (`ANNALS_TEST_JVM`), on the server that
//! `ANNALS_TEST_DYNAMODB` names, in tables that no other run has.

mod both;
mod copied;
mod deletions;
mod j5ik2o;
mod program;
mod reading;
mod sharing;
mod torn;
mod turns;
mod writing;

use serde_json::{Value as Json, json};

/// A value of every type that both sides can make.
fn values() -> Vec<(&'static str, Json)> {
    let note = |text: &str, number: i64| json!({"text": text, "number": number});
    vec![
        ("string", json!("")),
        ("string", json!("ünïcödé 😀 \u{0} \n")),
        ("bytes", json!("")),
        ("bytes", json!("AAH/gA==")),
        ("bytestring", json!("AAH/gA==")),
        ("long", json!(i64::MIN)),
        ("long", json!(i64::MAX)),
        ("int", json!(i32::MIN)),
        ("int", json!(i32::MAX)),
        ("boolean", json!(true)),
        ("boolean", json!(false)),
        ("json", note("json ünïcödé 😀", 1)),
        // Large enough for Jackson to pack it.
        ("json", note(&"long ".repeat(8_000), 2)),
        ("cbor", note("cbor ünïcödé 😀", -3)),
        ("versioned", note("versioned", 4)),
        ("custom", json!("custom 😀")),
        ("protobuf", json!("protobuf ünïcödé")),
    ]
}

/// Events that only the JVM can make; we carry them.
fn opaque() -> Vec<(&'static str, Json)> {
    vec![
        ("java", json!("java")),
        ("optional", json!("optional")),
        (
            "tagged",
            json!({"event": "tagged", "tags": ["blue", "red"]}),
        ),
    ]
}

fn lines(values: &[(&'static str, Json)]) -> Vec<Json> {
    let line = |(kind, value): &(&str, Json)| json!({"type": kind, "value": value});
    values.iter().map(line).collect()
}

/// So many texts, each another.
fn texts(label: &str, count: usize) -> Vec<Json> {
    let text = |n| json!({"type": "string", "value": format!("{label} {n} of {count}")});
    (1..=count).map(text).collect()
}
