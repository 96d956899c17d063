//! Copies the value of an id, or its deletion, with the revision.

use super::{Copied, IdCopy};
use crate::{Error, Result};

impl IdCopy<'_> {
    pub(super) async fn copy_state(&mut self) -> Result<()> {
        let copier = self.copier;
        let (Some(source), Some(target)) = (&copier.source.states, &copier.target.states) else {
            return Ok(());
        };
        let Some(state) = source.last(self.id).await? else {
            return Ok(());
        };
        self.is_found = true;
        let existing = target.last(self.id).await?;
        let before = existing.as_ref().map_or(0, |existing| existing.revision);
        if existing.as_ref() == Some(&state) {
            self.count(Copied {
                states_present: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        let revision = state.revision;
        if existing.is_some() && before >= revision {
            return Err(Error::conflict(
                "the target has another value of this or a later revision; copy into other tables, or without state",
            )
            .fact("revision", revision)
            .fact("found", before));
        }
        target.put_over(state.clone(), before).await?;
        if target.last(self.id).await? != Some(state) {
            return Err(Error::corrupt(
                "a copied value reads back differently; do not use the target",
            )
            .fact("revision", revision));
        }
        self.count(Copied {
            states: 1,
            ..Copied::default()
        });
        Ok(())
    }
}
