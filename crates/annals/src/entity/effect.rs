//! Effects: what a decision wants to happen.
//!
//! Promises: events of one effect are appended together or not at all; the reply is made from the
//! state behind them; what is to follow runs when they are durable, once.

use std::fmt;

use super::Entity;
use super::ending::{Ending, Next};

/// What a decision wants to happen: events or none, a reply, and what follows.
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
/// use annals::entity::{Cx, Effect, Handle, none, persist, persist_all, reply};
///
/// enum Do {
///     Deposit(Vec<u64>),
///     Close,
///     Look,
///     Nothing,
/// }
///
/// impl Handle<Do> for Account {
///     type Reply = u64;
///
///     fn handle(&self, command: &Do, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let deposited = |amount: &u64| Happened::Deposited { amount: *amount };
///         Ok(match command {
///             // All or none; the reply is made from the state behind them.
///             Do::Deposit(amounts) => persist_all(amounts.iter().map(deposited))
///                 .tag("money")
///                 .reply(|account: &Self| account.balance),
///             Do::Close => persist(Happened::Closed)
///                 .then(|_| println!("it is closed for good"))
///                 .snapshot()
///                 .passivate()
///                 .reply(|_| 0),
///             Do::Look => reply(self.balance),
///             Do::Nothing => none().reply(|_| 0),
///         })
///     }
/// }
/// # use annals::entity::testkit::given;
/// # given::<Account>([]).when(&Do::Deposit(vec![1, 2])).then_reply(3).then_tags(["money"])
/// #     .when(&Do::Look).then_nothing().then_reply(3)
/// #     .when(&Do::Nothing).then_nothing()
/// #     .when(&Do::Close).then_events([Happened::Closed]).then_follow();
/// ```
#[must_use = "an effect does nothing until a handler returns it"]
pub struct Effect<E: Entity, R> {
    pub(super) events: Vec<E::Event>,
    pub(super) tags: Vec<String>,
    pub(super) saves: bool,
    pub(super) ending: Ending<E, R>,
}

/// Persists one event; the reply is `()` unless [`Effect::reply`] says otherwise. See [`Effect`] for
/// an example.
pub fn persist<E: Entity>(event: E::Event) -> Effect<E, ()> {
    persist_all([event])
}

/// Persists events, all or none. See [`Effect`] for an example.
pub fn persist_all<E: Entity>(events: impl IntoIterator<Item = E::Event>) -> Effect<E, ()> {
    Effect {
        events: events.into_iter().collect(),
        tags: Vec::new(),
        saves: false,
        ending: Ending::default(),
    }
}

/// Persists nothing and replies. See [`Effect`] for an example.
pub fn reply<E: Entity, R: Send + 'static>(value: R) -> Effect<E, R> {
    none().reply(move |_| value)
}

/// Does nothing. See [`Effect`] for an example.
pub fn none<E: Entity>() -> Effect<E, ()> {
    persist_all([])
}

impl<E: Entity, R: 'static> Effect<E, R> {
    /// Replies with what this makes of the state behind the events.
    pub fn reply<S: Send + 'static>(
        self,
        reply: impl FnOnce(&E) -> S + Send + 'static,
    ) -> Effect<E, S> {
        Effect {
            events: self.events,
            tags: self.tags,
            saves: self.saves,
            ending: self.ending.reply(reply),
        }
    }

    /// Runs this when the events are durable: at most once. Not where the process dies before, nor
    /// where the store's answer was lost for good.
    pub fn then(mut self, follow: impl FnOnce(&E) + Send + 'static) -> Self {
        self.ending.then(follow);
        self
    }

    /// Tags every event of this effect.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Saves a snapshot behind the events.
    pub fn snapshot(mut self) -> Self {
        self.saves = true;
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

impl<E: Entity, R> fmt::Debug for Effect<E, R>
where
    E::Event: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("events", &self.events)
            .field("tags", &self.tags)
            .field("saves", &self.saves)
            .field("next", &self.ending.next)
            .finish_non_exhaustive()
    }
}
