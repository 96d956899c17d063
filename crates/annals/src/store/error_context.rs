//! Error context: which request, table and keys a failed call was about.
//!
//! Guarantees: one line, with the first few keys and the number of the others. Text is only built
//! after a failure; before the call at most `KEYS_MAX` keys are cloned. Only the key of an item is
//! ever shown.

use crate::Error;
use crate::items::{Key, Query, SortRange, TableName, TableSpec, Write, WriteError};

/// Maximum keys shown.
const KEYS_MAX: usize = 3;
/// Maximum characters shown of a key.
const CHARS_MAX: usize = 200;

/// The context of one store call.
#[derive(Debug)]
pub(super) struct ErrorContext<'a> {
    request: &'static str,
    table: &'a TableName,
    subject: Subject,
}

#[derive(Debug)]
enum Subject {
    Table,
    Keys(FirstKeys),
    Writes { puts: FirstKeys, deletes: FirstKeys },
    Query(Query),
}

/// The first few keys of a call, and their number.
#[derive(Debug, Default)]
struct FirstKeys {
    first: Vec<Key>,
    count: usize,
}

impl FirstKeys {
    fn new<'a>(keys: impl ExactSizeIterator<Item = &'a Key>) -> Self {
        Self {
            count: keys.len(),
            first: keys.take(KEYS_MAX).cloned().collect(),
        }
    }

    fn push(&mut self, key: impl FnOnce() -> Key) {
        self.count += 1;
        if self.first.len() < KEYS_MAX {
            self.first.push(key());
        }
    }

    /// Adds the keys as a fact, under the name for one or for several.
    fn annotate(&self, error: Error, [one, several]: [&'static str; 2]) -> Error {
        let shown: Vec<_> = self
            .first
            .iter()
            .map(|key| short(key.to_string()))
            .collect();
        let shown = shown.join("; ");
        match self.count {
            0 => error,
            1 => error.fact(one, shown),
            count if count <= KEYS_MAX => error.fact(several, shown),
            count => error.fact(several, format!("{shown} and {} more", count - KEYS_MAX)),
        }
    }
}

impl<'a> ErrorContext<'a> {
    /// The context of a request about a whole table.
    pub(super) fn table(request: &'static str, table: &'a TableName) -> Self {
        Self {
            request,
            table,
            subject: Subject::Table,
        }
    }

    pub(super) fn get(table: &'a TableSpec, keys: &[Key]) -> Self {
        Self {
            subject: Subject::Keys(FirstKeys::new(keys.iter())),
            ..Self::table("get", table.name())
        }
    }

    /// The context of a put, after it failed; `None` if the item has no valid key.
    pub(super) fn put(table: &'a TableSpec, key: Option<Key>) -> Self {
        Self {
            subject: Subject::Keys(FirstKeys {
                count: key.iter().len(),
                first: Vec::from_iter(key),
            }),
            ..Self::table("put", table.name())
        }
    }

    pub(super) fn delete(table: &'a TableSpec, key: &Key) -> Self {
        Self {
            subject: Subject::Keys(FirstKeys::new(std::iter::once(key))),
            ..Self::table("delete", table.name())
        }
    }

    pub(super) fn write(table: &'a TableSpec, writes: &[Write]) -> Self {
        let (mut puts, mut deletes) = (FirstKeys::default(), FirstKeys::default());
        for write in writes {
            match write {
                Write::Put(item) => {
                    if let Some(key) = table.key().key_of(item).ok().flatten() {
                        puts.push(|| key);
                    }
                }
                Write::Delete(key) => deletes.push(|| key.clone()),
            }
        }
        Self {
            subject: Subject::Writes { puts, deletes },
            ..Self::table("write", table.name())
        }
    }

    pub(super) fn query(table: &'a TableSpec, query: &Query) -> Self {
        Self {
            subject: Subject::Query(query.clone()),
            ..Self::table("query", table.name())
        }
    }

    /// Adds this context, except for facts that the error has.
    pub(super) fn annotate(&self, error: Error) -> Error {
        let error = error
            .fact("request", self.request)
            .fact("table", self.table);
        match &self.subject {
            Subject::Table => error,
            Subject::Keys(keys) => keys.annotate(error, ["key", "keys"]),
            Subject::Writes { puts, deletes } => {
                let error = puts.annotate(error, ["put", "puts"]);
                deletes.annotate(error, ["delete", "deletes"])
            }
            Subject::Query(query) => {
                let error = match &query.index {
                    Some(index) => error.fact("index", index),
                    None => error,
                };
                let error = error.fact("partition", short(query.partition.to_string()));
                match &query.range {
                    SortRange::All => error,
                    range => error.fact("sort key", short(range.to_string())),
                }
            }
        }
    }

    /// Adds this context to a failure; a refusal is a result and needs none.
    pub(super) fn annotate_write(&self, error: WriteError) -> WriteError {
        match error {
            WriteError::Failed(error) => WriteError::Failed(self.annotate(error)),
            refused @ WriteError::Refused { .. } => refused,
        }
    }
}

/// The beginning of a long text, on one line.
fn short(text: String) -> String {
    let is_short = text.len() <= CHARS_MAX && !text.contains(char::is_control);
    if is_short {
        return text;
    }
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(CHARS_MAX).map(plain).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
