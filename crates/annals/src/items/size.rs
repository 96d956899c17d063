//! The size of an item by DynamoDB's published rules: the figure it bills and limits, to the byte.

use super::{Item, Value};

/// The size of an item: its attribute names and values.
///
/// ```
/// use annals::items::{Item, item_size};
///
/// assert_eq!(item_size(&Item::new().with("id", "cart-1").with("n", 12u64)), 2 + 6 + 1 + 2);
/// ```
pub fn item_size(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

/// The size of one value.
pub fn value_size(value: &Value) -> usize {
    // A list or map costs three bytes, and each of its members one more than what it holds.
    const CONTAINER: usize = 3;
    const MEMBER: usize = 1;
    match value {
        Value::S(text) => text.len(),
        Value::N(number) => number.size(),
        Value::B(bytes) => bytes.len(),
        Value::Bool(_) | Value::Null => 1,
        Value::L(list) => CONTAINER + list.iter().map(|v| MEMBER + value_size(v)).sum::<usize>(),
        Value::M(map) => {
            let members = map.iter().map(|(k, v)| MEMBER + k.len() + value_size(v));
            CONTAINER + members.sum::<usize>()
        }
        Value::Ss(set) => set.iter().map(String::len).sum(),
        Value::Ns(set) => set.iter().map(|n| n.size()).sum(),
        Value::Bs(set) => set.iter().map(bytes::Bytes::len).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[track_caller]
    fn check(value: impl Into<Value>, want: usize) {
        let value = value.into();
        assert_eq!(value_size(&value), want, "{value:?}");
    }

    #[test]
    fn values_are_sized_by_the_published_rules() {
        check("", 0);
        check("é", 2);
        check(12345u64, 4);
        check(vec![0u8; 7], 7);
        check(true, 1);
        check(Value::Null, 1);
        check(Value::L(vec![]), 3);
        check(Value::L(vec!["ab".into(), 1u64.into()]), 3 + 1 + 2 + 1 + 2);
        check(
            Value::M(BTreeMap::from([("k".to_owned(), "ab".into())])),
            3 + 1 + 1 + 2,
        );
        check(
            Value::Ss(BTreeSet::from(["ab".to_owned(), "c".to_owned()])),
            3,
        );
        check(Value::Ns(BTreeSet::from([1u64.into(), 100u64.into()])), 4);
    }
}
