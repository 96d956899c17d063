//! Table schemas: names, keys and indexes, as data.
//!
//! Guarantees: DynamoDB would create every [`TableSpec`], so stores need not check it again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::limits::{
    GLOBAL_INDEXES_MAX, KEY_NAME_BYTES_MAX, LOCAL_INDEXES_MAX, PARTITION_BYTES_MAX, SORT_BYTES_MAX,
};
use super::{Item, Key, KeyPart};
use crate::{Error, Result};

/// The name of a table or index: 3 to 255 of `a-z A-Z 0-9 _ . -`.
///
/// ```
/// use annals::items::TableName;
///
/// assert!("annals-journal".parse::<TableName>().is_ok());
/// assert!("no spaces".parse::<TableName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Arc<str>);

impl TableName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !(3..=255).contains(&name.len()) || !name.bytes().all(allowed) {
            return Err(Error::invalid(
                "a table or index name has 3 to 255 characters of a-z A-Z 0-9 _ . -; choose another",
            )
            .fact("name", name));
        }
        Ok(Self(name.into()))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The type of a key attribute.
///
/// ```
/// use annals::items::{KeyAttribute, KeyType};
///
/// assert_eq!(KeyAttribute::text("id"), KeyAttribute::new("id", KeyType::S));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Text.
    S,
    /// A number.
    N,
    /// Bytes.
    B,
}

impl KeyType {
    fn from_part(part: &KeyPart) -> Self {
        match part {
            KeyPart::S(_) => Self::S,
            KeyPart::N(_) => Self::N,
            KeyPart::B(_) => Self::B,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An attribute of a key: its name and type.
///
/// ```
/// use annals::items::KeyAttribute;
///
/// assert_eq!(KeyAttribute::number("n").to_string(), "n N");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyAttribute {
    /// The attribute's name.
    pub name: String,
    /// Its type.
    pub key_type: KeyType,
}

impl KeyAttribute {
    /// A text attribute.
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, KeyType::S)
    }

    /// A number attribute.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, KeyType::N)
    }

    /// An attribute of the given type.
    pub fn new(name: impl Into<String>, key_type: KeyType) -> Self {
        Self {
            name: name.into(),
            key_type,
        }
    }

    /// The key part of `item`; `None` if it lacks the attribute.
    fn part_of(&self, item: &Item, bytes_max: usize) -> Result<Option<KeyPart>> {
        let Some(value) = item.get(&self.name) else {
            return Ok(None);
        };
        let Some(part) =
            KeyPart::from_value(value).filter(|p| KeyType::from_part(p) == self.key_type)
        else {
            let (name, want, got) = (&self.name, self.key_type, value.type_name());
            return Err(
                Error::invalid("key attribute has the wrong type for this table")
                    .fact("attribute", name)
                    .fact("want", want)
                    .fact("got", got),
            );
        };
        self.check(&part, bytes_max)?;
        Ok(Some(part))
    }

    fn check(&self, part: &KeyPart, bytes_max: usize) -> Result<()> {
        let (name, want, got) = (&self.name, self.key_type, KeyType::from_part(part));
        if want != got {
            return Err(Error::invalid("key has the wrong type for this table")
                .fact("attribute", name)
                .fact("want", want)
                .fact("got", got));
        }
        let bytes = match part {
            KeyPart::S(text) => text.len(),
            KeyPart::B(bytes) => bytes.len(),
            KeyPart::N(_) => return Ok(()),
        };
        if bytes == 0 || bytes > bytes_max {
            return Err(
                Error::invalid(format!("a key attribute has 1 to {bytes_max} bytes"))
                    .fact("attribute", name)
                    .fact("bytes", bytes),
            );
        }
        Ok(())
    }
}

impl fmt::Display for KeyAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.key_type)
    }
}

