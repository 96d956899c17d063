//! Tests of views without a store or a runtime: given events, then rows.
//!
//! Guarantees: events and rows go through their stored form, as in a store. Rows are compared by it, so
//! they need not implement `PartialEq`.

use std::collections::BTreeMap;

use super::fed::{self, Fed};
use super::rows::decode;
use super::view::View;
use crate::entity::{EntityEvent, EventReader, Stored};
use crate::{Event, Payload, PersistenceId, SequenceNumber, Token};

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
/// .then_rows([("42", OpenCart { cents: 400 })]);
/// ```
///
/// # Panics
/// If an id is not a persistence id, or an event cannot be stored and read back.
pub fn given<'a, V: View>(events: impl IntoIterator<Item = (&'a str, V::Event)>) -> GivenEvents<V> {
    let mut given = GivenEvents {
        numbers: BTreeMap::new(),
        rows: BTreeMap::new(),
    };
    for (id, event) in events {
        given.add(id, &event);
    }
    given
}

/// The rows of a view after some events. Made by [`given`]; see there for an example.
#[must_use = "check the rows with `then_rows`"]
#[derive(Debug)]
pub struct GivenEvents<V: View> {
    numbers: BTreeMap<PersistenceId, SequenceNumber>,
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
        let stored = self.stored(id, event);
        if !V::source().accepts(&stored) {
            panic!("the view's source does not want this event: {stored:?}");
        }
        let events = fed::read::<V::Event>(&EventReader::default(), &stored);
        let events =
            events.unwrap_or_else(|error| panic!("the event does not read back: {error:?}"));
        for event in events {
            self.apply(&event);
        }
    }

    #[track_caller]
    fn stored(&mut self, id: &str, event: &V::Event) -> Event {
        let id: PersistenceId = match id.parse() {
            Ok(id) => id,
            Err(error) => panic!("{error:?}"),
        };
        let data = event.to_event();
        let data = data.unwrap_or_else(|error| panic!("the event cannot be stored: {error:?}"));
        let next = self.numbers.get(&id).map_or(1, |last| last.get() + 1);
        let number = SequenceNumber::new(next).unwrap_or(SequenceNumber::LAST);
        self.numbers.insert(id.clone(), number);
        Event::new(id, number, Token::from_bytes([0; 8]), data)
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
        let rows = self.rows.iter();
        let rows: BTreeMap<String, Payload> = rows
            .map(|(key, row)| (key.clone(), row.payload.clone()))
            .collect();
        assert!(
            rows == want,
            "the view has other rows\nwanted: {}\nfound:  {}",
            shown(&want),
            shown(&rows)
        );
        self
    }

    /// Checks the keys in the order that the view declares.
    ///
    /// # Panics
    /// If the rows are in another order.
    #[track_caller]
    pub fn then_order<'a>(self, want: impl IntoIterator<Item = &'a str>) -> Self {
        let rows = self.rows.iter();
        let ordered = rows.filter_map(|(key, row)| Some((row.order.as_deref()?, key.as_str())));
        let mut ordered: Vec<(&str, &str)> = ordered.collect();
        ordered.sort_unstable();
        let keys: Vec<&str> = ordered.into_iter().map(|(_, key)| key).collect();
        let want: Vec<&str> = want.into_iter().collect();
        assert_eq!(keys, want, "the rows are in another order");
        self
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "for tests: a panic is how they fail")]
fn payload<V: View>(row: &V::Row) -> Payload {
    let payload = row.to_payload();
    payload.unwrap_or_else(|error| panic!("the row cannot be stored: {error:?}"))
}

/// Rows for people.
fn shown(rows: &BTreeMap<String, Payload>) -> String {
    let rows = rows.iter();
    let rows = rows.map(|(key, row)| format!("{key}: {}", String::from_utf8_lossy(&row.bytes)));
    rows.collect::<Vec<_>>().join(", ")
}
