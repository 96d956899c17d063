//! The table's own record: what was fixed when it was made.
//!
//! Promises: of several that write to a new table at once, all go by the one record that was put.
//! Reading puts nothing.
//! Never: changes a record.

use super::keys::{self, Span};
use crate::items::{Condition, Item, Items, TableSpec, Value, WriteError};
use crate::{Error, Result};

/// How many sequence numbers share a partition in tables made by this code: small enough that a
/// long replay has buckets to read at once, large enough that most entities never leave their
/// first one.
const SPAN: Span = Span(1_000);
const FORMAT: u64 = 1;

/// The span of the table's buckets, and whether it is recorded. A table without a record has no
/// commits: whoever puts the first one records the span before.
pub(super) async fn span_of(items: &dyn Items, table: &TableSpec) -> Result<(Span, bool)> {
    let found = items.get(table, vec![keys::record()]).await?.items;
    match found.into_iter().next().flatten() {
        Some(found) => Ok((check(&found, table)?, true)),
        None => Ok((SPAN, false)),
    }
}

/// Records the span.
pub(super) async fn put(items: &dyn Items, table: &TableSpec) -> Result<()> {
    let record = table.key().item_of(&keys::record());
    let record = record.with("f", FORMAT).with("s", SPAN.0);
    match items.put(table, record, Condition::Absent).await {
        Ok(_) => Ok(()),
        // Somebody else was quicker; what they wrote counts.
        Err(WriteError::Refused {
            existing: Some(existing),
            ..
        }) => check(&existing, table).map(|_| ()),
        Err(error) => Err(error.into()),
    }
}

fn check(record: &Item, table: &TableSpec) -> Result<Span> {
    let number = |name: &str| record.get(name).and_then(Value::as_u64);
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
