//! Argument checks for implementers of [`Items`](super::Items): the limits of items, keys and reads,
//! with the same error messages on every store.
//!
//! Guarantees: DynamoDB accepts a call that passes. Nothing is sent or written if it does not pass.

use std::collections::HashSet;

use super::limits::{ITEM_BYTES_MAX, NAME_BYTES_MAX, NESTING_MAX, SEGMENTS_MAX};
use super::{
    Condition, Consistency, Cursor, Item, Key, KeyPart, KeySchema, Query, Scan, Scope, SortRange,
    TableName, TableSpec, Value, Write, index_entry_size, item_size,
};
use crate::{Error, Result};

/// An item that passed [`check_item`]: its key and size.
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
#[non_exhaustive]
pub struct Checked {
    /// The item's key.
    pub key: Key,
    /// The item's size.
    pub size: usize,
}

/// Checks that `item` may be put into the table.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_item(spec: &TableSpec, item: &Item) -> Result<Checked> {
    let key = spec.key_of(item)?;
    for index in spec.indexes() {
        index.key.key_of(item)?;
    }
    let with_key = |error: Error| error.fact("table", spec.name()).fact("key", &key);
    for (name, value) in item.iter() {
        if let Some(problem) = name_problem(name) {
            return Err(with_key(Error::invalid(problem)));
        }
        if let Some(problem) = value_problem(value, 1) {
            let error = Error::invalid(problem).fact("attribute", name);
            return Err(with_key(error));
        }
    }
    let size = item_size(item);
    if size > ITEM_BYTES_MAX {
        let error = Error::invalid(format!(
            "item is larger than the limit of {ITEM_BYTES_MAX} bytes; split it or store less"
        ));
        return Err(with_key(error.fact("bytes", size)));
    }
    let total = size + size_in_local_indexes(spec, item);
    if total > ITEM_BYTES_MAX {
        let error = Error::invalid(format!(
            "item and its entries in local indexes are larger than the limit of {ITEM_BYTES_MAX} bytes; split it, store less or project less"
        ));
        return Err(with_key(error.fact("bytes", total)));
    }
    Ok(Checked { key, size })
}

/// The entries in local indexes count towards the item's size limit, those in global indexes do not
/// (DynamoDB's developer guide, limits of local secondary indexes).
fn size_in_local_indexes(spec: &TableSpec, item: &Item) -> usize {
    let local = spec.indexes().iter().filter(|i| i.scope == Scope::Local);
    local.map(|index| index_entry_size(spec, index, item)).sum()
}

fn name_problem(name: &str) -> Option<&'static str> {
    let is_wrong = name.is_empty() || name.len() > NAME_BYTES_MAX;
    is_wrong.then_some("an attribute name has 1 to 65535 bytes, also inside a map")
}

/// DynamoDB counts every value as a level, beginning with the attribute's own: a text inside 31
/// lists is allowed, one inside 32 is not. Emulators disagree about an empty list as the last level;
/// here it is not allowed.
fn value_problem(value: &Value, level: usize) -> Option<&'static str> {
    let inside = |v: &Value| value_problem(v, level + 1);
    match value {
        Value::L(_) | Value::M(_) if level >= NESTING_MAX => {
            Some("value nests deeper than 32 levels")
        }
        Value::L(list) => list.iter().find_map(inside),
        Value::M(map) => map
            .iter()
            .find_map(|(name, value)| name_problem(name).or_else(|| inside(value))),
        Value::Ss(set) if set.is_empty() => Some("a set may not be empty"),
        Value::Ns(set) if set.is_empty() => Some("a set may not be empty"),
        Value::Bs(set) if set.is_empty() => Some("a set may not be empty"),
        _ => None,
    }
}

/// Checks that `key` fits the table.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_key(spec: &TableSpec, key: &Key) -> Result<()> {
    spec.key().check(key)
}

/// Checks that `condition` compares with a valid attribute name and value.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_condition(condition: &Condition) -> Result<()> {
    let Condition::Equals(name, value) = condition else {
        return Ok(());
    };
    let Some(problem) = name_problem(name).or_else(|| value_problem(value, 1)) else {
        return Ok(());
    };
    Err(Error::invalid(format!("invalid condition: {problem}")).fact("attribute", name))
}

