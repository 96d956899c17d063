//! The handled places of a lane: a floor, and ranges above it.
//!
//! Guarantees: the floor is the last place up to which everything is handled; it never moves back.

use std::collections::BTreeMap;

/// Which places of a lane are handled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handled {
    floor: u64,
    /// The last place of each range by its first. Ranges neither touch each other nor the floor.
    above: BTreeMap<u64, u64>,
}

impl Handled {
    /// Everything up to the floor.
    pub(super) fn up_to(floor: u64) -> Self {
        let above = BTreeMap::new();
        Self { floor, above }
    }

    /// Everything up to this place is handled, and the next place is not.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The ranges above the floor, in order: the first and the last place of each.
    pub(super) fn ranges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.above.iter().map(|(first, last)| (*first, *last))
    }

    /// How many places are handled.
    pub(super) fn count(&self) -> u64 {
        let above = self.ranges().map(|(first, last)| last - first + 1);
        self.floor + above.sum::<u64>()
    }

    pub(super) fn contains(&self, place: u64) -> bool {
        let before = || self.above.range(..=place).next_back();
        place <= self.floor || before().is_some_and(|(_, last)| place <= *last)
    }

    /// The last place of the handled ones that follow a place without a gap; the place itself if the
    /// next one is not handled.
    pub(super) fn skip(&self, after: u64) -> u64 {
        let after = after.max(self.floor);
        let next = after.saturating_add(1);
        let before = self.above.range(..=next).next_back();
        before.map_or(after, |(_, last)| (*last).max(after))
    }

    /// The first place of the next range after a place that has at least so many places.
    pub(super) fn next_range(&self, after: u64, places: u64) -> Option<u64> {
        let mut next = self.above.range(after.saturating_add(1)..);
        let found = next.find(|(first, last)| *last - *first + 1 >= places);
        found.map(|(first, _)| *first)
    }

    /// Adds the places from the first to the last.
    pub(super) fn add(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first.max(self.floor + 1), last);
        if first > last {
            return;
        }
        // Ranges that it overlaps or touches become part of it.
        while let Some((&start, &end)) = self.above.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            self.above.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        match first == self.floor + 1 {
            true => self.floor = last,
            false => {
                self.above.insert(first, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Random;

    /// Compared with a set of places.
    #[test]
    fn ranges_hold_what_was_added() {
        for seed in 0..200 {
            let random = Random::seeded(seed);
            let floor = random.below(5);
            let mut set: BTreeSet<u64> = (1..=floor).collect();
            let mut handled = Handled::up_to(floor);
            for _ in 0..30 {
                let first = 1 + random.below(60);
                let last = (first + random.below(6)).saturating_sub(1);
                set.extend(first..=last);
                handled.add(first, last);
                let before = handled.floor();
                assert!((1..=before).all(|place| set.contains(&place)));
                assert!(!set.contains(&(before + 1)));
                assert_eq!(handled.count(), set.len() as u64, "seed {seed}");
                for place in 1..80 {
                    assert_eq!(handled.contains(place), set.contains(&place));
                }
                for after in 0..70 {
                    let from = after.max(before);
                    let end = (from + 1..).find(|place| !set.contains(place)).unwrap() - 1;
                    assert_eq!(handled.skip(after), end, "seed {seed}, after {after}");
                }
                let ranges: Vec<_> = handled.ranges().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            }
        }
    }
}
