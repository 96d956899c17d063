//! Stored events on the wire: as a JSON line, and as CBOR.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write as _;

use annals::Event;
use minicbor::Encoder;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Count, Number, Version, to_wire};
// Schemas name it.
use serde_json::Value as Json;

/// A stored event.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event", deny_unknown_fields)]
pub(crate) struct StoredEvent<'a> {
    persistence_id: &'a str,
    sequence_number: Number,
    time: Count,
    manifest: &'a str,
    tags: &'a [String],
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Version")]
    schema: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    causation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    correlation: Option<&'a str>,
    codec: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    payload: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    payload_base64: Option<String>,
}

impl<'a> StoredEvent<'a> {
    pub(crate) fn new(event: &'a Event) -> Self {
        let data = &event.data;
        let (payload, payload_base64) = to_wire(&data.codec, &data.payload);
        Self {
            persistence_id: event.persistence_id.as_str(),
            sequence_number: event.sequence_number.into(),
            time: Count(event.time_ms),
            manifest: &data.manifest,
            tags: &data.tags,
            metadata: &data.metadata,
            schema: Version::new(data.schema),
            causation: event.causation.as_deref(),
            correlation: event.correlation.as_deref(),
            codec: data.codec.name(),
            payload,
            payload_base64,
        }
    }
}

/// Appends the line of an event, with its end: the text that its [`StoredEvent`] becomes, written
/// without a serializer.
pub(crate) fn push_line(event: &Event, out: &mut Vec<u8>) {
    let data = &event.data;
    out.extend_from_slice(b"{\"persistence_id\":");
    push_text(out, event.persistence_id.as_str());
    push_number(out, b",\"sequence_number\":", event.sequence_number.get());
    push_number(out, b",\"time\":", event.time_ms);
    out.extend_from_slice(b",\"manifest\":");
    push_text(out, &data.manifest);
    match data.tags.is_empty() {
        true => out.extend_from_slice(b",\"tags\":[]"),
        false => push_json(out, b",\"tags\":", &data.tags),
    }
    match data.metadata.is_empty() {
        true => out.extend_from_slice(b",\"metadata\":{}"),
        false => push_json(out, b",\"metadata\":", &data.metadata),
    }
    if data.schema > 0 {
        push_number(out, b",\"schema\":", data.schema.into());
    }
    if let Some(causation) = &event.causation {
        push_json(out, b",\"causation\":", &**causation);
    }
    if let Some(correlation) = &event.correlation {
        push_json(out, b",\"correlation\":", &**correlation);
    }
    out.extend_from_slice(b",\"codec\":");
    push_text(out, data.codec.name());
    match to_wire(&data.codec, &data.payload) {
        (Some(raw), _) => {
            out.extend_from_slice(b",\"payload\":");
            out.extend_from_slice(raw.get().as_bytes());
        }
        (None, base64) => {
            out.extend_from_slice(b",\"payload_base64\":");
            push_text(out, &base64.unwrap_or_default());
        }
    }
    out.extend_from_slice(b"}\n");
}

/// A text, of which nearly all have nothing to escape.
fn push_text(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        push_json(out, b"", text);
    }
}

fn push_number(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    // Writing to memory cannot fail.
    let _ = write!(out, "{number}");
}

fn push_json(out: &mut Vec<u8>, name: &[u8], value: &(impl Serialize + ?Sized)) {
    out.extend_from_slice(name);
    let written = serde_json::to_writer(out, value);
    // Text, and maps and lists of it, always become JSON.
    debug_assert!(written.is_ok());
}

/// Appends an event as CBOR: a map with the members of the line, but the payload as it is stored, a byte
/// string.
pub(crate) fn push_cbor(event: &Event, out: &mut Vec<u8>) {
    let written = write_cbor(event, &mut Encoder::new(out));
    // Writing to memory cannot fail.
    debug_assert!(written.is_ok());
}