/// The key attributes of a table or index.
///
/// ```
/// use annals::items::{Item, Key, KeyAttribute, KeySchema};
///
/// let schema = KeySchema::new(KeyAttribute::text("cart")).sorted(KeyAttribute::number("n"));
/// let line = Item::new().with("cart", "42").with("n", 1u64).with("what", "a book");
/// assert_eq!(schema.key_of(&line)?, Some(Key::new("42").sorted(1u64)));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeySchema {
    /// The partition key.
    pub partition: KeyAttribute,
    /// The sort key, if there is one.
    pub sort: Option<KeyAttribute>,
}

impl KeySchema {
    /// A key without a sort key.
    pub fn new(partition: KeyAttribute) -> Self {
        Self {
            partition,
            sort: None,
        }
    }

    /// Sets the sort key.
    #[must_use]
    pub fn sorted(mut self, sort: KeyAttribute) -> Self {
        self.sort = Some(sort);
        self
    }

    /// The attributes, partition first.
    pub fn attributes(&self) -> impl Iterator<Item = &KeyAttribute> {
        std::iter::once(&self.partition).chain(&self.sort)
    }

    /// The key of `item`; `None` if it lacks one of the attributes.
    ///
    /// # Errors
    /// `Invalid` if an attribute has another type, is empty or too long.
    pub fn key_of(&self, item: &Item) -> Result<Option<Key>> {
        // Check both before a missing one counts, so that a wrong type is always reported.
        let partition = self.partition.part_of(item, PARTITION_BYTES_MAX)?;
        let sort = match &self.sort {
            None => Some(None),
            Some(attribute) => attribute.part_of(item, SORT_BYTES_MAX)?.map(Some),
        };
        Ok(partition
            .zip(sort)
            .map(|(partition, sort)| Key { partition, sort }))
    }

    /// Checks that `key` fits this schema.
    pub(crate) fn check(&self, key: &Key) -> Result<()> {
        self.check_partition(&key.partition)?;
        match (&self.sort, &key.sort) {
            (Some(attribute), Some(part)) => attribute.check(part, SORT_BYTES_MAX),
            (None, None) => Ok(()),
            (Some(attribute), None) => Err(Error::invalid("key lacks the sort key")
                .fact("attribute", &attribute.name)
                .fact("key", key)),
            (None, Some(_)) => {
                Err(Error::invalid("key has a sort key, but its table has none").fact("key", key))
            }
        }
    }

    pub(crate) fn check_partition(&self, partition: &KeyPart) -> Result<()> {
        self.partition.check(partition, PARTITION_BYTES_MAX)
    }

    pub(crate) fn check_sort(&self, sort: &KeyPart) -> Result<()> {
        match &self.sort {
            Some(attribute) => attribute.check(sort, SORT_BYTES_MAX),
            None => Err(Error::invalid(
                "query has a range of sort keys, but the table or index has no sort key",
            )),
        }
    }

    /// `key` as named attributes.
    pub fn item_of(&self, key: &Key) -> Item {
        let mut item = Item::new().with(&self.partition.name, key.partition.clone());
        if let (Some(attribute), Some(sort)) = (&self.sort, &key.sort) {
            item.insert(&attribute.name, sort.clone());
        }
        item
    }
}

impl fmt::Display for KeySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sort {
            Some(sort) => write!(f, "{}, {sort}", self.partition),
            None => write!(f, "{}", self.partition),
        }
    }
}

/// Whether an index is local or global.
///
/// See [`IndexSpec`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Same partition key, another sort key; strongly consistent reads are possible.
    Local,
    /// Another partition key; always eventually consistent.
    Global,
}

/// The attributes that an index carries besides the keys.
///
/// ```
/// use annals::items::{IndexSpec, KeyAttribute, KeySchema, Projection};
///
/// let index = IndexSpec::global("by-name".parse()?, KeySchema::new(KeyAttribute::text("name")));
/// assert_eq!(index.projection, Projection::All);
/// let smaller = index.projecting(Projection::Include(vec!["city".into()]));
/// assert_ne!(smaller.projection, Projection::All);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Projection {
    /// All attributes.
    All,
    /// No others.
    KeysOnly,
    /// These attributes.
    Include(Vec<String>),
}

