//! What a record carries: the map that both tables keep, and the data inside of it.
//!
//! The original keeps a whole Kinesis record, whose data stands under `kinesis`, `data`: base64 in
//! the buffer, and in its slot the JSON it stands for where it is JSON. Records of other sources
//! have that shape too, so that either side reads them.
//!
//! Promises: data is decoded only where nothing is lost, and read back the same. A JSON text stays
//! base64, so that a text under `data` is base64 in whatever was written here. The original decodes
//! JSON texts as well: one that happens to be base64 cannot be told from base64.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::items::{Number, Value};

/// What a map has.
pub(super) type Members = BTreeMap<String, Value>;

const KINESIS: &str = "kinesis";
const DATA: &str = "data";

/// What a source says happened.
///
/// ```
/// use annals::log::{Data, RecordPayload};
///
/// let payload = RecordPayload::bytes(&[0, 255]);
/// assert_eq!(payload.data(), Data::Bytes(vec![0, 255].into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// It is JSON, with numbers as far as a parser keeps them; [`RecordPayload::to_text`] has every
    /// digit.
    Json(Json),
    /// It is not.
    Bytes(Bytes),
}

impl Data {
    /// Bytes as they came: JSON where they are.
    fn of(bytes: Vec<u8>) -> Self {
        match serde_json::from_slice(&bytes) {
            Ok(json) => Self::Json(json),
            Err(_) => Self::Bytes(bytes.into()),
        }
    }
}

/// The map of a record, as the tables keep it under `record_payload`.
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
    /// A map of one's own, such as a whole Kinesis record.
    pub fn new(map: BTreeMap<String, Value>) -> Self {
        Self(map)
    }

    /// Bytes, in the shape that a Kinesis record has them.
    pub fn bytes(bytes: &[u8]) -> Self {
        let data = BTreeMap::from([(DATA.to_owned(), Value::S(BASE64.encode(bytes)))]);
        Self(BTreeMap::from([(KINESIS.to_owned(), Value::M(data))]))
    }

    /// JSON, in the shape that a Kinesis record has it.
    pub fn json(json: &Json) -> Self {
        Self::bytes(json.to_string().as_bytes())
    }

    /// The map.
    pub fn as_map(&self) -> &BTreeMap<String, Value> {
        &self.0
    }

    /// What the source says happened: the data, decoded, or the whole map as JSON where it has
    /// none.
    pub fn data(&self) -> Data {
        match inner(&self.0) {
            None => Data::Json(members_to_json(&self.0)),
            Some(Value::S(text)) => match BASE64.decode(text) {
                Ok(bytes) => Data::of(bytes),
                Err(_) => Data::Json(Json::from(text.as_str())),
            },
            Some(Value::B(bytes)) => Data::of(bytes.to_vec()),
            Some(other) => Data::Json(to_json(other)),
        }
    }

    /// What the source says happened as the text of JSON, with every digit and member that it came
    /// with; `None` where it is not JSON.
    ///
    /// ```
    /// use annals::log::RecordPayload;
    ///
    /// let payload = RecordPayload::bytes(br#"{"wei":123456789012345678901}"#);
    /// assert_eq!(payload.to_text().as_deref(), Some(r#"{"wei":123456789012345678901}"#));
    /// assert_eq!(RecordPayload::bytes(&[0, 255]).to_text(), None);
    /// ```
    pub fn to_text(&self) -> Option<String> {
        let mut text = String::new();
        match inner(&self.0) {
            None => write_members(&self.0, &mut text),
            Some(Value::S(data)) => match BASE64.decode(data) {
                Ok(bytes) => return json_text(bytes),
                Err(_) => text.push_str(&Json::from(data.as_str()).to_string()),
            },
            Some(Value::B(bytes)) => return json_text(bytes.to_vec()),
            Some(other) => write_json(other, &mut text),
        }
        Some(text)
    }

    /// Whether two say the same, one decoded and the other perhaps not.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }

    pub(super) fn into_value(self) -> Value {
        Value::M(self.0)
    }
}

/// The text of bytes that are JSON, on one line: only between its tokens can JSON have ends of lines.
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

/// The same map with other data, or with none.
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

/// The same map with its data as JSON; `None` where it stays as it is.
pub(super) fn decoded(payload: &Members) -> Option<Members> {
    let text = inner(payload)?.as_str()?;
    let bytes = BASE64.decode(text).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let json = serde_json::from_str(text).ok();
    let json = json.filter(|json: &Json| {
        !json.is_string() && has_exact_numbers(text) && has_each_name_once(text)
    })?;
    Some(with_data(payload, Some(from_json(json)?)))
}

