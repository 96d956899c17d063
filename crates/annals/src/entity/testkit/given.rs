//! What was before a command.

use super::Decided;
use super::checks::{check_same_state, read, restored, stored};
use crate::PersistenceId;
use crate::entity::{Cx, Entity, Handle};

/// What has happened to an entity before a test asks something of it; nothing, for one that is new.
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
/// enum Happened {
///     Deposited { amount: u64 },
///     Withdrawn { amount: u64 },
/// }
/// use Happened::{Deposited, Withdrawn};
///
/// #[derive(thiserror::Error, PartialEq, Debug)]
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
///     fn handle(&self, command: &Withdraw, _: &Cx<'_>) -> Result<Effect<Self, u64>, TooLittle> {
///         let amount = command.0;
///         if amount > self.balance {
///             return Err(TooLittle(self.balance));
///         }
///         Ok(persist(Withdrawn { amount }).reply(|account: &Self| account.balance))
///     }
/// }
///
/// given::<Account>([Deposited { amount: 10 }])
///     .when(&Withdraw(4))
///     .then_events([Withdrawn { amount: 4 }])
///     .then_reply(6)
///     .when(&Withdraw(7))
///     .then_rejected(&TooLittle(6))
///     .then_state(|account| assert_eq!(account.balance, 6));
/// ```
#[must_use = "ask something of it with `when`"]
pub fn given<E: Entity>(events: impl IntoIterator<Item = E::Event>) -> Given<E> {
    Given {
        events: events.into_iter().collect(),
        id: "1".to_owned(),
        now_ms: 0,
        command_id: None,
    }
}

/// What was before a command: made by [`given`]. See there for an example.
pub struct Given<E: Entity> {
    pub(super) events: Vec<E::Event>,
    id: String,
    now_ms: u64,
    pub(super) command_id: Option<String>,
}

/// The same state, come to by different ways.
pub(super) struct States<E> {
    pub(super) lived: E,
    pub(super) replayed: E,
    pub(super) restored: E,
}

impl<E: Entity> Given<E> {
    /// The entity's own id, without its type. It is `1` otherwise.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// The time at which it is asked, in milliseconds since the Unix epoch; 0 otherwise.
    #[must_use]
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// The id of the command. It has none otherwise.
    #[must_use]
    pub fn command_id(mut self, id: impl Into<String>) -> Self {
        self.command_id = Some(id.into());
        self
    }

    /// Asks it to decide.
    #[track_caller]
    pub fn when<C>(self, command: &C) -> Decided<E, E::Reply>
    where
        E: Handle<C>,
    {
        Decided::of(self, command)
    }

    /// The state, which the closure judges.
    #[track_caller]
    pub fn then_state(self, judge: impl FnOnce(&E)) -> Self {
        judge(&self.states().lived);
        self
    }

    /// The state, three times the same.
    #[track_caller]
    pub(super) fn states(&self) -> States<E> {
        let (mut lived, mut replayed) = (E::default(), E::default());
        for event in &self.events {
            lived.apply(event);
            replayed.apply(&read(&stored(event)));
        }
        let differs = "events that were read back make another state";
        check_same_state(&lived, &replayed, differs);
        let restored = restored(&lived);
        States {
            lived,
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

    /// What a command knows besides the state.
    pub(super) fn cx<'a>(&'a self, id: &'a PersistenceId) -> Cx<'a> {
        Cx {
            id,
            last: self.events.len() as u64,
            is_new: self.events.is_empty(),
            now_ms: self.now_ms,
            command_id: self.command_id.as_deref(),
        }
    }
}

impl<E: Entity> std::fmt::Debug for Given<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given")
            .field("n_events", &self.events.len())
            .field("id", &self.id)
            .field("now_ms", &self.now_ms)
            .field("command_id", &self.command_id)
            .finish()
    }
}
