//! What an application implements: rows in tables of its own.

use std::time::Duration;

use annals::entity::EntityEvent;
use annals::feed::Filter;
use annals::projection::Fed;
use annals::{PersistenceId, SequenceNumber};
use async_trait::async_trait;

use crate::{Result, SqlDatabase};

/// The connection that a view's functions get, in a transaction: `SqliteConnection` or `PgConnection`.
///
/// See [`SqlView`] for an example.
pub type Connection<V> = <<V as SqlView>::Database as sqlx::Database>::Connection;

/// Rows in tables of an SQL database that follow the events.
///
/// Every function gets the connection of the transaction in which the position is saved. Write through it
/// and nothing else; do not commit or roll it back. If any function fails, the whole transaction is rolled
/// back.
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::feed::Filter;
/// use annals::projection::Fed;
/// use annals_sql::sqlx::postgres::{PgConnection, Postgres};
/// use annals_sql::{Result, SqlView, sqlx};
///
/// #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// struct CheckedOut {
///     cents: i64,
/// }
///
/// struct Sales;
///
/// #[async_trait::async_trait]
/// impl SqlView for Sales {
///     const NAME: &'static str = "sales";
///     const REVISION: u32 = 2; // its rows are in sales_2; those of revision 1 were in sales_1
///     type Event = CheckedOut;
///     type Database = Postgres;
///
///     fn source() -> Filter {
///         Filter::new().category("Cart")
///     }
///
///     async fn create(&self, tx: &mut PgConnection) -> Result {
///         let create = "CREATE TABLE IF NOT EXISTS sales_2 (cart text, cents bigint)";
///         sqlx::query(create).execute(tx).await?;
///         Ok(())
///     }
///
///     async fn apply(&self, event: &Fed<CheckedOut>, tx: &mut PgConnection) -> Result {
///         let insert = sqlx::query("INSERT INTO sales_2 (cart, cents) VALUES ($1, $2)");
///         insert.bind(event.entity()).bind(event.event.cents).execute(tx).await?;
///         Ok(())
///     }
///
///     async fn drop_revision(&self, revision: u32, tx: &mut PgConnection) -> Result {
///         if revision == 1 {
///             sqlx::query("DROP TABLE IF EXISTS sales_1").execute(tx).await?;
///         }
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait SqlView: Send + Sync + 'static {
    /// The name. Its position is stored under it, so it must never change.
    const NAME: &'static str;
    /// A higher revision is built from the start of the feed, beside the live one: write its rows to other
    /// tables.
    const REVISION: u32 = 1;
    /// Postgres ends a transaction that does nothing for this long, so that a process that is paused in the
    /// middle of one does not stop its successor. An event that takes longer fails.
    const IDLE_MAX: Duration = Duration::from_secs(10);
    /// The events.
    type Event: EntityEvent;
    /// The database: `Sqlite` or `Postgres` of `sqlx`.
    type Database: SqlDatabase;

    /// Which events it wants.
    fn source() -> Filter;

    /// Creates its tables if they are missing. Called when a process takes its first share.
    ///
    /// # Errors
    /// See [`Result`].
    async fn create(&self, tx: &mut Connection<Self>) -> Result {
        let _ = tx;
        Ok(())
    }

    /// Applies an event. If it fails, it is called again after a rollback.
    ///
    /// # Errors
    /// See [`Result`].
    async fn apply(&self, event: &Fed<Self::Event>, tx: &mut Connection<Self>) -> Result;

    /// Applies events in order, at least one. Implement it if one statement can write many rows. Events
    /// come together in another way when they are tried again.
    ///
    /// # Errors
    /// See [`Result`].
    async fn apply_all(&self, events: &[Fed<Self::Event>], tx: &mut Connection<Self>) -> Result {
        for event in events {
            self.apply(event, tx).await?;
        }
        Ok(())
    }

    /// Called when everything of an id was purged. Its sequence numbers restart at 1.
    ///
    /// # Errors
    /// See [`Result`].
    async fn purged(&self, id: &PersistenceId, tx: &mut Connection<Self>) -> Result {
        let _ = (id, tx);
        Ok(())
    }

    /// Called when the events of an id up to a sequence number were deleted from the journal.
    ///
    /// # Errors
    /// See [`Result`].
    async fn deleted(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
        tx: &mut Connection<Self>,
    ) -> Result {
        let _ = (id, to, tx);
        Ok(())
    }

    /// Called when events of an id were deleted before they were read: the rows lack them. The number is
    /// that of the first one, or of the one that is known.
    ///
    /// # Errors
    /// See [`Result`].
    async fn missing(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        tx: &mut Connection<Self>,
    ) -> Result {
        let _ = (id, number, tx);
        Ok(())
    }

    /// Drops the tables of a revision that was retired.
    ///
    /// # Errors
    /// See [`Result`].
    async fn drop_revision(&self, revision: u32, tx: &mut Connection<Self>) -> Result {
        let _ = (revision, tx);
        Ok(())
    }
}
