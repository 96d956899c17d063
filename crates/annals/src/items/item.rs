//! Items and the keys that name them.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::{Number, Value};

/// A set of named attributes: a row of a table.
///
/// ```
/// use annals::items::{Item, Value};
///
/// let item = Item::new().with("id", "cart-1").with("n", 1u64);
/// assert_eq!(item.get("n").and_then(Value::as_u64), Some(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item(BTreeMap<String, Value>);

impl Item {
    /// An item without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces an attribute.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(name, value);
        self
    }

    /// Adds or replaces an attribute in place.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// An attribute's value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The attributes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Item {
    type Item = (String, Value);
    type IntoIter = std::collections::btree_map::IntoIter<String, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<N: Into<String>> FromIterator<(N, Value)> for Item {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(attributes: I) -> Self {
        Self(attributes.into_iter().map(|(n, v)| (n.into(), v)).collect())
    }
}

/// One attribute of a key. Ordered as in DynamoDB: text by its UTF-8 bytes, numbers by value.
///
/// ```
/// use annals::items::KeyPart;
///
/// assert!(KeyPart::from("a") < KeyPart::from("b"));
/// assert!(KeyPart::from(9u64) < KeyPart::from(10u64));
/// assert!(KeyPart::from("9") > KeyPart::from("10")); // as texts
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// Text.
    S(String),
    /// A number.
    N(Number),
    /// Bytes.
    B(Bytes),
}

impl KeyPart {
    /// The value as a key part, if its type can be one.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::S(text) => Some(Self::S(text.clone())),
            Value::N(number) => Some(Self::N(*number)),
            Value::B(bytes) => Some(Self::B(bytes.clone())),
            _ => None,
        }
    }
}

impl From<KeyPart> for Value {
    fn from(part: KeyPart) -> Self {
        match part {
            KeyPart::S(text) => Self::S(text),
            KeyPart::N(number) => Self::N(number),
            KeyPart::B(bytes) => Self::B(bytes),
        }
    }
}

impl From<&str> for KeyPart {
    fn from(text: &str) -> Self {
        Self::S(text.to_owned())
    }
}

impl From<String> for KeyPart {
    fn from(text: String) -> Self {
        Self::S(text)
    }
}

impl From<u64> for KeyPart {
    fn from(number: u64) -> Self {
        Self::N(number.into())
    }
}

impl From<Number> for KeyPart {
    fn from(number: Number) -> Self {
        Self::N(number)
    }
}

impl From<Bytes> for KeyPart {
    fn from(bytes: Bytes) -> Self {
        Self::B(bytes)
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S(text) => f.write_str(text),
            Self::N(number) => write!(f, "{number}"),
            Self::B(bytes) => write!(f, "{bytes:x}"),
        }
    }
}

impl fmt::Debug for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of an item. The table's spec says which attributes the parts are.
///
/// ```
/// use annals::items::Key;
///
/// assert!(Key::new("cart-1").sorted(1u64) < Key::new("cart-1").sorted(2u64));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The partition key.
    pub partition: KeyPart,
    /// The sort key, in tables that have one.
    pub sort: Option<KeyPart>,
}

impl Key {
    /// A key without a sort key.
    pub fn new(partition: impl Into<KeyPart>) -> Self {
        Self {
            partition: partition.into(),
            sort: None,
        }
    }

    /// Sets the sort key.
    #[must_use]
    pub fn sorted(mut self, sort: impl Into<KeyPart>) -> Self {
        self.sort = Some(sort.into());
        self
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sort {
            Some(sort) => write!(f, "{}, {sort}", self.partition),
            None => write!(f, "{}", self.partition),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}
