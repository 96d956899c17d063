//! Up to where the files of the index hold the log, and of which log.
//!
//! ```text
//! position   u64   after the last change
//! mark       u64   the store's
//! previous   u64   the checksum of the frame before the position
//! ```
//! Numbers are big-endian. Earlier versions wrote only the position.
//!
//! Why the rest: the index of another store, or of another history of this one (a restore to an earlier
//! position that went on), has other changes at the same positions. A checksum covers all frames before.

use crate::embedded::log::{Place, Position};

/// The log that the index was made from, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Chain {
    pub(in super::super) mark: u64,
    pub(in super::super) previous: u64,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Applied {
    pub(in super::super) position: Position,
    /// `None` if nothing was applied, or an earlier version has written it.
    pub(in super::super) chain: Option<Chain>,
}

impl Applied {
    /// Nothing.
    pub(in super::super) const NOTHING: Self = Self {
        position: Position::FIRST,
        chain: None,
    };

    pub(super) fn at(place: Place, mark: u64) -> Self {
        Self {
            position: place.position,
            chain: Some(Chain {
                mark,
                previous: place.previous,
            }),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let chain = self.chain.map(|chain| [chain.mark, chain.previous]);
        let numbers = [self.position.0].into_iter();
        let numbers = numbers.chain(chain.into_iter().flatten());
        numbers.flat_map(u64::to_be_bytes).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let numbers = bytes.chunks(8).map(|number| {
            let number = <[u8; 8]>::try_from(number).ok()?;
            Some(u64::from_be_bytes(number))
        });
        let numbers: Option<Vec<u64>> = numbers.collect();
        let (position, chain) = match *numbers?.as_slice() {
            [position] => (position, None),
            [position, mark, previous] => (position, Some(Chain { mark, previous })),
            _ => return None,
        };
        Some(Self {
            position: Position(position),
            chain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_so_does_a_position_of_an_earlier_version() {
        let place = Place {
            segment: 3,
            offset: 64,
            position: Position(258),
            previous: 77,
        };
        let applied = Applied::at(place, 5);
        let bytes = applied.encode();
        assert_eq!(bytes.len(), 24);
        assert_eq!(Applied::decode(&bytes), Some(applied));
        let earlier = Applied {
            chain: None,
            ..applied
        };
        assert_eq!(Applied::decode(&[0, 0, 0, 0, 0, 0, 1, 2]), Some(earlier));
        for len in [0, 7, 9, 16, 23] {
            assert_eq!(Applied::decode(&bytes[..len]), None, "{len}");
        }
    }
}