/// Whether two maps say the same, one decoded and the other perhaps not.
pub(super) fn is_same(one: &Members, other: &Members) -> bool {
    let in_full = |payload: &Members| decoded(payload).unwrap_or_else(|| payload.clone());
    // As attribute values, since there `1.0` and `1` are one number.
    if one == other || in_full(one) == in_full(other) {
        return true;
    }
    let have_data = inner(one).is_some() && inner(other).is_some();
    have_data && have_same_data(one, other) && with_data(one, None) == with_data(other, None)
}

/// Whether the data of two says the same, of what a parser may have rounded digit by digit.
fn have_same_data(one: &Members, other: &Members) -> bool {
    let [one, other] = [one, other].map(|payload| RecordPayload(payload.clone()));
    let is_exact = |text: &String| has_exact_numbers(text) && has_each_name_once(text);
    match (one.to_text(), other.to_text()) {
        (Some(a), Some(b)) if is_exact(&a) && is_exact(&b) => one.data() == other.data(),
        (Some(a), Some(b)) => a == b,
        (None, None) => one.data() == other.data(),
        _ => false,
    }
}

/// Whether no object of this JSON has two members of one name, of which a map keeps one.
fn has_each_name_once(json: &str) -> bool {
    serde_json::from_str::<EachOnce>(json).is_ok()
}

/// JSON whose objects have each name once, and nothing else of it.
struct EachOnce;

impl<'de> Deserialize<'de> for EachOnce {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for EachOnce {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON whose objects have each name once")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self, E> {
        Ok(self)
    }
    fn visit_bool<E>(self, _: bool) -> std::result::Result<Self, E> {
        Ok(self)
    }
    fn visit_u64<E>(self, _: u64) -> std::result::Result<Self, E> {
        Ok(self)
    }
    fn visit_i64<E>(self, _: i64) -> std::result::Result<Self, E> {
        Ok(self)
    }
    fn visit_f64<E>(self, _: f64) -> std::result::Result<Self, E> {
        Ok(self)
    }
    fn visit_str<E>(self, _: &str) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, _)) = map.next_entry::<String, Self>()? {
            if !names.insert(name) {
                return Err(serde::de::Error::custom("a name twice"));
            }
        }
        Ok(self)
    }
}

/// Whether a parser that keeps numbers of 64 bits loses nothing of this JSON.
fn has_exact_numbers(json: &str) -> bool {
    // Texts are passed over: a quote that no odd backslash precedes begins or ends one.
    let (mut is_outside, mut is_escaped) = (true, false);
    let mut number = None;
    for (at, byte) in json.bytes().enumerate() {
        let is_quote = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        let is_of_number = byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        match number {
            None if is_outside && is_of_number => number = Some(at),
            Some(from) if !is_of_number => {
                if !is_exact(json.get(from..at).unwrap_or_default()) {
                    return false;
                }
                number = None;
            }
            _ => {}
        }
        is_outside ^= is_quote;
    }
    number.is_none_or(|from| is_exact(json.get(from..).unwrap_or_default()))
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

/// The value that JSON stands for; `None` where DynamoDB has no such number.
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
            let members = members
                .into_iter()
                .map(|(name, member)| Some((name, from_json(member)?)));
            Value::M(members.collect::<Option<_>>()?)
        }
    })
}

fn number_to_json(number: &Number) -> Json {
    let text = number.to_string();
    serde_json::from_str(&text).unwrap_or(Json::String(text))
}

/// What JSON can say of a value: bytes are base64, sets are lists.
fn to_json(value: &Value) -> Json {
    match value {
        Value::S(text) => Json::from(text.as_str()),
        Value::N(number) => number_to_json(number),
        Value::B(bytes) => Json::from(BASE64.encode(bytes)),
        Value::Bool(truth) => Json::from(*truth),
        Value::Null => Json::Null,
        Value::L(list) => list.iter().map(to_json).collect(),
        Value::M(map) => members_to_json(map),
        Value::Ss(set) => set.iter().map(|text| Json::from(text.as_str())).collect(),
        Value::Ns(set) => set.iter().map(number_to_json).collect(),
        Value::Bs(set) => set.iter().map(|bytes| BASE64.encode(bytes)).collect(),
    }
}

