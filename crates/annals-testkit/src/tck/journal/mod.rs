//! The journal's properties. `j1` to `j22` are the kits' own; the others are ours.

mod bulk;
mod ours;

pub(crate) use bulk::*;
pub(crate) use ours::*;

use futures::TryStreamExt;

use super::{Setup, properties};
use annals::journal::{Expected, Journal, Window};
use annals::{Codec, ErrorKind, Event, NewEvent, PersistenceId, SequenceNumber};

properties! {
    j1_replays_all_events,
    j2_replays_from_a_number,
    j3_replays_to_a_number,
    j4_replays_at_most_the_maximum,
    j5_replays_a_window,
    j6_replays_a_window_with_a_maximum,
    j7_replays_one_event,
    j8_replays_one_event_of_a_window,
    j9_replays_nothing_with_a_maximum_of_zero,
    j10_replays_nothing_of_a_reversed_window,
    j11_replays_nothing_of_an_unknown_id,
    j12_does_not_replay_deleted_events,
    j13_keeps_the_highest_number_after_a_deletion,
    j14_keeps_the_highest_number_when_all_events_are_deleted,
    j15_replays_the_rest_of_a_window_that_starts_in_deleted_events,
    j16_replays_nothing_of_a_window_inside_deleted_events,
    j17_replays_nothing_of_a_window_that_ends_with_deleted_events,
    j18_replays_the_part_of_a_batch_that_is_in_the_window,
    j19_replays_from_right_after_deleted_events,
    j20_rejects_an_oversized_append_and_stores_the_others,
    j21_carries_codec_and_manifest,
    j22_carries_metadata,
    an_append_of_nothing_is_invalid,
    an_append_without_expectation_gets_the_next_numbers,
    an_expected_number_past_the_end_is_a_conflict_and_leaves_no_gap,
    an_expected_number_inside_a_batch_is_a_conflict,
    of_two_writers_one_wins_and_the_other_gets_its_events,
    an_append_whose_response_was_lost_is_recognised,
    the_numbers_of_deleted_events_are_never_reused,
    a_deletion_inside_a_batch_hides_its_first_half,
    a_deletion_returns_the_last_number_it_covers,
    a_purge_returns_whether_it_removed_anything,
    a_deletion_repeated_or_smaller_changes_nothing,
    ids_are_listed_once_even_if_all_events_are_deleted,
    ids_are_listed_page_by_page,
    any_text_is_a_distinct_id,
    events_keep_all_their_fields,
    a_large_append_is_atomic,
    a_long_history_is_continuous,
    following_delivers_new_events,
    results_of_a_bulk_are_in_its_order,
    appends_of_a_bulk_to_one_id_run_in_order,
    a_failed_append_of_a_bulk_stops_no_other,
    a_key_that_is_repeated_in_a_bulk_is_stored_once,
}

const ID: &str = "p|1";

fn id() -> PersistenceId {
    ID.parse().expect("an id")
}

fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).expect("a sequence number")
}

fn text(text: impl Into<String>) -> NewEvent {
    NewEvent::new(Codec::Text, text.into())
}

/// The kits' set-up: 1, 2 and 3 one by one, 4 and 5 together.
async fn five(setup: &Setup) -> Journal {
    let journal = setup.journal().await;
    for n in 1..=3u64 {
        let expected = SequenceNumber::new(n - 1).map_or(Expected::Empty, Expected::Last);
        let appended = journal
            .append(&id(), expected, text(format!("a-{n}")))
            .await;
        assert_eq!(appended.expect("an append").last, number(n));
    }
    let both = vec![text("a-4"), text("a-5")];
    let appended = journal.append(&id(), Expected::Last(number(3)), both).await;
    let appended = appended.expect("an append");
    assert_eq!((appended.first, appended.last), (number(4), number(5)));
    journal
}

async fn replay(journal: &Journal, window: Window) -> Vec<u64> {
    let events: Vec<Event> = journal
        .replay(&id(), window)
        .try_collect()
        .await
        .expect("a replay");
    for event in &events {
        let n = event.sequence_number.get();
        assert_eq!(event.persistence_id, id());
        assert_eq!(event.data.payload, format!("a-{n}"), "the payload of {n}");
    }
    events
        .iter()
        .map(|event| event.sequence_number.get())
        .collect()
}

/// Replays in the process that wrote, and in a new one.
async fn check(setup: &Setup, journal: &Journal, window: (u64, u64, u64), want: &[u64]) {
    let (from, to, max) = window;
    let to = SequenceNumber::new(to).unwrap_or(SequenceNumber::LAST);
    let window = Window::from(number(from)).to(to).limit(max);
    for journal in [journal.clone(), setup.journal().await] {
        assert_eq!(replay(&journal, window).await, want, "{window:?}");
        assert_eq!(
            journal.highest(&id()).await.expect("highest"),
            Some(number(5))
        );
    }
}

const END: u64 = u64::MAX;

async fn check_five(setup: &Setup, window: (u64, u64, u64), want: &[u64]) {
    let journal = five(setup).await;
    check(setup, &journal, window, want).await;
}

/// J1.
pub(crate) async fn j1_replays_all_events(setup: Setup) {
    check_five(&setup, (1, END, END), &[1, 2, 3, 4, 5]).await;
}

/// J2.
pub(crate) async fn j2_replays_from_a_number(setup: Setup) {
    check_five(&setup, (3, END, END), &[3, 4, 5]).await;
}

/// J3.
pub(crate) async fn j3_replays_to_a_number(setup: Setup) {
    check_five(&setup, (1, 3, END), &[1, 2, 3]).await;
}

