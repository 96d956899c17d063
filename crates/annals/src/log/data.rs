//! The payload of a record: the map that both tables store, and the data inside it.
//!
//! The original stores a whole Kinesis record with its data under `kinesis.data`: in base64 in the
//! buffer, and decoded in the slot if it is JSON. Records of other sources have the same shape, so
//! that both programs read them.
//!
//! Guarantees: data is decoded only if nothing is lost, and reads back the same. A JSON string stays
//! base64, so a string under `data` that we wrote is always base64. The original decodes JSON
//! strings too; one that happens to be valid base64 is ambiguous.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::Value as Json;

use crate::items::Value;

/// The members of a map.
pub(super) type Members = BTreeMap<String, Value>;

const KINESIS: &str = "kinesis";
const DATA: &str = "data";

/// The data of a record, decoded.
///
/// ```
/// use annals::log::{Data, RecordPayload};
///
/// let payload = RecordPayload::bytes(&[0, 255]);
/// assert_eq!(payload.data(), Data::Bytes(vec![0, 255].into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// JSON, with numbers rounded to 64 bits; [`RecordPayload::to_text`] keeps every digit.
    Json(Json),
    /// Anything else.
    Bytes(Bytes),
}

impl Data {
    fn from_bytes(bytes: Vec<u8>) -> Self {
        match serde_json::from_slice(&bytes) {
            Ok(json) => Self::Json(json),
            Err(_) => Self::Bytes(bytes.into()),
        }
    }
}

/// The payload of a record, as the tables store it under `record_payload`.
///
/// ```
/// use annals::log::{Data, RecordPayload};
/// use serde_json::json;
///
/// let payload = RecordPayload::json(&json!({"clap": 1}));
/// assert_eq!(payload.data(), Data::Json(json!({"clap": 1})));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPayload(Members);

impl RecordPayload {
    /// Any map, such as a whole Kinesis record.
    pub fn new(map: BTreeMap<String, Value>) -> Self {
        Self(map)
    }

