//! How a decision ends, whatever it writes: what follows, the reply, and what becomes of the
//! entity's place in memory.
//!
//! Promises: what is to follow runs when what was decided is durable, once; the reply is made from
//! the state behind it.

use super::live::{Asked, Once};

/// What follows a decision for the entity itself, where it is resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Next {
    #[default]
    Stay,
    /// Leave memory; the next command brings it back.
    Passivate,
    /// Leave memory, and answer nobody who is waiting.
    Stop,
}

type Replies<S, R> = Box<dyn FnOnce(&S) -> R + Send>;
pub(super) type Follow<S> = Box<dyn FnOnce(&S) + Send>;

/// How a decision ends.
pub(super) struct Ending<S, R> {
    pub(super) next: Next,
    pub(super) follows: Vec<Follow<S>>,
    reply: Replies<S, R>,
}

impl<S> Default for Ending<S, ()> {
    fn default() -> Self {
        Self {
            next: Next::Stay,
            follows: Vec::new(),
            reply: Box::new(|_| ()),
        }
    }
}

impl<S, R> Ending<S, R> {
    /// The same with another reply.
    pub(super) fn reply<T>(self, reply: impl FnOnce(&S) -> T + Send + 'static) -> Ending<S, T> {
        Ending {
            next: self.next,
            follows: self.follows,
            reply: Box::new(reply),
        }
    }

    pub(super) fn then(&mut self, follow: impl FnOnce(&S) + Send + 'static) {
        self.follows.push(Box::new(follow));
    }

    /// Does what follows, and replies.
    pub(super) fn finish(self, state: &S) -> Asked<R> {
        for follow in self.follows {
            follow(state);
        }
        Asked {
            reply: Once::Done((self.reply)(state)),
            next: self.next,
        }
    }

    /// The reply alone, and what would follow.
    #[cfg(feature = "testing")]
    pub(super) fn taken_apart(self, state: &S) -> (R, Vec<Follow<S>>) {
        ((self.reply)(state), self.follows)
    }
}