impl Projection {
    /// Whether two projections carry the same attributes, in any order.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Include(some), Self::Include(others)) => {
                let all_in = |these: &[String], those: &[String]| {
                    these.iter().all(|name| those.contains(name))
                };
                all_in(some, others) && all_in(others, some)
            }
            _ => self == other,
        }
    }
}

/// A secondary index of a table.
///
/// ```
/// use annals::items::{IndexSpec, KeyAttribute, KeySchema, Projection, Scope, TableSpec};
///
/// let key = KeySchema::new(KeyAttribute::text("name"));
/// let index = IndexSpec::global("by-name".parse()?, key).projecting(Projection::KeysOnly);
/// let table = TableSpec::new("people".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// assert_eq!(table.with_index(index)?.index("by-name")?.scope, Scope::Global);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct IndexSpec {
    /// The name.
    pub name: TableName,
    /// Local or global.
    pub scope: Scope,
    /// The key.
    pub key: KeySchema,
    /// The projection.
    pub projection: Projection,
}

impl IndexSpec {
    /// A global index of all attributes.
    pub fn global(name: TableName, key: KeySchema) -> Self {
        Self {
            name,
            scope: Scope::Global,
            key,
            projection: Projection::All,
        }
    }

    /// A local index of all attributes.
    pub fn local(name: TableName, key: KeySchema) -> Self {
        Self {
            scope: Scope::Local,
            ..Self::global(name, key)
        }
    }

    /// Sets the projection.
    #[must_use]
    pub fn projecting(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }
}

/// The schema of a table: its name, key and indexes.
///
/// ```
/// use annals::items::{KeyAttribute, KeySchema, TableSpec};
///
/// let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
/// let spec = TableSpec::new("annals-journal".parse()?, key)?;
/// assert_eq!(spec.key().to_string(), "p S, n N");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableSpec {
    name: TableName,
    key: KeySchema,
    indexes: Vec<IndexSpec>,
}

impl TableSpec {
    /// A table without indexes.
    ///
    /// # Errors
    /// `Invalid` if DynamoDB would not create it.
    pub fn new(name: TableName, key: KeySchema) -> Result<Self> {
        let spec = Self {
            name,
            key,
            indexes: Vec::new(),
        };
        spec.check_attributes()?;
        Ok(spec)
    }

    /// Adds an index.
    ///
    /// # Errors
    /// `Invalid` if DynamoDB would not create it.
    pub fn with_index(mut self, index: IndexSpec) -> Result<Self> {
        let problem = |what: &str| {
            let (table, index) = (&self.name, &index.name);
            Error::invalid(what)
                .fact("table", table)
                .fact("index", index)
        };
        if self.indexes.iter().any(|other| other.name == index.name) {
            return Err(problem("two indexes have the same name"));
        }
        if index.scope == Scope::Local {
            if index.key.partition != self.key.partition || index.key.sort.is_none() {
                return Err(problem(
                    "a local index has the table's partition key and a sort key",
                ));
            }
            if self.key.sort.is_none() {
                return Err(problem("a table without a sort key has no local indexes"));
            }
        }
        if matches!(&index.projection, Projection::Include(names) if names.is_empty()) {
            return Err(problem("a projection without attributes is KeysOnly"));
        }
        let of_scope = self.indexes.iter().filter(|i| i.scope == index.scope);
        let most = match index.scope {
            Scope::Local => LOCAL_INDEXES_MAX,
            Scope::Global => GLOBAL_INDEXES_MAX,
        };
        if of_scope.count() >= most {
            return Err(problem("too many indexes (5 local, 20 global)"));
        }
        self.indexes.push(index);
        self.check_attributes()?;
        Ok(self)
    }

