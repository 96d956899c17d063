//! Compares payloads in the output lines of the programs in `interop/` (`type`, `value`,
//! `serializer`, `manifest`) with the library's.
//!
//! Written from the description of those programs, independently of the library.

use annals::{Codec, NewEvent, Payload};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost::Message as _;
use serde_json::{Value as Json, json};

/// Types whose bytes only the JVM can make or read.
const OPAQUE: [&str; 4] = ["java", "optional", "tagged", "delivery"];

/// The codec of a serializer's id.
fn codec_of(serializer: i64, is_string: bool) -> Codec {
    let name = match serializer {
        1 if is_string => "text",
        2 => "protobuf",
        4 => "bytes",
        18 => "long",
        19 => "int",
        20 => "text",
        31 => "json",
        33 => "cbor",
        35 => "boolean",
        other => return Codec::Other(format!("akka:{other}")),
    };
    name.parse().unwrap()
}

/// Checks a payload against a line: codec, manifest, schema version and value.
#[track_caller]
pub(crate) fn check(line: &Json, payload: &Payload) {
    let kind = line["type"].as_str().unwrap();
    let serializer = line["serializer"].as_i64().unwrap();
    assert_eq!(
        payload.codec,
        codec_of(serializer, kind == "string"),
        "{line}"
    );
    let manifest = line["manifest"].as_str().unwrap();
    let (manifest, schema) = manifest.split_once('#').unwrap_or((manifest, "0"));
    assert_eq!(payload.manifest, manifest, "{line}");
    assert_eq!(payload.schema.to_string(), schema, "{line}");
    if OPAQUE.contains(&kind) {
        let mut texts = Vec::new();
        collect_texts(&line["value"], &mut texts);
        for text in texts {
            let mut found = payload.bytes.windows(text.len());
            assert!(found.any(|bytes| bytes == text.as_bytes()), "{line}");
        }
    } else {
        assert_eq!(value_of(kind, payload), line["value"], "{line}");
    }
}

/// The strings in a value, except for the path of an actor, which is stored in pieces.
fn collect_texts(value: &Json, into: &mut Vec<String>) {
    match value {
        Json::String(text) if !text.contains("://") => into.push(text.clone()),
        Json::Array(all) => all.iter().for_each(|value| collect_texts(value, into)),
        Json::Object(all) => all.values().for_each(|value| collect_texts(value, into)),
        _ => {}
    }
}

fn value_of(kind: &str, payload: &Payload) -> Json {
    let bytes = &payload.bytes;
    match kind {
        "bytes" | "bytestring" => BASE64.encode(bytes).into(),
        "cbor" => note_of_cbor(bytes),
        "custom" => {
            let units = bytes
                .chunks(2)
                .map(|two| u16::from_be_bytes([two[0], two[1]]));
            String::from_utf16(&units.collect::<Vec<_>>())
                .unwrap()
                .into()
        }
        "protobuf" => String::decode(bytes.clone()).unwrap().into(),
        _ => payload.codec.to_json(bytes).unwrap(),
    }
}

/// `{"text":…,"number":…}` in CBOR.
fn note_of_cbor(bytes: &[u8]) -> Json {
    let mut decoder = minicbor::Decoder::new(bytes);
    let mut note = json!({});
    let len = decoder.map().unwrap();
    assert!(len.is_none_or(|len| len == 2));
    for _ in 0..2 {
        let name = decoder.str().unwrap().to_owned();
        note[&name] = match name.as_str() {
            "text" => decoder.str().unwrap().into(),
            _ => decoder.i64().unwrap().into(),
        };
    }
    note
}

fn cbor_of_note(note: &Json) -> Vec<u8> {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    let encoded = encoder
        .map(2)
        .and_then(|e| e.str("text"))
        .and_then(|e| e.str(note["text"].as_str().unwrap()))
        .and_then(|e| e.str("number"))
        .and_then(|e| e.i64(note["number"].as_i64().unwrap()));
    encoded.unwrap();
    encoder.into_writer()
}

/// The event for a line; `None` for an opaque type.
#[allow(dead_code, reason = "the golden fixtures are only read")]
pub(crate) fn event_of(kind: &str, value: &Json) -> NewEvent {
    let text = || value.as_str().unwrap().to_owned();
    let base64 = || BASE64.decode(text()).unwrap();
    let number = || value.as_i64().unwrap();
    let other = |name: &str, bytes: Vec<u8>| NewEvent::new(Codec::Other(name.to_owned()), bytes);
    let class = |name: &str| format!("interop.Events${name}");
    match kind {
        "string" => NewEvent::new(Codec::Text, text()),
        "bytes" => NewEvent::new(Codec::Bytes, base64()),
        "bytestring" => other("akka:21", base64()),
        "long" => other("long", number().to_le_bytes().to_vec()),
        "int" => other("int", (number() as i32).to_le_bytes().to_vec()),
        "boolean" => other("boolean", vec![u8::from(value.as_bool().unwrap())]),
        "json" => NewEvent::new(Codec::Json, value.to_string()).manifest(class("Json")),
        "versioned" => NewEvent::new(Codec::Json, value.to_string())
            .manifest(class("Versioned"))
            .schema(2)
            .metadata("adapter-manifest", "adapted"),
        "cbor" => NewEvent::new(Codec::Cbor, cbor_of_note(value)).manifest(class("Cbor")),
        "custom" => {
            let bytes = text().encode_utf16().flat_map(u16::to_be_bytes).collect();
            other("akka:70001", bytes).manifest("custom/1")
        }
        "protobuf" => NewEvent::new(Codec::Protobuf, text().encode_to_vec())
            .manifest("com.google.protobuf.StringValue"),
        _ => panic!("only the JVM writes {kind}"),
    }
}
