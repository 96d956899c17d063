//! The next request, such that every partition key keeps its order whatever fails. Pure.
//!
//! A request may put some of its records and refuse others, in any pattern. So a request has at most
//! one record of each key, and the next one of that key waits until it is known to be put. A refused
//! record blocks its own key and no other.
//!
//! Guarantees: records of one key are put in order. A request has at most 500 records and 5 MB.
//! Everything before the returned position is put.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use annals::log::LogPosition;
use bytes::Bytes;

/// The most records and bytes of one request.
const REQUEST_RECORDS_MAX: usize = 500;
const REQUEST_BYTES_MAX: usize = 5_000_000;
/// How much is read ahead for other keys.
const WINDOW_RECORDS_MAX: usize = 5_000;
const WINDOW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An event that is to be put.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) position: LogPosition,
    pub(super) key: Arc<str>,
    pub(super) data: Bytes,
}

impl Outgoing {
    fn bytes(&self) -> usize {
        self.key.len() + self.data.len()
    }
}

#[derive(Debug)]
struct Entry {
    outgoing: Outgoing,
    is_put: bool,
}

/// Events that are not known to be put, in order.
#[derive(Debug, Default)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Window {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= WINDOW_RECORDS_MAX || self.bytes >= WINDOW_BYTES_MAX
    }

    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.bytes += outgoing.bytes();
        self.entries.push_back(Entry {
            outgoing,
            is_put: false,
        });
    }

    /// The indexes of the records of the next request: of each key the first that is not put.
    pub(super) fn next(&self) -> Vec<usize> {
        let (mut indexes, mut bytes) = (Vec::new(), 0);
        let mut keys = HashSet::new();
        let entries = self.entries.iter().enumerate();
        for (index, entry) in entries.filter(|(_, entry)| !entry.is_put) {
            if !keys.insert(&*entry.outgoing.key) {
                continue;
            }
            bytes += entry.outgoing.bytes();
            let is_full = bytes > REQUEST_BYTES_MAX || indexes.len() == REQUEST_RECORDS_MAX;
            if is_full && !indexes.is_empty() {
                break;
            }
            indexes.push(index);
        }
        indexes
    }

    pub(super) fn get(&self, index: usize) -> Option<&Outgoing> {
        self.entries.get(index).map(|entry| &entry.outgoing)
    }

    /// Marks records as put, and removes the first ones that are. Returns the position of the last one
    /// removed.
    pub(super) fn settle(&mut self, put: &[usize]) -> Option<LogPosition> {
        for index in put {
            if let Some(entry) = self.entries.get_mut(*index) {
                entry.is_put = true;
            }
        }
        let mut last = None;
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.is_put) {
            self.bytes = self.bytes.saturating_sub(entry.outgoing.bytes());
            last = Some(entry.outgoing.position);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(n: usize, key: &str, bytes: usize) -> Outgoing {
        Outgoing {
            position: format!("{n}/e").parse().unwrap(),
            key: key.into(),
            data: vec![0; bytes].into(),
        }
    }

    fn window(keys: &str) -> Window {
        let mut window = Window::default();
        for (n, key) in keys.chars().enumerate() {
            window.push(outgoing(n, &key.to_string(), 1));
        }
        window
    }

    fn time(position: Option<LogPosition>) -> Option<u64> {
        position.map(|position| position.time.ms())
    }

    #[test]
    fn a_request_has_one_record_of_a_key() {
        let mut window = window("abaacb");
        assert_eq!(window.next(), [0, 1, 4]);
        // The first of b is refused: it blocks the second, and no other key.
        assert_eq!(time(window.settle(&[0, 4])), Some(0));
        assert_eq!(window.next(), [0, 1]);
        assert_eq!(time(window.settle(&[1])), None);
        assert_eq!(window.next(), [0, 2]);
        assert_eq!(time(window.settle(&[0, 2])), Some(4));
        assert_eq!(window.next(), [0]);
        assert_eq!(time(window.settle(&[0])), Some(5));
        assert!(window.is_empty() && window.next().is_empty());
        assert_eq!(window.bytes, 0);
    }

    #[test]
    fn a_request_is_within_the_limits() {
        let mut many = Window::default();
        for n in 0..600 {
            many.push(outgoing(n, &n.to_string(), 1));
        }
        assert_eq!(many.next().len(), REQUEST_RECORDS_MAX);
        let mut large = Window::default();
        for n in 0..10 {
            large.push(outgoing(n, &n.to_string(), 1_000_000));
        }
        assert_eq!(large.next(), [0, 1, 2, 3]);
        // Kinesis refuses one that is too large; it is sent, so that the refusal is reported.
        let mut one = Window::default();
        one.push(outgoing(0, "a", REQUEST_BYTES_MAX + 1));
        assert_eq!(one.next(), [0]);
    }

    #[test]
    fn the_window_is_bounded() {
        let mut window = Window::default();
        for n in 0..16 {
            assert!(!window.is_full(), "{n}");
            window.push(outgoing(n, "a", 1024 * 1024));
        }
        assert!(window.is_full());
        window.settle(&[0]);
        assert!(!window.is_full());
    }
}
