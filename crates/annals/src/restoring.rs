//! Restores a backup to a point at which it had snapshots that were deleted later.
//!
//! Guarantees: what is left out is only snapshots, and the entities of all of them can be rebuilt: each has
//! all its events, or a newer snapshot than its deleted events. Otherwise nothing is restored.

use std::collections::BTreeSet;
use std::path::Path;

use futures::TryStreamExt;

use crate::embedded::{Prepared, RestorePoint, Restored};
use crate::journal::Window;
use crate::layout::Layout;
use crate::snapshot::Criteria;
use crate::{Annals, Error, PersistenceId, Result};

impl Annals {
    /// Restores the backup in `backup` as a store in `folder`, as [`embedded::restore`] does, also to
    /// points at which there were snapshots that were deleted or replaced later and are erased from the
    /// backup: with [`Retention`](crate::entity::Retention) these are most points. Such snapshots are left
    /// out and counted, and entities recover from their events.
    ///
    /// [`embedded::restore`]: crate::embedded::restore
    ///
    /// ```
    /// use annals::Annals;
    /// use annals::embedded::{RestorePoint, backup};
    /// use annals::layout::AnnalsLayout;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> annals::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let (data, copy, restored) = (folder.path().join("data"), folder.path().join("copy"), folder.path().join("restored"));
    /// # let annals = Annals::embedded(&data).await?;
    /// let report = backup(&data, &copy, false)?;
    /// // … many events later:
    /// let point = RestorePoint::Position(report.position);
    /// let done = Annals::restore(&copy, &restored, point, &AnnalsLayout::default()).await?;
    /// assert_eq!(done.snapshots_left_out, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`embedded::restore`]: `Invalid` also if an entity would lack its snapshot and events before it.
    pub async fn restore(
        backup: &Path,
        folder: &Path,
        point: RestorePoint,
        layout: &dyn Layout,
    ) -> Result<Restored> {
        let optional = vec![layout.tables()?.snapshot.name().clone()];
        let (from, to) = (backup.to_owned(), folder.to_owned());
        let prepared = blocking(move || Prepared::new(&from, &to, point, &optional)).await?;
        let left_out = check(&prepared, layout).await?;
        blocking(move || prepared.finish(left_out)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::unavailable("the restore was cancelled").because(cause))?
}

/// Checks that the store can do without what was left out; returns how many snapshots that were.
async fn check(prepared: &Prepared, layout: &dyn Layout) -> Result<u64> {
    if prepared.left_out().next().is_none() {
        return Ok(0);
    }
    let annals = Annals::open(prepared.open()?, layout).await?;
    let (mut ids, mut snapshots) = (BTreeSet::new(), 0);
    for (_, key) in prepared.left_out() {
        let found = annals.snapshots().owner_of(key).ok_or_else(|| {
            Error::invalid(
                "snapshots of this point are erased from the backup, and with this layout it is not known whether they can be rebuilt; name a later point, or use an older backup",
            )
            .fact("layout", layout.name())
        })?;
        let (id, is_snapshot) = found;
        snapshots += u64::from(is_snapshot);
        ids.insert(id);
    }
    for id in &ids {
        check_id(&annals, id).await?;
    }
    Ok(snapshots)
}

/// Checks that an entity recovers without the snapshots that were left out.
async fn check_id(annals: &Annals, id: &PersistenceId) -> Result<()> {
    let mut first = annals.journal().replay(id, Window::ALL.limit(1));
    let first = first.try_next().await?;
    let highest = annals.journal().highest(id).await?;
    let deleted_to = match (first, highest) {
        (Some(first), _) => first.sequence_number.get() - 1,
        (None, Some(highest)) => highest.get(),
        // It had snapshots only.
        (None, None) => u64::MAX,
    };
    if deleted_to == 0 {
        return Ok(());
    }
    let newest = annals.snapshots().load(id, Criteria::ALL).await?;
    match newest.is_some_and(|newest| newest.sequence_number.get() >= deleted_to) {
        true => Ok(()),
        false => Err(Error::invalid(
            "an entity had deleted events at this point, and its snapshot is erased from the backup; name a later point, or use an older backup",
        )
        .fact("id", id)),
    }
}

#[cfg(test)]
#[path = "restoring_tests.rs"]
mod tests;