    fn check_attributes(&self) -> Result<()> {
        let attributes = self.key_attributes();
        for (i, attribute) in attributes.iter().enumerate() {
            let name = &attribute.name;
            if name.is_empty() || name.len() > KEY_NAME_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "the name of a key attribute has 1 to {KEY_NAME_BYTES_MAX} bytes"
                ))
                .fact("table", &self.name)
                .fact("attribute", name));
            }
            if attributes
                .iter()
                .skip(i + 1)
                .any(|other| other.name == *name)
            {
                return Err(Error::invalid(
                    "a key attribute has two types or is used twice in one key",
                )
                .fact("table", &self.name)
                .fact("attribute", name));
            }
        }
        let twice = |key: &KeySchema| key.sort.as_ref() == Some(&key.partition);
        if twice(&self.key) || self.indexes.iter().any(|index| twice(&index.key)) {
            return Err(
                Error::invalid("partition key and sort key are the same attribute")
                    .fact("table", &self.name),
            );
        }
        Ok(())
    }

    /// Every attribute of a key of the table or an index, each once.
    pub fn key_attributes(&self) -> Vec<&KeyAttribute> {
        let mut attributes: Vec<&KeyAttribute> = Vec::new();
        let indexes = self.indexes.iter().flat_map(|index| index.key.attributes());
        for attribute in self.key.attributes().chain(indexes) {
            if !attributes.contains(&attribute) {
                attributes.push(attribute);
            }
        }
        attributes
    }

    /// The table's name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// The table's key.
    pub fn key(&self) -> &KeySchema {
        &self.key
    }

    /// The table's indexes.
    pub fn indexes(&self) -> &[IndexSpec] {
        &self.indexes
    }

    /// An index by name.
    ///
    /// # Errors
    /// `Invalid` if the table has no such index.
    pub fn index(&self, name: &str) -> Result<&IndexSpec> {
        let found = self.indexes.iter().find(|i| i.name.as_str() == name);
        found.ok_or_else(|| {
            Error::invalid("table has no such index")
                .fact("table", &self.name)
                .fact("index", name)
        })
    }

    /// The key of `item`.
    ///
    /// # Errors
    /// `Invalid` if a key attribute is missing or has another type.
    pub fn key_of(&self, item: &Item) -> Result<Key> {
        self.key.key_of(item)?.ok_or_else(|| {
            Error::invalid("item lacks a key attribute")
                .fact("table", &self.name)
                .fact("key", &self.key)
        })
    }

    /// Why the table `found` in a store cannot be used as this one, a sentence each. Additional
    /// indexes are not a difference.
    pub fn differences(&self, found: &TableSpec) -> Vec<String> {
        let mut differences = Vec::new();
        if self.key != found.key {
            let (want, got) = (&self.key, &found.key);
            differences.push(format!("key differs: want `{want}`, found `{got}`"));
        }
        for index in &self.indexes {
            let name = &index.name;
            match found.indexes.iter().find(|other| other.name == *name) {
                None => differences.push(format!("index `{name}` is missing")),
                Some(other) if other.key != index.key => {
                    let (want, got) = (&index.key, &other.key);
                    differences.push(format!(
                        "key of index `{name}` differs: want `{want}`, found `{got}`"
                    ));
                }
                Some(other) if other.scope != index.scope => {
                    let (want, got) = (index.scope, other.scope);
                    differences.push(format!(
                        "scope of index `{name}` differs: want `{want:?}`, found `{got:?}`"
                    ));
                }
                Some(other) if !index.projection.is_same(&other.projection) => {
                    let (want, got) = (&index.projection, &other.projection);
                    differences.push(format!(
                        "projection of index `{name}` differs: want `{want:?}`, found `{got:?}`"
                    ));
                }
                Some(_) => {}
            }
        }
        differences
    }
}

/// The billing mode of a table on DynamoDB. Local stores ignore it.
///
/// ```
/// use annals::items::Billing;
///
/// let reserved = Billing::Provisioned { read_units: 5, write_units: 5 };
/// assert_ne!(Billing::default(), reserved);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Billing {
    /// Pay per request.
    #[default]
    OnDemand,
    /// Provisioned capacity.
    Provisioned {
        /// Read units per second.
        read_units: u32,
        /// Write units per second.
        write_units: u32,
    },
}
