//! Effects: what a decision about a value wants to happen.

use std::fmt;

use crate::entity::ending::{Ending, Next};

/// What becomes of the value.
#[derive(Debug)]
pub(in crate::entity) enum Change<E> {
    Keep,
    Update(E),
    Delete,
}

/// What a decision wants to happen: a new value, none, or nothing; a reply, and what follows.
///
/// ```
/// use annals::entity::durable::{Effect, Entity, Handle, delete, none, reply, update};
/// use annals::entity::{Cx, Stored};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize, Stored)]
/// struct Cart {
///     items: Vec<String>,
/// }
///
/// impl Entity for Cart {
///     const TYPE: &'static str = "Cart";
///     type Error = std::convert::Infallible;
/// }
///
/// enum Do {
///     Fill(Vec<String>),
///     Drop,
///     Count,
///     Nothing,
/// }
///
/// impl Handle<Do> for Cart {
///     type Reply = usize;
///
///     fn handle(&self, command: &Do, _: &Cx<'_>) -> Result<Effect<Self, usize>, Self::Error> {
///         Ok(match command {
///             // The reply is made from the new value.
///             Do::Fill(items) => update(Cart { items: items.clone() })
///                 .then(|cart: &Self| println!("{} items, durably", cart.items.len()))
///                 .reply(|cart: &Self| cart.items.len()),
///             Do::Drop => delete().passivate().reply(|_| 0),
///             Do::Count => reply(self.items.len()),
///             Do::Nothing => none().reply(|_| 0),
///         })
///     }
/// }
/// # use annals::entity::testkit::given_value;
/// # given_value(Cart::default()).when(&Do::Fill(vec!["a".into()])).then_reply(1).then_follow()
/// #     .when(&Do::Count).then_nothing().then_reply(1)
/// #     .when(&Do::Nothing).then_nothing()
/// #     .when(&Do::Drop).then_deleted();
/// ```
#[must_use = "an effect does nothing until a handler returns it"]
pub struct Effect<E, R> {
    pub(in crate::entity) change: Change<E>,
    pub(in crate::entity) ending: Ending<E, R>,
}

fn changing<E>(change: Change<E>) -> Effect<E, ()> {
    Effect {
        change,
        ending: Ending::default(),
    }
}

/// Replaces the value; the reply is `()` unless [`Effect::reply`] says otherwise. See [`Effect`] for
/// an example.
pub fn update<E>(value: E) -> Effect<E, ()> {
    changing(Change::Update(value))
}

/// Deletes the value. See [`Effect`] for an example.
pub fn delete<E>() -> Effect<E, ()> {
    changing(Change::Delete)
}

/// Changes nothing and replies. See [`Effect`] for an example.
pub fn reply<E, R: Send + 'static>(value: R) -> Effect<E, R> {
    none().reply(move |_| value)
}

/// Does nothing. See [`Effect`] for an example.
pub fn none<E>() -> Effect<E, ()> {
    changing(Change::Keep)
}

impl<E, R> Effect<E, R> {
    /// Replies with what this makes of the value behind the change.
    pub fn reply<S: Send + 'static>(
        self,
        reply: impl FnOnce(&E) -> S + Send + 'static,
    ) -> Effect<E, S> {
        Effect {
            change: self.change,
            ending: self.ending.reply(reply),
        }
    }

    /// Runs this when the change is durable: at most once. Not where the process dies before, nor
    /// where the store's answer was lost for good.
    pub fn then(mut self, follow: impl FnOnce(&E) + Send + 'static) -> Self {
        self.ending.then(follow);
        self
    }

    /// Lets the entity leave memory behind this. Executors keep none there anyway.
    pub fn passivate(mut self) -> Self {
        self.ending.next = Next::Passivate;
        self
    }

    /// Lets the entity leave memory behind this, and refuses what waits for it.
    pub fn stop(mut self) -> Self {
        self.ending.next = Next::Stop;
        self
    }
}

impl<E: fmt::Debug, R> fmt::Debug for Effect<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("change", &self.change)
            .field("next", &self.ending.next)
            .finish_non_exhaustive()
    }
}
