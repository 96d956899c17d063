//! Kinesis from the command line: streams pumped into the log, and the log played back to streams.

use std::io::BufReader;

use annals::Random;
use libtest_mimic::Trial;
use serde_json::{Value as Json, json};

use crate::run::Annals;
use crate::serve_client::{Reply, connect, write_request};
use crate::trial::{missing_variable, trial};

const ENDPOINT: &str = "ANNALS_TEST_KINESIS";

pub(crate) fn trials() -> Vec<Trial> {
    let on_server = |name, test: fn()| trial(name, missing_variable(ENDPOINT), test);
    vec![
        on_server(
            "streams::pumps_sweeps_and_plays_back_to_another_stream",
            pumps_sweeps_and_plays_back_to_another_stream,
        ),
        on_server(
            "streams::a_pump_starts_at_the_given_time",
            a_pump_starts_at_the_given_time,
        ),
        on_server(
            "streams::reports_a_missing_stream",
            reports_a_missing_stream,
        ),
        trial(
            "streams::refuses_wrong_arguments",
            None,
            refuses_wrong_arguments,
        ),
    ]
}

/// The server, called without our client.
struct Streams {
    address: String,
    annals: Annals,
}

impl Streams {
    fn start() -> Self {
        let endpoint = std::env::var(ENDPOINT).unwrap();
        let annals = Annals::embedded();
        let settings = format!("region = \"us-east-1\"\n[kinesis]\nendpoint = \"{endpoint}\"\n");
        annals.write("annals.toml", &settings);
        annals.run(&["tables", "create", "--log"]);
        Self {
            address: endpoint.strip_prefix("http://").unwrap().to_owned(),
            annals,
        }
    }

    fn ask(&self, operation: &str, body: Json) -> Json {
        let target = format!("Kinesis_20131202.{operation}");
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", target.as_str()),
            ("x-amz-date", "20260101T000000Z"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=x",
            ),
        ];
        let mut stream = connect(&self.address);
        let body = body.to_string();
        write_request(&mut stream, ("POST", "/"), &headers, body.as_bytes());
        let reply = Reply::read(&mut BufReader::new(stream), "POST");
        assert_eq!(reply.status, 200, "{operation}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap_or(Json::Null)
    }

    /// A new stream with this many shards, under a unique name.
    fn create(&self, shards: u32) -> String {
        let name = format!("annals-cli-{:016x}", Random::from_machine().bits());
        self.ask(
            "CreateStream",
            json!({"StreamName": name, "ShardCount": shards}),
        );
        loop {
            let described = self.ask("DescribeStreamSummary", json!({"StreamName": name}));
            if described["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE" {
                return name;
            }
        }
    }

    fn put(&self, stream: &str, numbers: std::ops::Range<u32>) {
        for n in numbers {
            let data = base64(&format!(r#"{{"n":{n}}}"#));
            let record =
                json!({"StreamName": stream, "PartitionKey": format!("k{}", n % 3), "Data": data});
            self.ask("PutRecord", record);
        }
    }
}

/// As the API wants data; the standard alphabet, with padding.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let at = |n: usize| u32::from(*chunk.get(n).unwrap_or(&0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * n) & 63) as usize];
            encoded.push(if n > chunk.len() {
                '='
            } else {
                char::from(digit)
            });
        }
    }
    encoded
}

fn pumps_sweeps_and_plays_back_to_another_stream() {
    let streams = Streams::start();
    let (source, replay) = (streams.create(2), streams.create(1));
    streams.put(&source, 0..12);
    let annals = &streams.annals;
    let pump = || {
        annals
            .run(&["log", "pump", "--kinesis", &source])
            .ok()
            .json()
    };
    let stored =
        |steps: &[Json]| -> u64 { steps.iter().filter_map(|s| s["stored"].as_u64()).sum() };
    let steps = pump();
    assert_eq!(stored(&steps), 12, "{steps:?}");
    assert_eq!(steps.last().unwrap()["is_caught_up"], true);
    // It resumes at its checkpoint.
    streams.put(&source, 12..15);
    assert_eq!(stored(&pump()), 3);
    assert_eq!(stored(&pump()), 0);
    let swept = annals.run(&["log", "sweep"]).json();
    assert_eq!(swept[0]["moved"], 15, "{swept:?}");
    let to = format!("kinesis:{replay}");
    let played = annals.run(&["log", "playback", "--start", "0", "--to", &to]);
    assert_eq!(played.code, Some(0), "{played:?}");
    assert_eq!(played.json()[0]["events"], 15, "{played:?}");
    assert!(
        played.err.contains(": "),
        "a line for each slot: {played:?}"
    );
    // The second stream is pumped into another log: the same number of events, with the same keys.
    let other = Streams::start();
    let steps = other
        .annals
        .run(&["log", "pump", "--kinesis", &replay])
        .ok();
    assert_eq!(stored(&steps.json()), 15, "{steps:?}");
}

fn a_pump_starts_at_the_given_time() {
    let streams = Streams::start();
    let read = |stream: &str, begin: &str| {
        let pump = ["log", "pump", "--kinesis", stream, "--begin", begin];
        streams.annals.run(&pump)
    };
    let records = |outcome: &crate::run::Outcome| -> u64 {
        let steps = outcome.json();
        steps.iter().filter_map(|s| s["records"].as_u64()).sum()
    };
    let stream = streams.create(1);
    streams.put(&stream, 0..5);
    // A future time is refused, and no checkpoint is stored.
    let refused = read(&stream, "2100-01-01T00:00:00Z");
    refused.fails(2, "a pump cannot start in the future");
    assert_eq!(records(&read(&stream, "2001-01-01T00:00:00Z").ok()), 5);
    let stream = streams.create(1);
    streams.put(&stream, 0..5);
    assert_eq!(records(&read(&stream, "latest").ok()), 0);
}

fn reports_a_missing_stream() {
    let streams = Streams::start();
    let pumped = streams
        .annals
        .run(&["log", "pump", "--kinesis", "no-such-stream"]);
    let pumped = pumped.fails(2, "there is no such stream");
    assert!(pumped.err.contains("no-such-stream"), "{pumped:?}");
    let line = r#"{"event_id":"a","time":0,"payload":1}"#;
    streams.annals.run_with(&["log", "ingest"], line).ok();
    streams.annals.run(&["log", "sweep"]);
    let played = [
        "log",
        "playback",
        "--start",
        "0",
        "--to",
        "kinesis:no-such-stream",
    ];
    let played = streams.annals.run(&played);
    assert_eq!(played.code, Some(2), "{played:?}");
    assert!(played.err.contains("there is no such stream"), "{played:?}");
}

/// Needs no server.
fn refuses_wrong_arguments() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create", "--log"]);
    let check = |args: &[&str], says: &str| {
        let outcome = annals.run(&[&["log"], args].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.err.contains(says), "{outcome:?}");
    };
    let pump = ["pump", "--kinesis", "claps", "--begin"];
    check(
        &[&pump[..], &["yesterday"]].concat(),
        "a pump starts at trim-horizon",
    );
    check(&["pump", "--journal", "--begin", "latest"], "--begin");
    check(&["pump", "--kinesis", "no such name"], "no such name");
    check(&["pump"], "--journal");
    let playback = ["playback", "--start", "0", "--to"];
    check(
        &[&playback[..], &["sqs:claps"]].concat(),
        "a playback goes to stdout or to kinesis:STREAM",
    );
    check(&[&playback[..], &["kinesis:"]].concat(), "kinesis:");
}
