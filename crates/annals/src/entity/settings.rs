//! Settings of an entity type: snapshots and retention, retries, memory limits, event evolution.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Entity;
use super::consumers::Consumer;
use super::evolution::EventReader;
use crate::{NewEvent, Result};

/// Settings of an entity type.
///
/// ```
/// use std::time::Duration;
///
/// use annals::entity::{EntitySettings, Retention};
/// # #[derive(Default, serde::Serialize, serde::Deserialize, annals::entity::Stored)]
/// # struct Account;
/// # #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
/// # struct Opened;
/// # impl annals::entity::Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = Opened;
/// #     type Error = std::convert::Infallible;
/// #     fn apply(&mut self, _: &Opened) {}
/// # }
/// let settings = EntitySettings::<Account>::new()
///     .retention(Retention::every(100).keep(2).delete_events())
///     .remember_commands(1_000)
///     .max_resident(50_000)
///     .passivate_after(Duration::from_secs(60));
/// # let _ = settings;
/// ```
pub struct EntitySettings<E> {
    pub(super) retention: Retention<E>,
    pub(super) event_reader: EventReader,
    pub(super) attempts: u32,
    pub(super) remembered: u64,
    pub(super) residency: Residency,
}

/// Limits of entities in memory.
#[derive(Clone, Debug)]
pub(crate) struct Residency {
    pub(super) mailbox: usize,
    pub(super) passivate_after: Duration,
    pub(super) max_resident: usize,
    pub(super) max_recoveries: usize,
}

impl<E> Default for EntitySettings<E> {
    fn default() -> Self {
        Self {
            retention: Retention::never(),
            event_reader: EventReader::default(),
            attempts: 8,
            remembered: 0,
            residency: Residency {
                mailbox: 64,
                passivate_after: Duration::from_secs(120),
                max_resident: 100_000,
                max_recoveries: 32,
            },
        }
    }
}

impl<E> EntitySettings<E> {
    /// The defaults: no snapshots, 8 attempts before a conflict is returned, 64 queued commands per
    /// entity, passivation after 2 minutes without a command.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often a command is decided before a conflict is returned, at least once. Fewer: callers
    /// see conflicts sooner. More: a contended id replies later.
    #[must_use]
    pub fn tries(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How many commands can be queued for one entity, at least one. Fewer: bursts are rejected as
    /// overloaded. More: callers wait longer.
    #[must_use]
    pub fn mailbox(mut self, commands: usize) -> Self {
        self.residency.mailbox = commands.max(1);
        self
    }

    /// How long an idle entity stays in memory. Shorter: more recoveries. Longer: more memory.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.residency.passivate_after = idle;
        self
    }

    /// How many entities can be in memory, at least one. If all of them are busy, commands for
    /// others are rejected as overloaded.
    #[must_use]
    pub fn max_resident(mut self, entities: usize) -> Self {
        self.residency.max_resident = entities.max(1);
        self
    }

    /// How many entities can recover at the same time, at least one. Fewer: warming up after a restart
    /// takes longer. More: recoveries take more of the store's capacity.
    #[must_use]
    pub fn max_concurrent_recoveries(mut self, recoveries: usize) -> Self {
        self.residency.max_recoveries = recoveries.max(1);
        self
    }
}

/// Settings of event-sourced entities.
impl<E: Entity> EntitySettings<E> {
    pub(crate) fn event_reader(&self) -> &EventReader {
        &self.event_reader
    }

    /// When snapshots are saved, and how many of them and of the events are kept.
    #[must_use]
    pub fn retention(mut self, retention: Retention<E>) -> Self {
        self.retention = retention;
        self
    }

