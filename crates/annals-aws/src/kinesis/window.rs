//! What is sent next, so that the order of a partition key is kept whatever fails. Pure.
//!
//! One request of Kinesis may put some of its records and refuse others, in any pattern. So a
//! request has at most one record of each key, and the next of that key waits until it is known to
//! be put: a record that was refused holds back its own key and no other.
//!
//! Promises: records of one key are put in their order. At most 500 records and 5 MB go into one
//! request. What is told as done is a whole beginning of what came in.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use annals::log::Place;
use bytes::Bytes;

/// The most records and bytes of one request.
const REQUEST_RECORDS_MAX: usize = 500;
const REQUEST_BYTES_MAX: usize = 5_000_000;
/// How much is looked ahead for other keys.
const WINDOW_RECORDS_MAX: usize = 5_000;
const WINDOW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One event on its way.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) place: Place,
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

/// Events that are not known to be put yet, in their order.
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

    /// The places of what the next request carries: of each key the first that is not put.
    pub(super) fn next(&self) -> Vec<usize> {
        let (mut places, mut bytes) = (Vec::new(), 0);
        let mut keys = HashSet::new();
        let waiting = self.entries.iter().enumerate();
        for (place, entry) in waiting.filter(|(_, entry)| !entry.is_put) {
            if !keys.insert(&*entry.outgoing.key) {
                continue;
            }
            bytes += entry.outgoing.bytes();
            let is_full = bytes > REQUEST_BYTES_MAX || places.len() == REQUEST_RECORDS_MAX;
            if is_full && !places.is_empty() {
                break;
            }
            places.push(place);
        }
        places
    }

    pub(super) fn get(&self, place: usize) -> Option<&Outgoing> {
        self.entries.get(place).map(|entry| &entry.outgoing)
    }

    /// Takes over which were put, and lets go of the beginning that is; answers where that ends.
    pub(super) fn settle(&mut self, put: &[usize]) -> Option<Place> {
        for place in put {
            if let Some(entry) = self.entries.get_mut(*place) {
                entry.is_put = true;
            }
        }
        let mut last = None;
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.is_put) {
            self.bytes = self.bytes.saturating_sub(entry.outgoing.bytes());
            last = Some(entry.outgoing.place);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(n: usize, key: &str, bytes: usize) -> Outgoing {
        Outgoing {
            place: format!("{n}/e").parse().unwrap(),
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

    fn time(place: Option<Place>) -> Option<u64> {
        place.map(|place| place.time.ms())
    }

    #[test]
    fn a_request_has_one_record_of_a_key() {
        let mut window = window("abaacb");
        assert_eq!(window.next(), [0, 1, 4]);
        // The first of b is refused: it holds back the second, and nobody else.
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
    fn a_request_is_not_too_large() {
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
        // One that is too large is Kinesis's to refuse; it does not stand in the way unseen.
        let mut one = Window::default();
        one.push(outgoing(0, "a", REQUEST_BYTES_MAX + 1));
        assert_eq!(one.next(), [0]);
    }

    #[test]
    fn what_is_looked_ahead_is_bounded() {
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