    /// A JSON object, such as a whole Kinesis record; `None` if it is not an object, or a number is out
    /// of DynamoDB's range.
    pub fn from_object(json: Json) -> Option<Self> {
        match from_json(json)? {
            Value::M(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// Bytes, in the shape of a Kinesis record.
    pub fn bytes(bytes: &[u8]) -> Self {
        let data = BTreeMap::from([(DATA.to_owned(), Value::S(BASE64.encode(bytes)))]);
        Self(BTreeMap::from([(KINESIS.to_owned(), Value::M(data))]))
    }

    /// JSON, in the shape of a Kinesis record.
    pub fn json(json: &Json) -> Self {
        Self::bytes(json.to_string().as_bytes())
    }

    /// The map.
    pub fn as_map(&self) -> &BTreeMap<String, Value> {
        &self.0
    }

    /// The data, decoded; the whole map as JSON if it has no data.
    pub fn data(&self) -> Data {
        let bytes = self.bytes_of_data();
        Data::from_bytes(bytes.unwrap_or_else(|| self.to_json().into_bytes()))
    }

    /// The data as JSON text, with every digit and member as the source wrote it; `None` if it is not
    /// JSON.
    ///
    /// ```
    /// use annals::log::RecordPayload;
    ///
    /// let payload = RecordPayload::bytes(br#"{"wei":123456789012345678901}"#);
    /// assert_eq!(payload.to_text().as_deref(), Some(r#"{"wei":123456789012345678901}"#));
    /// assert_eq!(RecordPayload::bytes(&[0, 255]).to_text(), None);
    /// ```
    pub fn to_text(&self) -> Option<String> {
        match self.bytes_of_data() {
            Some(bytes) => json_text(bytes),
            None => Some(self.to_json()),
        }
    }

    /// The data as the source wrote it, if it is stored as bytes.
    fn bytes_of_data(&self) -> Option<Vec<u8>> {
        match inner(&self.0)? {
            Value::S(text) => BASE64.decode(text).ok(),
            Value::B(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    /// The data as JSON, or the whole map if it has no data.
    fn to_json(&self) -> String {
        let mut text = String::new();
        match inner(&self.0) {
            None => write_members(&self.0, &mut text),
            Some(data) => write_json(data, &mut text),
        }
        text
    }

    /// Whether two payloads have the same content, decoded or not.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }

    pub(super) fn into_value(self) -> Value {
        Value::M(self.0)
    }
}

/// JSON bytes as text on one line. JSON has line breaks only between tokens.
fn json_text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(&text).ok()?;
    Some(text.replace(['\n', '\r'], " "))
}

fn inner(payload: &Members) -> Option<&Value> {
    match payload.get(KINESIS) {
        Some(Value::M(kinesis)) => kinesis.get(DATA),
        _ => None,
    }
}

/// The same map with other data, or without data.
fn with_data(payload: &Members, data: Option<Value>) -> Members {
    let mut data = data.map(|data| (DATA.to_owned(), data));
    let mut copied = |(name, value): (&String, &Value)| match value {
        Value::M(kinesis) if name == KINESIS => {
            let rest = kinesis.iter().filter(|(name, _)| *name != DATA);
            let rest = rest.map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), Value::M(rest.chain(data.take()).collect()))
        }
        _ => (name.clone(), value.clone()),
    };
    payload.iter().map(&mut copied).collect()
}

/// The same map with its data decoded; `None` if it cannot be decoded without loss.
pub(super) fn decoded(payload: &Members) -> Option<Members> {
    let text = inner(payload)?.as_str()?;
    let bytes = BASE64.decode(text).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let json: Json = serde_json::from_str(text).ok()?;
    if json.is_string() || !is_lossless(text, &json) {
        return None;
    }
    Some(with_data(payload, Some(from_json(json)?)))
}

/// Whether two maps have the same content, decoded or not.
pub(super) fn is_same(one: &Members, other: &Members) -> bool {
    let in_full = |payload: &Members| decoded(payload).unwrap_or_else(|| payload.clone());
    // As attribute values `1.0` and `1` are the same number.
    if one == other || in_full(one) == in_full(other) {
        return true;
    }
    let have_data = inner(one).is_some() && inner(other).is_some();
    have_data && have_same_data(one, other) && with_data(one, None) == with_data(other, None)
}

/// Whether two maps have the same data. JSON that a parser would round is compared as text.
fn have_same_data(one: &Members, other: &Members) -> bool {
    let [one, other] = [one, other].map(|payload| RecordPayload(payload.clone()));
    let is_exact =
        |text: &str| serde_json::from_str(text).is_ok_and(|json| is_lossless(text, &json));
    match (one.to_text(), other.to_text()) {
        (Some(a), Some(b)) if is_exact(&a) && is_exact(&b) => one.data() == other.data(),
        (Some(a), Some(b)) => a == b,
        (None, None) => one.data() == other.data(),
        _ => false,
    }
}

/// Whether JSON loses nothing as attribute values: every number fits into 64 bits without rounding, and
/// no object repeats a name, of which a map keeps one.
fn is_lossless(text: &str, json: &Json) -> bool {
    // Strings are skipped. A quote starts or ends one unless it is escaped. Outside strings there is
    // one colon per member.
    let (mut is_outside, mut is_escaped) = (true, false);
    let (mut number, mut colons) = (None, 0);
    for (at, byte) in text.bytes().enumerate() {
        let is_quote = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        colons += usize::from(is_outside && byte == b':');
        let is_of_number = byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        match number {
            None if is_outside && is_of_number => number = Some(at),
            Some(from) if !is_of_number => {
                if !is_exact(text.get(from..at).unwrap_or_default()) {
                    return false;
                }
                number = None;
            }
            _ => {}
        }
        is_outside ^= is_quote;
    }
    colons == members(json)
        && number.is_none_or(|from| is_exact(text.get(from..).unwrap_or_default()))
}

/// The number of members of all objects.
fn members(json: &Json) -> usize {
    match json {
        Json::Array(list) => list.iter().map(members).sum(),
        Json::Object(map) => map.len() + map.values().map(members).sum::<usize>(),
        _ => 0,
    }
}

fn is_exact(number: &str) -> bool {
    const FLOAT_DIGITS_MAX: usize = 15;
    let is_whole = !number.contains(['.', 'e', 'E']);
    let digits = number.split(['e', 'E']).next().unwrap_or_default();
    let digits = digits.bytes().filter(u8::is_ascii_digit).count();
    match is_whole {
        true => digits == 0 || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok(),
        false => digits <= FLOAT_DIGITS_MAX,
    }
}

/// JSON as an attribute value; `None` if a number is out of DynamoDB's range.
fn from_json(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(truth),
        Json::String(text) => Value::S(text),
        Json::Number(number) => Value::N(number.to_string().parse().ok()?),
        Json::Array(members) => {
            let members = members.into_iter().map(from_json);
            Value::L(members.collect::<Option<_>>()?)
        }
        Json::Object(members) => {
            let members = members.into_iter();
            let members = members.map(|(name, member)| Some((name, from_json(member)?)));
            Value::M(members.collect::<Option<_>>()?)
        }
    })
}

/// Writes a value as JSON with every digit of its numbers. Bytes are base64, sets are lists.
fn write_json(value: &Value, text: &mut String) {
    let string = |text: &str| Json::from(text).to_string();
    let base64 = |bytes: &Bytes| string(&BASE64.encode(bytes));
    match value {
        Value::S(value) => text.push_str(&string(value)),
        Value::N(number) => text.push_str(&number.to_string()),
        Value::B(bytes) => text.push_str(&base64(bytes)),
        Value::Bool(value) => text.push_str(&value.to_string()),
        Value::Null => text.push_str("null"),
        Value::L(list) => {
            text.push('[');
            for (n, member) in list.iter().enumerate() {
                text.push_str(if n == 0 { "" } else { "," });
                write_json(member, text);
            }
            text.push(']');
        }
        Value::M(map) => write_members(map, text),
        Value::Ss(set) => write_list(set.iter().map(|value| string(value)), text),
        Value::Ns(set) => write_list(set.iter().map(ToString::to_string), text),
        Value::Bs(set) => write_list(set.iter().map(base64), text),
    }
}

fn write_list(members: impl Iterator<Item = String>, text: &mut String) {
    let members: Vec<String> = members.collect();
    text.push_str(&format!("[{}]", members.join(",")));
}

fn write_members(map: &Members, text: &mut String) {
    text.push('{');
    for (n, (name, member)) in map.iter().enumerate() {
        text.push_str(if n == 0 { "" } else { "," });
        text.push_str(&Json::from(name.as_str()).to_string());
        text.push(':');
        write_json(member, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn in_full(payload: &RecordPayload) -> Option<RecordPayload> {
        decoded(&payload.0).map(RecordPayload)
    }

    #[track_caller]
    fn check(text: &str, is_decoded: bool) {
        let payload = RecordPayload::bytes(text.as_bytes());
        let decoded = in_full(&payload);
        assert_eq!(decoded.is_some(), is_decoded, "{text}");
        let kept = decoded.unwrap_or_else(|| payload.clone());
        assert_eq!(kept.data(), payload.data(), "{text}");
        assert!(kept.is_same(&payload) && payload.is_same(&kept), "{text}");
    }

    #[test]
    fn data_is_decoded_only_without_loss() {
        check(
            r#"{"a":[1,-2,2.5,true,null,"x\"9999999999999999999999"]}"#,
            true,
        );
        check("[]", true);
        check("18446744073709551615", true);
        check("-9223372036854775808", true);
        check("0.1", true);
        // Out of range of the parser, or of DynamoDB.
        check("18446744073709551616", false);
        check("[0.12345678901234567]", false);
        check("1e200", false);
        // A map keeps one member of each name.
        check(r#"{"d":1,"d":2}"#, false);
        check(r#"[{"a":{"d":1,"e":[1.5,-1,null,"x",true],"d":2}}]"#, false);
        check(r#"{"d":{"d":1}}"#, true);
        // Not JSON, or a string, which would be read as base64.
        check("\"abcd\"", false);
        check("not JSON", false);
        check("", false);
        assert_eq!(in_full(&RecordPayload::bytes(&[0xff, 0])), None);
    }

    #[test]
    fn text_keeps_every_digit_and_member() {
        for text in [
            r#"{"wei":123456789012345678901,"d":1,"d":2}"#,
            "0.12345678901234567",
            r#"{"b":1,"a":[1.0,"x\"",null]}"#,
        ] {
            let payload = RecordPayload::bytes(text.as_bytes());
            assert_eq!(payload.to_text().as_deref(), Some(text));
        }
        // As the original stores it, which decodes everything.
        let wei = Value::N("123456789012345678901".parse().unwrap());
        let data = Value::M(BTreeMap::from([("wei".to_owned(), Value::L(vec![wei]))]));
        let payload = with_data(&RecordPayload::bytes(b"").0, Some(data));
        let text = RecordPayload(payload).to_text();
        assert_eq!(text.as_deref(), Some(r#"{"wei":[123456789012345678901]}"#));
        assert_eq!(RecordPayload::bytes(b"not JSON").to_text(), None);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let plain = RecordPayload::bytes(b"[1.0,1e3,-0]");
        let decoded = in_full(&plain).unwrap();
        assert!(plain.is_same(&decoded) && decoded.is_same(&plain));
        assert!(plain.is_same(&RecordPayload::bytes(b"[1,1000,0]")));
        assert!(!plain.is_same(&RecordPayload::bytes(b"[1,1000,2]")));
        // One digit apart; equal after a parser has rounded them.
        let wei = |last: u8| RecordPayload::bytes(format!("12345678901234567890{last}").as_bytes());
        assert!(wei(1).is_same(&wei(1)) && !wei(1).is_same(&wei(2)));
        assert_eq!(decoded.data(), Data::Json(json!([1, 1000, 0])));
    }

    #[test]
    fn data_decoded_by_the_original_is_read() {
        let text = |text: &str| {
            let data = BTreeMap::from([(DATA.to_owned(), Value::from(text))]);
            RecordPayload::new(BTreeMap::from([(KINESIS.to_owned(), Value::M(data))]))
        };
        assert_eq!(text("hello!").data(), Data::Json(json!("hello!")));
        assert!(text("hello!").is_same(&RecordPayload::json(&json!("hello!"))));
        assert!(!text("hello!").is_same(&RecordPayload::json(&json!("hello?"))));
        assert_eq!(text("AP8=").data(), Data::Bytes(vec![0, 255].into()));
    }

    #[test]
    fn a_map_without_data_is_returned_whole() {
        let map = BTreeMap::from([("a".to_owned(), Value::B(vec![0, 255].into()))]);
        let payload = RecordPayload::new(map);
        assert_eq!(payload.data(), Data::Json(json!({"a": "AP8="})));
        assert_eq!(in_full(&payload), None);
        assert!(!payload.is_same(&RecordPayload::json(&json!({"a": "AP8="}))));
    }

    #[test]
    fn members_beside_the_data_are_compared() {
        let with = |key: &str| {
            let mut payload = RecordPayload::json(&json!({"a": 1}));
            payload.0.insert("key".to_owned(), Value::from(key));
            payload
        };
        assert!(with("a").is_same(&in_full(&with("a")).unwrap()));
        assert!(!with("a").is_same(&in_full(&with("b")).unwrap()));
    }
}
