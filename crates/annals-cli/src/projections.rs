//! What the command line and the server both do with projections.

use annals::projection::{DeadLetter, Projections};
use annals::{PersistenceId, Result};

use crate::wire::{Count, DeadLetterAction, DeadLettersRequested};

/// The dead letters of a projection: those of an id, or all. `None`: there is no such projection.
pub(crate) async fn dead_letters(
    projections: &Projections,
    name: &str,
    id: Option<&PersistenceId>,
) -> Result<Option<Vec<DeadLetter>>> {
    let letters = projections.dead_letters(name).await?;
    let is_wanted = |it: &DeadLetter| id.is_none_or(|id| it.persistence_id == id.as_str());
    Ok(letters.map(|mut letters| {
        letters.retain(is_wanted);
        letters
    }))
}

/// Asks the programs that run a projection to retry or discard dead letters: those of an id, or all.
/// Returns how many there are; nothing is asked if there are none. `None`: there is no such projection.
pub(crate) async fn request<'a>(
    projections: &Projections,
    name: &'a str,
    id: Option<&PersistenceId>,
    requested: DeadLetterAction,
) -> Result<Option<DeadLettersRequested<'a>>> {
    let Some(letters) = dead_letters(projections, name, id).await? else {
        return Ok(None);
    };
    let is_asked = match requested {
        _ if letters.is_empty() => true,
        DeadLetterAction::Retry => projections.retry(name, id).await?,
        DeadLetterAction::Discard => projections.discard(name, id).await?,
    };
    let mut ids: Vec<&str> = letters
        .iter()
        .map(|it| it.persistence_id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(is_asked.then(|| DeadLettersRequested {
        projection: name,
        requested,
        ids: Count(ids.len() as u64),
        events: Count(letters.iter().map(|letters| letters.events).sum()),
    }))
}
