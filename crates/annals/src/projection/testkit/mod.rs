//! Tests of views and handlers: given events, then rows; and what happens if they crash at any step.
//!
//! Guarantees: events and rows go through their stored form, as in a store. Rows are compared by it, so
//! they need not implement `PartialEq`. No test waits: crash tests run on a memory store with a manual
//! clock.

mod crashes;
mod crashing;
mod handler;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::TryStreamExt;

use super::fed::{self, Fed};
use super::rows::{Rows, decode};
use super::view::View;
use super::{Projections, Starting};
use crate::entity::{EventReader, Stored};
use crate::items::Items;
use crate::{Event, Payload, Result};

pub use handler::{GivenToHandler, given_to_handler};

use crashes::{Scenario, Violation};
use crashing::Steps;
use stored::StoredEvents;

/// Starts a test of a view with events, each with its persistence id, in the order of the feed.
///
/// ```
/// use annals::projection::testkit::given;
/// # use annals::entity::{EntityEvent, Stored};
/// # use annals::feed::Filter;
/// # use annals::projection::{Fed, View};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # enum CartEvent { Added { cents: u64 }, CheckedOut }
/// # use CartEvent::{Added, CheckedOut};
/// # struct OpenCarts;
/// # #[derive(Debug, Serialize, Deserialize, Stored)]
/// # struct OpenCart { cents: u64 }
/// # impl View for OpenCarts {
/// #     const NAME: &'static str = "open-carts";
/// #     type Event = CartEvent;
/// #     type Row = OpenCart;
/// #     fn source() -> Filter { Filter::new().category("Cart") }
/// #     fn key(event: &Fed<CartEvent>) -> Option<String> { Some(event.entity().to_owned()) }
/// #     fn apply(row: Option<OpenCart>, event: &Fed<CartEvent>) -> Option<OpenCart> {
/// #         let before = row.map_or(0, |cart| cart.cents);
/// #         match event.event {
/// #             CartEvent::Added { cents } => Some(OpenCart { cents: before + cents }),
/// #             CartEvent::CheckedOut => None,
/// #         }
/// #     }
/// # }
///
/// given::<OpenCarts>([
///     ("Cart|42", Added { cents: 350 }),
///     ("Cart|7", Added { cents: 100 }),
///     ("Cart|42", Added { cents: 50 }),
///     ("Cart|7", CheckedOut),
/// ])
/// .then_rows([("42", OpenCart { cents: 400 })])
/// .survives_crashes();
/// ```
///
/// # Panics
/// If an id is not a persistence id, or an event cannot be stored and read back.
#[must_use = "check the rows with `then_rows`"]
pub fn given<'a, V: View>(events: impl IntoIterator<Item = (&'a str, V::Event)>) -> GivenEvents<V> {
    let mut given = GivenEvents {
        stored: StoredEvents::default(),
        rows: BTreeMap::new(),
    };
    for (id, event) in events {
        given.add(id, &event);
    }
    given
}

/// The rows of a view after some events. Made by [`given`]; see there for an example.
#[derive(Debug)]
pub struct GivenEvents<V: View> {
    stored: StoredEvents,
    rows: BTreeMap<String, Stage<V>>,
}

/// A row in its stored form.
#[derive(Debug)]
struct Stage<V> {
    payload: Payload,
    order: Option<String>,
    view: std::marker::PhantomData<fn() -> V>,
}

#[expect(clippy::panic, reason = "for tests: a panic is how they fail")]
impl<V: View> GivenEvents<V> {
    #[track_caller]
    fn add(&mut self, id: &str, event: &V::Event) {
        let stored = self.stored.add(id, event, &V::source());
        let events = fed::read::<V::Event>(&EventReader::default(), &stored);
        let events =
            events.unwrap_or_else(|error| panic!("the event does not read back: {error:?}"));
        for event in events {
            self.apply(&event);
        }
    }

    #[track_caller]
    fn apply(&mut self, event: &Fed<V::Event>) {
        let Some(key) = V::key(event) else { return };
        let before = self.rows.remove(&key).map(|row| decode::<V>(&row.payload));
        let before = before.transpose();
        let before = before.unwrap_or_else(|error| panic!("the row does not read back: {error:?}"));
        if let Some(row) = V::apply(before, event) {
            let stage = Stage {
                payload: payload::<V>(&row),
                order: V::order(&row),
                view: std::marker::PhantomData,
            };
            self.rows.insert(key, stage);
        }
    }

