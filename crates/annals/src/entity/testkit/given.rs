//! Given: the events before a command.

use std::sync::Arc;

use super::Decided;
use super::checks::{check_same_state, read, restored, stored};
use crate::PersistenceId;
use crate::entity::backend::CommandIds;
use crate::entity::{Cx, Entity, Handle};

/// Start a test with the events that an entity has; none for a new one.
///
/// ```
/// use annals::entity::testkit::given;
/// use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Stored, Default)]
/// struct Account {
///     balance: u64,
/// }
///
/// #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// #[event(entity = Account)]
/// enum AccountEvent {
///     Deposited { amount: u64 },
///     Withdrawn { amount: u64 },
/// }
/// use AccountEvent::{Deposited, Withdrawn};
///
/// #[derive(thiserror::Error, PartialEq, Debug)]
/// #[error("insufficient funds. balance=`{0}`")]
/// struct InsufficientFunds(u64);
///
/// impl Entity for Account {
///     const TYPE: &'static str = "Account";
///     type Event = AccountEvent;
///     type Error = InsufficientFunds;
///
///     fn apply(&mut self, event: &AccountEvent) {
///         match event {
///             Deposited { amount } => self.balance += amount,
///             Withdrawn { amount } => self.balance -= amount,
///         }
///     }
/// }
///
/// struct Withdraw(u64);
///
/// impl Handle<Withdraw> for Account {
///     type Reply = u64;
///
///     fn handle(&self, command: &Withdraw, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let amount = command.0;
///         if amount > self.balance {
///             return Err(InsufficientFunds(self.balance));
///         }
///         Ok(persist(Withdrawn { amount }).reply(|account| account.balance))
///     }
/// }
///
/// given::<Account>([Deposited { amount: 10 }])
///     .when(&Withdraw(4))
///     .then_events([Withdrawn { amount: 4 }])
///     .then_reply(6)
///     .when(&Withdraw(7))
///     .then_rejected(&InsufficientFunds(6))
///     .then_state(|account| assert_eq!(account.balance, 6));
/// ```
#[must_use = "send a command with `when`"]
pub fn given<E: Entity>(events: impl IntoIterator<Item = E::Event>) -> Given<E> {
    Given {
        events: events.into_iter().collect(),
        id: "1".to_owned(),
        now_ms: 0,
        ids: CommandIds::default(),
    }
}

/// The events before a command. Made by [`given`]; see there for an example.
pub struct Given<E: Entity> {
    pub(super) events: Vec<E::Event>,
    id: String,
    now_ms: u64,
    pub(super) ids: CommandIds,
}

/// The same state, reached in three ways.
pub(super) struct States<E> {
    pub(super) applied: E,
    pub(super) replayed: E,
    pub(super) restored: E,
}

impl<E: Entity> Given<E> {
    /// Set the entity's id without its type; `1` by default.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Set the time, in milliseconds since the Unix epoch; 0 by default.
    #[must_use]
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Set the command's own id, as `ask_once` does.
    #[must_use]
    pub fn command_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.ids.command = Some(id.into());
        self
    }

    /// Set the correlation id of the commands, as `with_correlation` does.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.ids.correlation = Some(id.into());
        self
    }

    /// Send a command.
    #[track_caller]
    pub fn when<C>(self, command: &C) -> Decided<E, E::Reply>
    where
        E: Handle<C>,
    {
        Decided::new(self, command)
    }

    /// Check the state.
    #[track_caller]
    pub fn then_state(self, check: impl FnOnce(&E)) -> Self {
        check(&self.states().applied);
        self
    }

    /// The state by applying, by replaying and from a snapshot. All three must be the same.
    #[track_caller]
    pub(super) fn states(&self) -> States<E> {
        let (mut applied, mut replayed) = (E::default(), E::default());
        for event in &self.events {
            applied.apply(event);
            replayed.apply(&read(&stored(event)));
        }
        let differs = "replayed events lead to another state";
        check_same_state((&applied, &replayed), ["handled", "replayed"], differs);
        let restored = restored(&applied);
        States {
            applied,
            replayed,
            restored,
        }
    }

    #[track_caller]
    pub(super) fn persistence_id(&self) -> PersistenceId {
        match format!("{}|{}", E::TYPE, self.id).parse() {
            Ok(id) => id,
            Err(error) => panic!("{error}"),
        }
    }

    /// The context of the command.
    pub(super) fn cx<'a>(&'a self, id: &'a PersistenceId) -> Cx<'a> {
        Cx {
            id,
            last: self.events.len() as u64,
            is_new: self.events.is_empty(),
            now_ms: self.now_ms,
            command_id: self.ids.command.as_deref(),
            correlation_id: self.ids.correlation.as_deref(),
        }
    }
}

impl<E: Entity> std::fmt::Debug for Given<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given")
            .field("n_events", &self.events.len())
            .field("id", &self.id)
            .field("now_ms", &self.now_ms)
            .field("ids", &self.ids)
            .finish()
    }
}
