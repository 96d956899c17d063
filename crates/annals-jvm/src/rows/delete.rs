//! Deletion up to a sequence number: the low marker is raised first, then the rows are deleted.
//!
//! Guarantees: a replay never sees a history that is deleted in part. An interrupted deletion is
//! resumed by the next one, by any process.

use futures::TryStreamExt;

use super::format::{Deletion, RowDelete, RowTable};
use super::row::{Markers, Row};
use annals::items::Write;
use annals::{PersistenceId, Result};

/// How many items are written with one call: whole requests.
pub(crate) const WRITES_AT_ONCE: usize = 100;

/// Returns the last number that was deleted, now or before, of those up to `to`; 0 for none.
pub(super) async fn delete_to<F: RowDelete>(
    format: &F,
    id: &PersistenceId,
    to: u64,
) -> Result<u64> {
    let wanted = to;
    let plan = format.plan_deletion(id, to).await?;
    let Deletion {
        was,
        to,
        highest,
        read,
    } = plan;
    let mut markers = was;
    if to + 1 > was.low.max(1) {
        let raised = Markers {
            low: to + 1,
            done: was.done,
            high: was.high.max(highest),
        };
        markers = format.raise_low(id, raised, was).await?;
    }
    format.finish_deletion(id, markers, Some(read)).await?;
    // An abandoned batch around `to` is deleted to its end; none of it was ever replayed.
    Ok(to.min(wanted))
}

/// Makes a write for each row of a range that `change` wants one for.
pub(crate) async fn rewrite<F: RowTable>(
    format: &F,
    id: &PersistenceId,
    numbers: (u64, u64),
    change: impl Fn(&Row) -> Result<Option<Write>>,
) -> Result<()> {
    let base = format.base();
    let mut rows = format.rows(id, numbers);
    let mut writes = Vec::new();
    loop {
        let row = rows.try_next().await?;
        let is_end = row.is_none();
        if let Some(row) = row {
            writes.extend(change(&row)?);
        }
        if writes.len() >= WRITES_AT_ONCE || (is_end && !writes.is_empty()) {
            let writes = std::mem::take(&mut writes);
            base.store.write(&base.table, writes).await?;
        }
        if is_end {
            return Ok(());
        }
    }
}
