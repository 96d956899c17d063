//! The table's own record: what was fixed when it was made.
//!
//! Promises: of several that open a new table at once, all go by the one record that was put.
//! Never: changes a record.

use super::keys::{self, Span};
use crate::items::{Condition, Item, Items, TableSpec, Value, WriteError};
use crate::{Error, Result};

/// How many sequence numbers share a partition in tables made by this code: small enough that a
/// long replay has buckets to read at once, large enough that most entities never leave their
/// first one.
const SPAN: Span = Span(1_000);
const FORMAT: u64 = 1;

/// The span of the table's buckets, recorded now if it never was.
pub(super) async fn span_of(items: &dyn Items, table: &TableSpec) -> Result<Span> {
    let found = items.get(table, vec![keys::record()]).await?.items;
    let found = match found.into_iter().next().flatten() {
        Some(found) => found,
        None => record(items, table).await?,
    };
    let number = |name: &str| found.get(name).and_then(Value::as_u64);
    match (number("f"), number("s")) {
        (Some(FORMAT), Some(SPAN_NUMBER)) => Ok(SPAN),
        (Some(FORMAT), Some(span)) => Err(Error::invalid(format!(
            "table was made with another span of buckets; use the annals that made it. table=`{}`, span=`{span}`, ours=`{}`",
            table.name(),
            SPAN.0
        ))),
        (Some(format), _) => Err(Error::invalid(format!(
            "table was written by a newer annals; update annals. table=`{}`, format=`{format}`",
            table.name()
        ))),
        (None, _) => Err(Error::corrupt(format!(
            "the table's own record is damaged. table=`{}`",
            table.name()
        ))),
    }
}

const SPAN_NUMBER: u64 = SPAN.0;

async fn record(items: &dyn Items, table: &TableSpec) -> Result<Item> {
    let record = table.key().item_of(&keys::record());
    let record = record.with("f", FORMAT).with("s", SPAN.0);
    match items.put(table, record.clone(), Condition::Absent).await {
        Ok(_) => Ok(record),
        // Somebody else was quicker; what they wrote counts.
        Err(WriteError::Refused {
            existing: Some(existing),
            ..
        }) => Ok(*existing),
        Err(error) => Err(error.into()),
    }
}
