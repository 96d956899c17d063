//! The view under test: what was applied in which order, and a balance that is read, computed and written.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::entity::EntityEvent;
use annals::feed::Filter;
use annals::projection::Fed;
use annals::{PersistenceId, SequenceNumber};
use annals_sql::sqlx::{self, AssertSqlSafe, Postgres, Sqlite};
use annals_sql::{Connection, Result, SqlView};
use serde::{Deserialize, Serialize};

use crate::databases::Db;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, EntityEvent)]
pub(crate) enum Booked {
    Cents(u32),
    /// Fails until it is fixed.
    Broken(u32),
    /// Panics until it is fixed.
    Panics(u32),
    /// Refers to a row that is not there, which is noticed at the commit.
    Orphan(u32),
}

impl Booked {
    pub(crate) fn cents(&self) -> u32 {
        let (Self::Cents(cents) | Self::Broken(cents) | Self::Panics(cents) | Self::Orphan(cents)) =
            self;
        *cents
    }
}

/// What tests change while it runs, and what it was called for.
#[derive(Default)]
pub(crate) struct Switches {
    pub(crate) is_fixed: AtomicBool,
    /// Whether `create` makes the tables of the view.
    pub(crate) has_no_tables: AtomicBool,
    pub(crate) calls: Mutex<Vec<String>>,
}

pub(crate) struct Ledger<D, const R: u32> {
    pub(crate) switches: Arc<Switches>,
    database: PhantomData<fn() -> D>,
}

impl<D, const R: u32> Ledger<D, R> {
    pub(crate) fn new(switches: &Arc<Switches>) -> Self {
        Self {
            switches: switches.clone(),
            database: PhantomData,
        }
    }

    fn note(&self, call: String) {
        self.switches.calls.lock().unwrap().push(call);
    }
}

pub(crate) fn tables<D: Db>(revision: u32) -> Vec<String> {
    vec![
        "CREATE TABLE IF NOT EXISTS parent (id bigint PRIMARY KEY)".to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS applied_{revision} (n {}, id text, number bigint, {})",
            D::SERIAL,
            D::DEFERRED
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS balance_{revision} (entity text PRIMARY KEY, events bigint, cents bigint)"
        ),
    ]
}

macro_rules! ledger {
    ($database:ty) => {
        #[async_trait::async_trait]
        impl<const R: u32> SqlView for Ledger<$database, R> {
            const NAME: &'static str = "ledger";
            const REVISION: u32 = R;
            const IDLE_MAX: Duration = Duration::from_millis(400);
            type Event = Booked;
            type Database = $database;

            fn source() -> Filter {
                Filter::new().category("Account")
            }

            async fn create(&self, tx: &mut Connection<Self>) -> Result {
                if self.switches.has_no_tables.load(Ordering::SeqCst) {
                    return Ok(());
                }
                for create in tables::<$database>(R) {
                    sqlx::query(AssertSqlSafe(create)).execute(&mut *tx).await?;
                }
                Ok(())
            }

            async fn apply(&self, event: &Fed<Booked>, tx: &mut Connection<Self>) -> Result {
                let insert = format!("INSERT INTO applied_{R} (id, number, child) VALUES ($1, $2, $3)");
                let is_fixed = self.switches.is_fixed.load(Ordering::SeqCst);
                let child = matches!(event.event, Booked::Orphan(_)) && !is_fixed;
                let number = i64::try_from(event.sequence_number().get())?;
                let insert = sqlx::query(AssertSqlSafe(insert)).bind(event.id().as_str().to_owned());
                let insert = insert.bind(number).bind(child.then_some(404_i64));
                insert.execute(&mut *tx).await?;
                match event.event {
                    Booked::Broken(_) if !is_fixed => return Err("this account is closed".into()),
                    // As a panic, but nothing is printed.
                    Booked::Panics(_) if !is_fixed => {
                        std::panic::resume_unwind(Box::new("no such account"))
                    }
                    _ => {}
                }
                let select = format!("SELECT events, cents FROM balance_{R} WHERE entity = $1");
                let select = sqlx::query_as(AssertSqlSafe(select)).bind(event.entity().to_owned());
                let balance: Option<(i64, i64)> = select.fetch_optional(&mut *tx).await?;
                let (events, cents) = balance.unwrap_or_default();
                let upsert = format!(
                    "INSERT INTO balance_{R} (entity, events, cents) VALUES ($1, $2, $3)
                     ON CONFLICT (entity) DO UPDATE SET events = excluded.events, cents = excluded.cents"
                );
                let upsert = sqlx::query(AssertSqlSafe(upsert)).bind(event.entity().to_owned());
                let cents = cents + i64::from(event.event.cents());
                upsert.bind(events + 1).bind(cents).execute(&mut *tx).await?;
                Ok(())
            }

            async fn purged(&self, id: &PersistenceId, tx: &mut Connection<Self>) -> Result {
                self.note(format!("purged {id}"));
                let delete = format!("DELETE FROM applied_{R} WHERE id = $1");
                let delete = sqlx::query(AssertSqlSafe(delete)).bind(id.as_str().to_owned());
                delete.execute(&mut *tx).await?;
                let entity = id.as_str().split_once('|').unwrap().1.to_owned();
                let delete = format!("DELETE FROM balance_{R} WHERE entity = $1");
                sqlx::query(AssertSqlSafe(delete)).bind(entity).execute(tx).await?;
                Ok(())
            }

            async fn deleted(
                &self,
                id: &PersistenceId,
                to: SequenceNumber,
                _: &mut Connection<Self>,
            ) -> Result {
                self.note(format!("deleted {id} to {to}"));
                Ok(())
            }

            async fn missing(
                &self,
                id: &PersistenceId,
                number: SequenceNumber,
                _: &mut Connection<Self>,
            ) -> Result {
                self.note(format!("missing {id} from {number}"));
                Ok(())
            }

            async fn drop_revision(&self, revision: u32, tx: &mut Connection<Self>) -> Result {
                self.note(format!("dropped {revision}"));
                for table in ["applied", "balance"] {
                    let drop = format!("DROP TABLE IF EXISTS {table}_{revision}");
                    sqlx::query(AssertSqlSafe(drop)).execute(&mut *tx).await?;
                }
                Ok(())
            }
        }
    };
}

ledger!(Sqlite);
ledger!(Postgres);
