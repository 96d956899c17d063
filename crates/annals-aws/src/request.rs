//! Conditions, queries and batches as DynamoDB expressions and requests. Pure.
//!
//! Guarantees: every attribute name and value goes through a placeholder, so no name is reserved and
//! none needs escaping. Relies on the checks of `annals::items`.

use std::collections::HashMap;

use annals::items::limits::WRITE_BATCH_MAX;
use annals::items::{
    Condition, Item, Key, KeyPart, KeySchema, Query, SortRange, TableSpec, Value, Write,
};
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest,
};

use crate::attribute::{Attributes, attribute_of, attributes_of};

/// DynamoDB's limit on the size of a request.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Room for the table name, field names and punctuation.
const ENVELOPE_BYTES: usize = 4 * 1024;

/// An expression with its placeholders; all `None` for no expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expression {
    pub(crate) text: Option<String>,
    pub(crate) names: Option<HashMap<String, String>>,
    pub(crate) values: Option<HashMap<String, AttributeValue>>,
}

impl Expression {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    fn name(mut self, placeholder: &str, name: &str) -> Self {
        let names = self.names.get_or_insert_default();
        names.insert(placeholder.to_owned(), name.to_owned());
        self
    }

    fn value(mut self, placeholder: &str, value: &Value) -> Self {
        let values = self.values.get_or_insert_default();
        values.insert(placeholder.to_owned(), attribute_of(value));
        self
    }

    fn part(self, placeholder: &str, part: &KeyPart) -> Self {
        self.value(placeholder, &part.clone().into())
    }
}

/// The condition expression of a write.
pub(crate) fn condition(spec: &TableSpec, condition: &Condition) -> Expression {
    match condition {
        Condition::Always => Expression::default(),
        // Every existing item has its partition attribute.
        Condition::Absent => {
            Expression::new("attribute_not_exists(#a)").name("#a", &spec.key().partition.name)
        }
        Condition::Equals(name, value) => Expression::new("#a = :v")
            .name("#a", name)
            .value(":v", value),
    }
}

/// The key condition expression of a query.
pub(crate) fn key_condition(schema: &KeySchema, query: &Query) -> Expression {
    let comparison = match &query.range {
        SortRange::All => None,
        SortRange::Equal(_) => Some("#s = :a"),
        SortRange::AtLeast(_) => Some("#s >= :a"),
        SortRange::Above(_) => Some("#s > :a"),
        SortRange::AtMost(_) => Some("#s <= :a"),
        SortRange::Below(_) => Some("#s < :a"),
        SortRange::Between(_, _) => Some("#s BETWEEN :a AND :b"),
        SortRange::BeginsWith(_) => Some("begins_with(#s, :a)"),
    };
    let text = match comparison {
        None => "#p = :p".to_owned(),
        Some(comparison) => format!("#p = :p AND {comparison}"),
    };
    let mut expression = Expression::new(text)
        .name("#p", &schema.partition.name)
        .part(":p", &query.partition);
    if let Some(sort) = schema.sort.as_ref().filter(|_| comparison.is_some()) {
        expression = expression.name("#s", &sort.name);
    }
    let placeholders = [":a", ":b"].into_iter();
    placeholders
        .zip(query.range.bounds())
        .fold(expression, |e, (placeholder, bound)| {
            e.part(placeholder, bound)
        })
}

/// The limit of a page in the SDK's type.
pub(crate) fn limit(limit: Option<u32>) -> Option<i32> {
    limit.map(|items| i32::try_from(items).unwrap_or(i32::MAX))
}

/// A key in the SDK's types.
pub(crate) fn key(spec: &TableSpec, key: &Key) -> Attributes {
    attributes_of(&spec.key().item_of(key))
}

/// The keys of one batch get, strongly consistent.
pub(crate) fn keys<'a>(
    spec: &TableSpec,
    keys: impl IntoIterator<Item = &'a Key>,
) -> Result<KeysAndAttributes, BuildError> {
    let keys = keys.into_iter().map(|k| key(spec, k)).collect();
    KeysAndAttributes::builder()
        .set_keys(Some(keys))
        .consistent_read(true)
        .build()
}

/// One write of a batch in the SDK's types.
pub(crate) fn write(spec: &TableSpec, write: &Write) -> Result<WriteRequest, BuildError> {
    let request = WriteRequest::builder();
    Ok(match write {
        Write::Put(item) => {
            let put = PutRequest::builder().set_item(Some(attributes_of(item)));
            request.put_request(put.build()?)
        }
        Write::Delete(k) => {
            let delete = DeleteRequest::builder().set_key(Some(key(spec, k)));
            request.delete_request(delete.build()?)
        }
    }
    .build())
}

/// Splits `writes`, in order, into chunks that fit one request.
pub(crate) fn chunks<T>(
    writes: impl IntoIterator<Item = T>,
    write_of: impl Fn(&T) -> &Write,
) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for write in writes {
        let size = write_bytes(write_of(&write));
        match chunks.last_mut() {
            Some(chunk)
                if chunk.len() < WRITE_BATCH_MAX
                    && bytes + size <= REQUEST_BYTES_MAX - ENVELOPE_BYTES =>
            {
                bytes += size;
                chunk.push(write);
            }
            _ => {
                bytes = size;
                chunks.push(vec![write]);
            }
        }
    }
    chunks
}

