//! How far the shares that run in this process have come, for those who wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::feed::Position;

/// The positions of the shares of this process, by build and share.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    positions: Mutex<HashMap<(u32, u16), Position>>,
    moved: Notify,
}

impl Progress {
    /// Everything of a share up to a position is handled.
    pub(super) fn set(&self, share: (u32, u16), at: Position) {
        self.lock().insert(share, at);
        self.0.moved.notify_waiters();
    }

    /// A share runs elsewhere now.
    pub(super) fn remove(&self, share: (u32, u16)) {
        self.lock().remove(&share);
    }

    pub(super) fn get(&self, share: (u32, u16)) -> Option<Position> {
        self.lock().get(&share).cloned()
    }

    /// Completes when a share moves after this call.
    pub(super) fn moved(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.moved.notified()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(u32, u16), Position>> {
        let positions = self.0.positions.lock();
        positions.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
