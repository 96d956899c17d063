//! The verdicts of the plugin's filter, as its suite has them, and what deletion changes.

use super::*;
use crate::akka::row::Place;
use annals::SequenceNumber;
use annals::items::Item;

/// A row, by its number and, in a batch, its place and the last place.
fn row(number: u64, batch: Option<(u64, u64)>) -> Row {
    Row {
        number: SequenceNumber::new(number).unwrap(),
        batch: batch.map(|(index, last)| Place { index, last }),
        item: Item::new(),
    }
}

fn passed(mut batches: Batches, rows: &[(u64, Option<(u64, u64)>)]) -> Vec<u64> {
    let mut out = Vec::new();
    for (number, batch) in rows {
        out.extend(batches.push(row(*number, *batch)));
    }
    out.iter().map(|row| row.number.get()).collect()
}

fn plain(rows: &[(u64, Option<(u64, u64)>)]) -> Vec<u64> {
    passed(Batches::default(), rows)
}

const MIXED: [(u64, Option<(u64, u64)>); 5] = [
    (1, None),
    (2, Some((0, 2))),
    (3, Some((1, 2))),
    (4, Some((2, 2))),
    (5, None),
];

#[test]
fn the_vectors_of_the_specification() {
    assert_eq!(plain(&MIXED), [1, 2, 3, 4, 5]);
    assert_eq!(plain(&MIXED[2..]), [5], "from 3");
    assert_eq!(plain(&MIXED[..3]), [1], "to 3, and at most 3");
}

#[test]
fn rc2_members_of_incomplete_batches_are_passed_over() {
    let mut rows: Vec<_> = (1..=20).map(|n| (n, None)).collect();
    for first in [21, 24, 27, 30, 33, 37] {
        rows.extend((0..3).map(|place| (first + place, Some((place, 2)))));
    }
    rows.push((36, None));
    rows.sort_by_key(|(number, _)| *number);
    rows.retain(|(number, _)| ![22, 24, 32, 35, 39].contains(number));
    let want: Vec<u64> = (1..=20).chain([27, 28, 29, 36]).collect();
    assert_eq!(plain(&rows), want);
}

#[test]
fn rc4_and_rc5_a_batch_written_over_the_rest_of_another_counts() {
    let rc4 = [
        (1, Some((0, 2))),
        (2, Some((1, 2))),
        (3, Some((0, 2))),
        (4, Some((1, 2))),
        (5, Some((2, 2))),
    ];
    assert_eq!(plain(&rc4), [3, 4, 5]);
    let rc5 = [
        (1, Some((0, 2))),
        (2, Some((0, 2))),
        (3, Some((1, 2))),
        (4, Some((2, 2))),
    ];
    assert_eq!(plain(&rc5), [2, 3, 4]);
}

#[test]
fn a_batch_of_one_is_none() {
    assert_eq!(plain(&[(1, Some((0, 0))), (2, None)]), [2]);
}

#[test]
fn h4_what_a_deletion_left_of_a_batch_stays_visible() {
    let rows = [(12, Some((2, 4))), (13, Some((3, 4))), (14, Some((4, 4)))];
    assert_eq!(passed(Batches::above(12), &rows), [12, 13, 14]);
    assert_eq!(passed(Batches::above(14), &rows[2..]), [14]);
    assert_eq!(
        passed(Batches::above(12), &rows[1..]),
        [0u64; 0],
        "12 is lost"
    );
    assert_eq!(plain(&rows), [0u64; 0], "10 and 11 are lost");
}

#[test]
fn numbers_that_a_batch_claims_are_no_gap() {
    let mut batches = Batches::default();
    batches.push(row(10, Some((0, 4))));
    assert!(batches.claims(14) && !batches.claims(15));
    assert_eq!(batches.awaited(), Some(14));
    batches.push(row(14, None));
    assert!(batches.claims(13));
    assert_eq!(batches.awaited(), None);
}

/// What is read again before a row is pushed behind others.
fn doubts(
    met: &[(u64, Option<(u64, u64)>)],
    next: (u64, Option<(u64, u64)>),
) -> Option<(u64, u64)> {
    let mut batches = Batches::default();
    for (number, batch) in met {
        batches.push(row(*number, *batch));
    }
    batches.doubts(&row(next.0, next.1))
}

#[test]
fn what_may_have_come_since_is_read_again() {
    let open = [(4, None), (5, Some((0, 3))), (6, Some((1, 3)))];
    // All there, or still on its way.
    assert_eq!(doubts(&open[..1], (5, None)), None);
    assert_eq!(doubts(&open, (7, Some((2, 3)))), None);
    assert_eq!(doubts(&MIXED[..3], MIXED[3]), None);
    // A member is missing from what was met: of its own, of the one before it, of both.
    assert_eq!(doubts(&open, (8, Some((3, 3)))), Some((5, 8)));
    assert_eq!(doubts(&open, (9, None)), Some((5, 8)));
    assert_eq!(doubts(&open, (11, Some((2, 4)))), Some((5, 8)));
    assert_eq!(doubts(&open, (11, Some((2, 2)))), Some((5, 11)));
    // Whoever stands inside of it has ended it.
    assert_eq!(doubts(&open, (8, None)), None);
    assert_eq!(doubts(&open, (8, Some((0, 2)))), None);
}
