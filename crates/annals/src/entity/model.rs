//! What an application writes: a state, its events, and what a command does to it.

use super::{Cx, Effect, EntityEvent, Stored};

/// A state that is made of events.
///
/// The state is the implementing type itself; a new entity has its default.
///
/// ```
/// use annals::entity::{Entity, EntityEvent, Stored};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Stored, Default)]
/// struct Account {
///     balance: u64,
/// }
///
/// #[derive(Serialize, Deserialize, EntityEvent)]
/// enum Happened {
///     Deposited { amount: u64 },
///     Withdrawn { amount: u64 },
/// }
///
/// #[derive(thiserror::Error, Debug)]
/// #[error("too little. balance=`{0}`")]
/// struct TooLittle(u64);
///
/// impl Entity for Account {
///     const TYPE: &'static str = "Account";
///     type Event = Happened;
///     type Error = TooLittle;
///
///     fn apply(&mut self, event: &Happened) {
///         match event {
///             Happened::Deposited { amount } => self.balance += amount,
///             Happened::Withdrawn { amount } => self.balance -= amount,
///         }
///     }
/// }
/// ```
pub trait Entity: Default + Stored + Send + Sync + 'static {
    /// The name of this kind of entity. It is part of every persistence id, `TYPE|ID`, so it stays
    /// the same for ever.
    const TYPE: &'static str;
    /// What happens to it.
    type Event: EntityEvent;
    /// Why it refuses a command.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Takes an event in. Never refuses: what is in the journal has happened.
    fn apply(&mut self, event: &Self::Event);
}

/// A command that an entity understands.
///
/// Deciding is pure and synchronous: it reads the state and says what is to happen. Where another
/// writer was faster it is done again with the newer state, so it must not act by itself; what is
/// to be done once the events are durable goes into [`Effect::then`].
///
/// Each command is a type with a reply of its own; an enum of commands that share one is fine too.
///
/// ```
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// # enum Happened { Deposited { amount: u64 }, Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = Happened;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, event: &Happened) {
/// #         if let Happened::Deposited { amount } = event { self.balance += amount; }
/// #     }
/// # }
/// use annals::entity::{Cx, Effect, Handle, persist};
///
/// struct Deposit(u64);
///
/// impl Handle<Deposit> for Account {
///     /// The new balance.
///     type Reply = u64;
///
///     fn handle(&self, command: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let event = Happened::Deposited { amount: command.0 };
///         Ok(persist(event).reply(|account: &Self| account.balance))
///     }
/// }
/// # annals::entity::testkit::given::<Account>([]).when(&Deposit(7)).then_reply(7);
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
