//! What every store refuses, in the same words: the limits of items, keys and reads.
//!
//! Promises: a call that passes here is one that DynamoDB accepts, and nothing was sent or
//! written when it does not.

use std::collections::HashSet;

use super::limits::{ITEM_BYTES_MAX, NAME_BYTES_MAX, NESTING_MAX, SEGMENTS_MAX};
use super::{
    Condition, Consistency, Cursor, Item, Key, KeyPart, KeySchema, Query, Scan, Scope, SortRange,
    TableName, TableSpec, Value, Write, index_entry_size, item_size,
};
use crate::{Error, Result};

/// An item that may be put: its key and size, worked out on the way.
///
/// ```
/// use annals::items::{Item, Key, KeyAttribute, KeySchema, TableSpec, check_item};
///
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let checked = check_item(&table, &Item::new().with("id", "a"))?;
/// assert_eq!(checked.key, Key::new("a"));
/// assert_eq!(checked.size, 3); // the name and the text
/// assert!(check_item(&table, &Item::new()).is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checked {
    /// The item's key.
    pub key: Key,
    /// The item's size.
    pub size: usize,
}

/// Whether `item` may be put into the table.
///
/// # Errors
/// `Invalid`, saying what is wrong and where.
pub fn check_item(spec: &TableSpec, item: &Item) -> Result<Checked> {
    let key = spec.key_of(item)?;
    for index in spec.indexes() {
        index.key.key_of(item)?;
    }
    let place = || format!("table=`{}`, key=`{key}`", spec.name());
    for (name, value) in item.iter() {
        if let Some(problem) = problem_of_name(name) {
            return Err(Error::invalid(format!("{problem}. {}", place())));
        }
        if let Some(problem) = problem_of(value, 1) {
            return Err(Error::invalid(format!(
                "{problem}. attribute=`{name}`, {}",
                place()
            )));
        }
    }
    let size = item_size(item);
    if size > ITEM_BYTES_MAX {
        return Err(Error::invalid(format!(
            "item is larger than the {ITEM_BYTES_MAX} bytes a table takes; split it or store less. bytes=`{size}`, {}",
            place()
        )));
    }
    let with_entries = size + size_in_local_indexes(spec, item);
    if with_entries > ITEM_BYTES_MAX {
        return Err(Error::invalid(format!(
            "item and what local indexes carry of it are larger than the {ITEM_BYTES_MAX} bytes a table takes; split it, store less or let the indexes carry less. bytes=`{with_entries}`, {}",
            place()
        )));
    }
    Ok(Checked { key, size })
}

/// Local indexes share the item's partition, and their entries its limit; global ones do not. (The
/// guide's page on limits: an item's data and its entries in all local secondary indexes.)
fn size_in_local_indexes(spec: &TableSpec, item: &Item) -> usize {
    let local = spec.indexes().iter().filter(|i| i.scope == Scope::Local);
    local.map(|index| index_entry_size(spec, index, item)).sum()
}

fn problem_of_name(name: &str) -> Option<&'static str> {
    let is_wrong = name.is_empty() || name.len() > NAME_BYTES_MAX;
    is_wrong.then_some("attribute name has 1 to 65535 bytes, inside a map too")
}

/// DynamoDB counts every value as a level: the attribute's own is the first, so a text inside 31
/// lists is allowed and one inside 32 is not. Whether an empty list may be the last level its
/// emulators do not agree on; here it may not.
fn problem_of(value: &Value, level: usize) -> Option<&'static str> {
    let inside = |v: &Value| problem_of(v, level + 1);
    match value {
        Value::L(_) | Value::M(_) if level >= NESTING_MAX => {
            Some("value nests deeper than 32 levels")
        }
        Value::L(list) => list.iter().find_map(inside),
        Value::M(map) => map
            .iter()
            .find_map(|(name, value)| problem_of_name(name).or_else(|| inside(value))),
        Value::Ss(set) if set.is_empty() => Some("a set may not be empty"),
        Value::Ns(set) if set.is_empty() => Some("a set may not be empty"),
        Value::Bs(set) if set.is_empty() => Some("a set may not be empty"),
        _ => None,
    }
}

/// Whether `key` can name an item of the table.
///
/// # Errors
/// `Invalid`, saying what is wrong.
pub fn check_key(spec: &TableSpec, key: &Key) -> Result<()> {
    spec.key().check(key)
}

/// Whether `condition` compares with something an attribute can be.
///
/// # Errors
/// `Invalid`, saying what is wrong.
pub fn check_condition(condition: &Condition) -> Result<()> {
    let Condition::Equals(name, value) = condition else {
        return Ok(());
    };
    let Some(problem) = problem_of_name(name).or_else(|| problem_of(value, 1)) else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "condition compares with what no attribute can be: {problem}. attribute=`{name}`"
    )))
}

