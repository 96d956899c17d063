//! Following the changes of an entity's state.

use std::time::Duration;

use futures::stream;

use super::{Revision, State, States};
use crate::{PersistenceId, ResultStream};

/// A stream of states. An error ends it.
///
/// ```
/// use annals::state::StateStream;
/// use annals::{Codec, Payload};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let states = annals.states()?;
/// let id = "Cart|42".parse()?;
/// let mut changes: StateStream = states.changes(&id, 0);
/// states.upsert(&id, 1, Payload::new(Codec::Text, "open")).await?;
/// let state = changes.try_next().await?.expect("it does not end");
/// assert_eq!(state.revision, 1);
/// # Ok(())
/// # }
/// ```
pub type StateStream = ResultStream<State>;

/// The pause between reads: short after a change, longer without.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl States {
    /// Streams the state when its revision is above `since`, and again after each change, deletions
    /// included. Quick successive revisions may be skipped, but never the last one. Runs until it is
    /// dropped.
    pub fn changes(&self, id: &PersistenceId, since: Revision) -> StateStream {
        let (states, id) = (self.clone(), id.clone());
        let changes = stream::try_unfold(since, move |since| {
            let (states, id) = (states.clone(), id.clone());
            async move {
                let mut pause = PAUSE_MIN;
                loop {
                    let found = states.last(&id).await?;
                    if let Some(state) = found.filter(|state| state.revision > since) {
                        let revision = state.revision;
                        return Ok(Some((state, revision)));
                    }
                    states.store.clock().sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        });
        StateStream::new(changes)
    }
}
