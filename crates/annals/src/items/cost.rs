//! The size of items and the cost of operations in requests and capacity units, by DynamoDB's
//! published rules.
//!
//! Guarantees: local stores compute what DynamoDB would charge, to the byte, so a cost asserted on a
//! laptop holds in production. Prices in money differ by region and year and are not known here.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use super::limits::{GET_BATCH_MAX, WRITE_BATCH_MAX};
use super::{Consistency, IndexSpec, Item, Projection, TableSpec, Value};

/// Requests made and capacity units consumed.
///
/// ```
/// use annals::items::{Consistency, Cost};
///
/// let write = Cost::of_sizes(None, Some(1_500)).in_requests(1);
/// assert_eq!((write.requests, write.write_units), (1, 2));
/// let read = Cost::of_read(1_500, Consistency::Eventual);
/// assert_eq!(read.read_units(), 0.5);
/// assert_eq!((write + read).write_units, 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests, as a DynamoDB client would make them.
    pub requests: u64,
    /// Write units: one per KB written, in the table and in every index that changes.
    pub write_units: u64,
    /// Half read units: two per 4 KB of a strong read, one per 4 KB of an eventual read.
    pub read_half_units: u64,
}

impl Cost {
    /// No cost.
    pub const ZERO: Self = Self {
        requests: 0,
        write_units: 0,
        read_half_units: 0,
    };

    /// Read units: one per 4 KB of a strong read, half of one per 4 KB of an eventual read.
    pub fn read_units(&self) -> f64 {
        self.read_half_units as f64 / 2.0
    }

    /// One request of unknown units.
    pub fn request() -> Self {
        Self {
            requests: 1,
            ..Self::ZERO
        }
    }

    /// The units of replacing `old` by `new` in a table and its indexes, without requests.
    pub fn of_write(spec: &TableSpec, old: Option<&Item>, new: Option<&Item>) -> Self {
        let in_table = Self::of_sizes(old.map(item_size), new.map(item_size));
        let in_indexes = spec.indexes().iter().map(|index| {
            let entry = |item| Some(index_attributes(spec, index, item)?.collect());
            index_units(index, old.and_then(entry), new.and_then(entry))
        });
        Self {
            write_units: in_table.write_units + in_indexes.sum::<u64>(),
            ..in_table
        }
    }

    /// The units of replacing an item of one size by one of another, without indexes. A refused
    /// write costs the same.
    pub fn of_sizes(old: Option<usize>, new: Option<usize>) -> Self {
        let larger = old.unwrap_or(0).max(new.unwrap_or(0));
        Self {
            write_units: write_units(larger),
            ..Self::ZERO
        }
    }

    /// The units of reading an item or a page of this size, without requests.
    pub fn of_read(bytes: usize, consistency: Consistency) -> Self {
        let units = (bytes as u64).div_ceil(4096).max(1);
        let halves = match consistency {
            Consistency::Strong => 2 * units,
            Consistency::Eventual => units,
        };
        Self {
            read_half_units: halves,
            ..Self::ZERO
        }
    }

    /// The requests of a batch of `writes`, if none is left unprocessed.
    pub fn write_requests(writes: usize) -> u64 {
        writes.div_ceil(WRITE_BATCH_MAX) as u64
    }

    /// The requests of getting `keys` different keys.
    pub fn get_requests(keys: usize) -> u64 {
        keys.div_ceil(GET_BATCH_MAX) as u64
    }

    /// Sets the number of requests.
    #[must_use]
    pub fn in_requests(mut self, requests: u64) -> Self {
        self.requests = requests;
        self
    }
}

fn write_units(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(1024).max(1)
}

/// An index is charged for changed entries, each image rounded up by itself: moving an entry is a
/// delete and a put, an unchanged entry is free.
fn index_units(index: &IndexSpec, old: Option<Entry<'_>>, new: Option<Entry<'_>>) -> u64 {
    let size = |entry: &Entry<'_>| entry.iter().map(|(n, v)| n.len() + value_size(v)).sum();
    let units = |entry: &Entry<'_>| write_units(size(entry));
    match (old, new) {
        (None, None) => 0,
        (Some(entry), None) | (None, Some(entry)) => units(&entry),
        (Some(old), Some(new)) if old == new => 0,
        (Some(old), Some(new)) if same_key(index, &old, &new) => units(&old).max(units(&new)),
        (Some(old), Some(new)) => units(&old) + units(&new),
    }
}

/// The attributes of an item that an index holds.
type Entry<'a> = Vec<(&'a str, &'a Value)>;

fn same_key(index: &IndexSpec, old: &Entry<'_>, new: &Entry<'_>) -> bool {
    let at = |entry: &Entry<'_>, name: &str| {
        let found = entry.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| (*value).clone())
    };
    let mut attributes = index.key.attributes();
    attributes.all(|attribute| at(old, &attribute.name) == at(new, &attribute.name))
}

/// An item as an index holds it; `None` if it lacks the index's key.
pub(crate) fn index_entry(spec: &TableSpec, index: &IndexSpec, item: Item) -> Option<Item> {
    let attributes = index_attributes(spec, index, &item)?;
    if index.projection != Projection::All {
        return Some(attributes.map(|(n, v)| (n, v.clone())).collect());
    }
    drop(attributes);
    Some(item)
}

/// The size of an item's entry in an index; 0 if it has none.
pub(crate) fn index_entry_size(spec: &TableSpec, index: &IndexSpec, item: &Item) -> usize {
    let attributes = index_attributes(spec, index, item).into_iter().flatten();
    attributes
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn index_attributes<'a>(
    spec: &'a TableSpec,
    index: &'a IndexSpec,
    item: &'a Item,
) -> Option<impl Iterator<Item = (&'a str, &'a Value)>> {
    let mut keys = index.key.attributes();
    if !keys.all(|attribute| item.get(&attribute.name).is_some()) {
        return None;
    }
    let is_key = |name: &str| {
        let mut keys = spec.key().attributes().chain(index.key.attributes());
        keys.any(|attribute| attribute.name == name)
    };
    let carried = move |name: &str| match &index.projection {
        Projection::All => true,
        Projection::KeysOnly => is_key(name),
        Projection::Include(names) => is_key(name) || names.iter().any(|n| n == name),
    };
    Some(item.iter().filter(move |(name, _)| carried(name)))
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            write_units: self.write_units + other.write_units,
            read_half_units: self.read_half_units + other.read_half_units,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Add::add)
    }
}

/// The size of an item: its attribute names and values.
///
/// ```
/// use annals::items::{Item, item_size};
///
/// assert_eq!(item_size(&Item::new().with("id", "cart-1").with("n", 12u64)), 2 + 6 + 1 + 2);
/// ```
pub fn item_size(item: &Item) -> usize {
    if let Some(stored) = item.stored() {
        return stored.size();
    }
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
