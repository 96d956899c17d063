//! A shopping cart: its state, its events and its commands.

// ANCHOR: state
use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
use serde::{Deserialize, Serialize};

/// The state: what commands decide on.
#[derive(Default, Serialize, Deserialize, Stored)]
pub(crate) struct Cart {
    pub(crate) items: Vec<String>,
    pub(crate) is_paid: bool,
}

/// The events: what has happened.
#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[event(entity = Cart)]
pub(crate) enum CartEvent {
    Added { item: String },
    Paid { cents: u64 },
}

/// The reasons to reject a command.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum CartError {
    #[error("the cart is empty")]
    Empty,
    #[error("the cart is already paid")]
    AlreadyPaid,
}

impl Entity for Cart {
    const TYPE: &'static str = "Cart";
    type Event = CartEvent;
    type Error = CartError;

    fn apply(&mut self, event: &CartEvent) {
        match event {
            CartEvent::Added { item } => self.items.push(item.clone()),
            CartEvent::Paid { .. } => self.is_paid = true,
        }
    }
}
// ANCHOR_END: state

// ANCHOR: commands
/// Adds an item. The reply is the number of items.
#[derive(Deserialize)]
pub(crate) struct Add {
    pub(crate) item: String,
}

impl Handle<Add> for Cart {
    type Reply = usize;

    fn handle(&self, add: &Add, _: &Cx<'_>) -> Result<Effect<Self, usize>, CartError> {
        if self.is_paid {
            return Err(CartError::AlreadyPaid);
        }
        let item = add.item.clone();
        Ok(persist(CartEvent::Added { item }).reply(|cart| cart.items.len()))
    }
}

/// Pays for the cart. The reply is the list of items.
#[derive(Deserialize)]
pub(crate) struct Pay {
    pub(crate) cents: u64,
}

impl Handle<Pay> for Cart {
    type Reply = Vec<String>;

    fn handle(&self, pay: &Pay, _: &Cx<'_>) -> Result<Effect<Self, Vec<String>>, CartError> {
        if self.is_paid {
            return Err(CartError::AlreadyPaid);
        }
        if self.items.is_empty() {
            return Err(CartError::Empty);
        }
        let cents = pay.cents;
        Ok(persist(CartEvent::Paid { cents }).reply(|cart| cart.items.clone()))
    }
}
// ANCHOR_END: commands

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use super::*;
    use annals::entity::testkit::given;

    fn book() -> CartEvent {
        let item = "book".to_owned();
        CartEvent::Added { item }
    }

    #[test]
    fn a_cart_is_filled_and_paid_once() {
        given::<Cart>([book()])
            .when(&Pay { cents: 1200 })
            .then_events([CartEvent::Paid { cents: 1200 }])
            .then_reply(vec!["book".to_owned()])
            .when(&Pay { cents: 1200 })
            .then_rejected(&CartError::AlreadyPaid);
    }

    #[test]
    fn an_empty_cart_cannot_be_paid() {
        given::<Cart>([])
            .when(&Pay { cents: 0 })
            .then_rejected(&CartError::Empty)
            .then_state(|cart| assert!(!cart.is_paid));
    }

    #[test]
    fn a_paid_cart_takes_no_more_items() {
        let lamp = Add {
            item: "lamp".to_owned(),
        };
        given::<Cart>([book()])
            .when(&lamp)
            .then_reply(2)
            .when(&Pay { cents: 5000 })
            .when(&lamp)
            .then_rejected(&CartError::AlreadyPaid);
    }
}
// ANCHOR_END: tests
