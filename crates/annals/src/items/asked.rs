//! What was asked of a store, as its errors tell it: which request, which table, which keys.
//!
//! Promises: one line however much was asked for, the first few keys and how many more there are.
//! A store works nothing of it out before something has failed.
//! Never: tells anything of an item but its key.

use super::{BatchError, Item, Key, Query, SortRange, TableName, TableSpec, Write, WriteError};
use crate::Error;

/// How many keys are told.
const KEYS_MAX: usize = 3;
/// How many characters of a key are told.
const CHARS_MAX: usize = 200;

/// One call of a verb, for whoever has to say that it failed.
///
/// ```
/// use annals::Error;
/// use annals::items::{Asked, Key, KeyAttribute, KeySchema, TableSpec};
///
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let keys: Vec<Key> = (1..=5u64).map(|n| Key::new(format!("note-{n}"))).collect();
/// let told = Asked::get(&table, &keys).told(Error::unavailable("the disk is full; free space"));
/// assert_eq!(
///     told.to_string(),
///     "the disk is full; free space. request=`get`, table=`notes`, \
///      keys=`note-1; note-2; note-3 and 2 more`"
/// );
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    request: &'static str,
    table: &'a TableName,
    what: What<'a>,
}

#[derive(Clone, Copy, Debug)]
enum What<'a> {
    Table,
    Keys(&'a [Key]),
    Item(&'a TableSpec, &'a Item),
    Writes(&'a TableSpec, &'a [Write]),
    Query(&'a Query),
}

impl<'a> Asked<'a> {
    fn of(request: &'static str, table: &'a TableName, what: What<'a>) -> Self {
        Self {
            request,
            table,
            what,
        }
    }

    /// [`Items::get`](super::Items::get).
    pub fn get(table: &'a TableSpec, keys: &'a [Key]) -> Self {
        Self::of("get", table.name(), What::Keys(keys))
    }

    /// [`Items::put`](super::Items::put).
    pub fn put(table: &'a TableSpec, item: &'a Item) -> Self {
        Self::of("put", table.name(), What::Item(table, item))
    }

    /// [`Items::put`](super::Items::put), of an item that has been given away.
    pub fn put_at(table: &'a TableSpec, key: &'a Key) -> Self {
        Self::of("put", table.name(), What::Keys(std::slice::from_ref(key)))
    }

    /// [`Items::delete`](super::Items::delete).
    pub fn delete(table: &'a TableSpec, key: &'a Key) -> Self {
        let keys = std::slice::from_ref(key);
        Self::of("delete", table.name(), What::Keys(keys))
    }

    /// [`Items::write`](super::Items::write), puts told apart from deletes.
    pub fn write(table: &'a TableSpec, writes: &'a [Write]) -> Self {
        Self::of("write", table.name(), What::Writes(table, writes))
    }

    /// [`Items::query`](super::Items::query).
    pub fn query(table: &'a TableSpec, query: &'a Query) -> Self {
        Self::of("query", table.name(), What::Query(query))
    }

    /// [`Items::scan`](super::Items::scan).
    pub fn scan(table: &'a TableSpec) -> Self {
        Self::of("scan", table.name(), What::Table)
    }

    /// [`Items::create_table`](super::Items::create_table).
    pub fn create_table(table: &'a TableSpec) -> Self {
        Self::of("create_table", table.name(), What::Table)
    }

    /// [`Items::describe_table`](super::Items::describe_table).
    pub fn describe_table(name: &'a TableName) -> Self {
        Self::of("describe_table", name, What::Table)
    }

    /// [`Items::drop_table`](super::Items::drop_table).
    pub fn drop_table(name: &'a TableName) -> Self {
        Self::of("drop_table", name, What::Table)
    }

    /// The error with what was asked, as far as it does not say so already.
    #[must_use]
    pub fn told(&self, error: Error) -> Error {
        self.facts().tell(error)
    }

    /// The same when what was asked is gone.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = vec![
            ("request", self.request.to_owned()),
            ("table", self.table.to_string()),
        ];
        match self.what {
            What::Table => {}
            What::Keys(keys) => facts.extend(keys_fact(["key", "keys"], keys.iter())),
            What::Item(table, item) => {
                let key = table.key().key_of(item).ok().flatten();
                facts.extend(keys_fact(["key", "keys"], key.iter()));
            }
            What::Writes(table, writes) => {
                let (puts, deletes) = divided(table, writes);
                facts.extend(keys_fact(["put", "puts"], puts.iter()));
                facts.extend(keys_fact(["delete", "deletes"], deletes.iter().copied()));
            }
            What::Query(query) => {
                facts.extend(query.index.iter().map(|name| ("index", name.clone())));
                facts.push(("partition", short(query.partition.to_string())));
                if query.range != SortRange::All {
                    facts.push(("range", short(format!("{:?}", query.range))));
                }
            }
        }
        Facts(facts)
    }
}

/// Names and values that errors end with.
#[derive(Debug)]
pub(crate) struct Facts(Vec<(&'static str, String)>);

impl Facts {
    pub(crate) fn tell(&self, error: Error) -> Error {
        let facts = self.0.iter();
        facts.fold(error, |error, (name, value)| error.fact(name, value))
    }
}

/// The keys of what is put, as far as it has one, and of what is deleted.
fn divided<'a>(table: &TableSpec, writes: &'a [Write]) -> (Vec<Key>, Vec<&'a Key>) {
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for write in writes {
        match write {
            Write::Put(item) => puts.extend(table.key().key_of(item).ok().flatten()),
            Write::Delete(key) => deletes.push(key),
        }
    }
    (puts, deletes)
}

/// Keys under the name for one or for several; none are not told.
fn keys_fact<'a>(
    [one, several]: [&'static str; 2],
    keys: impl ExactSizeIterator<Item = &'a Key>,
) -> Option<(&'static str, String)> {
    let count = keys.len();
    let told: Vec<String> = keys
        .take(KEYS_MAX)
        .map(|key| short(key.to_string()))
        .collect();
    let told = told.join("; ");
    match count {
        0 => None,
        1 => Some((one, told)),
        _ if count <= KEYS_MAX => Some((several, told)),
        _ => Some((several, format!("{told} and {} more", count - KEYS_MAX))),
    }
}

/// The beginning of a long text, on one line.
fn short(text: String) -> String {
    let is_short = text.len() <= CHARS_MAX && !text.contains(char::is_control);
    if is_short {
        return text;
    }
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut told: String = text.chars().take(CHARS_MAX).map(plain).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        told.push('…');
    }
    told
}

impl WriteError {
    /// The error with what was asked; a refusal tells what is there instead.
    #[must_use]
    pub fn told(self, asked: Asked<'_>) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(asked.told(error)),
            refused @ Self::Refused { .. } => refused,
        }
    }
}

impl BatchError {
    /// The error whose cause tells which writes of the table remain.
    #[must_use]
    pub fn told(mut self, table: &TableSpec) -> Self {
        self.cause = Asked::write(table, &self.remaining).told(self.cause);
        self
    }
}