/// Checks every write of a batch, and that no key is written twice; returns the keys.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_writes(spec: &TableSpec, writes: &[Write]) -> Result<Vec<Key>> {
    let checked = checked_writes(spec, writes)?;
    Ok(checked.into_iter().map(|checked| checked.key).collect())
}

/// The same, with the sizes of puts; deletes have size 0.
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
        return Err(Error::invalid(
            "a batch writes one key twice; write it once, as a batch has no order",
        )
        .fact("table", spec.name())
        .fact("key", key));
    }
    Ok(all)
}

/// A query that passed [`check_query`]: the key schema it reads by, and its consistency.
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
#[non_exhaustive]
pub struct CheckedQuery<'a> {
    /// The schema of the table or of the index.
    pub schema: &'a KeySchema,
    /// Always eventual on a global index.
    pub consistency: Consistency,
}

/// Checks a query of the table.
///
/// # Errors
/// `Invalid`, with the reason.
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
            return Err(
                Error::invalid("range is empty: its low end is above its high end")
                    .fact("low", low)
                    .fact("high", high),
            );
        }
        SortRange::BeginsWith(KeyPart::N(number)) => {
            return Err(
                Error::invalid("a number has no prefix; use a comparison").fact("number", number)
            );
        }
        _ => {}
    }
    check_limit(query.limit)?;
    if let Some(cursor) = &query.after {
        let (key, _) = check_cursor(spec, schema, cursor)?;
        check_cursor_key(query, &key)?;
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

/// Checks a scan of the table.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_scan(spec: &TableSpec, scan: &Scan) -> Result<()> {
    let (index, of) = (scan.segment.index, scan.segment.of);
    if index >= of || of > SEGMENTS_MAX {
        return Err(Error::invalid(format!(
            "a scan has 1 to {SEGMENTS_MAX} segments, counted from zero"
        ))
        .fact("segment", index)
        .fact("of", of));
    }
    check_limit(scan.limit)?;
    if let Some(cursor) = &scan.after {
        check_cursor(spec, spec.key(), cursor)?;
    }
    Ok(())
}

fn check_limit(limit: Option<u32>) -> Result<()> {
    match limit {
        Some(0) => Err(Error::invalid("the limit of a page is at least 1").fact("limit", 0)),
        _ => Ok(()),
    }
}

/// Checks that a query can have stopped at this key, as DynamoDB does.
fn check_cursor_key(query: &Query, key: &Key) -> Result<()> {
    if key.partition != query.partition {
        return Err(Error::invalid("cursor comes from another partition")
            .fact("cursor", key)
            .fact("partition", &query.partition));
    }
    if !query.range.contains(key.sort.as_ref()) {
        return Err(Error::invalid("cursor is outside the query's range")
            .fact("cursor", key)
            .fact("sort key", &query.range));
    }
    Ok(())
}

/// The keys in a cursor: by the schema that is read, and in the table.
pub(crate) fn check_cursor(
    spec: &TableSpec,
    schema: &KeySchema,
    cursor: &Cursor,
) -> Result<(Key, Key)> {
    let attributes = cursor.key_attributes();
    let is_key = |name: &str| {
        let mut keys = spec.key().attributes().chain(schema.attributes());
        keys.any(|attribute| attribute.name == name)
    };
    let keys = schema
        .key_of(attributes)?
        .zip(spec.key().key_of(attributes)?);
    keys.filter(|_| attributes.iter().all(|(name, _)| is_key(name)))
        .ok_or_else(|| Error::invalid("cursor comes from another table or index"))
}

/// The error of every store for a missing table.
pub fn missing_table(name: &TableName) -> Error {
    Error::invalid(
        "table does not exist; create it with `annals tables create` (--log for the log's), or name another",
    )
    .fact("table", name)
}

/// The error of every store for creating a table that exists.
pub fn table_exists(name: &TableName) -> Error {
    Error::conflict("a table of this name exists").fact("table", name)
}

/// Checks that the caller's spec fits the stored table.
pub(crate) fn check_spec(asked: &TableSpec, stored: &TableSpec) -> Result<()> {
    if asked == stored {
        return Ok(());
    }
    let differences = asked.differences(stored);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "table has another schema: {}",
        differences.join("; ")
    ))
    .fact("table", asked.name()))
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
                "an attribute name has 1 to 65535 bytes, also inside a map. attribute=`v`, table=`notes`, key=`a, 1`"
            );
        }
    }
}
