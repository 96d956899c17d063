//! What an application writes: a value, and what a command does to it.

use super::Effect;
use crate::entity::{Cx, Stored};

/// A value that is kept as it is, without its history.
///
/// The value is the implementing type itself; where none is kept, it is the default.
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
pub trait Entity: Default + Stored + Send + Sync + 'static {
    /// The name of this kind of entity. It is part of every persistence id, `TYPE|ID`, so it stays
    /// the same for ever.
    const TYPE: &'static str;
    /// Why it refuses a command.
    type Error: std::error::Error + Send + Sync + 'static;

    /// What the value is to be found by, where that is wanted.
    fn tag(&self) -> String {
        String::new()
    }
}

/// A command that an entity understands.
///
/// Deciding is pure and synchronous. Where another writer was faster it is done again with the newer
/// value, so it must not act by itself; what is to be done once the value is durable goes into
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
///     /// Where it was before.
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
pub trait Handle<C>: Entity {
    /// What the asker gets.
    type Reply: Send + 'static;

    /// Decides.
    ///
    /// # Errors
    /// The entity's own, where it refuses. Nothing is written then.
    fn handle(&self, command: &C, cx: &Cx<'_>) -> Result<Effect<Self, Self::Reply>, Self::Error>;
}
