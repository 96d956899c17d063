//! Annals on the tables of JVM plugins: akka-persistence-dynamodb and pekko-persistence-dynamodb
//! 1.x (layout `akka`), and j5ik2o's akka-persistence-dynamodb (layout `j5ik2o`).
//!
//! Both sides read and write the same tables at the same time. [`AnyLayout`] is a layout chosen by
//! name, with its settings; pass it to [`annals::Annals::open`].
//!
//! ```
//! use annals::Annals;
//! use annals::memory::Memory;
//! use annals_jvm::{AnyLayout, LayoutName};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> annals::Result<()> {
//! let layout = AnyLayout { layout: LayoutName::Akka, ..AnyLayout::default() };
//! let annals = Annals::create(Memory::new(), &layout).await?;
//! assert_eq!(annals.journal().highest(&"Cart|42".parse()?).await?, None);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! rows            the row engine: append, replay, delete, skip, verify
//! akka, j5ik2o    the formats: keys, rows, tail, markers; snapshots and durable state
//! serialization   bytes of Akka's serializers as payloads
//! message, frame  an event or a snapshot in one attribute
//! snapshot_items  snapshots, one item each
//! writers         which writer an event is from, and which writer's events count
//! attributes      attributes for what the plugins have no place for; checksum
//! hocon           settings out of a HOCON configuration
//! ```

mod akka;
mod attributes;
mod checksum;
mod frame;
#[cfg(feature = "hocon")]
mod hocon;
pub mod j5ik2o;
mod message;
mod rows;
mod serialization;
pub mod settings;
mod snapshot_items;
mod writers;

#[cfg(feature = "hocon")]
pub use hocon::{Check, Concern, Imported, NotTaken, import as import_hocon};
pub use rows::RowJournal;
pub use settings::layout::{AnyLayout, LayoutName};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
