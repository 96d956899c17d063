//! Effects: what a handler returns.
//!
//! Guarantees: all events of an effect are appended atomically. The reply is computed from the state
//! after the events. Callbacks run after the write is durable, at most once.

use std::collections::BTreeMap;
use std::fmt;

use super::backend::Completed;
use super::{Entity, EntityEvent, EventOf, Once};
use crate::{NewEvent, Result};

/// What a handler returns: events to persist, a reply, and what to do afterwards.
///
/// ```
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// # #[event(entity = Account)]
/// # enum AccountEvent { Deposited { amount: u64 }, Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = AccountEvent;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, event: &AccountEvent) {
/// #         if let AccountEvent::Deposited { amount } = event { self.balance += amount; }
/// #     }
/// # }
/// use annals::entity::{Cx, Effect, Handle, none, persist, persist_all, reply};
///
/// enum Command {
///     Deposit(Vec<u64>),
///     Close { by: String },
///     GetBalance,
///     Ping,
/// }
///
/// impl Handle<Command> for Account {
///     type Reply = u64;
///
///     fn handle(&self, command: &Command, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let deposited = |amount: &u64| AccountEvent::Deposited { amount: *amount };
///         Ok(match command {
///             // All events or none; the reply is computed from the state after them.
///             Command::Deposit(amounts) => persist_all(amounts.iter().map(deposited))
///                 .tag("money")
///                 .reply(|account| account.balance),
///             Command::Close { by } => persist(AccountEvent::Closed)
///                 .metadata("by", by)
///                 .then(|account| println!("closed with {}", account.balance))
///                 .snapshot()
///                 .passivate()
///                 .reply(|_| 0),
///             Command::GetBalance => reply(self.balance),
///             Command::Ping => none().reply(|_| 0),
///         })
///     }
/// }
/// # use annals::entity::testkit::given;
/// # given::<Account>([])
/// #     .when(&Command::Deposit(vec![1, 2])).then_reply(3).then_tags(["money"])
/// #     .when(&Command::GetBalance).then_no_events().then_reply(3)
/// #     .when(&Command::Ping).then_no_events()
/// #     .when(&Command::Close { by: "ann".into() }).then_events([AccountEvent::Closed])
/// #     .then_metadata([("by", "ann")]).then_run_callbacks();
/// ```
#[must_use = "an effect does nothing until a handler returns it"]
pub struct Effect<E: Entity, R> {
    pub(super) write: Write<E::Event>,
    pub(super) saves_snapshot: bool,
    pub(super) completion: Completion<E, R>,
}

/// What an effect appends.
pub(super) struct Write<V> {
    pub(super) events: Vec<Labelled<V>>,
    pub(super) causation: Option<String>,
    pub(super) correlation: Option<String>,
}

/// An event with the tags and metadata that the handler adds to it.
pub(super) struct Labelled<V> {
    pub(super) event: V,
    tags: Vec<String>,
    metadata: BTreeMap<String, String>,
}

impl<V: EntityEvent> Labelled<V> {
    /// The event as it is appended.
    pub(super) fn to_event(&self) -> Result<NewEvent> {
        let mut event = self.event.to_event()?;
        event.tags.extend(self.tags.iter().cloned());
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|(name, value)| (name.clone(), value.clone()));
        event.metadata.extend(metadata);
        Ok(event)
    }
}

/// Persist one event and reply with `()`; change the reply with [`Effect::reply`]. See [`Effect`]
/// for an example.
pub fn persist<E: Entity<Event = V>, V: EventOf<E>>(event: V) -> Effect<E, ()> {
    persist_all([event])
}

/// Persist several events atomically. See [`Effect`] for an example.
pub fn persist_all<E: Entity<Event = V>, V: EventOf<E>>(
    events: impl IntoIterator<Item = V>,
) -> Effect<E, ()> {
    let labelled = |event| Labelled {
        event,
        tags: Vec::new(),
        metadata: BTreeMap::new(),
    };
    let mut effect = none();
    effect.write.events = events.into_iter().map(labelled).collect();
    effect
}

/// Reply without persisting anything. See [`Effect`] for an example.
pub fn reply<E: Entity, R: Send + 'static>(value: R) -> Effect<E, R> {
    none().reply(move |_| value)
}

/// Persist nothing and reply with `()`. See [`Effect`] for an example.
pub fn none<E: Entity>() -> Effect<E, ()> {
    Effect {
        write: Write {
            events: Vec::new(),
            causation: None,
            correlation: None,
        },
        saves_snapshot: false,
        completion: Completion::default(),
    }
}