    /// Add an adapter (upcaster): it turns a stored event into none, one or several events of today,
    /// by its manifest, schema number and bytes, and returns events it does not know unchanged.
    /// Adapters run in the order they were added.
    ///
    /// ```
    /// use annals::NewEvent;
    /// use annals::entity::EntitySettings;
    /// # #[derive(Default, serde::Serialize, serde::Deserialize, annals::entity::Stored)]
    /// # struct Guest { room: String }
    /// # #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
    /// # enum GuestEvent { Left, Entered }
    /// # impl annals::entity::Entity for Guest {
    /// #     const TYPE: &'static str = "Guest";
    /// #     type Event = GuestEvent;
    /// #     type Error = std::convert::Infallible;
    /// #     fn apply(&mut self, _: &GuestEvent) {}
    /// # }
    ///
    /// // `Moved` was split in two, and `Pinged` is no longer used.
    /// fn adapt(event: NewEvent) -> annals::Result<Vec<NewEvent>> {
    ///     Ok(match (event.manifest.as_str(), event.schema) {
    ///         ("Moved", 0) => vec![event.clone().manifest("Left"), event.manifest("Entered")],
    ///         ("Pinged", _) => vec![],
    ///         _ => vec![event],
    ///     })
    /// }
    ///
    /// let settings = EntitySettings::<Guest>::new().adapter(adapt);
    /// # let moved = NewEvent::new(annals::Codec::Json, "{}").manifest("Moved");
    /// # assert_eq!(adapt(moved).unwrap().len(), 2);
    /// # let _ = settings;
    /// ```
    #[must_use]
    pub fn adapter(
        mut self,
        adapt: impl Fn(NewEvent) -> Result<Vec<NewEvent>> + Send + Sync + 'static,
    ) -> Self {
        self.event_reader.add_adapter(adapt);
        self
    }

    /// Skip stored events that the event type does not know, with a warning. By default recovery
    /// fails and names them. While events are skipped, no snapshot is saved.
    ///
    /// An event type with a catch-all variant (`#[serde(other)]` or `#[event(raw)]`) knows every
    /// event, so nothing is skipped.
    ///
    /// ```
    /// use annals::entity::EntitySettings;
    /// use annals::{Codec, NewEvent, journal::Expected};
    ///
    /// # use annals::entity::{Entity, EntityEvent, Stored};
    /// # use annals::{Annals, layout::AnnalsLayout, memory::Memory};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Default, Serialize, Deserialize, Stored)]
    /// # struct Cart { items: u64 }
    /// # #[derive(Serialize, Deserialize, EntityEvent)]
    /// # enum CartEvent { Added }
    /// # impl Entity for Cart {
    /// #     const TYPE: &'static str = "Cart";
    /// #     type Event = CartEvent;
    /// #     type Error = std::convert::Infallible;
    /// #     fn apply(&mut self, _: &CartEvent) { self.items += 1; }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// // No variant has this name, and no adapter knows it.
    /// let pinged = NewEvent::new(Codec::Json, "{}").manifest("Pinged");
    /// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, pinged).await?;
    ///
    /// let strict = annals.executor::<Cart>(EntitySettings::new());
    /// assert!(strict.view("42", |cart| cart.items).await.is_err());
    /// let lenient = annals.executor::<Cart>(EntitySettings::new().skip_unknown_events());
    /// assert_eq!(lenient.view("42", |cart| cart.items).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn skip_unknown_events(mut self) -> Self {
        self.event_reader.skips_unknown = true;
        self
    }

    /// Remember the command ids of this many last events, for `ask_once`; 0 by default, which makes
    /// `ask_once` fail. Fewer: an old command may be handled again. More: recovery reads this many
    /// events before the snapshot too.
    #[must_use]
    pub fn remember_commands(mut self, events: u64) -> Self {
        self.remembered = events;
        self
    }
}

impl<E> fmt::Debug for EntitySettings<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntitySettings")
            .field("retention", &self.retention)
            .field("attempts", &self.attempts)
            .field("remembered", &self.remembered)
            .field("residency", &self.residency)
            .finish_non_exhaustive()
    }
}

type IsDue<E> = Arc<dyn Fn(&E, u64) -> bool + Send + Sync>;

/// When snapshots are saved, and what is kept.
///
/// One snapshot is kept, unless [`keep`](Self::keep) says more: a new one replaces the one before, which is
/// deleted. In the embedded store, a deleted snapshot is erased from the files later, and from backups with
/// the next one. `Annals::restore` restores a point at which there were such
/// snapshots without them: entities recover from their events. With [`delete_events`](Self::delete_events)
/// these are gone too, and points before an erasure cannot be restored from a later backup.
///
/// ```
/// use annals::entity::Retention;
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] struct Account { is_closed: bool }
///
/// let every_hundred = Retention::<Account>::every(100).keep(2).delete_events();
/// let when_closed = Retention::<Account>::when(|account, _events| account.is_closed);
/// # let _ = (every_hundred, when_closed);
/// ```
pub struct Retention<E> {
    is_due: Option<IsDue<E>>,
    bytes: Option<u64>,
    keep: usize,
    deletes_events: bool,
    consumers: Vec<Consumer>,
}

