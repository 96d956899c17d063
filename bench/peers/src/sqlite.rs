//! SQLite with group commit: one connection writes, a transaction for each group, WAL and
//! `synchronous=FULL`. The table is clustered by id and number, which is the fastest for recovery and
//! for a scan.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use crate::Result;
use crate::writer::{Append, Appending, Grouped, Writer};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE events (
        id TEXT NOT NULL, n INTEGER NOT NULL, time INTEGER NOT NULL, manifest TEXT NOT NULL,
        payload BLOB NOT NULL, PRIMARY KEY (id, n)
    ) WITHOUT ROWID";

pub(crate) struct Sqlite(Grouped);

impl Sqlite {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let mut connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        connection.set_prepared_statement_cache_capacity(16);
        Ok(Self(Grouped::start(move |appends| {
            commit(&mut connection, appends).map_err(|cause| cause.to_string())
        })))
    }
}

fn commit(connection: &mut Connection, appends: &[Append]) -> Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut last = transaction
            .prepare_cached("SELECT n FROM events WHERE id = ?1 ORDER BY n DESC LIMIT 1")?;
        let mut insert = transaction.prepare_cached(
            "INSERT INTO events (id, n, time, manifest, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for append in appends {
            let mut rows = last.query(params![&*append.id])?;
            let found: i64 = rows.next()?.map_or(Ok(0), |row| row.get(0))?;
            if found != append.after as i64 {
                return Err(
                    format!("{}: expected {}, found {found}", append.id, append.after).into(),
                );
            }
            for number in 1..=append.events {
                let number = (append.after + number) as i64;
                insert.execute(params![
                    &*append.id,
                    number,
                    1_700_000_000_000i64,
                    "",
                    &*append.payload
                ])?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

impl Writer for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn append(&self, append: Append) -> Appending {
        self.0.append(append)
    }
}

/// A connection that reads.
pub(crate) struct Reader(Connection);

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // As much cache as the embedded store has by default.
        connection.execute_batch("PRAGMA cache_size = -65536; PRAGMA mmap_size = 0")?;
        Ok(Self(connection))
    }

    /// Reads the events of an id in order, as an application would: into values of its own.
    pub(crate) fn recover(&self, id: &str) -> Result<Vec<Row>> {
        let mut select = self.0.prepare_cached(
            "SELECT n, time, manifest, payload FROM events WHERE id = ?1 ORDER BY n",
        )?;
        let rows = select.query_map([id], |row| {
            Ok(Row {
                number: row.get(0)?,
                time: row.get(1)?,
                manifest: row.get(2)?,
                payload: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Reads everything in order; returns the number of events and the bytes of their payloads.
    pub(crate) fn scan(&self) -> Result<(u64, u64)> {
        let mut select = self
            .0
            .prepare_cached("SELECT id, n, time, manifest, payload FROM events ORDER BY id, n")?;
        let mut rows = select.query([])?;
        let (mut events, mut bytes) = (0, 0);
        while let Some(row) = rows.next()? {
            let (id, manifest) = (row.get_ref(0)?.as_str()?, row.get_ref(3)?.as_str()?);
            let number: i64 = row.get(1)?;
            let payload = row.get_ref(4)?.as_blob()?;
            std::hint::black_box((id, manifest, number));
            events += 1;
            bytes += payload.len() as u64;
        }
        Ok((events, bytes))
    }
}

/// An event.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Row {
    pub(crate) number: i64,
    time: i64,
    manifest: String,
    pub(crate) payload: Vec<u8>,
}