/// An upper bound for the bytes of a write in a request.
fn write_bytes(write: &Write) -> usize {
    // {"PutRequest":{"Item":…}} or {"DeleteRequest":{"Key":…}}, and a comma.
    const WRAPPING: usize = 32;
    // A key is at most 3 KB of value and ½ KB of names; escaped, six times that.
    const KEY_BYTES_MAX: usize = 6 * 4 * 1024;
    match write {
        Write::Put(item) => WRAPPING + item_bytes(item),
        Write::Delete(_) => WRAPPING + KEY_BYTES_MAX,
    }
}

fn item_bytes(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| string_bytes(name) + value_bytes(value))
        .sum()
}

/// An upper bound for the bytes of a value as DynamoDB JSON.
fn value_bytes(value: &Value) -> usize {
    // {"BOOL":false}, a colon and a comma around every value.
    const TYPED: usize = 16;
    // A sign, 38 digits, a point, and zeros up to the largest exponent, in quotes.
    const NUMBER: usize = 176;
    let base64 = |bytes: usize| bytes.div_ceil(3) * 4 + 3;
    TYPED
        + match value {
            Value::S(text) => string_bytes(text),
            Value::N(_) => NUMBER,
            Value::B(bytes) => base64(bytes.len()),
            Value::Bool(_) | Value::Null => 0,
            Value::L(list) => list.iter().map(value_bytes).sum(),
            Value::M(map) => map
                .iter()
                .map(|(n, v)| string_bytes(n) + value_bytes(v))
                .sum(),
            Value::Ss(set) => set.iter().map(|text| string_bytes(text)).sum(),
            Value::Ns(set) => set.len() * NUMBER,
            Value::Bs(set) => set.iter().map(|bytes| base64(bytes.len())).sum(),
        }
}

/// The bytes of a string in quotes, escaped, with a comma.
fn string_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    use annals::items::{KeyAttribute, KeySchema};

    use super::*;

    fn schema() -> KeySchema {
        KeySchema::new(KeyAttribute::text("par")).sorted(KeyAttribute::number("num"))
    }

    fn spec() -> TableSpec {
        TableSpec::new("events".parse().unwrap(), schema()).unwrap()
    }

    #[track_caller]
    fn check_range(range: SortRange, want: &str, values: usize) {
        let got = key_condition(&schema(), &Query::of("p").within(range));
        assert_eq!(got.text.as_deref(), Some(want));
        assert_eq!(got.values.unwrap().len(), values);
        assert_eq!(got.names.unwrap().len(), values.min(2));
    }

    #[test]
    fn every_range_maps_to_an_expression() {
        let one = || KeyPart::from(1u64);
        check_range(SortRange::All, "#p = :p", 1);
        check_range(SortRange::Equal(one()), "#p = :p AND #s = :a", 2);
        check_range(SortRange::AtLeast(one()), "#p = :p AND #s >= :a", 2);
        check_range(SortRange::Above(one()), "#p = :p AND #s > :a", 2);
        check_range(SortRange::AtMost(one()), "#p = :p AND #s <= :a", 2);
        check_range(SortRange::Below(one()), "#p = :p AND #s < :a", 2);
        check_range(
            SortRange::Between(one(), 2u64.into()),
            "#p = :p AND #s BETWEEN :a AND :b",
            3,
        );
        check_range(
            SortRange::BeginsWith("x".into()),
            "#p = :p AND begins_with(#s, :a)",
            2,
        );
    }

    #[test]
    fn conditions_use_placeholders_only() {
        assert_eq!(
            condition(&spec(), &Condition::Always),
            Expression::default()
        );
        let absent = condition(&spec(), &Condition::Absent);
        assert_eq!(absent.text.as_deref(), Some("attribute_not_exists(#a)"));
        assert_eq!(absent.names.unwrap()["#a"], "par");
        assert_eq!(absent.values, None);
        let equals = condition(&spec(), &Condition::Equals("size".to_owned(), 7u64.into()));
        assert_eq!(equals.text.as_deref(), Some("#a = :v"));
        assert_eq!(equals.names.unwrap()["#a"], "size");
        assert_eq!(
            equals.values.unwrap()[":v"],
            AttributeValue::N("7".to_owned())
        );
    }

    #[track_caller]
    fn check_chunks(writes: Vec<Write>, want: &[usize]) {
        let chunks = chunks(&writes, |write| write);
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), want);
        assert!(chunks.into_iter().flatten().eq(&writes), "in their order");
    }

    #[test]
    fn a_chunk_has_at_most_25_writes_and_16_mb() {
        let delete = |n: u64| Write::Delete(Key::new("p").sorted(n));
        let large = |byte: u8| {
            let text = String::from_utf8(vec![byte; 390 * 1024]).unwrap();
            Write::Put(Item::new().with("t", text))
        };
        check_chunks(vec![], &[]);
        check_chunks((0..60).map(delete).collect(), &[25, 25, 10]);
        check_chunks(vec![large(b'x'); 25], &[25]);
        // A control character is six bytes of JSON.
        check_chunks(vec![large(1); 25], &[6, 6, 6, 6, 1]);
    }
}