impl<E> Clone for Retention<E> {
    fn clone(&self) -> Self {
        Self {
            is_due: self.is_due.clone(),
            consumers: self.consumers.clone(),
            ..*self
        }
    }
}

impl<E> Retention<E> {
    /// Save snapshots only if an effect asks for one.
    pub fn never() -> Self {
        Self {
            is_due: None,
            bytes: None,
            keep: 1,
            deletes_events: false,
            consumers: Vec::new(),
        }
    }

    /// Save a snapshot every `events` events, at least one, and keep only the last one: see
    /// [`keep`](Self::keep).
    pub fn every(events: u64) -> Self {
        Self::when(move |_, since| since >= events.max(1))
    }

    /// Save a snapshot whenever the payloads since the last one reach `bytes`.
    pub fn every_bytes(bytes: u64) -> Self {
        Self {
            bytes: Some(bytes.max(1)),
            ..Self::never()
        }
    }

    /// Save a snapshot whenever the function returns true for the state and the number of events
    /// since the last snapshot.
    pub fn when(is_due: impl Fn(&E, u64) -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_due: Some(Arc::new(is_due)),
            ..Self::never()
        }
    }

    /// Keep this many snapshots, at least one, and delete older ones. The default is 1.
    #[must_use]
    pub fn keep(mut self, snapshots: usize) -> Self {
        self.keep = snapshots.max(1);
        self
    }

    /// Delete the events that the oldest kept snapshot includes. Readers of the feed that have not read
    /// them miss them: name those that must not, with [`after_projection`](Self::after_projection) and
    /// [`after_group`](Self::after_group).
    #[must_use]
    pub fn delete_events(mut self) -> Self {
        self.deletes_events = true;
        self
    }

    /// Delete events only after this projection has handled them; repeatable. While it is paused, stopped
    /// or has dead letters of an entity, events stay. So they do if it was never started, with a warning.
    ///
    /// Its live build must have handled them, and any that is being made. A build that is added later is
    /// made from the events that are left.
    ///
    /// How far the projection has come is read whenever a snapshot is saved. It is seldom at the end of
    /// the feed then, so what cannot be deleted yet is checked again with the next snapshot of the entity,
    /// by the same region or executor. It is remembered for as many entities as
    /// [`max_resident`](EntitySettings::max_resident) says; a program that restarts starts over.
    ///
    /// On a store without a feed, and without [`delete_events`](Self::delete_events), every command fails
    /// with `Invalid`.
    ///
    /// ```
    /// use annals::entity::Retention;
    /// # #[derive(Default)] struct Account;
    ///
    /// let retention = Retention::<Account>::every(100)
    ///     .delete_events()
    ///     .after_projection("balances")
    ///     .after_group("mailer");
    /// # let _ = retention;
    /// ```
    #[must_use]
    pub fn after_projection(mut self, name: &str) -> Self {
        self.consumers.push(Consumer::Projection(name.into()));
        self
    }

    /// Delete events only after this consumer group has handled them; repeatable. As
    /// [`after_projection`](Self::after_projection).
    #[must_use]
    pub fn after_group(mut self, name: &str) -> Self {
        self.consumers.push(Consumer::Group(name.into()));
        self
    }

    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    pub(super) fn deletes_events(&self) -> bool {
        self.deletes_events
    }

    pub(super) fn kept_snapshots(&self) -> usize {
        self.keep
    }

    /// Whether a snapshot is due, by the events and bytes since the last one.
    pub(super) fn is_due(&self, state: &E, events: u64, bytes: u64) -> bool {
        self.bytes.is_some_and(|most| bytes >= most)
            || self.is_due.as_ref().is_some_and(|due| due(state, events))
    }
}

impl<E> fmt::Debug for Retention<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retention")
            .field("bytes", &self.bytes)
            .field("keep", &self.keep)
            .field("deletes_events", &self.deletes_events)
            .field("consumers", &self.consumers)
            .finish_non_exhaustive()
    }
}