impl<E: Entity, R: 'static> Effect<E, R> {
    /// Reply with a value computed from the state after the events.
    pub fn reply<S: Send + 'static>(
        self,
        reply: impl FnOnce(&E) -> S + Send + 'static,
    ) -> Effect<E, S> {
        Effect {
            write: self.write,
            saves_snapshot: self.saves_snapshot,
            completion: self.completion.reply(reply),
        }
    }

    /// Call back after the events are durable, at most once. Not called if the process dies before,
    /// or if the write ends in doubt.
    pub fn then(mut self, callback: impl FnOnce(&E) + Send + 'static) -> Self {
        self.completion.then(callback);
        self
    }

    /// Add a tag to every event of this effect so far.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        let tag = tag.into();
        for event in &mut self.write.events {
            event.tags.push(tag.clone());
        }
        self
    }

    /// Add metadata to every event of this effect so far. It replaces metadata of the same name
    /// that the event has itself.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        for event in &mut self.write.events {
            event.metadata.insert(name.clone(), value.clone());
        }
        self
    }

    /// Also persist the events of another effect, in the same atomic append. Each event keeps its
    /// own tags and metadata.
    ///
    /// ```
    /// # use annals::entity::{Entity, EntityEvent, Stored};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Stored, Default)]
    /// # struct Account { balance: u64 }
    /// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
    /// # #[event(entity = Account)]
    /// # enum AccountEvent { Deposited { amount: u64 }, Closed }
    /// # impl Entity for Account {
    /// #     const TYPE: &'static str = "Account";
    /// #     type Event = AccountEvent;
    /// #     type Error = std::fmt::Error;
    /// #     fn apply(&mut self, _: &AccountEvent) {}
    /// # }
    /// use annals::entity::persist;
    ///
    /// let deposit = persist(AccountEvent::Deposited { amount: 10 }).metadata("by", "ann");
    /// let effect = deposit.and(persist(AccountEvent::Closed).metadata("by", "bob"));
    /// # let _ = effect.reply(|account| account.balance);
    /// ```
    pub fn and(mut self, other: Effect<E, ()>) -> Self {
        let Write {
            events,
            causation,
            correlation,
        } = other.write;
        self.write.events.extend(events);
        self.write.causation = causation.or(self.write.causation);
        self.write.correlation = correlation.or(self.write.correlation);
        self.saves_snapshot |= other.saves_snapshot;
        self.completion.and(other.completion);
        self
    }

    /// Store the id of what caused the events. A command with an id of its own (`ask_once`) stores
    /// that id instead, to be recognised when it is repeated.
    pub fn causation(mut self, id: impl Into<String>) -> Self {
        self.write.causation = Some(id.into());
        self
    }

    /// Store this correlation id with the events, instead of the one that came with the command.
    pub fn correlation(mut self, id: impl Into<String>) -> Self {
        self.write.correlation = Some(id.into());
        self
    }

    /// Save a snapshot after the events.
    pub fn snapshot(mut self) -> Self {
        self.saves_snapshot = true;
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

impl<E: Entity, R> fmt::Debug for Effect<E, R>
where
    E::Event: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.write.events.iter();
        let events: Vec<_> = events.map(|labelled| &labelled.event).collect();
        f.debug_struct("Effect")
            .field("events", &events)
            .field("saves_snapshot", &self.saves_snapshot)
            .field("after", &self.completion.after)
            .finish_non_exhaustive()
    }
}

/// Whether the entity stays in memory after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AfterCommand {
    #[default]
    Stay,
    /// Leave memory; the next command loads the entity again.
    Passivate,
    /// Leave memory and reject queued commands.
    Stop,
}

pub(super) type Callback<S> = Box<dyn FnOnce(&S) + Send>;

/// The part of an effect that runs after the write, for events and durable values alike.
pub(super) struct Completion<S, R> {
    pub(super) after: AfterCommand,
    callbacks: Vec<Callback<S>>,
    reply: Box<dyn FnOnce(&S) -> R + Send>,
}

impl<S> Default for Completion<S, ()> {
    fn default() -> Self {
        Self {
            after: AfterCommand::Stay,
            callbacks: Vec::new(),
            reply: Box::new(|_| ()),
        }
    }
}

impl<S, R> Completion<S, R> {
    pub(super) fn reply<T>(self, reply: impl FnOnce(&S) -> T + Send + 'static) -> Completion<S, T> {
        Completion {
            after: self.after,
            callbacks: self.callbacks,
            reply: Box::new(reply),
        }
    }

    pub(super) fn then(&mut self, callback: impl FnOnce(&S) + Send + 'static) {
        self.callbacks.push(Box::new(callback));
    }

    fn and(&mut self, other: Completion<S, ()>) {
        self.callbacks.extend(other.callbacks);
        if other.after != AfterCommand::Stay {
            self.after = other.after;
        }
    }

    /// Run the callbacks and compute the reply.
    pub(super) fn run(self, state: &S) -> Completed<R> {
        for callback in self.callbacks {
            callback(state);
        }
        Completed {
            reply: Once::Done((self.reply)(state)),
            after: self.after,
        }
    }

    /// Compute the reply without running the callbacks.
    #[cfg(feature = "testkit")]
    pub(super) fn into_parts(self, state: &S) -> (R, Vec<Callback<S>>) {
        ((self.reply)(state), self.callbacks)
    }
}
