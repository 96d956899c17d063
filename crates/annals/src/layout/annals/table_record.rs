//! The table's own record: the settings that were fixed when it was created.
//!
//! Guarantees: concurrent first writers agree on one record. Readers write nothing. A record never
//! changes.

use super::keys::{self, Span};
use crate::items::{Condition, Item, Items, TableSpec, Value, WriteError};
use crate::{Error, Result};

/// Sequence numbers per bucket in new tables: few enough that a long replay reads buckets in parallel,
/// enough that most entities never leave their first bucket.
const SPAN: Span = Span(1_000);
const FORMAT: u64 = 1;

/// The span of the table's buckets, and whether it is recorded. A table without a record has no
/// commits: the record is written before the first one.
pub(super) async fn span_of(items: &dyn Items, table: &TableSpec) -> Result<(Span, bool)> {
    let found = items.get(table, vec![keys::record()]).await?.items;
    match found.into_iter().next().flatten() {
        Some(found) => Ok((check(&found, table)?, true)),
        None => Ok((SPAN, false)),
    }
}

/// Writes the record.
pub(super) async fn put(items: &dyn Items, table: &TableSpec) -> Result<()> {
    let record = table.key().item_of(&keys::record());
    let record = record.with("f", FORMAT).with("s", SPAN.0);
    match items.put(table, record, Condition::Absent).await {
        Ok(_) => Ok(()),
        // Another writer was first; its record counts.
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
        (Some(FORMAT), Some(span)) => Err(Error::invalid(
            "the table was created with another bucket span; use the version that created it",
        )
        .fact("table", table.name())
        .fact("span", span)
        .fact("ours", SPAN.0)),
        (Some(format), _) => Err(Error::invalid(
            "the table was written by a newer version; update annals",
        )
        .fact("table", table.name())
        .fact("format", format)),
        (None, _) => Err(
            Error::corrupt("the table's record is damaged; restore a backup")
                .fact("table", table.name()),
        ),
    }
}

const SPAN_NUMBER: u64 = SPAN.0;