/// J4.
pub(crate) async fn j4_replays_at_most_the_maximum(setup: Setup) {
    check_five(&setup, (1, END, 3), &[1, 2, 3]).await;
}

/// J5.
pub(crate) async fn j5_replays_a_window(setup: Setup) {
    check_five(&setup, (2, 3, END), &[2, 3]).await;
}

/// J6.
pub(crate) async fn j6_replays_a_window_with_a_maximum(setup: Setup) {
    check_five(&setup, (2, 5, 2), &[2, 3]).await;
}

/// J7.
pub(crate) async fn j7_replays_one_event(setup: Setup) {
    check_five(&setup, (2, 2, END), &[2]).await;
}

/// J8.
pub(crate) async fn j8_replays_one_event_of_a_window(setup: Setup) {
    check_five(&setup, (2, 4, 1), &[2]).await;
}

/// J9.
pub(crate) async fn j9_replays_nothing_with_a_maximum_of_zero(setup: Setup) {
    check_five(&setup, (1, END, 0), &[]).await;
}

/// J10.
pub(crate) async fn j10_replays_nothing_of_a_reversed_window(setup: Setup) {
    check_five(&setup, (3, 2, END), &[]).await;
}

/// J11.
pub(crate) async fn j11_replays_nothing_of_an_unknown_id(setup: Setup) {
    let journal = setup.journal().await;
    assert_eq!(replay(&journal, Window::ALL).await, [0; 0]);
    assert_eq!(journal.highest(&id()).await.expect("highest"), None);
}

async fn three_deleted(setup: &Setup) -> Journal {
    let journal = five(setup).await;
    journal
        .delete_to(&id(), number(3))
        .await
        .expect("a deletion");
    journal
}

/// J12.
pub(crate) async fn j12_does_not_replay_deleted_events(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (1, END, END), &[4, 5]).await;
}

/// J13.
pub(crate) async fn j13_keeps_the_highest_number_after_a_deletion(setup: Setup) {
    let journal = three_deleted(&setup).await;
    for journal in [journal, setup.journal().await] {
        assert_eq!(
            journal.highest(&id()).await.expect("highest"),
            Some(number(5))
        );
    }
}

/// J14.
pub(crate) async fn j14_keeps_the_highest_number_when_all_events_are_deleted(setup: Setup) {
    let journal = five(&setup).await;
    journal
        .delete_to(&id(), SequenceNumber::LAST)
        .await
        .expect("a deletion");
    for window in [
        (1, END, END),
        (3, END, END),
        (4, END, END),
        (5, END, END),
        (6, END, END),
    ] {
        check(&setup, &journal, window, &[]).await;
    }
}

/// J15.
pub(crate) async fn j15_replays_the_rest_of_a_window_that_starts_in_deleted_events(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (3, END, END), &[4, 5]).await;
}

/// J16.
pub(crate) async fn j16_replays_nothing_of_a_window_inside_deleted_events(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (1, 2, END), &[]).await;
}

/// J17.
pub(crate) async fn j17_replays_nothing_of_a_window_that_ends_with_deleted_events(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (1, 3, END), &[]).await;
}

/// J18.
pub(crate) async fn j18_replays_the_part_of_a_batch_that_is_in_the_window(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (1, 4, END), &[4]).await;
    check(&setup, &journal, (5, END, END), &[5]).await;
    check(&setup, &journal, (4, 4, END), &[4]).await;
    check(&setup, &journal, (5, 5, END), &[5]).await;
    check(&setup, &journal, (6, END, END), &[]).await;
    check(&setup, &journal, (100, END, END), &[]).await;
}

/// J19.
pub(crate) async fn j19_replays_from_right_after_deleted_events(setup: Setup) {
    let journal = three_deleted(&setup).await;
    check(&setup, &journal, (4, END, END), &[4, 5]).await;
}

/// J20: here an append that is too large.
pub(crate) async fn j20_rejects_an_oversized_append_and_stores_the_others(setup: Setup) {
    let journal = five(&setup).await;
    let after = |n| Expected::Last(number(n));
    journal
        .append(&id(), after(5), text("a-6"))
        .await
        .expect("an append");
    let huge = NewEvent::new(Codec::Bytes, vec![0; 65 * 1024 * 1024]);
    let error = journal
        .append(&id(), after(6), huge)
        .await
        .expect_err("too large");
    assert_eq!(annals::Error::from(error).kind(), ErrorKind::Invalid);
    journal
        .append(&id(), after(6), text("a-7"))
        .await
        .expect("an append");
    assert_eq!(replay(&journal, Window::from(number(5))).await, [5, 6, 7]);
}

/// J21.
pub(crate) async fn j21_carries_codec_and_manifest(setup: Setup) {
    let journal = five(&setup).await;
    let event = NewEvent::new(Codec::Other("akka:666".into()), vec![0, 255]).manifest("A");
    let appended = journal
        .append(&id(), Expected::Any, event.clone())
        .await
        .expect("an append");
    let events = journal.replay(&id(), Window::from(appended.first));
    let events: Vec<Event> = events.try_collect().await.expect("a replay");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data, event);
}

/// J22.
pub(crate) async fn j22_carries_metadata(setup: Setup) {
    let journal = setup.journal().await;
    let event = text("a-1").metadata("by", "alice").metadata("", "é");
    journal
        .append(&id(), Expected::Empty, event.clone())
        .await
        .expect("an append");
    let events: Vec<Event> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .expect("a replay");
    assert_eq!(events[0].data.metadata, event.metadata);
}