    /// Checks that these are the rows, no more and no fewer, in any order.
    ///
    /// # Panics
    /// If they are not.
    #[track_caller]
    pub fn then_rows<'a>(self, want: impl IntoIterator<Item = (&'a str, V::Row)>) -> Self {
        let want = want.into_iter();
        let want: BTreeMap<String, Payload> = want
            .map(|(key, row)| (key.to_owned(), payload::<V>(&row)))
            .collect();
        if let Some(difference) = difference(&want, &self.payloads()) {
            panic!("the view has other rows\n{difference}");
        }
        self
    }

    fn payloads(&self) -> BTreeMap<String, Payload> {
        let rows = self.rows.iter();
        rows.map(|(key, row)| (key.clone(), row.payload.clone()))
            .collect()
    }

    /// Runs the view on a memory store, one run for each call of the store that it makes: its process
    /// crashes there, and another one finishes. Each write is made to get lost, to take effect without a
    /// response, and to take effect only when the other process is done. After each run the rows must be
    /// the same, by key and in the declared order.
    ///
    /// Some events are enough, in which rows are created, changed and deleted. It takes about as many
    /// runs as 30 plus twice the events. Call it from any test; it needs no runtime.
    ///
    /// # Panics
    /// If the rows differ, with the call at which the process crashed.
    #[track_caller]
    pub fn survives_crashes(self) -> Self {
        self.survives_crashes_on(|store| store)
    }

    /// The same with something between each process and the store, for example faults of your own.
    ///
    /// # Panics
    /// As [`survives_crashes`](Self::survives_crashes).
    #[track_caller]
    pub fn survives_crashes_on(
        self,
        decorate: impl Fn(Arc<dyn Items>) -> Arc<dyn Items> + Sync,
    ) -> Self {
        passes(crashes::survives(&self, &decorate));
        self
    }

    /// Checks the keys in the order that the view declares.
    ///
    /// # Panics
    /// If the rows are in another order.
    #[track_caller]
    pub fn then_order<'a>(self, want: impl IntoIterator<Item = &'a str>) -> Self {
        let want: Vec<&str> = want.into_iter().collect();
        assert_eq!(self.ordered(), want, "the rows are in another order");
        self
    }

    /// The keys in the declared order.
    fn ordered(&self) -> Vec<&str> {
        let rows = self.rows.iter();
        let ordered = rows.filter_map(|(key, row)| Some((row.order.as_deref()?, key.as_str())));
        let mut ordered: Vec<(&str, &str)> = ordered.collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, key)| key).collect()
    }

    async fn compare(&self, rows: &Rows<V>) -> Result<Option<String>> {
        let listed: Vec<(String, V::Row)> = rows.list().all().try_collect().await?;
        let mut found = BTreeMap::new();
        for (key, row) in &listed {
            found.insert(key.clone(), row.to_payload()?);
        }
        if let Some(difference) = difference(&self.payloads(), &found) {
            return Ok(Some(format!("the view has other rows\n{difference}")));
        }
        let ordered: Vec<(String, V::Row)> = rows.ordered().all().try_collect().await?;
        let keys: Vec<&str> = ordered.iter().map(|(key, _)| key.as_str()).collect();
        let want = self.ordered();
        let is_other = keys != want;
        Ok(is_other.then(|| format!("the rows are in another order: {keys:?}, not {want:?}")))
    }
}

impl<V: View> Scenario for GivenEvents<V> {
    type World = ();
    type Access = Rows<V>;

    fn events(&self) -> &[Event] {
        self.stored.events()
    }

    fn new_world(&self) {}

    fn projection(&self, projections: &Projections, (): &(), _: &Arc<Steps>) -> Starting<Rows<V>> {
        projections.view::<V>()
    }

    async fn check(&self, projections: &Projections, (): &()) -> Result<(), String> {
        let failed = |error| format!("the rows cannot be read: {error:?}");
        let rows = projections.rows::<V>().map_err(failed)?;
        match self.compare(&rows).await.map_err(failed)? {
            None => Ok(()),
            Some(difference) => Err(difference),
        }
    }
}

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "for tests: a panic is how they fail")]
fn passes(outcome: Result<u64, Violation>) {
    if let Err(violation) = outcome {
        panic!("{violation}");
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "for tests: a panic is how they fail")]
fn payload<V: View>(row: &V::Row) -> Payload {
    let payload = row.to_payload();
    payload.unwrap_or_else(|error| panic!("the row cannot be stored: {error:?}"))
}

/// The rows that differ, for people.
fn difference(
    want: &BTreeMap<String, Payload>,
    found: &BTreeMap<String, Payload>,
) -> Option<String> {
    let shown = |row: Option<&Payload>| match row {
        None => "no row".to_owned(),
        Some(row) => String::from_utf8_lossy(&row.bytes).into_owned(),
    };
    let keys: BTreeSet<&String> = want.keys().chain(found.keys()).collect();
    let differing = keys
        .into_iter()
        .filter(|key| want.get(*key) != found.get(*key));
    let lines = differing.map(|key| {
        let (want, found) = (shown(want.get(key)), shown(found.get(key)));
        format!("{key}: wanted {want}, found {found}")
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
