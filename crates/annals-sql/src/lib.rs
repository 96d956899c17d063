//! Projections of [Annals](annals) into SQLite and Postgres: a [`SqlView`] keeps rows in tables of the
//! application's own database, with `sqlx`.
//!
//! ```
//! use annals::entity::EntityEvent;
//! use annals::feed::Filter;
//! use annals::projection::Fed;
//! use annals_sql::sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePoolOptions};
//! use annals_sql::{Result, SqlSink, SqlView, sqlx};
//!
//! #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
//! enum CartEvent {
//!     Added { cents: u32 },
//!     CheckedOut,
//! }
//!
//! struct OpenCarts;
//!
//! #[async_trait::async_trait]
//! impl SqlView for OpenCarts {
//!     const NAME: &'static str = "open-carts";
//!     type Event = CartEvent;
//!     type Database = Sqlite; // or Postgres
//!
//!     fn source() -> Filter {
//!         Filter::new().category("Cart")
//!     }
//!
//!     async fn apply(&self, event: &Fed<CartEvent>, tx: &mut SqliteConnection) -> Result {
//!         match event.event {
//!             CartEvent::Added { cents } => {
//!                 let add = "INSERT INTO open_cart (cart, cents) VALUES ($1, $2)
//!                     ON CONFLICT (cart) DO UPDATE SET cents = cents + excluded.cents";
//!                 let add = sqlx::query(add).bind(event.entity()).bind(cents);
//!                 add.execute(tx).await?;
//!             }
//!             CartEvent::CheckedOut => {
//!                 let remove = sqlx::query("DELETE FROM open_cart WHERE cart = $1");
//!                 remove.bind(event.entity()).execute(tx).await?;
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # use annals::journal::Expected;
//! # use annals::layout::AnnalsLayout;
//! # use annals::{Annals, memory::Memory};
//! # #[tokio::main]
//! # async fn main() -> Result {
//! # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}?mode=rwc", folder.path().join("carts.db").display());
//! # let pool = SqlitePoolOptions::new().connect(&url).await?;
//! # sqlx::query("CREATE TABLE open_cart (cart text PRIMARY KEY, cents bigint)").execute(&pool).await?;
//! let carts = annals.projections().target(SqlSink::new(pool.clone(), OpenCarts)).start().await?;
//!
//! let added = CartEvent::Added { cents: 350 }.to_event()?;
//! annals.journal().append(&"Cart|42".parse()?, Expected::Empty, added).await?;
//!
//! carts.caught_up().await?;
//! let cents: i64 = sqlx::query_scalar("SELECT cents FROM open_cart WHERE cart = '42'").fetch_one(&pool).await?;
//! assert_eq!(cents, 350);
//! # carts.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//! - Every event is in the rows exactly once, whatever crashed: the rows of a batch and the position after
//!   it are committed in one transaction. A dead letter that is retried is applied once.
//! - A runner that lost its share changes nothing: its transaction begins with an update that only the
//!   owner can make.
//! - While the database is away, nothing is lost and no event becomes a dead letter. The share goes on by
//!   itself when it is back.
//! - Rows never show a part of an append, unless one of its events is a dead letter.
//!
//! | Feature | |
//! | --- | --- |
//! | `sqlite` | SQLite, compiled in |
//! | `postgres` | Postgres 12 or newer |
//! | `rustls` | encrypted connections to Postgres |
//!
//! ```text
//! view         what the application writes
//! sink         the target: a batch, a transaction
//! steps        the deliveries of a batch as calls of the view
//! offsets      the two tables that this crate keeps: positions and leases, retried dead letters
//! database     what differs between the databases; connections that were abandoned
//! verdict      what an error means: wait, fix the schema, or an event that cannot be applied
//! ```

mod database;
mod offsets;
mod sink;
mod steps;
mod verdict;
mod view;

pub use database::SqlDatabase;
pub use sink::SqlSink;
pub use sqlx;
pub use view::{Connection, SqlView};

/// What the functions of a [`SqlView`] return: `?` accepts every error.
///
/// An error that passes by itself, such as a lost connection or a deadlock, is retried until it does. So is
/// an [`annals::Error`] of kind `Unavailable`. If the schema does not fit the statements, the share waits
/// until it does. Any other error means that the event cannot be applied: after a few attempts, the share
/// stops or the event becomes a dead letter ([`OnPoison`](annals::projection::OnPoison)).
///
/// See [`SqlView`] for an example.
pub type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
