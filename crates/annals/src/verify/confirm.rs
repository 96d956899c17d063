//! Confirming findings: everything is checked twice, with a pause, so that writes in flight are not
//! taken for damage.
//!
//! Items are read page by page, and on some layouts appends, deletions and markers are several
//! items. A reader next to a writer therefore sees incomplete batches and markers that are about to
//! move. A moment later they are complete, while damage is still there.
//!
//! Guarantees: a reported finding was seen twice, at least [`PAUSE`] apart; only such findings are
//! repaired. Relies on a batch or a deletion making progress within the pause: one whose writer
//! stalls for longer is reported as interrupted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Finding, FindingStream, Remedy, Repairs, Verify};
use crate::{Clock, PersistenceId, Result};

/// The time between both checks. A batch of hundreds of events is written in less.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);

/// Maximum ids with findings that share a pause.
const SUSPECTS_MAX: usize = 1_000;

/// Checks one id.
#[async_trait]
pub(crate) trait Verifier: Send + Sync + 'static {
    /// The findings about an id; those in `repairs` are repaired.
    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>>;
}

/// The confirmed findings about one id.
pub(crate) async fn confirm_one(
    verifier: &dyn Verifier,
    clock: &dyn Clock,
    id: &PersistenceId,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let first = verifier.verify(id, &Verify::Check.into()).await?;
    if first.is_empty() {
        return Ok(first);
    }
    clock.sleep(PAUSE).await;
    confirm(verifier, id, verify, first).await
}

/// The confirmed findings about all ids, from those of a `first` check.
pub(crate) fn confirm_all(
    verifier: Arc<dyn Verifier>,
    clock: Arc<dyn Clock>,
    first: FindingStream,
    verify: Verify,
) -> FindingStream {
    // Stray items and ids without findings are reported at once; the others are collected for a
    // common pause, at the latest at the end.
    let with_end = first.map_ok(Some).chain(stream::iter([Ok(None)]));
    let batches = with_end.try_filter_map({
        let mut collected: Vec<Vec<Finding>> = Vec::new();
        move |found| {
            let (reported, is_due) = match found {
                None => (None, true),
                Some(found) if found.iter().all(|one| one.persistence_id.is_none()) => {
                    (Some(found), false)
                }
                Some(found) => {
                    collected.push(found);
                    (None, collected.len() >= SUSPECTS_MAX)
                }
            };
            let suspects = match is_due {
                true => std::mem::take(&mut collected),
                false => Vec::new(),
            };
            let is_some = reported.is_some() || !suspects.is_empty();
            std::future::ready(Ok(is_some.then_some((reported, suspects))))
        }
    });
    let confirmed = batches.and_then(move |(reported, suspects)| {
        let (verifier, clock) = (verifier.clone(), clock.clone());
        async move {
            if !suspects.is_empty() {
                clock.sleep(PAUSE).await;
            }
            let confirmed = stream::iter(suspects).then(move |first| {
                let verifier = verifier.clone();
                async move {
                    let id = first.iter().find_map(|one| one.persistence_id.clone());
                    match id {
                        Some(id) => confirm(&*verifier, &id, verify, first).await,
                        None => Ok(first),
                    }
                }
            });
            Ok(stream::iter(reported.map(Ok)).chain(confirmed))
        }
    });
    FindingStream::new(confirmed.try_flatten())
}

/// The confirmed findings of a read-only `check`, of one id or of all.
pub(crate) fn confirm_check(
    check: impl Fn(Option<&PersistenceId>) -> FindingStream + Send + Sync + 'static,
    clock: Arc<dyn Clock>,
    id: Option<&PersistenceId>,
) -> FindingStream {
    let first = check(id);
    confirm_all(Arc::new(ReadOnly(check)), clock, first, Verify::Check)
}

/// A check that never repairs.
struct ReadOnly<F>(F);

#[async_trait]
impl<F> Verifier for ReadOnly<F>
where
    F: Fn(Option<&PersistenceId>) -> FindingStream + Send + Sync + 'static,
{
    async fn verify(&self, id: &PersistenceId, _: &Repairs) -> Result<Vec<Finding>> {
        (self.0)(Some(id)).try_concat().await
    }
}

/// Checks again, and repairs confirmed findings if that is wanted.
async fn confirm(
    verifier: &dyn Verifier,
    id: &PersistenceId,
    verify: Verify,
    first: Vec<Finding>,
) -> Result<Vec<Finding>> {
    let second = verifier.verify(id, &Verify::Check.into()).await?;
    let confirmed = found_before(second, &first);
    let is_repairable = |one: &Finding| one.remedy == Remedy::Repairable;
    if verify == Verify::Check || !confirmed.iter().any(is_repairable) {
        return Ok(confirmed);
    }
    let repairs = Repairs::only(confirmed.clone());
    let repaired = verifier.verify(id, &repairs).await?;
    Ok(found_before(repaired, &confirmed))
}

/// The findings that were found before, too.
fn found_before(mut found: Vec<Finding>, before: &[Finding]) -> Vec<Finding> {
    found.retain(|one| before.iter().any(|other| one.is_same(other)));
    found
}
