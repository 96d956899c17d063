//! When ids were purged, as far as the changes of a journal were read.
//!
//! A purge frees sequence numbers, and with them the keys of items. What is under a key now may be from
//! after a purge, and then it has another place than a value that was erased before.

use std::collections::HashMap;

use crate::items::{Change, Changed, Changes, PageBudget};
use crate::journal::{FeedLayout, Meaning};
use crate::{PersistenceId, Result};

/// The last purge of each id.
#[derive(Debug, Default)]
pub(super) struct Purges {
    /// Every change after the first position up to the second was read.
    read: Option<(u64, u64)>,
    /// Positions, of ids that were purged at all.
    last: HashMap<PersistenceId, u64>,
}

impl Purges {
    /// Whether an id was purged after a position. Reads the changes since the last call.
    pub(super) async fn has_since(
        &mut self,
        id: &PersistenceId,
        place: u64,
        (changes, layout): (&dyn Changes, &dyn FeedLayout),
    ) -> Result<bool> {
        let (from, mut upto) = self
            .read
            .filter(|(from, _)| *from <= place)
            .unwrap_or((place, place));
        let end = changes.history().await?.last.position;
        while upto < end {
            let page = changes.read_changes(layout.table(), upto, PageBudget::default());
            let page = page.await?;
            for change in page.changes {
                self.note(change, layout)?;
            }
            upto = page.upto.position;
            self.read = Some((from, upto));
        }
        Ok(self.last.get(id).is_some_and(|purged| *purged > place))
    }

    fn note(&mut self, change: Change, layout: &dyn FeedLayout) -> Result<()> {
        if change.now != Changed::Deleted {
            return Ok(());
        }
        if let Some(id) = layout.id_of(&change) {
            let place = change.position;
            if layout.meaning(&id, change)? == Meaning::Purged {
                self.last.insert(id, place);
            }
        }
        Ok(())
    }
}
