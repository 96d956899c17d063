//! What an error means: something that passes by itself, a schema that does not fit, or an event that
//! cannot be applied.
//!
//! Guarantees: no event becomes a dead letter because the database was away, overloaded or restarting, or
//! because a table is missing.

use std::error::Error as StdError;

use annals::projection::Failure;
use annals::{Error, ErrorKind};
use sqlx::error::DatabaseError;

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Verdict {
    /// Wait: it passes by itself.
    Passes,
    /// Wait until somebody has changed the schema, the privileges or the code. It has nothing to do with
    /// the event.
    Setup,
    /// Stop: the database is damaged.
    Damaged,
    /// The event cannot be applied.
    Event,
}

impl Verdict {
    /// That of an error of `sqlx`.
    pub(crate) fn of(error: &sqlx::Error, of_code: fn(&dyn DatabaseError) -> Self) -> Self {
        use sqlx::Error::*;
        match error {
            Database(error) => of_code(&**error),
            Io(_)
            | Tls(_)
            | Protocol(_)
            | PoolTimedOut
            | PoolClosed
            | WorkerCrashed
            | BeginFailed
            | InvalidSavePointStatement => Self::Passes,
            Configuration(_) => Self::Setup,
            _ => Self::Event,
        }
    }

    /// Finds that of the error of a view: an error of `sqlx` decides, or one of ours that is unavailable,
    /// however deep it is in the chain of causes.
    fn of_chain(error: &(dyn StdError + 'static), of_code: fn(&dyn DatabaseError) -> Self) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<sqlx::Error>() {
                return Self::of(error, of_code);
            }
            let ours = error.downcast_ref::<Error>();
            if ours.is_some_and(|error| error.kind() == ErrorKind::Unavailable) {
                return Self::Passes;
            }
            next = error.source();
        }
        Self::Event
    }

    /// The error of a statement that is not about an event.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Passes => Error::unavailable(
                "the SQL database cannot do this now; check that it runs and can be reached",
            ),
            Self::Setup => Error::invalid(
                "the SQL database refuses a statement; fix the schema, the privileges or the statement",
            ),
            Self::Damaged => {
                Error::corrupt("the SQL database is damaged; restore it, or rebuild the projection")
            }
            Self::Event => Error::invalid("the SQL database refuses a statement"),
        }
    }
}

/// Why a view's function failed, as the runner needs to know it.
pub(crate) fn of_view(
    error: Box<dyn StdError + Send + Sync>,
    of_code: fn(&dyn DatabaseError) -> Verdict,
) -> Result<Error, Failure> {
    match Verdict::of_chain(&*error, of_code) {
        Verdict::Event => {
            let message = "the view cannot apply the event; fix the view, or discard the event";
            Ok(Error::invalid(message).because(error))
        }
        other => Err(Failure::Failed(other.error().because(error))),
    }
}

/// By the code of Postgres (its appendix A).
#[cfg(feature = "postgres")]
pub(crate) fn of_postgres(error: &dyn DatabaseError) -> Verdict {
    let code = error.code().unwrap_or_default();
    match &*code {
        // The integrity of a transaction that could not be continued elsewhere.
        "40002" => Verdict::Event,
        "XX001" | "XX002" => Verdict::Damaged,
        // A plan that was made before the schema changed; a new connection has none.
        "0A000" if error.message().contains("cached plan") => Verdict::Passes,
        // Read-only (a standby), or it ran out of time: idle in a transaction, or as a whole. Locked.
        "25006" | "25P03" | "25P04" | "55006" | "55P03" => Verdict::Passes,
        code => match code.get(..2).unwrap_or_default() {
            // Connections, transaction conflicts, resources, operators, the system.
            "08" | "40" | "53" | "57" | "58" => Verdict::Passes,
            // Authorization, databases, schemas, undefined tables and columns, privileges, syntax.
            "28" | "3D" | "3F" | "42" => Verdict::Setup,
            _ => Verdict::Event,
        },
    }
}

