//! Items as DynamoDB JSON, the format of its API, its console and its export to S3.
//!
//! Guarantees: an item reads back unchanged. Errors name the attribute and the reason.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Map, Value as Json};

use super::{Item, Number, Value};
use crate::{Error, Result};

/// An item as a JSON object of typed values, `{"id":{"S":"cart-1"},"n":{"N":"1"}}`.
///
/// ```
/// use annals::items::{Item, item_from_json, item_to_json};
///
/// let item = Item::new().with("id", "cart-1").with("n", 1u64);
/// let json = item_to_json(&item);
/// assert_eq!(json.to_string(), r#"{"id":{"S":"cart-1"},"n":{"N":"1"}}"#);
/// assert_eq!(item_from_json(&json)?, item);
/// # Ok::<(), annals::Error>(())
/// ```
pub fn item_to_json(item: &Item) -> Json {
    let attributes = item
        .iter()
        .map(|(name, value)| (name.to_owned(), value_to_json(value)));
    Json::Object(attributes.collect())
}

/// A value with its type, `{"S":"cart-1"}`.
///
/// ```
/// use annals::items::{Value, value_from_json, value_to_json};
///
/// let json = value_to_json(&Value::from(7u64));
/// assert_eq!(json.to_string(), r#"{"N":"7"}"#);
/// assert_eq!(value_from_json(&json)?, Value::from(7u64));
/// # Ok::<(), annals::Error>(())
/// ```
pub fn value_to_json(value: &Value) -> Json {
    let number = |n: &Number| Json::String(n.to_string());
    let bytes = |b: &Bytes| Json::String(BASE64.encode(b));
    let inner = match value {
        Value::S(text) => Json::String(text.clone()),
        Value::N(n) => number(n),
        Value::B(b) => bytes(b),
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Null => Json::Bool(true),
        Value::L(list) => list.iter().map(value_to_json).collect(),
        Value::M(map) => {
            let members = map.iter().map(|(name, v)| (name.clone(), value_to_json(v)));
            Json::Object(members.collect())
        }
        Value::Ss(set) => set.iter().cloned().map(Json::String).collect(),
        Value::Ns(set) => set.iter().map(number).collect(),
        Value::Bs(set) => set.iter().map(bytes).collect(),
    };
    Json::Object(Map::from_iter([(value.type_name().to_owned(), inner)]))
}

/// Parses an item from a JSON object of typed values.
///
/// # Errors
/// `Invalid`, naming the attribute that does not parse.
pub fn item_from_json(json: &Json) -> Result<Item> {
    let attributes = json.as_object().ok_or_else(|| {
        Error::invalid("an item is a JSON object of typed attributes, like {\"id\":{\"S\":\"a\"}}")
    })?;
    let parsed = attributes.iter().map(|(name, typed)| {
        let value = value_from_json(typed).map_err(|problem| {
            Error::invalid("attribute is not DynamoDB JSON")
                .fact("attribute", name)
                .because(problem)
        });
        Ok((name.clone(), value?))
    });
    parsed.collect()
}

/// Parses a value with its type.
///
/// # Errors
/// `Invalid` if it does not parse.
pub fn value_from_json(typed: &Json) -> Result<Value> {
    let object = typed.as_object().filter(|object| object.len() == 1);
    let Some((kind, inner)) = object.and_then(|object| object.iter().next()) else {
        return Err(Error::invalid(
            "a value is an object of one type and its value, like {\"S\":\"a\"}",
        ));
    };
    let wrong = || Error::invalid("value does not fit its type").fact("type", kind);
    Ok(match kind.as_str() {
        "S" => Value::S(text(inner)?.to_owned()),
        "N" => Value::N(text(inner)?.parse()?),
        "B" => Value::B(bytes(inner)?),
        "BOOL" => Value::Bool(inner.as_bool().ok_or_else(wrong)?),
        "NULL" => {
            inner
                .as_bool()
                .filter(|is_null| *is_null)
                .ok_or_else(wrong)?;
            Value::Null
        }
        "L" => {
            let members = inner.as_array().ok_or_else(wrong)?;
            Value::L(members.iter().map(value_from_json).collect::<Result<_>>()?)
        }
        "M" => Value::M(item_from_json(inner)?.into_iter().collect()),
        "SS" => Value::Ss(set(inner, |m| text(m).map(str::to_owned))?),
        "NS" => Value::Ns(set(inner, |m| text(m)?.parse())?),
        "BS" => Value::Bs(set(inner, bytes)?),
        _ => {
            return Err(Error::invalid(
                "unknown type; use S, N, B, BOOL, NULL, L, M, SS, NS or BS",
            )
            .fact("type", kind));
        }
    })
}

fn text(json: &Json) -> Result<&str> {
    json.as_str()
        .ok_or_else(|| Error::invalid("value is not a JSON string"))
}

fn bytes(json: &Json) -> Result<Bytes> {
    let decoded = BASE64.decode(text(json)?);
    decoded
        .map(Bytes::from)
        .map_err(|e| Error::invalid("bytes are not base64").because(e))
}

fn set<T: Ord>(json: &Json, member: impl Fn(&Json) -> Result<T>) -> Result<BTreeSet<T>> {
    let members = json
        .as_array()
        .ok_or_else(|| Error::invalid("a set is a JSON array"))?;
    let set = members
        .iter()
        .map(member)
        .collect::<Result<BTreeSet<T>>>()?;
    if set.is_empty() || set.len() != members.len() {
        return Err(Error::invalid(
            "a set has at least one member, and each once",
        ));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_same(text: &str) {
        let json: Json = serde_json::from_str(text).unwrap();
        let item = item_from_json(&json).unwrap();
        assert_eq!(item_to_json(&item).to_string(), text);
    }

    #[track_caller]
    fn check_refused(text: &str, want: &str) {
        let json: Json = serde_json::from_str(text).unwrap();
        let error = item_from_json(&json).unwrap_err();
        let chain = format!("{error:?}");
        assert!(chain.contains(want), "{chain}");
    }

    #[test]
    fn every_type_reads_back_unchanged() {
        check_same(r#"{"a":{"S":"é\n"},"b":{"N":"-1.5"},"c":{"B":"AAH/"},"d":{"BOOL":false}}"#);
        check_same(
            r#"{"a":{"NULL":true},"b":{"L":[{"S":""},{"L":[]}]},"c":{"M":{"x":{"N":"0"}}}}"#,
        );
        check_same(r#"{"a":{"SS":["a","b"]},"b":{"NS":["-1","2"]},"c":{"BS":["AA==","AQ=="]}}"#);
    }

    #[test]
    fn invalid_json_is_rejected_with_the_reason() {
        check_refused(r#"[]"#, "JSON object");
        check_refused(r#"{"a":"plain"}"#, "attribute=`a`");
        check_refused(r#"{"a":{"S":"x","N":"1"}}"#, "one type");
        check_refused(r#"{"a":{"N":1}}"#, "JSON string");
        check_refused(r#"{"a":{"N":"one"}}"#, "decimal number");
        check_refused(r#"{"a":{"B":"***"}}"#, "base64");
        check_refused(r#"{"a":{"NULL":false}}"#, "type=`NULL`");
        check_refused(r#"{"a":{"SS":[]}}"#, "each once");
        check_refused(r#"{"a":{"SS":["x","x"]}}"#, "each once");
        check_refused(r#"{"a":{"X":"1"}}"#, "type=`X`");
        check_refused(r#"{"a":{"M":{"b":{"N":"?"}}}}"#, "attribute=`b`");
    }
}
