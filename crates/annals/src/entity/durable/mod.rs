//! Entities that are a value: only the current one is kept, without its history.
//!
//! The shape is that of entities made of events: a state, commands, effects. There is nothing to
//! apply: an effect is the whole new value ([`update`]), or that there is none any more ([`delete`]).
//! For what nobody will ask the history of: carts, settings, sessions, the position of a reader.
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
//!         Ok(update(Self { items }).reply(|cart: &Self| cart.items.len()))
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
//! A value is replaced only by whoever knows its revision, so two processes that change the same
//! one lose nothing: the slower decides again with what the faster left. A command is not known
//! again by an id of its own, as it is with events: a value carries no commands. Write the id into
//! the value where that matters.

mod effect;
mod executor;
mod host;
mod model;
mod region;

#[cfg(feature = "testing")]
pub(in crate::entity) use effect::Change;
pub use effect::{Effect, delete, none, reply, update};
pub use executor::Executor;
pub(crate) use host::Host;
pub use model::{Entity, Handle};
pub use region::Region;
