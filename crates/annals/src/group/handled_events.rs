//! Whether a group has handled events, for those who want to delete them.
//!
//! Guarantees: events count as handled only if their commits are acknowledged, discarded or not wanted by
//! the group's filter. What is handled once stays so, unless the group is deleted and created again.

use super::Group;
use crate::feed::{Position, Reading};
use crate::{PersistenceId, Result};

impl Group {
    /// Whether the group has handled every event of an id up to a position, so that it does not need them
    /// any more. `None`: there is no such group.
    ///
    /// Events are handled when their commits are acknowledged. `Some(false)` also while a commit of the
    /// id is a dead letter, and until it is saved that the group passed the position: at the latest when
    /// it hands out the next commit, or has passed a thousand other changes. A group whose filter does
    /// not accept the id needs nothing of it. See
    /// [`Projections::has_handled`](crate::projection::Projections::has_handled) for an example.
    ///
    /// # Errors
    /// `Invalid` if the position is of another store's feed.
    pub async fn has_handled(
        &self,
        position: &Position,
        id: &PersistenceId,
    ) -> Result<Option<bool>> {
        let position = Reading::new(&self.groups.0.journal)
            .locate(position)
            .await?;
        let handled = self.handled_to(id).await?;
        Ok(handled.map(|all| all.iter().all(|to| to.includes(&position))))
    }

    /// The position up to which the events of an id are handled; none if the group does not want the id.
    pub(crate) async fn handled_to(&self, id: &PersistenceId) -> Result<Option<Vec<Position>>> {
        let Some(group) = self.load().await? else {
            return Ok(None);
        };
        let is_wanted = group.rules.filter.accepts_id(id);
        let handled = is_wanted.then(|| group.state.handled_to(id));
        Ok(Some(handled.into_iter().collect()))
    }
}