fn write_cbor(
    event: &Event,
    out: &mut Encoder<&mut Vec<u8>>,
) -> Result<(), minicbor::encode::Error<Infallible>> {
    /// Members that every event has.
    const ALWAYS: u64 = 8;
    let data = &event.data;
    let causes = [
        ("causation", event.causation.as_deref()),
        ("correlation", event.correlation.as_deref()),
    ];
    let causes = causes
        .into_iter()
        .filter_map(|(name, id)| Some((name, id?)));
    let optional = causes.clone().count() as u64 + u64::from(data.schema > 0);
    out.map(ALWAYS + optional)?;
    out.str("persistence_id")?
        .str(event.persistence_id.as_str())?;
    out.str("sequence_number")?
        .u64(event.sequence_number.get())?;
    out.str("time")?.u64(event.time_ms)?;
    out.str("manifest")?.str(&data.manifest)?;
    out.str("tags")?.array(data.tags.len() as u64)?;
    data.tags.iter().try_for_each(|tag| out.str(tag)?.ok())?;
    out.str("metadata")?.map(data.metadata.len() as u64)?;
    for (name, value) in &data.metadata {
        out.str(name)?.str(value)?;
    }
    if data.schema > 0 {
        out.str("schema")?.u32(data.schema)?;
    }
    for (name, id) in causes {
        out.str(name)?.str(id)?;
    }
    out.str("codec")?.str(data.codec.name())?;
    out.str("payload")?.bytes(&data.payload)?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals::{Codec, NewEvent, PersistenceId, SequenceNumber, Token};

    fn event(data: NewEvent) -> Event {
        let id: PersistenceId = "Cart|4\"2".parse().unwrap();
        let mut event = Event::new(id, SequenceNumber::FIRST, Token::from_bytes([0; 8]), data);
        event.time_ms = 1_700_000_000_000;
        event
    }

    fn line(event: &Event) -> String {
        let mut out = Vec::new();
        push_line(event, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_have_all_members_in_order() {
        let plain = event(NewEvent::new(Codec::Json, "{\"n\": 1.0}"));
        let before = r#"{"persistence_id":"Cart|4\"2","sequence_number":1,"time":1700000000000"#;
        let want = r#","manifest":"","tags":[],"metadata":{},"codec":"json","payload":{"n": 1.0}}"#;
        assert_eq!(line(&plain), format!("{before}{want}\n"));

        let data = NewEvent::new(Codec::Protobuf, vec![0, 255])
            .manifest("M\n")
            .schema(2);
        let mut full = event(data.tag("t").metadata("a", "b"));
        full.causation = Some("why".into());
        full.correlation = Some("what".into());
        let want = r#","manifest":"M\n","tags":["t"],"metadata":{"a":"b"},"schema":2,"causation":"why","correlation":"what","codec":"protobuf","payload_base64":"AP8="}"#;
        assert_eq!(line(&full), format!("{before}{want}\n"));
    }

    #[test]
    fn a_line_is_the_wire_type_as_json() {
        let texts = [
            "",
            "plain",
            "é𐐷",
            "a\"b",
            "a\\b",
            "\u{0}\u{1f}\u{7f}\t\r\n",
            "\u{2028}",
        ];
        for (n, text) in texts.into_iter().enumerate() {
            for codec in [
                Codec::Json,
                Codec::Text,
                Codec::Bytes,
                Codec::Other(text.to_owned()),
            ] {
                let mut data = NewEvent::new(codec, text.to_owned()).manifest(text);
                if n % 2 == 0 {
                    data = data
                        .schema(u32::MAX)
                        .tag(text)
                        .tag("b")
                        .metadata(text, text);
                }
                let mut event = event(data);
                event.persistence_id = format!("id{text}").parse().unwrap();
                event.sequence_number = SequenceNumber::LAST;
                event.causation = (n > 2).then(|| text.into());
                event.correlation = (n > 3).then(|| text.into());
                let want = serde_json::to_string(&StoredEvent::new(&event)).unwrap();
                assert_eq!(line(&event), want + "\n");
            }
        }
    }

    #[test]
    fn payloads_never_end_a_line() {
        let around = "x".repeat(100);
        for (payload, shown) in [
            ("\n{\"a\":\r\n1}\n".to_owned(), "{\"a\":  1}".to_owned()),
            (format!("[\"{around}\",\n1]"), format!("[\"{around}\", 1]")),
            ("\"a\\nb\"".to_owned(), "\"a\\nb\"".to_owned()),
        ] {
            let line = line(&event(NewEvent::new(Codec::Json, payload)));
            assert!(
                line.ends_with(&format!("\"payload\":{shown}}}\n")),
                "{line}"
            );
            assert_eq!(line.matches(['\n', '\r']).count(), 1);
        }
        let line = line(&event(NewEvent::new(Codec::Json, "{")));
        assert!(line.ends_with("\"payload_base64\":\"ew==\"}\n"), "{line}");
    }

    /// CBOR as JSON: byte strings become `{"bytes": […]}`.
    fn as_json(input: &mut minicbor::Decoder<'_>) -> Json {
        use minicbor::data::Type;
        match input.datatype().unwrap() {
            Type::String => input.str().unwrap().into(),
            Type::Bytes => serde_json::json!({"bytes": input.bytes().unwrap()}),
            Type::Array => {
                let members = input.array().unwrap().unwrap();
                (0..members).map(|_| as_json(input)).collect()
            }
            Type::Map => {
                let members = input.map().unwrap().unwrap();
                let members = (0..members).map(|_| {
                    let name = input.str().unwrap().to_owned();
                    (name, as_json(input))
                });
                Json::Object(members.collect())
            }
            _ => input.u64().unwrap().into(),
        }
    }

    #[test]
    fn cbor_has_the_members_of_the_line_and_the_payload_as_stored() {
        let data = NewEvent::new(Codec::Json, "{\n}")
            .manifest("M")
            .schema(70_000);
        let mut full = event(data.tag("t").metadata("a", "b"));
        full.causation = Some("why".into());
        full.correlation = Some("what".into());
        let events = [event(NewEvent::new(Codec::Bytes, vec![])), full];
        let mut out = Vec::new();
        events.iter().for_each(|event| push_cbor(event, &mut out));
        let mut input = minicbor::Decoder::new(&out);
        for event in &events {
            let mut want: Json = serde_json::from_str(&line(event)).unwrap();
            let members = want.as_object_mut().unwrap();
            members.remove("payload_base64");
            let payload = serde_json::json!({"bytes": event.data.payload.to_vec()});
            members.insert("payload".to_owned(), payload);
            // Also their order.
            assert_eq!(as_json(&mut input).to_string(), want.to_string());
        }
        assert_eq!(input.position(), out.len());
    }
}
