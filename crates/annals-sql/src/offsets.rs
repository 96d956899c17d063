//! The two tables that this crate keeps in the user's database. No other file knows their format.
//!
//! | table | row |
//! | --- | --- |
//! | `annals_offset` | a share of a build: the position that its rows reflect, and the lease of the runner that owns it |
//! | `annals_retried` | the last dead letter of an id that was retried |
//!
//! Guarantees: a position is only written by the runner whose lease is in the row, over the position that
//! this runner knows. Dead letters of an id are retried in order, so one number per id tells which of them
//! were applied. A row of `annals_retried` goes with a later event of its id, a purge, or the build.

use annals::feed::Position;
use annals::projection::ShareContext;
use annals::{Error, ErrorKind, PersistenceId, Result};

use crate::SqlDatabase;
use crate::database::{Value, broken};

const CREATE_OFFSET: &str = "CREATE TABLE IF NOT EXISTS annals_offset (
    projection text NOT NULL,
    build bigint NOT NULL,
    share bigint NOT NULL,
    revision bigint NOT NULL,
    at text NOT NULL,
    lease text NOT NULL,
    PRIMARY KEY (projection, build, share)
)";
const CREATE_RETRIED: &str = "CREATE TABLE IF NOT EXISTS annals_retried (
    projection text NOT NULL,
    build bigint NOT NULL,
    share bigint NOT NULL,
    persistence_id text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (projection, build, share, persistence_id)
)";
const PROBES: [&str; 2] = [
    "SELECT projection, build, share, revision, at, lease FROM annals_offset WHERE build < 0",
    "SELECT projection, build, share, persistence_id, number FROM annals_retried WHERE build < 0",
];
/// The statement waits for a former owner that is in the middle of a transaction, and returns the position
/// that it left.
const TAKE: &str = "INSERT INTO annals_offset (projection, build, share, revision, at, lease)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (projection, build, share) DO UPDATE SET lease = excluded.lease
    RETURNING at";
const ADVANCE: &str = "UPDATE annals_offset SET at = $6
    WHERE projection = $1 AND build = $2 AND share = $3 AND lease = $4 AND at = $5";
const LEASE: &str =
    "SELECT lease FROM annals_offset WHERE projection = $1 AND build = $2 AND share = $3";
const RETRIED: &str = "SELECT persistence_id, CAST(number AS text) FROM annals_retried
    WHERE projection = $1 AND build = $2 AND share = $3";
const NOTE_RETRY: &str =
    "INSERT INTO annals_retried (projection, build, share, persistence_id, number)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (projection, build, share, persistence_id) DO UPDATE SET number = excluded.number
    WHERE annals_retried.number < excluded.number";
const FORGET_RETRIES: &str = "DELETE FROM annals_retried
    WHERE projection = $1 AND build = $2 AND share = $3 AND persistence_id = $4";
const REVISION: &str = "SELECT CAST(revision AS text) FROM annals_offset
    WHERE projection = $1 AND build = $2 LIMIT 1";
const DROP: [&str; 2] = [
    "DELETE FROM annals_offset WHERE projection = $1 AND build = $2",
    "DELETE FROM annals_retried WHERE projection = $1 AND build = $2",
];

