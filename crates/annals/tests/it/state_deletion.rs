//! A deletion of a value that another attempt has deleted meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::memory::Memory;
use annals::state::{State, StateError, StateLayout, States};
use annals::store::Store;
use annals::{Codec, Payload, PersistenceId, Result};
use async_trait::async_trait;

/// Stores the first deletion, and answers with a conflict: the response of an earlier attempt was
/// lost, and this layout does not recognise it.
#[derive(Debug, Default)]
struct Forgetful {
    is_deleted: AtomicBool,
}

#[async_trait]
impl StateLayout for Forgetful {
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let is_deleted = self.is_deleted.load(Ordering::Relaxed);
        let mut state = State::new(id.clone(), 1 + u64::from(is_deleted), 0);
        state.value = (!is_deleted).then(|| Payload::new(Codec::Text, "a value"));
        Ok(Some(state))
    }

    async fn put(&self, state: State) -> Result<(), StateError> {
        self.is_deleted.store(true, Ordering::Relaxed);
        Err(StateError::Conflict {
            id: state.persistence_id,
            revision: state.revision,
            found: 2,
        })
    }
}

#[tokio::test]
async fn a_deletion_whose_response_was_lost_found_a_value() {
    let states = States::new(Arc::new(Forgetful::default()), &Store::new(Memory::new()));
    let id = "Cart|42".parse().unwrap();
    assert!(states.delete(&id, None).await.unwrap());
    assert!(!states.delete(&id, None).await.unwrap(), "it is gone");
}