/// Whether every write of a batch is allowed, and no key is written twice.
///
/// # Errors
/// `Invalid`, saying what is wrong and where.
pub fn check_writes(spec: &TableSpec, writes: &[Write]) -> Result<Vec<Key>> {
    let checked = checked_writes(spec, writes)?;
    Ok(checked.into_iter().map(|checked| checked.key).collect())
}

/// The same, with the size of what is put; of what is deleted nobody knows it.
pub(crate) fn checked_writes(spec: &TableSpec, writes: &[Write]) -> Result<Vec<Checked>> {
    let mut all = Vec::with_capacity(writes.len());
    for write in writes {
        all.push(match write {
            Write::Put(item) => check_item(spec, item)?,
            Write::Delete(key) => {
                check_key(spec, key)?;
                let key = key.clone();
                Checked { key, size: 0 }
            }
        });
    }
    let mut seen = HashSet::with_capacity(writes.len());
    let twice = all.iter().find(|checked| !seen.insert(&checked.key));
    if let Some(Checked { key, .. }) = twice {
        return Err(Error::invalid(format!(
            "a batch writes one key twice, in no order; write it once. table=`{}`, key=`{key}`",
            spec.name()
        )));
    }
    Ok(all)
}

/// A query that is allowed: the key schema it reads by, and how fresh it can be.
///
/// ```
/// use annals::items::{
///     Consistency, IndexSpec, KeyAttribute, KeySchema, Query, TableSpec, check_query,
/// };
///
/// let by_name = IndexSpec::global("by-name".parse()?, KeySchema::new(KeyAttribute::text("name")));
/// let table = TableSpec::new("people".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let table = table.with_index(by_name)?;
/// let query = Query::of("Ann").on("by-name");
/// let checked = check_query(&table, &query)?;
/// assert_eq!(checked.schema.partition.name, "name");
/// assert_eq!(checked.consistency, Consistency::Eventual); // a global index has no other
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CheckedQuery<'a> {
    /// The schema of the table or of the index.
    pub schema: &'a KeySchema,
    /// Strong only where the schema allows it.
    pub consistency: Consistency,
}

/// Whether `query` can be asked of the table.
///
/// # Errors
/// `Invalid`, saying what is wrong.
pub fn check_query<'a>(spec: &'a TableSpec, query: &Query) -> Result<CheckedQuery<'a>> {
    let index = query.index.as_deref().map(|name| spec.index(name));
    let index = index.transpose()?;
    let schema = index.map_or(spec.key(), |index| &index.key);
    schema.check_partition(&query.partition)?;
    for bound in query.range.bounds() {
        schema.check_sort(bound)?;
    }
    match &query.range {
        SortRange::Between(low, high) if low > high => {
            return Err(Error::invalid(format!(
                "range ends before it begins. low=`{low}`, high=`{high}`"
            )));
        }
        SortRange::BeginsWith(KeyPart::N(number)) => {
            return Err(Error::invalid(format!(
                "a number has no beginning; compare it instead. number=`{number}`"
            )));
        }
        _ => {}
    }
    check_limit(query.limit)?;
    if let Some(cursor) = &query.after {
        let (place, _) = check_cursor(spec, schema, cursor)?;
        check_place(query, &place)?;
    }
    let is_global = index.is_some_and(|index| index.scope == Scope::Global);
    Ok(CheckedQuery {
        schema,
        consistency: if is_global {
            Consistency::Eventual
        } else {
            query.consistency
        },
    })
}

/// Whether `scan` can be asked of the table.
///
/// # Errors
/// `Invalid`, saying what is wrong.
pub fn check_scan(spec: &TableSpec, scan: &Scan) -> Result<()> {
    let (index, of) = (scan.segment.index, scan.segment.of);
    if index >= of || of > SEGMENTS_MAX {
        return Err(Error::invalid(format!(
            "a scan has 1 to {SEGMENTS_MAX} segments, counted from zero. segment=`{index}`, of=`{of}`"
        )));
    }
    check_limit(scan.limit)?;
    if let Some(cursor) = &scan.after {
        check_cursor(spec, spec.key(), cursor)?;
    }
    Ok(())
}

fn check_limit(limit: Option<u32>) -> Result<()> {
    match limit {
        Some(0) => Err(Error::invalid("a page holds at least one item. limit=`0`")),
        _ => Ok(()),
    }
}

