//! What an application implements for a durable value: the value, its commands, and their effects.

use std::fmt;

use crate::entity::effect::{AfterCommand, Completion};
use crate::entity::{Cx, Stored};

/// A durable value: only the current one is stored, without history.
///
/// The value is the implementing type itself; its default stands for a missing value.
///
/// ```
/// use annals::entity::Stored;
/// use annals::entity::durable::Entity;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize, Stored)]
/// struct Session {
///     user: String,
/// }
///
/// impl Entity for Session {
///     const TYPE: &'static str = "Session";
///     type Error = std::convert::Infallible;
///
///     fn tag(&self) -> String {
///         format!("user-{}", self.user)
///     }
/// }
/// # assert_eq!(Session { user: "ann".into() }.tag(), "user-ann");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a durable entity",
    label = "`annals::entity::durable::Entity` is not implemented for `{Self}`",
    note = "implement `annals::entity::durable::Entity` for `{Self}`: its type name and its error",
    note = "for an entity with events, implement `annals::entity::Entity` and use `region` or `executor`"
)]
pub trait Entity: Default + Stored + Send + Sync + 'static {
    /// The name of the entity type. It is part of every persistence id (`TYPE|ID`), so it must never
    /// change.
    const TYPE: &'static str;
    /// Why a command is rejected.
    type Error: std::error::Error + Send + Sync + 'static;

    /// A tag to find the value by; empty for none.
    fn tag(&self) -> String {
        String::new()
    }
}

/// Handles commands of type `C`.
///
/// A handler is pure and synchronous. On a conflict with another writer it runs again with the newer
/// value, so it must not have side effects; put what must happen after the value is durable into
/// [`Effect::then`].
///
/// ```
/// use annals::entity::durable::{Effect, Entity, Handle, update};
/// use annals::entity::{Cx, Stored};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize, Stored)]
/// struct Position(u64);
///
/// impl Entity for Position {
///     const TYPE: &'static str = "Position";
///     type Error = std::convert::Infallible;
/// }
///
/// struct Advance(u64);
///
/// impl Handle<Advance> for Position {
///     /// The position before.
///     type Reply = u64;
///
///     fn handle(&self, by: &Advance, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let before = self.0;
///         Ok(update(Self(before + by.0)).reply(move |_| before))
///     }
/// }
/// # use annals::entity::testkit::given_value;
/// # given_value(Position(1)).when(&Advance(2)).then_reply(1).then_value(|now| assert_eq!(now.0, 3));
/// ```
///
/// A command without a handler does not compile:
///
/// ```compile_fail,E0277
/// # use annals::entity::Stored;
/// # use annals::entity::durable::{Entity, Region};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize, Stored)]
/// # struct Position(u64);
/// # impl Entity for Position {
/// #     const TYPE: &'static str = "Position";
/// #     type Error = std::convert::Infallible;
/// # }
/// struct Rewind;
///
/// async fn rewind(positions: &Region<Position>) {
///     let _ = positions.ask("reader", Rewind).await;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle the command `{C}`",
    label = "no handler for `{C}`",
    note = "implement `annals::entity::durable::Handle<{C}>` for `{Self}`"
)]
pub trait Handle<C>: Entity {
    /// What the caller gets.
    type Reply: Send + 'static;

    /// Decide what the command does.
    ///
    /// # Errors
    /// The entity's own error if it rejects the command. Nothing is written then.
    fn handle(&self, command: &C, cx: &Cx<'_>) -> Result<Effect<Self, Self::Reply>, Self::Error>;
}

/// What happens to the value.
#[derive(Debug)]
pub(in crate::entity) enum Change<E> {
    Keep,
    Update(E),
    Delete,
}

/// What a handler returns: an update, a deletion or neither; a reply; and what to do afterwards.
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
/// enum Command {
///     Fill(Vec<String>),
///     Discard,
///     Count,
///     Ping,
/// }
///
/// impl Handle<Command> for Cart {
///     type Reply = usize;
///
///     fn handle(&self, command: &Command, _: &Cx<'_>) -> Result<Effect<Self, usize>, Self::Error> {
///         Ok(match command {
///             // The reply is computed from the new value.
///             Command::Fill(items) => update(Cart { items: items.clone() })
///                 .then(|cart| println!("stored {} items", cart.items.len()))
///                 .reply(|cart| cart.items.len()),
///             Command::Discard => delete().passivate().reply(|_| 0),
///             Command::Count => reply(self.items.len()),
///             Command::Ping => none().reply(|_| 0),
///         })
///     }
/// }
/// # use annals::entity::testkit::given_value;
/// # given_value(Cart::default())
/// #     .when(&Command::Fill(vec!["a".into()])).then_reply(1).then_run_callbacks()
/// #     .when(&Command::Count).then_unchanged().then_reply(1)
/// #     .when(&Command::Ping).then_unchanged()
/// #     .when(&Command::Discard).then_deleted();
/// ```
#[must_use = "an effect does nothing until a handler returns it"]
pub struct Effect<E, R> {
    pub(in crate::entity) change: Change<E>,
    pub(in crate::entity) completion: Completion<E, R>,
}

fn change<E>(change: Change<E>) -> Effect<E, ()> {
    Effect {
        change,
        completion: Completion::default(),
    }
}

/// Replace the value and reply with `()`; change the reply with [`Effect::reply`]. See [`Effect`] for
/// an example.
pub fn update<E>(value: E) -> Effect<E, ()> {
    change(Change::Update(value))
}

/// Delete the value. See [`Effect`] for an example.
pub fn delete<E>() -> Effect<E, ()> {
    change(Change::Delete)
}

/// Reply without changing the value. See [`Effect`] for an example.
pub fn reply<E, R: Send + 'static>(value: R) -> Effect<E, R> {
    none().reply(move |_| value)
}

/// Change nothing and reply with `()`. See [`Effect`] for an example.
pub fn none<E>() -> Effect<E, ()> {
    change(Change::Keep)
}

impl<E, R> Effect<E, R> {
    /// Reply with a value computed from the new value.
    pub fn reply<S: Send + 'static>(
        self,
        reply: impl FnOnce(&E) -> S + Send + 'static,
    ) -> Effect<E, S> {
        Effect {
            change: self.change,
            completion: self.completion.reply(reply),
        }
    }

    /// Call back after the change is durable, at most once. Not called if the process dies before, or
    /// if the write ends in doubt.
    pub fn then(mut self, callback: impl FnOnce(&E) + Send + 'static) -> Self {
        self.completion.then(callback);
        self
    }

    /// Remove the entity from memory after this command. Executors always do.
    pub fn passivate(mut self) -> Self {
        self.completion.after = AfterCommand::Passivate;
        self
    }

    /// Remove the entity from memory after this command, and reject the commands queued for it.
    pub fn stop(mut self) -> Self {
        self.completion.after = AfterCommand::Stop;
        self
    }
}

impl<E: fmt::Debug, R> fmt::Debug for Effect<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("change", &self.change)
            .field("after", &self.completion.after)
            .finish_non_exhaustive()
    }
}
