//! Findings are looked at twice, with a pause between, so that what somebody is writing is not
//! taken for damage.
//!
//! Items are read one page after the other, and appends, deletions and marks are several items on
//! some layouts. So whoever reads beside a writer meets halves: a batch that has only begun, a mark
//! that is about to move. A moment later they are whole, and what is wrong is still wrong.
//!
//! Promises: what is told was found twice, at least [`PAUSE`] apart; only that is repaired. Where
//! nothing is wrong it is looked once.
//! Trusts: that a batch or a deletion gets on within the pause. One whose writer stands still for
//! longer is told, as one that was cut off.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Finding, FindingStream, Remedy, Repairs, Verify};
use crate::{Clock, PersistenceId, Result};

/// How long what was found has to stand. A batch of hundreds is written in less.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);

/// So many ids with findings share a pause.
const SUSPECTS_MAX: usize = 1_000;

/// What can be looked at again.
#[async_trait]
pub(crate) trait Looks: Send + Sync + 'static {
    /// What is wrong with what an id has; what is wanted is repaired.
    async fn look(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>>;
}

/// What is wrong with one id.
pub(crate) async fn one(
    looks: &dyn Looks,
    clock: &dyn Clock,
    (id, verify): (&PersistenceId, Verify),
) -> Result<Vec<Finding>> {
    let first = looks.look(id, &Verify::Look.into()).await?;
    if first.is_empty() {
        return Ok(first);
    }
    clock.sleep(PAUSE).await;
    again(looks, (id, verify), first).await
}

/// What is wrong with everybody, by a first look at all.
pub(crate) fn all(
    looks: Arc<dyn Looks>,
    clock: Arc<dyn Clock>,
    (first, verify): (FindingStream, Verify),
) -> FindingStream {
    // What is nobody's, and the ids with nothing wrong, are told as they come; the others wait for
    // a pause that they share, at the latest at the end.
    let marked = first.map_ok(Some).chain(stream::iter([Ok(None)]));
    let told = marked.try_filter_map({
        let mut waiting: Vec<Vec<Finding>> = Vec::new();
        move |found| {
            let (told, is_due) = match found {
                None => (Vec::new(), true),
                Some(found) if found.iter().all(|one| one.persistence_id.is_none()) => {
                    (vec![found], false)
                }
                Some(found) => {
                    waiting.push(found);
                    (Vec::new(), waiting.len() >= SUSPECTS_MAX)
                }
            };
            let suspects = match is_due {
                true => std::mem::take(&mut waiting),
                false => Vec::new(),
            };
            let is_some = !told.is_empty() || !suspects.is_empty();
            std::future::ready(Ok(is_some.then_some((told, suspects))))
        }
    });
    let looked = told.and_then(move |(told, suspects)| {
        let (looks, clock) = (looks.clone(), clock.clone());
        async move {
            if !suspects.is_empty() {
                clock.sleep(PAUSE).await;
            }
            let confirmed = stream::iter(suspects).then(move |first| {
                let looks = looks.clone();
                async move {
                    let id = first.iter().find_map(|one| one.persistence_id.clone());
                    match id {
                        Some(id) => again(&*looks, (&id, verify), first).await,
                        None => Ok(first),
                    }
                }
            });
            Ok(stream::iter(told.into_iter().map(Ok)).chain(confirmed))
        }
    });
    Box::pin(looked.try_flatten())
}

/// Looks again at what was found, and repairs what stands where that is wanted.
async fn again(
    looks: &dyn Looks,
    (id, verify): (&PersistenceId, Verify),
    first: Vec<Finding>,
) -> Result<Vec<Finding>> {
    let second = looks.look(id, &Verify::Look.into()).await?;
    let standing = standing(second, &first);
    let is_repairable = |one: &Finding| one.remedy == Remedy::Repairable;
    if verify == Verify::Look || !standing.iter().any(is_repairable) {
        return Ok(standing);
    }
    let repaired = looks.look(id, &Repairs::these(standing.clone())).await?;
    Ok(self::standing(repaired, &standing))
}

/// Of what was found, what was found before.
fn standing(mut found: Vec<Finding>, before: &[Finding]) -> Vec<Finding> {
    found.retain(|one| before.iter().any(|other| one.is_again(other)));
    found
}
