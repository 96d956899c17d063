//! What the simulated projections do: rows by id, which are deleted and created again; rows by group, to
//! which ids of several shares contribute; and a handler.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use annals::entity::{EntityEvent, Stored};
use annals::feed::Filter;
use annals::projection::{Fed, Handler, View, ascending};
use annals::{PersistenceId, Result};
use serde::{Deserialize, Serialize};

thread_local! {
    /// Whether the code has the bug that makes poisonous events fail. A simulation is on one thread.
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn set_broken(is_broken: bool) {
    IS_BROKEN.set(is_broken);
}

fn check(event: &CartEvent) {
    let is_poison = matches!(
        event,
        CartEvent::Added {
            is_poison: true,
            ..
        }
    );
    assert!(!(is_poison && IS_BROKEN.get()), "simulated bug");
}

#[derive(Clone, Debug, Serialize, Deserialize, EntityEvent)]
pub(super) enum CartEvent {
    /// A number that no other event has.
    Added {
        n: u64,
        group: u64,
        is_poison: bool,
    },
    Closed {
        n: u64,
    },
}

/// A row for each open cart.
pub(super) struct Carts;

/// The numbers since the cart was opened, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stored)]
pub(super) struct Cart(pub(super) Vec<u64>);

impl Cart {
    /// The row after an event.
    pub(super) fn after(row: Option<Self>, event: &CartEvent) -> Option<Self> {
        match event {
            CartEvent::Closed { .. } => None,
            CartEvent::Added { n, .. } => {
                let mut cart = row.unwrap_or_default();
                cart.0.push(*n);
                Some(cart)
            }
        }
    }
}

impl View for Carts {
    const NAME: &'static str = "carts";
    type Event = CartEvent;
    type Row = Cart;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    fn key(event: &Fed<CartEvent>) -> Option<String> {
        Some(event.id().to_string())
    }

    fn apply(row: Option<Cart>, event: &Fed<CartEvent>) -> Option<Cart> {
        check(&event.event);
        Cart::after(row, &event.event)
    }

    fn order(cart: &Cart) -> Option<String> {
        Some(ascending(cart.0.len() as u64))
    }

    fn purged(id: &PersistenceId) -> Option<String> {
        Some(id.to_string())
    }
}

/// A row for each group of events.
pub(super) struct Groups;

/// By id the numbers, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stored)]
pub(super) struct Group(pub(super) BTreeMap<String, Vec<u64>>);

impl View for Groups {
    const NAME: &'static str = "groups";
    type Event = CartEvent;
    type Row = Group;

    fn source() -> Filter {
        Filter::new()
    }

    fn key(event: &Fed<CartEvent>) -> Option<String> {
        match event.event {
            CartEvent::Added { group, .. } => Some(format!("group-{group}")),
            CartEvent::Closed { .. } => None,
        }
    }

    fn apply(row: Option<Group>, event: &Fed<CartEvent>) -> Option<Group> {
        let mut group = row.unwrap_or_default();
        if let CartEvent::Added { n, .. } = event.event {
            let numbers = group.0.entry(event.id().to_string()).or_default();
            numbers.push(n);
        }
        Some(group)
    }
}

/// Records what it gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Mails(pub(super) Arc<Mutex<Vec<(String, u64)>>>);

#[async_trait::async_trait]
impl Handler for Mails {
    const NAME: &'static str = "mails";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new()
    }

    async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
        check(&event.event);
        tokio::task::yield_now().await;
        let (CartEvent::Added { n, .. } | CartEvent::Closed { n }) = event.event;
        self.0.lock().unwrap().push((event.id().to_string(), n));
        Ok(())
    }
}
