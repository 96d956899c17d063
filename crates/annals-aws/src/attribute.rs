//! Items as DynamoDB attributes, and back. Pure.
//!
//! Guarantees: an item written and read back is the same item; byte strings are shared, not copied. An
//! attribute of an unknown type is `Corrupt`, never dropped.

use std::collections::{BTreeSet, HashMap};

use annals::items::{Item, Number, Value};
use annals::{Error, Result};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;

/// An item in the SDK's types.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// Converts an item to the SDK's types. Names and strings are copied, byte strings are shared.
pub(crate) fn attributes_of(item: &Item) -> Attributes {
    item.iter()
        .map(|(name, value)| (name.to_owned(), attribute_of(value)))
        .collect()
}

/// Converts a value to the SDK's types.
pub(crate) fn attribute_of(value: &Value) -> AttributeValue {
    let blob = |bytes: &Bytes| Blob::from_maybe_shared(bytes.clone());
    match value {
        Value::S(text) => AttributeValue::S(text.clone()),
        Value::N(number) => AttributeValue::N(number.to_string()),
        Value::B(bytes) => AttributeValue::B(blob(bytes)),
        Value::Bool(truth) => AttributeValue::Bool(*truth),
        Value::Null => AttributeValue::Null(true),
        Value::L(list) => AttributeValue::L(list.iter().map(attribute_of).collect()),
        Value::M(map) => {
            let members = map.iter().map(|(n, v)| (n.clone(), attribute_of(v)));
            AttributeValue::M(members.collect())
        }
        Value::Ss(set) => AttributeValue::Ss(set.iter().cloned().collect()),
        Value::Ns(set) => AttributeValue::Ns(set.iter().map(Number::to_string).collect()),
        Value::Bs(set) => AttributeValue::Bs(set.iter().map(blob).collect()),
    }
}

/// Converts a returned item.
///
/// # Errors
/// `Corrupt` if an attribute has an unknown type or is out of range.
pub(crate) fn item_of(attributes: Attributes) -> Result<Item> {
    let parsed = attributes.into_iter().map(|(name, attribute)| {
        let value = value_of(attribute).map_err(|cause| {
            Error::corrupt("attribute does not parse")
                .fact("attribute", &name)
                .because(cause)
        });
        Ok((name, value?))
    });
    parsed.collect()
}

fn value_of(attribute: AttributeValue) -> Result<Value> {
    Ok(match attribute {
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::N(digits) => Value::N(digits.parse()?),
        AttributeValue::B(blob) => Value::B(blob.into_bytes()),
        AttributeValue::Bool(truth) => Value::Bool(truth),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(list) => {
            let members = list.into_iter().map(value_of);
            Value::L(members.collect::<Result<_>>()?)
        }
        AttributeValue::M(map) => Value::M(item_of(map)?.into_iter().collect()),
        AttributeValue::Ss(set) => Value::Ss(set.into_iter().collect()),
        AttributeValue::Ns(set) => {
            let members = set.iter().map(|digits| digits.parse());
            Value::Ns(members.collect::<Result<BTreeSet<Number>>>()?)
        }
        AttributeValue::Bs(set) => Value::Bs(set.into_iter().map(Blob::into_bytes).collect()),
        _ => {
            return Err(Error::corrupt(
                "the attribute type is unknown; update annals",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use annals::ErrorKind;

    use super::*;

    fn every_type() -> Item {
        let map = BTreeMap::from([("k".to_owned(), Value::L(vec![Value::Null, "é".into()]))]);
        Item::new()
            .with("s", "")
            .with("n", "-12.50e3".parse::<Number>().unwrap())
            .with("b", vec![0u8, 255])
            .with("t", true)
            .with("0", Value::Null)
            .with("m", Value::M(map))
            .with("ss", Value::Ss(BTreeSet::from(["a".to_owned()])))
            .with("ns", Value::Ns(BTreeSet::from([1u64.into(), 10u64.into()])))
            .with("bs", Value::Bs(BTreeSet::from([Bytes::from_static(b"x")])))
    }

    #[test]
    fn every_type_round_trips() {
        let item = every_type();
        assert_eq!(item_of(attributes_of(&item)).unwrap(), item);
    }

    #[test]
    fn byte_strings_are_not_copied() {
        let payload = Bytes::from(vec![7u8; 1_000]);
        let there = attributes_of(&Item::new().with("p", payload.clone()));
        let back = item_of(there).unwrap();
        let bytes = back.get("p").and_then(Value::as_bytes).unwrap();
        assert_eq!(bytes.as_ptr(), payload.as_ptr());
    }

    #[test]
    fn a_number_out_of_range_is_corrupt() {
        let attributes = HashMap::from([("n".to_owned(), AttributeValue::N("1e999".to_owned()))]);
        let error = item_of(attributes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string(), "attribute does not parse. attribute=`n`");
    }
}
