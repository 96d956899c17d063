//! The databases under test: a file for each test, or a schema of the Postgres server.

use std::str::FromStr;
use std::time::Duration;

use annals_sql::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use annals_sql::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use annals_sql::sqlx::{self, AssertSqlSafe, Pool, Postgres, Row, Sqlite};
use annals_sql::{SqlDatabase, SqlView};

use crate::ledger::Ledger;

/// A database under test.
pub(crate) trait Db: SqlDatabase {
    /// The column that numbers rows.
    const SERIAL: &'static str;
    /// Refuses rows without a parent when the transaction commits.
    const DEFERRED: &'static str =
        "child bigint REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED";
    type Home: Send + Sync;
    type View<const R: u32>: SqlView<Database = Self>;

    /// An empty database.
    async fn home() -> Self::Home;

    /// A pool, as another process would have one.
    async fn pool(home: &Self::Home) -> Pool<Self>;

    async fn close(home: Self::Home);

    async fn try_run(pool: &Pool<Self>, sql: &str) -> sqlx::Result<()>;

    /// The rows of a query that returns only texts.
    async fn rows(pool: &Pool<Self>, sql: &str) -> Vec<Vec<String>>;

    fn view<const R: u32>(ledger: Ledger<Self, R>) -> Self::View<R>;

    async fn run(pool: &Pool<Self>, sql: &str) {
        let run = Self::try_run(pool, sql).await;
        run.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

macro_rules! queries {
    () => {
        type View<const R: u32> = Ledger<Self, R>;

        fn view<const R: u32>(ledger: Ledger<Self, R>) -> Self::View<R> {
            ledger
        }

        async fn try_run(pool: &Pool<Self>, sql: &str) -> sqlx::Result<()> {
            sqlx::query(AssertSqlSafe(sql.to_owned()))
                .execute(pool)
                .await?;
            Ok(())
        }

        async fn rows(pool: &Pool<Self>, sql: &str) -> Vec<Vec<String>> {
            let rows = sqlx::query(AssertSqlSafe(sql.to_owned()))
                .fetch_all(pool)
                .await;
            let row = |row: &<Self as sqlx::Database>::Row| {
                (0..row.len()).map(|column| row.get(column)).collect()
            };
            rows.unwrap().iter().map(row).collect()
        }
    };
}

impl Db for Sqlite {
    const SERIAL: &'static str = "integer PRIMARY KEY AUTOINCREMENT";
    type Home = tempfile::TempDir;

    async fn home() -> Self::Home {
        tempfile::tempdir().unwrap()
    }

    async fn pool(home: &Self::Home) -> Pool<Self> {
        let options = SqliteConnectOptions::new()
            .filename(home.path().join("rows.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_millis(100));
        let pool = SqlitePoolOptions::new().max_connections(4);
        // Two processes that set the journal mode at once disturb each other.
        for _ in 0..50 {
            if let Ok(pool) = pool.clone().connect_with(options.clone()).await {
                return pool;
            }
        }
        pool.connect_with(options).await.unwrap()
    }

    async fn close(home: Self::Home) {
        drop(home);
    }

    queries!();
}

/// The options of a connection to the server under test.
pub(crate) fn server() -> PgConnectOptions {
    let url = std::env::var("ANNALS_POSTGRES_URL").unwrap();
    PgConnectOptions::from_str(&url).unwrap()
}

impl Db for Postgres {
    const SERIAL: &'static str = "bigserial PRIMARY KEY";
    type Home = String;

    async fn home() -> String {
        let schema = format!("t_{:016x}", rand_bits());
        let pool = PgPoolOptions::new().connect_with(server()).await.unwrap();
        Self::run(&pool, &format!("CREATE SCHEMA {schema}")).await;
        pool.close().await;
        schema
    }

    async fn pool(schema: &String) -> Pool<Self> {
        let options = server().options([("search_path", schema)]);
        let pool = PgPoolOptions::new().max_connections(4);
        let pool = pool.acquire_timeout(Duration::from_secs(5));
        pool.connect_with(options).await.unwrap()
    }

    async fn close(schema: String) {
        let pool = PgPoolOptions::new().connect_with(server()).await.unwrap();
        Self::run(&pool, &format!("DROP SCHEMA {schema} CASCADE")).await;
        pool.close().await;
    }

    queries!();
}

fn rand_bits() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
