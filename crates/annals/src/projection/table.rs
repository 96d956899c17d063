//! The table `annals-projection`: its schema, and every key in it. No other file knows their format.
//!
//! | `p` | `n` | item |
//! | --- | --- | --- |
//! | `c` | NAME | the control record of a projection |
//! | `s:NAME:BUILD` | `share:0003` | a share: its owner, its position, its dead letters |
//! | `s:NAME:BUILD` | `runner:ID` | a runner that wants shares |
//! | `r:NAME:BUILD:KEY` | `row` | a row of a view, or the tombstone of a deleted one |
//! | `i` | JOURNAL | the record of the view of a journal's ids |
//! | `i:BUILD:HEAD` | `row` and the rest | an id, or the tombstone of a purged one; HEAD is what fits a sort key |
//! | `g` | GROUP | a consumer group |
//! | `g:GROUP` | … | what a consumer group stores besides |
//!
//! Rows are listed by two indexes of keys. `by-key` (`q`, `k`) has rows under `NAME:BUILD` and
//! tombstones under `NAME:BUILD:gone`, so that lists never read tombstones; ids are under `i:BUILD` and
//! `i:BUILD:gone`. `by-order` (`u`, `o`) has the rows of views that declare an order.
//!
//! Guarantees: no two projections, builds or rows share a key, and every key fits the store's limit.

use std::fmt;
use std::sync::Arc;

use crate::items::limits::SORT_BYTES_MAX;
use crate::items::{IndexSpec, Item, Key, KeyAttribute, KeySchema, Projection, TableSpec};
use crate::store::Store;
use crate::{Error, ErrorKind, PersistenceId, Result};

/// The index of rows and tombstones by key.
pub(super) const BY_KEY: &str = "by-key";
/// The index of rows by the order that their view declares.
pub(super) const BY_ORDER: &str = "by-order";

/// The most bytes of a row's key, and of its place in the declared order.
pub(super) const KEY_BYTES_MAX: usize = 500;
/// The most bytes of a name of a projection or consumer group.
const NAME_BYTES_MAX: usize = 100;
/// The most shares of a projection: one for each slice.
pub(super) const SHARES_MAX: u16 = 1024;

/// The table of projections and consumer groups.
pub(crate) fn spec() -> Result<TableSpec> {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text("n"));
    let by_key = KeySchema::new(KeyAttribute::text("q")).sorted(KeyAttribute::text("k"));
    let by_order = KeySchema::new(KeyAttribute::text("u")).sorted(KeyAttribute::text("o"));
    let keys_of = |name: &str, key| -> Result<IndexSpec> {
        Ok(IndexSpec::global(name.parse()?, key).projecting(Projection::KeysOnly))
    };
    TableSpec::new("annals-projection".parse()?, key)?
        .with_index(keys_of(BY_KEY, by_key)?)?
        .with_index(keys_of(BY_ORDER, by_order)?)
}

/// Creates the table if it is missing.
pub(crate) async fn create_missing(store: &Store, table: &TableSpec) -> Result<()> {
    if exists(store, table).await? {
        return Ok(());
    }
    match store.create_table(table, Default::default()).await {
        // Another process created it.
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        created => created,
    }
}

/// Whether the table exists.
///
/// # Errors
/// `Invalid` if it has another schema.
pub(crate) async fn exists(store: &Store, table: &TableSpec) -> Result<bool> {
    let Some(found) = store.describe_table(table.name()).await? else {
        return Ok(false);
    };
    match found.key() == table.key() {
        true => Ok(true),
        false => Err(
            Error::invalid("the table of projections has another key; rename that table")
                .fact("table", table.name())
                .fact("key", found.key()),
        ),
    }
}

/// Checks the name of a projection or consumer group.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    match fits && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "a name has 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` or `.`"
        ))
        .fact("name", name)),
    }
}

/// A build of a projection: the rows and positions of one run over the feed from its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BuildKey {
    name: Arc<str>,
    number: u32,
}

impl BuildKey {
    pub(super) fn new(name: impl Into<Arc<str>>, number: u32) -> Self {
        let name = name.into();
        Self { name, number }
    }

    /// The partition of its shares and runners.
    pub(super) fn shares(&self) -> String {
        format!("s:{self}")
    }

    /// The key of a share.
    pub(super) fn share(&self, share: u16) -> Key {
        Key::new(self.shares()).sorted(format!("{SHARE}{share:04}"))
    }

    /// The key of a runner.
    pub(super) fn runner(&self, id: &str) -> Key {
        Key::new(self.shares()).sorted(format!("{RUNNER}{id}"))
    }

    /// The key of a row.
    pub(super) fn row(&self, key: &str) -> Key {
        Key::new(format!("r:{self}:{key}")).sorted("row")
    }

    /// The partition of its rows in both indexes.
    pub(super) fn rows(&self) -> String {
        self.to_string()
    }

    /// The partition of its tombstones in the index `by-key`.
    pub(super) fn tombstones(&self) -> String {
        format!("{self}:gone")
    }
}

impl fmt::Display for BuildKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.number)
    }
}

/// A build of the view of ids: its name is random, so no two builds of any journal share a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdsKey(Arc<str>);

impl IdsKey {
    /// A build by its name, 16 hexadecimal digits.
    pub(super) fn new(build: &str) -> Self {
        Self(build.into())
    }