fn members_to_json(map: &BTreeMap<String, Value>) -> Json {
    let members = map
        .iter()
        .map(|(name, value)| (name.clone(), to_json(value)));
    Json::Object(members.collect())
}

/// The same as text, with every digit of a number.
fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::N(number) => text.push_str(&number.to_string()),
        Value::Ns(set) => {
            let numbers: Vec<String> = set.iter().map(ToString::to_string).collect();
            text.push_str(&format!("[{}]", numbers.join(",")));
        }
        Value::L(list) => {
            text.push('[');
            for (n, member) in list.iter().enumerate() {
                text.push_str(if n == 0 { "" } else { "," });
                write_json(member, text);
            }
            text.push(']');
        }
        Value::M(map) => write_members(map, text),
        other => text.push_str(&to_json(other).to_string()),
    }
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
    fn data_is_decoded_where_nothing_is_lost() {
        check(
            r#"{"a":[1,-2,2.5,true,null,"x\"9999999999999999999999"]}"#,
            true,
        );
        check("[]", true);
        check("18446744073709551615", true);
        check("-9223372036854775808", true);
        check("0.1", true);
        // Larger than the parser keeps, or than DynamoDB does.
        check("18446744073709551616", false);
        check("[0.12345678901234567]", false);
        check("1e200", false);
        // Of two members of one name a map keeps one.
        check(r#"{"d":1,"d":2}"#, false);
        check(r#"[{"a":{"d":1,"e":[1.5,-1,null,"x",true],"d":2}}]"#, false);
        check(r#"{"d":{"d":1}}"#, true);
        // Not JSON, or a text, which would be taken for base64.
        check("\"abcd\"", false);
        check("not JSON", false);
        check("", false);
        assert_eq!(in_full(&RecordPayload::bytes(&[0xff, 0])), None);
    }

    #[test]
    fn the_text_has_every_digit_and_member() {
        for text in [
            r#"{"wei":123456789012345678901,"d":1,"d":2}"#,
            "0.12345678901234567",
            r#"{"b":1,"a":[1.0,"x\"",null]}"#,
        ] {
            let payload = RecordPayload::bytes(text.as_bytes());
            assert_eq!(payload.to_text().as_deref(), Some(text));
        }
        // As the original stores it, which decodes all there is.
        let wei = Value::N("123456789012345678901".parse().unwrap());
        let data = Value::M(BTreeMap::from([("wei".to_owned(), Value::L(vec![wei]))]));
        let payload = with_data(&RecordPayload::bytes(b"").0, Some(data));
        let text = RecordPayload(payload).to_text();
        assert_eq!(text.as_deref(), Some(r#"{"wei":[123456789012345678901]}"#));
        assert_eq!(RecordPayload::bytes(b"not JSON").to_text(), None);
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        let plain = RecordPayload::bytes(b"[1.0,1e3,-0]");
        let decoded = in_full(&plain).unwrap();
        assert!(plain.is_same(&decoded) && decoded.is_same(&plain));
        assert!(plain.is_same(&RecordPayload::bytes(b"[1,1000,0]")));
        assert!(!plain.is_same(&RecordPayload::bytes(b"[1,1000,2]")));
        // One digit apart, and the same to a parser.
        let wei = |last: u8| RecordPayload::bytes(format!("12345678901234567890{last}").as_bytes());
        assert!(wei(1).is_same(&wei(1)) && !wei(1).is_same(&wei(2)));
        assert_eq!(decoded.data(), Data::Json(json!([1, 1000, 0])));
    }

    #[test]
    fn what_the_original_decoded_is_read() {
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
    fn a_map_without_data_is_shown_whole() {
        let map = BTreeMap::from([("a".to_owned(), Value::B(vec![0, 255].into()))]);
        let payload = RecordPayload::new(map);
        assert_eq!(payload.data(), Data::Json(json!({"a": "AP8="})));
        assert_eq!(in_full(&payload), None);
        assert!(!payload.is_same(&RecordPayload::json(&json!({"a": "AP8="}))));
    }

    #[test]
    fn what_stands_around_the_data_counts() {
        let with = |key: &str| {
            let mut payload = RecordPayload::json(&json!({"a": 1}));
            payload.0.insert("key".to_owned(), Value::from(key));
            payload
        };
        assert!(with("a").is_same(&in_full(&with("a")).unwrap()));
        assert!(!with("a").is_same(&in_full(&with("b")).unwrap()));
    }
}