/// Whether both tables are there, with all columns.
pub(crate) async fn are_there<DB: SqlDatabase>(conn: &mut DB::Connection) -> Result<bool> {
    for probe in PROBES {
        match DB::texts(conn, probe, &[]).await.map_err(broken::<DB>) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Invalid => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Creates the tables that are missing, in a transaction that no other one creates tables beside.
pub(crate) async fn create<DB: SqlDatabase>(tx: &mut DB::Connection) -> Result<()> {
    for create in [CREATE_OFFSET, CREATE_RETRIED] {
        let created = DB::execute(tx, create, &[]).await;
        created.map_err(broken::<DB>)?;
    }
    Ok(())
}

/// Tables of these names exist, with other columns.
pub(crate) fn wrong_columns() -> Error {
    Error::invalid("a table of the SQL database lacks columns of ours; rename it")
        .fact("tables", "annals_offset, annals_retried")
}

/// The rows of a share.
pub(crate) struct ShareRows<'a> {
    share: &'a ShareContext,
}

impl<'a> ShareRows<'a> {
    pub(crate) fn of(share: &'a ShareContext) -> Self {
        Self { share }
    }

    fn key(&self) -> [Value<'a>; 3] {
        [
            Value::Text(&self.share.projection),
            Value::Number(self.share.build.into()),
            Value::Number(self.share.share.into()),
        ]
    }

    /// Writes the lease into the row, which is made if there is none. Returns the position in it.
    pub(crate) async fn take<DB: SqlDatabase>(
        &self,
        tx: &mut DB::Connection,
        revision: u32,
    ) -> Result<Position> {
        let at = self.share.at.to_string();
        let [name, build, share] = self.key();
        let values = [
            name,
            build,
            share,
            Value::Number(revision.into()),
            Value::Text(&at),
            Value::Text(&self.share.lease),
        ];
        let rows = DB::texts(tx, TAKE, &values).await.map_err(broken::<DB>)?;
        let at = rows.first().and_then(|row| row.first());
        at.map_or("", String::as_str).parse().map_err(|error| {
            let message = "a row of annals_offset has no position; rebuild the projection";
            Error::corrupt(message).because(error)
        })
    }

    /// Moves the position. `false`: the row has another lease, or another position.
    pub(crate) async fn advance<DB: SqlDatabase>(
        &self,
        tx: &mut DB::Connection,
        from: &Position,
        to: &Position,
    ) -> Result<bool> {
        let (from, to) = (from.to_string(), to.to_string());
        let [name, build, share] = self.key();
        let values = [
            name,
            build,
            share,
            Value::Text(&self.share.lease),
            Value::Text(&from),
            Value::Text(&to),
        ];
        let rows = DB::execute(tx, ADVANCE, &values).await;
        Ok(rows.map_err(broken::<DB>)? > 0)
    }

    /// Whether the row has this lease.
    pub(crate) async fn has_lease<DB: SqlDatabase>(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<bool> {
        let rows = DB::texts(conn, LEASE, &self.key()).await;
        let rows = rows.map_err(broken::<DB>)?;
        let lease = rows.first().and_then(|row| row.first());
        Ok(lease == Some(&self.share.lease))
    }

    /// The ids with dead letters that were retried, and the last number of each.
    pub(crate) async fn retried<DB: SqlDatabase>(
        &self,
        tx: &mut DB::Connection,
    ) -> Result<Vec<(String, u64)>> {
        let rows = DB::texts(tx, RETRIED, &self.key()).await;
        let rows = rows.map_err(broken::<DB>)?.into_iter();
        let pair = |row: Vec<String>| {
            let mut row = row.into_iter();
            Some((row.next()?, row.next()?.parse().ok()?))
        };
        Ok(rows.filter_map(pair).collect())
    }

    /// Notes that a dead letter was applied. `false`: it was before.
    pub(crate) async fn note_retry<DB: SqlDatabase>(
        &self,
        tx: &mut DB::Connection,
        id: &PersistenceId,
        number: u64,
    ) -> Result<bool> {
        let [name, build, share] = self.key();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let values = [
            name,
            build,
            share,
            Value::Text(id.as_str()),
            Value::Number(number),
        ];
        let rows = DB::execute(tx, NOTE_RETRY, &values).await;
        Ok(rows.map_err(broken::<DB>)? > 0)
    }

    /// Removes the note: no dead letter of the id will be retried again.
    pub(crate) async fn forget_retries<DB: SqlDatabase>(
        &self,
        tx: &mut DB::Connection,
        id: &PersistenceId,
    ) -> Result<()> {
        let [name, build, share] = self.key();
        let values = [name, build, share, Value::Text(id.as_str())];
        let forgotten = DB::execute(tx, FORGET_RETRIES, &values).await;
        forgotten.map_err(broken::<DB>)?;
        Ok(())
    }
}

/// Removes the rows of a build. Returns its revision, if there were any.
pub(crate) async fn drop_build<DB: SqlDatabase>(
    tx: &mut DB::Connection,
    projection: &str,
    build: u32,
) -> Result<Option<u32>> {
    let key = [Value::Text(projection), Value::Number(build.into())];
    let rows = DB::texts(tx, REVISION, &key).await.map_err(broken::<DB>)?;
    for drop in DROP {
        DB::execute(tx, drop, &key).await.map_err(broken::<DB>)?;
    }
    let revision = rows.first().and_then(|row| row.first());
    Ok(revision.and_then(|revision| revision.parse().ok()))
}
