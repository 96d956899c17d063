//! The read model of the shop: the carts that are not paid yet.

// ANCHOR: view
use annals::entity::{Entity, Stored};
use annals::feed::Filter;
use annals::projection::{Fed, View, descending};
use serde::{Deserialize, Serialize};

use crate::cart::{Cart, CartEvent};

/// The carts that are not paid yet.
pub(crate) struct OpenCarts;

/// A row: the items in a cart.
#[derive(Default, Serialize, Deserialize, Stored)]
pub(crate) struct OpenCart(pub(crate) Vec<String>);

impl View for OpenCarts {
    const NAME: &'static str = "open-carts";
    type Event = CartEvent;
    type Row = OpenCart;

    fn source() -> Filter {
        Filter::new().category(Cart::TYPE)
    }

    fn key(event: &Fed<CartEvent>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<OpenCart>, event: &Fed<CartEvent>) -> Option<OpenCart> {
        let CartEvent::Added { item } = &event.event else {
            return None; // paid: the row is deleted
        };
        let OpenCart(mut items) = row.unwrap_or_default();
        items.push(item.clone());
        Some(OpenCart(items))
    }

    fn order(cart: &OpenCart) -> Option<String> {
        Some(descending(cart.0.len() as u64))
    }
}
// ANCHOR_END: view

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use super::*;
    use annals::projection::testkit::given;

    fn added(item: &str) -> CartEvent {
        let item = item.to_owned();
        CartEvent::Added { item }
    }

    fn with(items: &[&str]) -> OpenCart {
        OpenCart(items.iter().map(|&item| item.to_owned()).collect())
    }

    #[test]
    fn open_carts_are_listed_the_fullest_first() {
        given::<OpenCarts>([
            ("Cart|7", added("pen")),
            ("Cart|42", added("book")),
            ("Cart|8", added("lamp")),
            ("Cart|42", added("lamp")),
            ("Cart|8", CartEvent::Paid { cents: 3000 }),
        ])
        .then_rows([("42", with(&["book", "lamp"])), ("7", with(&["pen"]))])
        .then_order(["42", "7"]);
    }
}
// ANCHOR_END: tests