/// Whether a query can have stopped at `place`. DynamoDB asks the same.
fn check_place(query: &Query, place: &Key) -> Result<()> {
    if place.partition != query.partition {
        return Err(Error::invalid(format!(
            "cursor comes from another partition. cursor=`{place}`, partition=`{}`",
            query.partition
        )));
    }
    if !query.range.contains(place.sort.as_ref()) {
        return Err(Error::invalid(format!(
            "cursor lies outside the query's range. cursor=`{place}`, range=`{:?}`",
            query.range
        )));
    }
    Ok(())
}

/// The keys a cursor stands at: in the schema that is read by, and in the table.
pub(crate) fn check_cursor(
    spec: &TableSpec,
    schema: &KeySchema,
    cursor: &Cursor,
) -> Result<(Key, Key)> {
    let place = cursor.key_attributes();
    let is_key = |name: &str| {
        let mut keys = spec.key().attributes().chain(schema.attributes());
        keys.any(|attribute| attribute.name == name)
    };
    let keys = schema.key_of(place)?.zip(spec.key().key_of(place)?);
    keys.filter(|_| place.iter().all(|(name, _)| is_key(name)))
        .ok_or_else(|| Error::invalid("cursor comes from another table or index"))
}

/// The error every store answers where a table is missing.
pub fn missing_table(name: &TableName) -> Error {
    Error::invalid(format!(
        "table does not exist; create it with `annals tables create` (--log for those of the log), or name another. table=`{name}`"
    ))
}

/// The error every store answers where a table to be created is there already.
pub fn table_exists(name: &TableName) -> Error {
    Error::conflict(format!("a table of that name exists. table=`{name}`"))
}

/// Whether the caller's spec fits the stored table.
pub(crate) fn agree(asked: &TableSpec, stored: &TableSpec) -> Result<()> {
    if asked == stored {
        return Ok(());
    }
    let differences = asked.differences(stored);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "table has another schema: {}. table=`{}`",
        differences.join("; "),
        asked.name()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::{IndexSpec, KeyAttribute, Projection};
    use super::*;

    fn table(projections: &[Projection]) -> TableSpec {
        let key = |sort| KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text(sort));
        let spec = TableSpec::new("notes".parse().unwrap(), key("s")).unwrap();
        let indexes = projections.iter().enumerate().map(|(n, projection)| {
            let name = format!("local-{n}").parse().unwrap();
            IndexSpec::local(name, key("k")).projecting(projection.clone())
        });
        indexes.fold(spec, |spec, index| spec.with_index(index).unwrap())
    }

    #[track_caller]
    fn check_largest(spec: &TableSpec, item: Item, largest: usize) {
        let sized = |bytes| {
            let empty = item.clone().with("v", "");
            let missing = bytes - item_size(&empty);
            empty.with("v", "x".repeat(missing))
        };
        assert_eq!(check_item(spec, &sized(largest)).unwrap().size, largest);
        let error = check_item(spec, &sized(largest + 1)).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{error}");
    }

    #[test]
    fn entries_in_local_indexes_count_by_what_they_carry() {
        let item = || Item::new().with("p", "a").with("s", "1").with("k", "x");
        let include = |name: &str| Projection::Include(vec![name.to_owned()]);
        let keys = 6;
        check_largest(&table(&[]), item(), ITEM_BYTES_MAX);
        check_largest(&table(&[Projection::All]), item(), ITEM_BYTES_MAX / 2);
        let some = table(&[Projection::KeysOnly, include("w")]);
        check_largest(&some, item(), ITEM_BYTES_MAX - 2 * keys);
        check_largest(&some, item().with("w", "12"), ITEM_BYTES_MAX - 2 * keys - 3);
        let without_key = Item::new().with("p", "a").with("s", "1");
        check_largest(&some, without_key, ITEM_BYTES_MAX);
        let global = IndexSpec::global("global".parse().unwrap(), table(&[]).key().clone());
        let global = table(&[]).with_index(global).unwrap();
        check_largest(&global, item(), ITEM_BYTES_MAX);
    }

    #[test]
    fn names_are_checked_inside_maps_too() {
        let of_map = |name: String| {
            let map = Value::M([(name, 1u64.into())].into());
            Item::new().with("p", "a").with("s", "1").with("v", map)
        };
        assert!(check_item(&table(&[]), &of_map("n".repeat(NAME_BYTES_MAX))).is_ok());
        for name in [String::new(), "n".repeat(NAME_BYTES_MAX + 1)] {
            let error = check_item(&table(&[]), &of_map(name)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "attribute name has 1 to 65535 bytes, inside a map too. attribute=`v`, table=`notes`, key=`a, 1`"
            );
        }
    }
}