/// By the result code of SQLite.
#[cfg(feature = "sqlite")]
pub(crate) fn of_sqlite(error: &dyn DatabaseError) -> Verdict {
    const SETUP: [&str; 5] = [
        "no such table",
        "no such column",
        "has no column named",
        "syntax error",
        "no such function",
    ];
    let code = error.code().and_then(|code| code.parse::<u32>().ok());
    // The primary code is in the low byte.
    match code.unwrap_or_default() & 0xff {
        // Out of memory, read-only, interrupted, I/O, disk full, cannot open, protocol of locks, schema
        // changed; busy, locked.
        5..=10 | 13..=15 | 17 => Verdict::Passes,
        11 | 26 => Verdict::Damaged,
        1 if SETUP.iter().any(|text| error.message().contains(text)) => Verdict::Setup,
        // Access denied.
        3 | 23 => Verdict::Setup,
        _ => Verdict::Event,
    }
}

#[cfg(all(test, feature = "postgres", feature = "sqlite"))]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use std::fmt;

    #[derive(Debug)]
    struct Coded(&'static str, &'static str);

    impl fmt::Display for Coded {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1)
        }
    }

    impl StdError for Coded {}

    impl DatabaseError for Coded {
        fn message(&self) -> &str {
            self.1
        }
        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }
        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }
        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }
        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }
        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    #[test]
    fn codes_of_postgres_are_judged_by_their_class() {
        use Verdict::*;
        for (code, message, want) in [
            ("57P01", "terminating connection", Passes),
            ("57P03", "the database system is starting up", Passes),
            ("57014", "canceling statement", Passes),
            ("40001", "could not serialize access", Passes),
            ("40P01", "deadlock detected", Passes),
            ("53100", "disk full", Passes),
            ("53300", "too many connections", Passes),
            ("55P03", "lock not available", Passes),
            ("25006", "read-only transaction", Passes),
            ("25P03", "idle-in-transaction timeout", Passes),
            ("0A000", "cached plan must not change result type", Passes),
            ("0A000", "not supported", Event),
            ("42P01", "relation does not exist", Setup),
            ("42703", "column does not exist", Setup),
            ("42501", "permission denied", Setup),
            ("3F000", "no schema", Setup),
            ("XX001", "data corrupted", Damaged),
            ("23505", "duplicate key", Event),
            ("22P02", "invalid input syntax", Event),
            ("P0001", "raised", Event),
            ("", "", Event),
        ] {
            assert_eq!(of_postgres(&Coded(code, message)), want, "{code}");
        }
    }

    #[test]
    fn codes_of_sqlite_are_judged_by_their_low_byte() {
        use Verdict::*;
        for (code, message, want) in [
            ("5", "database is locked", Passes),
            ("517", "busy snapshot", Passes),
            ("262", "locked shared cache", Passes),
            ("10", "disk I/O error", Passes),
            ("13", "full", Passes),
            ("1032", "read-only, moved", Passes),
            ("1", "no such table: t", Setup),
            ("1", "table t has no column named c", Setup),
            ("1", "near \"SELEC\": syntax error", Setup),
            ("1", "malformed JSON", Event),
            ("11", "malformed", Damaged),
            ("26", "not a database", Damaged),
            ("2067", "UNIQUE constraint failed", Event),
            ("1811", "raised by a trigger", Event),
        ] {
            assert_eq!(of_sqlite(&Coded(code, message)), want, "{code} {message}");
        }
    }

    #[test]
    fn an_error_of_the_database_decides_wherever_it_is_in_the_chain() {
        let judge = |error: Box<dyn StdError + Send + Sync>| Verdict::of_chain(&*error, of_sqlite);
        assert_eq!(judge("text".into()), Verdict::Event);
        assert_eq!(judge(sqlx::Error::PoolTimedOut.into()), Verdict::Passes);
        assert_eq!(judge(sqlx::Error::RowNotFound.into()), Verdict::Event);
        let wrapped = Error::invalid("wrapped").because(sqlx::Error::PoolTimedOut);
        assert_eq!(judge(wrapped.into()), Verdict::Passes);
        assert_eq!(judge(Error::invalid("closed").into()), Verdict::Event);
        assert_eq!(judge(Error::unavailable("later").into()), Verdict::Passes);
        let io = sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into());
        let wrapped = Error::corrupt("wrapped").because(Error::invalid("twice").because(io));
        assert_eq!(judge(wrapped.into()), Verdict::Passes);
    }
}
