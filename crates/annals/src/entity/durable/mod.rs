//! Durable values: entities without history, of which only the current value is stored.
//!
//! They work like event-sourced entities, with commands and effects, but without events: an effect is
//! the whole new value ([`update`]) or its deletion ([`delete`]). Use them if you don't need history:
//! carts, settings, sessions, the position of a reader.
//!
//! ```
//! use annals::Annals;
//! use annals::entity::durable::{Effect, Entity, Handle, delete, update};
//! use annals::entity::{Cx, EntitySettings, Stored};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize, Stored)]
//! struct Cart {
//!     items: Vec<String>,
//! }
//!
//! impl Entity for Cart {
//!     const TYPE: &'static str = "Cart";
//!     type Error = std::convert::Infallible;
//! }
//!
//! struct Add(&'static str);
//!
//! impl Handle<Add> for Cart {
//!     type Reply = usize;
//!
//!     fn handle(&self, add: &Add, _: &Cx<'_>) -> Result<Effect<Self, usize>, Self::Error> {
//!         let mut items = self.items.clone();
//!         items.push(add.0.to_owned());
//!         Ok(update(Self { items }).reply(|cart| cart.items.len()))
//!     }
//! }
//!
//! struct CheckOut;
//!
//! impl Handle<CheckOut> for Cart {
//!     type Reply = Vec<String>;
//!
//!     fn handle(&self, _: &CheckOut, _: &Cx<'_>) -> Result<Effect<Self, Vec<String>>, Self::Error> {
//!         let bought = self.items.clone();
//!         Ok(delete().reply(|_| bought))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let annals = Annals::embedded(folder.path()).await?;
//! let carts = annals.durable_region::<Cart>(EntitySettings::new())?;
//! assert_eq!(carts.ask("42", Add("a book")).await?, 1);
//! assert_eq!(carts.ask("42", CheckOut).await?, ["a book"]);
//! assert_eq!(carts.view("42", |cart| cart.items.len()).await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Every write names the revision it replaces, so two processes that change the same value lose
//! nothing: the slower one decides again with the newer value. There is no `ask_once`: a value does not
//! record commands. Store the command id in the value if you need that.

mod host;
mod hosts;
mod model;

pub(crate) use host::Host;
pub use hosts::{Executor, Region};
#[cfg(feature = "testkit")]
pub(in crate::entity) use model::Change;
pub use model::{Effect, Entity, Handle, delete, none, reply, update};
