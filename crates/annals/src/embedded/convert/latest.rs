//! The last value of each key that the journal of format 1 has.
//!
//! Guarantees: a store in which one of them is missing, older or deleted is found. The engine's checksum
//! does not cover the sequence number of a batch, which decides what is older; and the engine leaves out
//! what it takes for older than its tables.

use std::collections::HashMap;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The checksum of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value(u64);

impl Value {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
}

/// The keyspace of a key, and the key's checksum.
type Key = (u64, u128);

/// The last values; `None` is a deleted key.
#[derive(Debug, Default)]
pub(super) struct Latest(HashMap<Key, Option<Value>>);

impl Latest {
    /// The next batch of the journal wrote or deleted this key.
    pub(super) fn wrote(&mut self, keyspace: u64, key: &[u8], value: Option<Value>) {
        self.0.insert((keyspace, xxh3_128(key)), value);
    }

    /// The engine has this key and value. Returns whether the journal agrees.
    #[must_use]
    pub(super) fn is_found(&mut self, keyspace: u64, key: &[u8], value: &[u8]) -> bool {
        // The journal does not have every key: most are only in the tables.
        match self.0.remove(&(keyspace, xxh3_128(key))) {
            None => true,
            Some(latest) => latest == Some(Value::of(value)),
        }
    }

    /// Whether everything was found that was not deleted.
    pub(super) fn is_complete(&self) -> bool {
        self.0.values().all(Option::is_none)
    }
}