    /// The key of an id's row.
    pub(super) fn row(&self, id: &PersistenceId) -> Key {
        let head = sort_of_id(id.as_str());
        let rest = id.as_str().get(head.len()..).unwrap_or_default();
        Key::new(format!("{self}:{head}")).sorted(format!("{ID_ROW}{rest}"))
    }

    /// The id of a row, or of its entry in an index.
    pub(super) fn id_of(&self, row: &Item) -> Option<PersistenceId> {
        let head = row.text("p")?.strip_prefix("i:")?.strip_prefix(&*self.0)?;
        let (head, rest) = (
            head.strip_prefix(':')?,
            row.text("n")?.strip_prefix(ID_ROW)?,
        );
        format!("{head}{rest}").parse().ok()
    }

    /// The partition of the ids in the index `by-key`.
    pub(super) fn rows(&self) -> String {
        self.to_string()
    }

    /// The partition of the tombstones in the index `by-key`.
    pub(super) fn tombstones(&self) -> String {
        format!("{self}:gone")
    }
}

impl fmt::Display for IdsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i:{}", self.0)
    }
}

/// The key of the record of a journal's view of ids.
pub(super) fn ids_record(journal: &str) -> Key {
    Key::new("i").sorted(journal)
}

/// Begins the sort key of an id's row.
const ID_ROW: &str = "row";

/// The sort key of an id, or of a prefix of ids, in the index `by-key`. Ids may be longer than a sort
/// key: those with the same one are in one partition of the table, so the index orders them by their
/// rest.
pub(super) fn sort_of_id(id: &str) -> &str {
    let fits = (0..=SORT_BYTES_MAX.min(id.len())).rev();
    let mut ends = fits.filter_map(|end| id.get(..end));
    ends.next().unwrap_or_default()
}

const SHARE: &str = "share:";
const RUNNER: &str = "runner:";
/// Separates the place in an order from the key. It is before every other character.
const ORDER_END: char = '\0';

/// The partition of the control records.
pub(super) const CONTROLS: &str = "c";

/// The key of a control record.
pub(super) fn control(name: &str) -> Key {
    Key::new(CONTROLS).sorted(name)
}

/// The sort key of a row in the index `by-order`.
pub(super) fn ordered(order: &str, key: &str) -> String {
    format!("{order}{ORDER_END}{key}")
}

/// What an item in the partition of shares and runners is.
pub(super) enum Member<'a> {
    Share(u16),
    Runner(&'a str),
}

/// Parses a sort key in the partition of shares and runners.
pub(super) fn parse_member(sort: &str) -> Option<Member<'_>> {
    match sort.strip_prefix(SHARE) {
        Some(share) => share.parse().ok().map(Member::Share),
        None => sort.strip_prefix(RUNNER).map(Member::Runner),
    }
}

/// An item of only key attributes.
pub(super) fn item_of(key: &Key) -> Item {
    let sort = key.sort.clone();
    let item = Item::new().with("p", key.partition.clone());
    sort.into_iter()
        .fold(item, |item, sort| item.with("n", sort))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PERSISTENCE_ID_BYTES_MAX;
    use crate::items::KeyPart;
    use crate::items::limits::PARTITION_BYTES_MAX;

    fn bytes(part: &KeyPart) -> usize {
        part.to_string().len()
    }

    #[test]
    fn the_longest_keys_fit() {
        let name = "n".repeat(NAME_BYTES_MAX);
        check_name(&name).unwrap();
        let build = BuildKey::new(name, u32::MAX);
        let key = "k".repeat(KEY_BYTES_MAX);
        for key in [build.row(&key), build.share(u16::MAX), control(&build.name)] {
            assert!(bytes(&key.partition) <= PARTITION_BYTES_MAX);
            assert!(key.sort.is_some_and(|sort| bytes(&sort) <= SORT_BYTES_MAX));
        }
        assert!(ordered(&key, &key).len() <= SORT_BYTES_MAX);
        let id: PersistenceId = "ä".repeat(PERSISTENCE_ID_BYTES_MAX / 2).parse().unwrap();
        let ids = IdsKey::new(&"f".repeat(16));
        let key = ids.row(&id);
        assert!(bytes(&key.partition) <= PARTITION_BYTES_MAX);
        assert!(
            key.sort
                .as_ref()
                .is_some_and(|sort| bytes(sort) <= SORT_BYTES_MAX)
        );
        assert_eq!(ids.id_of(&item_of(&key)), Some(id.clone()));
        assert!(sort_of_id(id.as_str()).len() <= SORT_BYTES_MAX);
    }

    #[test]
    fn keys_of_different_builds_and_rows_differ() {
        let (one, eleven) = (BuildKey::new("a", 1), BuildKey::new("a", 11));
        let mut keys = std::collections::HashSet::new();
        for build in [&one, &eleven] {
            for key in ["", "1", ":", "1:1", "gone"] {
                assert!(keys.insert(build.row(key)), "{build} {key}");
            }
            assert!(keys.insert(build.share(1)));
            assert!(keys.insert(build.runner("1")));
        }
        assert_ne!(one.rows(), one.tombstones());
        assert!(keys.insert(control("a")));
    }

    #[test]
    fn names_with_separators_are_refused() {
        for name in ["", "a:b", "a b", "a/b", "ä", &"n".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["a", "open-carts", "A_1.b"] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn shorter_places_come_first() {
        assert!(ordered("a", "z") < ordered("aa", "a"));
    }
}
