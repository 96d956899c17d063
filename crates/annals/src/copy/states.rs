//! The value of an id: the current one, or that it was deleted, with its revision.

use super::{Copied, Work};
use crate::{Error, Result};

impl Work<'_> {
    pub(super) async fn state(&mut self) -> Result<()> {
        let (from, to) = (&self.copier.from.states, &self.copier.to.states);
        let (Some(source), Some(target)) = (from, to) else {
            return Ok(());
        };
        let Some(state) = source.last(self.id).await? else {
            return Ok(());
        };
        self.is_found = true;
        let there = target.last(self.id).await?;
        let before = there.as_ref().map_or(0, |there| there.revision);
        if there.as_ref() == Some(&state) {
            self.done(Copied {
                states_present: 1,
                ..Copied::default()
            });
            return Ok(());
        }
        let revision = state.revision;
        if there.is_some() && before >= revision {
            return Err(Error::conflict(format!(
                "the target has another value of this revision, or a later one; copy into other tables, or without state. revision=`{revision}`, found=`{before}`"
            )));
        }
        target.put_over(state.clone(), before).await?;
        if target.last(self.id).await? != Some(state) {
            return Err(Error::corrupt(format!(
                "a value that was written does not read back the same; do not use the target. revision=`{revision}`"
            )));
        }
        self.done(Copied {
            states: 1,
            ..Copied::default()
        });
        Ok(())
    }
}
