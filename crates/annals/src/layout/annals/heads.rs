//! What this process knows to be last: numbers it has written or read itself.
//!
//! Promises: a number in here ends a commit that is in the journal, so a successor may be put
//! without looking first. Being out of date is harmless: the put is refused.
//! Trusts: whoever teaches it to have seen such a commit. Commits never leave the journal.

use crate::layout::recent_cache::Known;
use crate::{PersistenceId, SequenceNumber};

#[derive(Debug, Default)]
pub(super) struct Heads(Known<PersistenceId, SequenceNumber>);

impl Heads {
    pub(super) fn get(&self, id: &PersistenceId) -> Option<SequenceNumber> {
        self.0.get(id)
    }

    pub(super) fn forget(&self, id: &PersistenceId) {
        self.0.forget(id);
    }

    /// Remembers that a commit ends here. The highest is kept.
    pub(super) fn learn(&self, id: &PersistenceId, last: SequenceNumber) {
        self.0.update(id.clone(), |known| {
            known.map_or(last, |known| known.max(last))
        });
    }
}
