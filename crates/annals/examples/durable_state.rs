//! A shopping cart without history, as durable state: `cargo run -p annals --example durable_state`.

use annals::Annals;
use annals::entity::durable::{Effect, Entity, Handle, delete, update};
use annals::entity::{AskError, Cx, EntitySettings, Stored};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, Stored)]
struct Cart {
    items: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("the cart is empty")]
struct EmptyCart;

impl Entity for Cart {
    const TYPE: &'static str = "Cart";
    type Error = EmptyCart;
}

struct Add(&'static str);

impl Handle<Add> for Cart {
    type Reply = usize;

    fn handle(&self, add: &Add, _: &Cx<'_>) -> Result<Effect<Self, usize>, Self::Error> {
        let mut cart = self.clone();
        cart.items.push(add.0.to_owned());
        Ok(update(cart).reply(|cart| cart.items.len()))
    }
}

struct CheckOut;

impl Handle<CheckOut> for Cart {
    type Reply = Vec<String>;

    fn handle(&self, _: &CheckOut, cx: &Cx<'_>) -> Result<Effect<Self, Vec<String>>, Self::Error> {
        if cx.is_new() {
            return Err(EmptyCart);
        }
        let bought = self.items.clone();
        Ok(delete().passivate().reply(|_| bought))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let annals = Annals::embedded(folder.path()).await?;
    let carts = annals.durable_region::<Cart>(EntitySettings::new())?;

    println!("{} item", carts.ask("42", Add("a book")).await?);
    println!("{} items", carts.ask("42", Add("a lamp")).await?);
    println!("bought: {}", carts.ask("42", CheckOut).await?.join(", "));
    match carts.ask("42", CheckOut).await {
        Err(AskError::Rejected(EmptyCart)) => println!("{EmptyCart}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}
