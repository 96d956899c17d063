//! What differs between SQLite and Postgres, and connections that were abandoned in a transaction.

use std::time::Duration;

use annals::{Error, Result};
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Pool, Transaction};

use crate::verdict::Verdict;

/// A database that a [`SqlView`](crate::SqlView) can use: `Sqlite` or `Postgres` of `sqlx`.
///
/// See [`SqlView`](crate::SqlView) for an example.
pub trait SqlDatabase: sealed::Dialect {}

impl<DB: sealed::Dialect> SqlDatabase for DB {}

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

pub(crate) mod sealed {
    use super::*;

    /// How to speak with a database. Both understand `$1`.
    #[doc(hidden)]
    pub trait Dialect: sqlx::Database {
        /// Whether a connection that was abandoned in the middle of something is closed.
        const CLOSES_ABANDONED: bool;
        /// Lets only one transaction at a time create tables, if `begin` does not.
        const LOCK_SCHEMA: Option<&'static str>;

        /// The statement that begins a transaction.
        fn begin(idle_max: Duration) -> String;

        fn verdict(error: &dyn DatabaseError) -> Verdict;

        /// Executes a statement and returns how many rows it wrote.
        fn execute(
            conn: &mut Self::Connection,
            sql: &'static str,
            values: &[Value<'_>],
        ) -> impl Future<Output = sqlx::Result<u64>> + Send;

        /// The rows of a statement that returns only texts.
        fn texts(
            conn: &mut Self::Connection,
            sql: &'static str,
            values: &[Value<'_>],
        ) -> impl Future<Output = sqlx::Result<Vec<Vec<String>>>> + Send;
    }
}

/// The two functions that are the same for every database, but cannot be written for all of them.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! statements {
    () => {
        async fn execute(
            conn: &mut Self::Connection,
            sql: &'static str,
            values: &[Value<'_>],
        ) -> sqlx::Result<u64> {
            let mut query = sqlx::query::<Self>(sql);
            for value in values {
                query = match value {
                    Value::Text(text) => query.bind((*text).to_owned()),
                    Value::Number(number) => query.bind(*number),
                };
            }
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn texts(
            conn: &mut Self::Connection,
            sql: &'static str,
            values: &[Value<'_>],
        ) -> sqlx::Result<Vec<Vec<String>>> {
            use sqlx::Row as _;
            let mut query = sqlx::query::<Self>(sql);
            for value in values {
                query = match value {
                    Value::Text(text) => query.bind((*text).to_owned()),
                    Value::Number(number) => query.bind(*number),
                };
            }
            let rows = query.fetch_all(conn).await?;
            let row = |row: &Self::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
            rows.iter().map(row).collect()
        }
    };
}

#[cfg(feature = "sqlite")]
impl sealed::Dialect for sqlx::Sqlite {
    /// The driver's own thread rolls back. Closing the last connection would drop a database in memory.
    const CLOSES_ABANDONED: bool = false;
    const LOCK_SCHEMA: Option<&'static str> = None;

    /// Takes the lock for writing first. A transaction that began by reading would fail when it writes,
    /// if another one had written meanwhile.
    fn begin(_: Duration) -> String {
        "BEGIN IMMEDIATE".to_owned()
    }

    fn verdict(error: &dyn DatabaseError) -> Verdict {
        crate::verdict::of_sqlite(error)
    }

    statements!();
}

#[cfg(feature = "postgres")]
impl sealed::Dialect for sqlx::Postgres {
    /// Of `BEGIN`, the driver forgets that it was sent if nobody waits for the answer. The next user of
    /// the connection would write into a transaction that nobody commits.
    const CLOSES_ABANDONED: bool = true;
    const LOCK_SCHEMA: Option<&'static str> =
        Some("SELECT pg_advisory_xact_lock(hashtext('annals-sql'))");

    /// Both statements are sent at once.
    fn begin(idle_max: Duration) -> String {
        let idle_ms = idle_max.as_millis();
        format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}")
    }

    fn verdict(error: &dyn DatabaseError) -> Verdict {
        crate::verdict::of_postgres(error)
    }

    statements!();
}

/// An error of the database that is not about an event.
pub(crate) fn broken<DB: SqlDatabase>(error: sqlx::Error) -> Error {
    let verdict = Verdict::of(&error, DB::verdict);
    verdict.error().because(error)
}

/// A connection in use. If it is dropped before it is handed back, as when the caller is cancelled, it may
/// be in the middle of anything.
pub(crate) struct InUse<DB: SqlDatabase> {
    conn: PoolConnection<DB>,
    is_settled: bool,
}

impl<DB: SqlDatabase> InUse<DB> {
    pub(crate) async fn acquire(pool: &Pool<DB>) -> Result<Self> {
        let conn = pool.acquire().await.map_err(broken::<DB>)?;
        Ok(Self {
            conn,
            is_settled: false,
        })
    }

    pub(crate) fn get(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }

    pub(crate) async fn begin(&mut self, idle_max: Duration) -> Result<Transaction<'_, DB>> {
        // The text has no part that a user chose.
        let begin = sqlx::AssertSqlSafe(DB::begin(idle_max));
        self.conn.begin_with(begin).await.map_err(broken::<DB>)
    }

    /// Hands the connection back: it is in no transaction.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
    }
}

impl<DB: SqlDatabase> Drop for InUse<DB> {
    fn drop(&mut self) {
        if DB::CLOSES_ABANDONED && !self.is_settled {
            self.conn.close_on_drop();
        }
    }
}
