//! Attribute values: the ten types DynamoDB has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;

use super::Number;

/// The value of one attribute.
///
/// ```
/// use annals::items::Value;
///
/// assert_eq!(Value::from("text").as_str(), Some("text"));
/// assert_eq!(Value::from(7u64).as_u64(), Some(7));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    S(String),
    /// A number.
    N(Number),
    /// Bytes.
    B(Bytes),
    /// A boolean.
    Bool(bool),
    /// Null.
    Null,
    /// A list.
    L(Vec<Value>),
    /// A map.
    M(BTreeMap<String, Value>),
    /// A non-empty set of texts.
    Ss(BTreeSet<String>),
    /// A non-empty set of numbers.
    Ns(BTreeSet<Number>),
    /// A non-empty set of byte strings.
    Bs(BTreeSet<Bytes>),
}

impl Value {
    /// DynamoDB's name of the type: `S`, `N`, `BOOL`, …
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::S(_) => "S",
            Self::N(_) => "N",
            Self::B(_) => "B",
            Self::Bool(_) => "BOOL",
            Self::Null => "NULL",
            Self::L(_) => "L",
            Self::M(_) => "M",
            Self::Ss(_) => "SS",
            Self::Ns(_) => "NS",
            Self::Bs(_) => "BS",
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::S(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::N(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, if this is one and an unsigned integer.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::to_u64)
    }

    /// The bytes, if this is a byte string.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::B(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Long values are cut, so that logs stay readable.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 100;
        match self {
            Self::S(text) if text.chars().count() > SHOWN_MAX => {
                let shown: String = text.chars().take(SHOWN_MAX).collect();
                write!(f, "S({shown:?}… {} bytes)", text.len())
            }
            Self::S(text) => write!(f, "S({text:?})"),
            Self::N(number) => write!(f, "N({number})"),
            Self::B(bytes) if bytes.len() > SHOWN_MAX => {
                let shown = bytes.slice(..SHOWN_MAX);
                write!(f, "B({shown:?}… {} bytes)", bytes.len())
            }
            Self::B(bytes) => write!(f, "B({bytes:?})"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Null => f.write_str("null"),
            Self::L(list) => list.fmt(f),
            Self::M(map) => map.fmt(f),
            Self::Ss(set) => set.fmt(f),
            Self::Ns(set) => set.fmt(f),
            Self::Bs(set) => set.fmt(f),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::S(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::S(text)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::N(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::N(number.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::N(number.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self::B(bytes)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::B(bytes.into())
    }
}
