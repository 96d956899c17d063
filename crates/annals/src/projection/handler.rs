//! Handlers: anything that an event causes outside of the store.
//!
//! Guarantees: every event is handled at least once, those of an id in order. The persistence id and the
//! sequence number of an event are its idempotency key.

use std::fmt;
use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use futures::FutureExt;

use super::fed::{self, Fed};
use super::target::{Delivered, Delivery, Failure, Kind, ShareContext, Target};
use crate::entity::{EntityEvent, EventReader};
use crate::feed::Filter;
use crate::{Error, ErrorKind, Event, PersistenceId, Result};

/// Handles events one by one: sends a mail, calls a service, commands another entity.
///
/// An event comes again after a crash before its position was saved: use
/// [`idempotency_key`](Fed::idempotency_key), or a command id with
/// [`Region::ask_once`](crate::entity::Region::ask_once).
///
/// An error is retried with increasing delays, for as long as it takes, if its kind is `Unavailable`. Any
/// other error is final after a few attempts: then the share stops, or the event becomes a dead letter
/// ([`OnPoison`](super::OnPoison)).
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::feed::Filter;
/// use annals::projection::{Fed, Handler};
/// use annals::Result;
///
/// # #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// # enum CartEvent { CheckedOut }
/// #[derive(Default)]
/// struct Mails(std::sync::Mutex<Vec<String>>);
///
/// #[async_trait::async_trait]
/// impl Handler for Mails {
///     const NAME: &'static str = "mails";
///     type Event = CartEvent;
///
///     fn source() -> Filter {
///         Filter::new().category("Cart")
///     }
///
///     async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
///         let CartEvent::CheckedOut = event.event;
///         let mail = format!("order {} ({})", event.entity(), event.idempotency_key());
///         self.0.lock().unwrap().push(mail);
///         Ok(())
///     }
/// }
///
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, memory::Memory};
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # annals.journal().append(&"Cart|42".parse()?, Expected::Empty, CartEvent::CheckedOut.to_event()?).await?;
/// let mails = annals.projections().handler(Mails::default()).start().await?;
/// mails.caught_up().await?;
/// assert_eq!(*mails.handler().0.lock().unwrap(), ["order 42 (Cart|42#1)"]);
/// # mails.stop().await;
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The name. Its position is stored under it, so it must never change.
    const NAME: &'static str;
    /// A higher revision handles every event again, from the start of the feed.
    const REVISION: u32 = 1;
    /// The events.
    type Event: EntityEvent;

    /// Which events it wants.
    fn source() -> Filter;

    /// Handles an event.
    ///
    /// # Errors
    /// `Unavailable`: retry until it succeeds. Others: see [`OnPoison`](super::OnPoison).
    async fn handle(&self, event: &Fed<Self::Event>) -> Result<()>;

    /// Called when everything of an id was purged.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    async fn purged(&self, id: &PersistenceId) -> Result<()> {
        let _ = id;
        Ok(())
    }
}

impl<E> Fed<E> {
    /// The same for every delivery of this event, and for no other event.
    pub fn idempotency_key(&self) -> String {
        format!("{}#{}", self.id(), self.sequence_number())
    }
}

/// The target of a handler.
pub(super) struct HandlerTarget<H> {
    pub(super) handler: std::sync::Arc<H>,
    pub(super) reader: EventReader,
}

impl<H: Handler> HandlerTarget<H> {
    async fn deliver(&self, delivery: &Delivery) -> Result<()> {
        match &delivery.what {
            Delivered::Event(event) => self.handle_event(event).await,
            Delivered::Purged => guarded(self.handler.purged(&delivery.id)).await,
            Delivered::Deleted(_) | Delivered::Missing(_) => Ok(()),
        }
    }

    async fn handle_event(&self, event: &Event) -> Result<()> {
        for event in fed::read::<H::Event>(&self.reader, event)? {
            guarded(self.handler.handle(&event)).await?;
        }
        Ok(())
    }
}

/// Awaits the application's code; a panic becomes an error.
async fn guarded(call: impl Future<Output = Result<()>>) -> Result<()> {
    let outcome = AssertUnwindSafe(call).catch_unwind().await;
    outcome.unwrap_or_else(|panic| Err(fed::panicked("handling an event", &*panic)))
}

#[async_trait]
impl<H: Handler> Target for HandlerTarget<H> {
    fn name(&self) -> &str {
        H::NAME
    }

    fn revision(&self) -> u32 {
        H::REVISION
    }

    fn kind(&self) -> Kind {
        Kind::Handler
    }

    fn source(&self) -> Filter {
        H::source()
    }

    async fn handle(&self, _: &ShareContext, batch: &[Delivery]) -> Result<(), Failure> {
        for (index, delivery) in batch.iter().enumerate() {
            if let Err(cause) = self.deliver(delivery).await {
                return Err(Failure::Poison {
                    index,
                    done: index,
                    cause,
                });
            }
        }
        Ok(())
    }
}

impl<H> fmt::Debug for HandlerTarget<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerTarget").finish_non_exhaustive()
    }
}

/// Whether an error may go away by itself.
pub(super) fn is_passing(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}
