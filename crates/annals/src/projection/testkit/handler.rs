//! Crash tests of handlers.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::super::fed::{self, Fed};
use super::super::{Handler, Projections, Starting};
use super::crashes::{self, Scenario};
use super::crashing::Steps;
use super::stored::StoredEvents;
use crate::feed::Filter;
use crate::{Event, PersistenceId, Result};

/// Starts a crash test of a handler with events, each with its persistence id, in the order of the feed.
///
/// A handler gets events again after a crash. The test shows what that does:
///
/// ```
/// use annals::projection::testkit::given_to_handler;
/// use std::sync::{Arc, Mutex};
/// # use annals::entity::EntityEvent;
/// # use annals::feed::Filter;
/// # use annals::projection::{Fed, Handler};
/// # #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// # enum CartEvent { CheckedOut }
///
/// /// Sends a mail, unless one with the same key was sent.
/// #[derive(Clone, Default)]
/// struct Mails {
///     sent: Arc<Mutex<Vec<String>>>,
/// }
///
/// #[async_trait::async_trait]
/// impl Handler for Mails {
///     const NAME: &'static str = "mails";
///     type Event = CartEvent;
/// #
/// #   fn source() -> Filter {
/// #       Filter::new().category("Cart")
/// #   }
///
///     async fn handle(&self, event: &Fed<CartEvent>) -> annals::Result<()> {
///         let (mut sent, key) = (self.sent.lock().unwrap(), event.idempotency_key());
///         if !sent.contains(&key) {
///             sent.push(key);
///         }
///         Ok(())
///     }
/// }
///
/// given_to_handler::<Mails>([("Cart|42", CartEvent::CheckedOut), ("Cart|7", CartEvent::CheckedOut)])
///     .survives_crashes(
///         Mails::default, // before each run
///         Mails::clone,   // for each process of a run
///         |mails| assert_eq!(*mails.sent.lock().unwrap(), ["Cart|42#1", "Cart|7#1"]),
///     );
/// ```
///
/// # Panics
/// If an id is not a persistence id, or an event cannot be stored, or the handler does not want it.
#[track_caller]
pub fn given_to_handler<'a, H: Handler>(
    events: impl IntoIterator<Item = (&'a str, H::Event)>,
) -> GivenToHandler<H> {
    let mut stored = StoredEvents::default();
    for (id, event) in events {
        stored.add(id, &event, &H::source());
    }
    GivenToHandler {
        events: stored.events().to_vec(),
        handler: PhantomData,
    }
}

/// Events for a handler. Made by [`given_to_handler`]; see there for an example.
#[must_use = "test the handler with `survives_crashes`"]
#[derive(Debug)]
pub struct GivenToHandler<H> {
    events: Vec<Event>,
    handler: PhantomData<fn() -> H>,
}

impl<H: Handler> GivenToHandler<H> {
    /// Runs the handler on a memory store, one run for each step that it takes: it crashes there, once
    /// before the step takes effect and once after it, and another process finishes. A step is a call of
    /// the store or of the handler.
    ///
    /// Checks that every event was handled at least once and the events of an id in order, and then what
    /// you check yourself. `world` makes what the processes of a run share, such as a database; `handler`
    /// makes the handler of a process; `check` looks at the end of a run.
    ///
    /// # Panics
    /// If a check fails, with the step at which the process crashed.
    #[track_caller]
    pub fn survives_crashes<W>(
        self,
        world: impl Fn() -> W + Sync,
        handler: impl Fn(&W) -> H + Sync,
        check: impl Fn(&W) + Sync,
    ) {
        let scenario = HandlerScenario {
            events: self.events,
            world,
            handler,
            check,
            types: PhantomData::<fn() -> (H, W)>,
        };
        super::passes(crashes::survives(&scenario, &|store| store));
    }
}

/// Which events were handled: the id and the sequence number, in order.
type Handled = Arc<Mutex<Vec<(PersistenceId, u64)>>>;

struct HandlerScenario<M, P, C, T> {
    events: Vec<Event>,
    world: M,
    handler: P,
    check: C,
    types: PhantomData<T>,
}

impl<H, W, M, P, C> Scenario for HandlerScenario<M, P, C, fn() -> (H, W)>
where
    H: Handler,
    M: Fn() -> W + Sync,
    P: Fn(&W) -> H + Sync,
    C: Fn(&W) + Sync,
{
    type World = (W, Handled);
    type Access = Arc<Stepped<H>>;

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn new_world(&self) -> (W, Handled) {
        ((self.world)(), Handled::default())
    }

    fn projection(
        &self,
        projections: &Projections,
        (world, handled): &(W, Handled),
        steps: &Arc<Steps>,
    ) -> Starting<Arc<Stepped<H>>> {
        projections.handler(Stepped {
            handler: (self.handler)(world),
            steps: steps.clone(),
            handled: handled.clone(),
        })
    }

    async fn check(&self, _: &Projections, (world, handled): &(W, Handled)) -> Result<(), String> {
        let handled = handled.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let mut first: BTreeMap<&PersistenceId, Vec<u64>> = BTreeMap::new();
        for (id, number) in &handled {
            let of_id = first.entry(id).or_default();
            if !of_id.contains(number) {
                of_id.push(*number);
            }
        }
        let mut wanted: BTreeMap<&PersistenceId, Vec<u64>> = BTreeMap::new();
        for event in &self.events {
            let of_id = wanted.entry(&event.persistence_id).or_default();
            of_id.push(event.sequence_number.get());
        }
        if first != wanted {
            return Err(format!(
                "not every event was handled, or not in the order of its id\nwanted: {wanted:?}\nfound:  {first:?}"
            ));
        }
        fed::guarded("checking", || (self.check)(world))
            .map_err(|_| "the check of the test fails (see above)".to_owned())
    }
}

/// A handler whose calls are steps.
struct Stepped<H> {
    handler: H,
    steps: Arc<Steps>,
    handled: Handled,
}

#[async_trait]
impl<H: Handler> Handler for Stepped<H> {
    const NAME: &'static str = H::NAME;
    const REVISION: u32 = H::REVISION;
    type Event = H::Event;

    fn source() -> Filter {
        H::source()
    }

    async fn handle(&self, event: &Fed<H::Event>) -> Result<()> {
        let handling = async {
            self.handler.handle(event).await?;
            let handled = (event.id().clone(), event.sequence_number().get());
            let mut all = self.handled.lock().unwrap_or_else(|e| e.into_inner());
            all.push(handled);
            Ok(())
        };
        let what = || format!("handling of {}", event.idempotency_key());
        self.steps.act(what, handling).await
    }
}
