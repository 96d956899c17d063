//! Items and the keys that name them.

use std::fmt;

use bytes::Bytes;

use super::stored::{Attributes, StoredItem};
use super::{Number, Value};

/// A set of named attributes: a row of a table.
///
/// An item that was read from a store on this machine keeps its bytes. [`text`](Self::text),
/// [`u64`](Self::u64) and [`bytes`](Self::bytes) read one attribute out of them; every other method
/// decodes all attributes first, once.
///
/// ```
/// use annals::items::{Item, Value};
///
/// let item = Item::new().with("id", "cart-1").with("n", 1u64);
/// assert_eq!(item.get("n").and_then(Value::as_u64), Some(1));
/// ```
#[derive(Clone)]
pub struct Item(Form);

#[derive(Clone)]
enum Form {
    Map(Attributes),
    Stored(StoredItem),
}

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
        self.map_mut().insert(name.into(), value.into());
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.map_mut().remove(name)
    }

    /// An attribute's value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map().get(name)
    }

    /// The text of an attribute, if it is one.
    ///
    /// ```
    /// use annals::items::Item;
    ///
    /// let item = Item::new().with("id", "cart-1").with("n", 1u64);
    /// assert_eq!((item.text("id"), item.text("n")), (Some("cart-1"), None));
    /// ```
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.0 {
            Form::Map(map) => map.get(name)?.as_str(),
            Form::Stored(stored) => stored.text(name),
        }
    }

    /// The number of an attribute, if it is one and an unsigned integer.
    ///
    /// ```
    /// use annals::items::Item;
    ///
    /// let item = Item::new().with("n", 1u64).with("d", -1i64);
    /// assert_eq!((item.u64("n"), item.u64("d")), (Some(1), None));
    /// ```
    pub fn u64(&self, name: &str) -> Option<u64> {
        match &self.0 {
            Form::Map(map) => map.get(name)?.as_u64(),
            Form::Stored(stored) => stored.u64(name),
        }
    }

    /// The bytes of an attribute, if it is a byte string. Nothing is copied.
    ///
    /// ```
    /// use annals::items::Item;
    ///
    /// let item = Item::new().with("b", vec![1, 2]);
    /// assert_eq!(item.bytes("b").unwrap(), [1, 2].as_slice());
    /// ```
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        match &self.0 {
            Form::Map(map) => map.get(name)?.as_bytes().cloned(),
            Form::Stored(stored) => stored.byte_string(name),
        }
    }

    /// The attributes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        let map = self.map().iter();
        map.map(|(name, value)| (name.as_str(), value))
    }

    /// The number of attributes.
    pub fn len(&self) -> usize {
        self.map().len()
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    /// The item of stored bytes.
    pub(super) fn from_stored(stored: StoredItem) -> Self {
        Self(Form::Stored(stored))
    }

    /// The item of a map.
    pub(super) fn from_map(map: Attributes) -> Self {
        Self(Form::Map(map))
    }

    /// Its stored bytes, if it was read and not changed.
    pub(super) fn stored(&self) -> Option<&StoredItem> {
        match &self.0 {
            Form::Map(_) => None,
            Form::Stored(stored) => Some(stored),
        }
    }

    fn map(&self) -> &Attributes {
        match &self.0 {
            Form::Map(map) => map,
            Form::Stored(stored) => stored.map(),
        }
    }

    fn map_mut(&mut self) -> &mut Attributes {
        if let Form::Stored(stored) = &self.0 {
            self.0 = Form::Map(stored.map().clone());
        }
        match &mut self.0 {
            Form::Map(map) => map,
            Form::Stored(_) => unreachable!("it was replaced by its map"),
        }
    }
}

impl Default for Item {
    fn default() -> Self {
        Self(Form::Map(Attributes::new()))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.map() == other.map()
    }
}

impl Eq for Item {}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(self.map()).finish()
    }
}

impl IntoIterator for Item {
    type Item = (String, Value);
    type IntoIter = std::collections::btree_map::IntoIter<String, Value>;

    fn into_iter(self) -> Self::IntoIter {
        let map = match self.0 {
            Form::Map(map) => map,
            Form::Stored(stored) => stored.into_map(),
        };
        map.into_iter()
    }
}

impl<N: Into<String>> FromIterator<(N, Value)> for Item {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(attributes: I) -> Self {
        let attributes = attributes.into_iter();
        Self::from_map(attributes.map(|(n, v)| (n.into(), v)).collect())
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
