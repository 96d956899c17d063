//! The schemas of bodies with a payload, whose members depend on the codec.

use schemars::{Schema, json_schema};
use serde_json::{Value as Json, json};

/// Base64 as it is accepted: padded, without bits that mean nothing.
const BASE64_PATTERN: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// A codec without values; with the prefix, one of the application's own.
const CODEC_PATTERN: &str = r"^(bytes|cbor|protobuf|akka:(0|-?[1-9][0-9]{0,8})|other:[^\n]+)$";

/// The schema of a body with a payload: a shape for each codec that has values, and one for base64.
pub(super) fn payload_shapes(schema: &mut Schema) {
    let Some(Json::Object(properties)) = schema.remove("properties") else {
        return;
    };
    let description = schema.remove("description");
    let range = |min: i64, max: i64| json!({"type": "integer", "minimum": min, "maximum": max});
    let values = [
        ("json", json!(true)),
        ("text", json!({"type": "string"})),
        ("long", range(i64::MIN, i64::MAX)),
        ("int", range(i32::MIN.into(), i32::MAX.into())),
        ("boolean", json!({"type": "boolean"})),
    ];
    let shape = |members: [(&str, Json); 2], required: &[&str]| {
        let mut properties = properties.clone();
        properties.retain(|name, _| !["payload", "payload_base64", "codec"].contains(&&**name));
        properties.extend(members.map(|(name, value)| (name.to_owned(), value)));
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
    };
    let mut shapes: Vec<Json> = values
        .into_iter()
        .map(|(codec, payload)| {
            let named = json!({"type": "string", "enum": [codec]});
            let required: &[&str] = match codec {
                "json" => &["payload"],
                _ => &["payload", "codec"],
            };
            shape([("payload", payload), ("codec", named)], required)
        })
        .collect();
    let base64 = json!({"type": "string", "pattern": BASE64_PATTERN});
    let codec =
        json!({"type": "string", "pattern": CODEC_PATTERN, "description": "bytes if left out"});
    let members = [("payload_base64", base64), ("codec", codec)];
    shapes.push(shape(members, &["payload_base64"]));
    *schema = json_schema!({"anyOf": shapes});
    if let Some(description) = description {
        schema.insert("description".to_owned(), description);
    }
}
