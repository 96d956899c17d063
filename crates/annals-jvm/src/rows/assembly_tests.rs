//! Which rows count: the test vectors of the plugin's filter, deletions, rows that are read again,
//! and gaps. Without a store.

use super::*;
use crate::rows::{BatchIndex, RowState};
use crate::settings::ReplayFilterMode;
use annals::items::{Item, Value};
use annals::{NewEvent, SequenceNumber, Token};

/// Rows whose items hold nothing but a writer; those of the writer "us" are ours.
#[derive(Clone, Copy, Debug)]
struct Counting;
#[derive(Clone, Copy, Debug)]
struct Closing;

macro_rules! codec {
    ($name:ident, $counts:literal, $deletes:literal) => {
        impl RowCodec for $name {
            const COUNTS_MEMBERS: bool = $counts;
            const DELETES_FROM_START: bool = $deletes;

            fn event(&self, id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>> {
                let number = SequenceNumber::new(row.number).unwrap();
                let token = Token::from_bytes([0; 8]);
                let event = Event::new(id.clone(), number, token, NewEvent::default());
                Ok(Some((event, writer(row).to_owned())))
            }

            fn token(&self, _: &Row) -> Result<Option<Token>> {
                Ok(None)
            }

            fn is_ours(&self, row: &Row) -> bool {
                writer(row) == "us"
            }

            fn time_ms(&self, _: &Row) -> u64 {
                0
            }
        }
    };
}

// As on `akka` and on `j5ik2o`.
codec!(Counting, true, true);
codec!(Closing, false, false);

fn writer(row: &Row) -> &str {
    row.item.get("writer").and_then(Value::as_str).unwrap()
}

/// A row, by its number and, in a batch, its index and the last index.
fn row(number: u64, batch: Option<(u64, u64)>) -> Row {
    Row {
        number,
        batch: batch.map(|(index, last)| BatchIndex { index, last }),
        state: RowState::Live,
        item: Item::new().with("writer", "them"),
    }
}

fn ours(number: u64, batch: Option<(u64, u64)>) -> Row {
    Row {
        item: Item::new().with("writer", "us"),
        ..row(number, batch)
    }
}

fn in_state(state: RowState, row: Row) -> Row {
    Row { state, ..row }
}

fn filter(mode: ReplayFilterMode) -> ReplayFilterSettings {
    ReplayFilterSettings {
        mode,
        ..ReplayFilterSettings::default()
    }
}

/// An assembly from a number on, below which everything is deleted.
fn assembly<C: RowCodec>(codec: C, start: u64) -> Assembly<C> {
    let id = "Cart|1".parse().unwrap();
    Assembly::new(codec, id, start, start).filtered(filter(ReplayFilterMode::Off))
}

/// The numbers of the events that count, and everything that was needed on the way. Rows read again
/// are those of `late`; missing numbers are accepted.
fn run<C: RowCodec>(
    mut assembly: Assembly<C>,
    rows: &[Row],
    late: &[Row],
) -> (Vec<u64>, Vec<Need>) {
    let (mut events, mut needs) = (Vec::new(), Vec::new());
    rows.iter().for_each(|row| assembly.add(row.clone()));
    loop {
        let need = assembly.assemble(&mut events).unwrap();
        match &need {
            Need::Rows => break,
            Need::Again(from, to) => {
                let late = late
                    .iter()
                    .filter(|row| (*from..=*to).contains(&row.number));
                assembly.add_again(late.cloned().collect());
            }
            Need::Before(_) | Need::Explain(..) => {}
            Need::Deleted(row) if C::DELETES_FROM_START => assembly.restart_after(row),
            Need::Deleted(row) => assembly.skip_deleted(row.clone(), &mut events).unwrap(),
        }
        needs.push(need);
    }
    let numbers = events.iter().map(|event| event.sequence_number.get());
    (numbers.collect(), needs)
}

/// The events of rows of the plugin's, from 1 on.
fn counted(rows: &[(u64, Option<(u64, u64)>)]) -> Vec<u64> {
    counted_above(1, rows)
}

fn counted_above(low: u64, rows: &[(u64, Option<(u64, u64)>)]) -> Vec<u64> {
    let rows: Vec<Row> = rows.iter().map(|(n, batch)| row(*n, *batch)).collect();
    run(assembly(Counting, low), &rows, &[]).0
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
    assert_eq!(counted(&MIXED), [1, 2, 3, 4, 5]);
    assert_eq!(counted(&MIXED[2..]), [5], "from 3");
    assert_eq!(counted(&MIXED[..3]), [1], "to 3, and at most 3");
}

#[test]
fn rc2_members_of_incomplete_batches_are_skipped() {
    let mut rows: Vec<_> = (1..=20).map(|n| (n, None)).collect();
    for first in [21, 24, 27, 30, 33, 37] {
        rows.extend((0..3).map(|index| (first + index, Some((index, 2)))));
    }
    rows.push((36, None));
    rows.sort_by_key(|(number, _)| *number);
    rows.retain(|(number, _)| ![22, 24, 32, 35, 39].contains(number));
    let want: Vec<u64> = (1..=20).chain([27, 28, 29, 36]).collect();
    assert_eq!(counted(&rows), want);
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
    assert_eq!(counted(&rc4), [3, 4, 5]);
    let rc5 = [
        (1, Some((0, 2))),
        (2, Some((0, 2))),
        (3, Some((1, 2))),
        (4, Some((2, 2))),
    ];
    assert_eq!(counted(&rc5), [2, 3, 4]);
}

#[test]
fn a_batch_of_one_does_not_count() {
    assert_eq!(counted(&[(1, Some((0, 0))), (2, None)]), [2]);
}

#[test]
fn h4_the_rest_of_a_partly_deleted_batch_stays_visible() {
    let rows = [(12, Some((2, 4))), (13, Some((3, 4))), (14, Some((4, 4)))];
    assert_eq!(counted_above(12, &rows), [12, 13, 14]);
    assert_eq!(counted_above(14, &rows[2..]), [14]);
    assert_eq!(counted_above(12, &rows[1..]), [0u64; 0], "12 is lost");
    assert_eq!(counted(&rows), [0u64; 0], "10 and 11 are lost");
}

#[test]
fn missing_members_of_a_batch_are_not_a_gap() {
    let mut claiming = assembly(Counting, 10);
    claiming.add(row(10, Some((0, 4))));
    assert_eq!(claiming.assemble(&mut Vec::new()).unwrap(), Need::Rows);
    assert!(claiming.claims(14) && !claiming.claims(15));
    assert_eq!(claiming.awaited(), Some(14));
    claiming.add(row(14, None));
    assert_eq!(claiming.assemble(&mut Vec::new()).unwrap(), Need::Rows);
    assert!(claiming.claims(13));
    assert_eq!(claiming.awaited(), None);
}

/// What is needed before the last of these rows is handled.
fn needs(rows: &[(u64, Option<(u64, u64)>)]) -> Vec<Need> {
    let rows: Vec<Row> = rows.iter().map(|(n, batch)| row(*n, *batch)).collect();
    run(assembly(Counting, rows[0].number), &rows, &[]).1
}

#[test]
fn rows_that_may_be_stored_by_now_are_read_again() {
    let after = |next| [(4, None), (5, Some((0, 3))), (6, Some((1, 3))), next];
    // Complete, or still in flight.
    assert_eq!(needs(&[(4, None), (5, None)]), []);
    assert_eq!(needs(&after((7, Some((2, 3))))), []);
    assert_eq!(needs(&MIXED[..4]), []);
    // A member is missing: of its own batch, of the one before it, of both.
    assert_eq!(needs(&after((8, Some((3, 3))))), [Need::Again(7, 7)]);
    assert_eq!(needs(&after((9, None))), [Need::Again(7, 8)]);
    assert_eq!(needs(&after((11, Some((2, 4))))), [Need::Again(7, 8)]);
    assert_eq!(needs(&after((11, Some((2, 2))))), [Need::Again(7, 10)]);
    // A row inside of it has ended it.
    assert_eq!(needs(&after((8, None))), []);
    assert_eq!(needs(&after((8, Some((0, 2))))), []);
}

#[test]
fn members_that_were_stored_late_complete_their_batch() {
    let batch: Vec<Row> = (0..4).map(|n| ours(n + 5, Some((n, 3)))).collect();
    let met = [
        row(4, None),
        batch[0].clone(),
        batch[3].clone(),
        ours(9, None),
    ];
    let (events, needs) = run(assembly(Counting, 4), &met, &batch);
    assert_eq!(events, [4, 5, 6, 7, 8, 9]);
    assert_eq!(needs, [Need::Again(6, 7)]);
    // Also those of a batch whose end was stored after the reader had passed.
    let met = [row(4, None), batch[0].clone(), ours(9, None)];
    let (events, needs) = run(assembly(Counting, 4), &met, &batch);
    assert_eq!(
        (events, needs),
        (vec![4, 5, 6, 7, 8, 9], vec![Need::Again(6, 8)])
    );
}

#[test]
fn unexplained_gaps_need_an_explanation() {
    // First read again, then explained.
    let gap = [row(1, None), row(4, None)];
    let (events, needs) = run(assembly(Counting, 1), &gap, &[]);
    assert_eq!(events, [1, 4]);
    assert_eq!(needs, [Need::Again(2, 3), Need::Explain(2, 3)]);
    // A reader that looks up missing numbers has done so.
    let (_, needs) = run(assembly(Closing, 1), &gap, &[]);
    assert_eq!(needs, [Need::Explain(2, 3)]);
}

#[test]
fn a_lost_member_of_our_batch_needs_an_explanation() {
    let lost = [ours(1, Some((0, 2))), ours(3, Some((2, 2)))];
    let (events, needs) = run(assembly(Counting, 1), &lost, &[]);
    assert_eq!(needs, [Need::Again(2, 2), Need::Explain(2, 2)]);
    assert_eq!(events, [0u64; 0], "not in part");
    // The plugin puts members in any order: its writer may have crashed.
    let lost = [row(1, Some((0, 2))), row(3, Some((2, 2)))];
    assert_eq!(
        run(assembly(Counting, 1), &lost, &[]).1,
        [Need::Again(2, 2)]
    );
    // Our appends never follow an incomplete batch of ours.
    let without_end = [ours(1, Some((0, 2))), ours(4, None)];
    let needs = run(assembly(Counting, 1), &without_end, &[]).1;
    assert_eq!(needs, [Need::Again(2, 3), Need::Explain(3, 3)]);
}

#[test]
fn a_window_that_starts_inside_a_batch_needs_its_first_members() {
    let id: PersistenceId = "Cart|1".parse().unwrap();
    let batch: Vec<Row> = (0..4).map(|n| row(n + 5, Some((n, 3)))).collect();
    let from_7 = Assembly::new(Counting, id.clone(), 7, 1);
    let (events, needs) = run(from_7, &batch[2..], &batch);
    assert_eq!((events, needs), (vec![5, 6, 7, 8], vec![Need::Again(5, 6)]));
    // If it starts with missing numbers, a batch before it may explain them.
    let from_7 = Assembly::new(Counting, id.clone(), 7, 1);
    let needs = run(from_7, &[row(9, None)], &[]).1;
    let want = [Need::Before(7), Need::Again(7, 8), Need::Explain(7, 8)];
    assert_eq!(needs, want);
    // If the last member proves the others, those before the window are not needed.
    let inside = Assembly::new(Closing, id, 7, 1);
    assert_eq!(run(inside, &batch[2..], &[]), (vec![7, 8], vec![]));
}

#[test]
fn deleted_rows_restart_the_history_or_are_skipped() {
    let deleted = |row| in_state(RowState::Deleted, row);
    let rows = [
        deleted(row(3, Some((0, 1)))),
        row(4, Some((1, 1))),
        row(5, None),
    ];
    let (events, needs) = run(assembly(Counting, 1), &rows, &[]);
    assert_eq!(events, [4, 5], "what is left of the batch");
    assert_eq!(
        needs,
        [Need::Deleted(rows[0].clone())],
        "and 1 and 2 are no gap"
    );

    // One by one: a deleted member counts as seen, and is not delivered.
    let rows = [
        ours(1, None),
        deleted(ours(2, Some((0, 2)))),
        ours(3, Some((1, 2))),
    ];
    let rows = [&rows[..], &[ours(4, Some((2, 2)))]].concat();
    let (events, needs) = run(assembly(Closing, 1), &rows, &[]);
    assert_eq!(events, [1, 3, 4]);
    assert_eq!(needs, [Need::Deleted(rows[1].clone())]);
}

#[test]
fn closed_batches_never_count() {
    let closed = |row| in_state(RowState::Closed, row);
    let rows = [
        ours(1, Some((0, 2))),
        closed(ours(2, Some((1, 2)))),
        closed(ours(3, Some((2, 2)))),
        ours(4, None),
    ];
    assert_eq!(run(assembly(Closing, 1), &rows, &[]), (vec![4], vec![]));
    let mut open = assembly(Closing, 1);
    open.add(ours(1, Some((0, 2))));
    assert_eq!(open.assemble(&mut Vec::new()).unwrap(), Need::Rows);
    assert!(open.is_torn());
}

#[test]
fn events_of_an_older_writer_are_filtered() {
    let rows = [row(1, None), ours(2, None), row(3, None), ours(4, None)];
    let assembly = assembly(Counting, 1);
    let discarding = assembly.filtered(filter(ReplayFilterMode::RepairByDiscardOld));
    assert_eq!(run(discarding, &rows, &[]).0, [1, 2, 4]);
}

/// The plugin's soft deletion replaces a row without the attributes of its batch.
#[test]
fn members_deleted_without_their_batch_are_not_missing() {
    let deleted = |number| in_state(RowState::Deleted, row(number, None));
    let rows = [
        deleted(1),
        deleted(2),
        ours(3, Some((2, 3))),
        ours(4, Some((3, 3))),
    ];
    let (counted, needs) = run(assembly(Closing, 1), &rows, &[]);
    assert_eq!(counted, [3, 4]);
    let is_deleted = |need: &Need| matches!(need, Need::Deleted(_));
    assert!(needs.iter().all(is_deleted), "{needs:?}");
}
