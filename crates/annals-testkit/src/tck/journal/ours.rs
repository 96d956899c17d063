//! The journal's properties that no kit has.

use futures::TryStreamExt;

use super::{END, check, five, id, number, replay, text};
use crate::tck::Setup;
use annals::journal::{Append, AppendError, Expected, Window};
use annals::{Codec, Error, ErrorKind, Event, NewEvent, PersistenceId, SequenceNumber, Token};

/// And nothing is written.
pub(crate) async fn an_append_of_nothing_is_invalid(setup: Setup) {
    let journal = setup.journal().await;
    let error = journal
        .append(&id(), Expected::Any, vec![])
        .await
        .expect_err("nothing");
    assert_eq!(Error::from(error).kind(), ErrorKind::Invalid);
    assert_eq!(journal.highest(&id()).await.expect("highest"), None);
}

/// From the first on.
pub(crate) async fn an_append_without_expectation_gets_the_next_numbers(setup: Setup) {
    for n in 1..=4 {
        let journal = setup.journal().await;
        let appended = journal
            .append(&id(), Expected::Any, text(format!("a-{n}")))
            .await;
        assert_eq!(appended.expect("an append").first, number(n));
    }
    assert_eq!(
        replay(&setup.journal().await, Window::ALL).await,
        [1, 2, 3, 4]
    );
}

#[track_caller]
fn assert_conflict(outcome: Result<annals::journal::Appended, AppendError>) -> Vec<Event> {
    match outcome {
        Err(AppendError::Conflict(conflict)) => conflict.found,
        other => panic!("a conflict was expected: {other:?}"),
    }
}

/// Also of an id without events.
pub(crate) async fn an_expected_number_past_the_end_is_a_conflict_and_leaves_no_gap(setup: Setup) {
    let journal = five(&setup).await;
    for journal in [journal, setup.journal().await] {
        for n in [6, 7, 1_005, 10_000_000] {
            let outcome = journal
                .append(&id(), Expected::Last(number(n)), text("x"))
                .await;
            assert_conflict(outcome);
        }
        let unknown: PersistenceId = "unknown".parse().expect("an id");
        let outcome = journal
            .append(&unknown, Expected::Last(number(1)), text("x"))
            .await;
        assert_conflict(outcome);
        assert_eq!(journal.highest(&unknown).await.expect("highest"), None);
        assert_eq!(replay(&journal, Window::ALL).await, [1, 2, 3, 4, 5]);
    }
}

/// It would split the batch.
pub(crate) async fn an_expected_number_inside_a_batch_is_a_conflict(setup: Setup) {
    let journal = five(&setup).await;
    for journal in [journal, setup.journal().await] {
        assert_conflict(
            journal
                .append(&id(), Expected::Last(number(4)), text("x"))
                .await,
        );
        assert_conflict(
            journal
                .append(&id(), Expected::Last(number(3)), text("x"))
                .await,
        );
        assert_conflict(journal.append(&id(), Expected::Empty, text("x")).await);
    }
}

/// So that it can continue without reading.
pub(crate) async fn of_two_writers_one_wins_and_the_other_gets_its_events(setup: Setup) {
    let journal = five(&setup).await;
    let other = setup.journal().await;
    assert_eq!(replay(&other, Window::ALL).await.len(), 5);
    let won = vec![text("a-6"), text("a-7")];
    journal
        .append(&id(), Expected::Last(number(5)), won)
        .await
        .expect("the first wins");
    let found = assert_conflict(
        other
            .append(&id(), Expected::Last(number(5)), text("x"))
            .await,
    );
    let numbers: Vec<_> = found
        .iter()
        .map(|event| event.sequence_number.get())
        .collect();
    assert_eq!(numbers, [6, 7]);
    let appended = other
        .append(&id(), Expected::Last(number(7)), text("a-8"))
        .await;
    assert_eq!(appended.expect("the lag is repaired").first, number(8));
    assert_eq!(
        replay(&journal, Window::ALL).await,
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
}

/// Also by another process, and not mistaken for one with another token.
pub(crate) async fn an_append_whose_response_was_lost_is_recognised(setup: Setup) {
    let journal = five(&setup).await;
    let append = Append::of(vec![text("a-6"), text("a-7")]).token(journal.token());
    let first = journal
        .append(&id(), Expected::Last(number(5)), append.clone())
        .await;
    let first = first.expect("an append");
    setup.clock.advance(std::time::Duration::from_secs(5));
    for journal in [journal.clone(), setup.journal().await] {
        let again = journal
            .append(&id(), Expected::Last(number(5)), append.clone())
            .await;
        assert_eq!(again.expect("its own"), first);
    }
    let other = append.token(Token::from_bytes([7; 8]));
    assert_conflict(
        journal
            .append(&id(), Expected::Last(number(5)), other)
            .await,
    );
    assert_eq!(replay(&journal, Window::ALL).await, [1, 2, 3, 4, 5, 6, 7]);
}

/// Not even by a writer with the state before the deletion.
pub(crate) async fn the_numbers_of_deleted_events_are_never_reused(setup: Setup) {
    let journal = five(&setup).await;
    let frozen = setup.journal().await;
    assert_eq!(replay(&frozen, Window::ALL).await.len(), 5);
    journal
        .delete_to(&id(), SequenceNumber::LAST)
        .await
        .expect("a deletion");
    for journal in [journal.clone(), frozen, setup.journal().await] {
        assert_conflict(journal.append(&id(), Expected::Empty, text("x")).await);
        for n in 1..=4 {
            assert_conflict(
                journal
                    .append(&id(), Expected::Last(number(n)), text("x"))
                    .await,
            );
        }
    }
    let appended = setup
        .journal()
        .await
        .append(&id(), Expected::Any, text("a-6"))
        .await;
    assert_eq!(appended.expect("an append").first, number(6));
    assert_eq!(replay(&setup.journal().await, Window::ALL).await, [6]);
}

/// For every reader.
pub(crate) async fn a_deletion_inside_a_batch_hides_its_first_half(setup: Setup) {
    let journal = five(&setup).await;
    journal
        .delete_to(&id(), number(4))
        .await
        .expect("a deletion");
    for window in [(1, END, END), (4, END, END), (5, END, END)] {
        check(&setup, &journal, window, &[5]).await;
    }
    check(&setup, &journal, (4, 4, END), &[]).await;
    let appended = journal
        .append(&id(), Expected::Last(number(5)), text("a-6"))
        .await;
    assert_eq!(appended.expect("an append").first, number(6));
}

/// The last number that it covers: never one that is not used yet. Repeated, the same.
pub(crate) async fn a_deletion_returns_the_last_number_it_covers(setup: Setup) {
    let journal = five(&setup).await;
    let unknown: PersistenceId = "unknown".parse().expect("an id");
    let end = SequenceNumber::LAST.get();
    for (to, covered) in [(2, 2), (2, 2), (4, 4), (1, 1), (99, 5), (5, 5), (end, 5)] {
        let deleted = journal.delete_to(&id(), number(to)).await;
        assert_eq!(deleted.expect("a deletion"), Some(number(covered)), "{to}");
    }
    let appended = journal.append(&id(), Expected::Any, text("a-6")).await;
    assert_eq!(appended.expect("an append").first, number(6));
    for to in [1, 99, end] {
        let deleted = journal.delete_to(&unknown, number(to)).await;
        assert_eq!(deleted.expect("a deletion"), None, "{to}");
    }
}

/// Whether there was anything: also if all events were deleted before.
pub(crate) async fn a_purge_returns_whether_it_removed_anything(setup: Setup) {
    let journal = five(&setup).await;
    let purge = || async { journal.purge(&id()).await.expect("a purge") };
    assert!(purge().await);
    assert!(!purge().await, "it is purged already");
    let again = journal.append(&id(), Expected::Empty, text("a-1")).await;
    again.expect("an append");
    let all = journal.delete_to(&id(), SequenceNumber::LAST).await;
    assert_eq!(all.expect("a deletion"), Some(number(1)));
    assert!(purge().await);
    assert!(!purge().await);
}

/// Nor does one of an unknown id.
pub(crate) async fn a_deletion_repeated_or_smaller_changes_nothing(setup: Setup) {
    let journal = five(&setup).await;
    let unknown: PersistenceId = "unknown".parse().expect("an id");
    journal
        .delete_to(&unknown, number(5))
        .await
        .expect("nothing to delete");
    for n in [4, 4, 2, 1] {
        journal
            .delete_to(&id(), number(n))
            .await
            .expect("a deletion");
        check(&setup, &journal, (1, END, END), &[5]).await;
    }
    assert_eq!(journal.highest(&unknown).await.expect("highest"), None);
}

/// Also by prefix.
pub(crate) async fn ids_are_listed_once_even_if_all_events_are_deleted(setup: Setup) {
    let journal = setup.journal().await;
    let ids = ["a|1", "a|2", "b|1", "0:a", "p:x:y"];
    for id in ids {
        let id: PersistenceId = id.parse().expect("an id");
        for _ in 0..3 {
            journal
                .append(&id, Expected::Any, text("x"))
                .await
                .expect("an append");
        }
    }
    let gone: PersistenceId = "a|2".parse().expect("an id");
    journal
        .delete_to(&gone, SequenceNumber::LAST)
        .await
        .expect("a deletion");
    for (prefix, want) in [("", 5), ("a|", 2), ("a|2", 1), ("0:", 1), ("c", 0)] {
        let listed = journal
            .persistence_ids(prefix)
            .try_collect::<Vec<_>>()
            .await;
        let listed = listed.expect("ids");
        assert_eq!(listed.len(), want, "{prefix}: {listed:?}");
    }
}

/// Pages of ids have each id once, and the last id of a page may be purged.
pub(crate) async fn ids_are_listed_page_by_page(setup: Setup) {
    let journal = setup.journal().await;
    let ids = ["a!-0", "a-0", "a-1", "a-1!", "a-1|", "b-0", "é-0"];
    let ids = ids.map(|id| id.parse::<PersistenceId>().expect("an id"));
    for id in ids.iter().rev() {
        let appended = journal.append(id, Expected::Any, text("x")).await;
        appended.expect("an append");
    }
    let all = journal.persistence_ids_after(None);
    let all: Vec<PersistenceId> = all.try_collect().await.expect("ids");
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ids);
    for (at, after) in all.iter().enumerate() {
        let rest = journal.persistence_ids_after(Some(after));
        let rest: Vec<PersistenceId> = rest.try_collect().await.expect("ids");
        assert_eq!(rest, &all[at + 1..], "after {after}");
    }
    journal.purge(&all[2]).await.expect("a purge");
    let rest = journal.persistence_ids_after(Some(&all[2]));
    let rest: Vec<PersistenceId> = rest.try_collect().await.expect("ids");
    assert_eq!(rest, &all[3..], "after one that is purged");
}

/// Even if it looks like one of our keys. Ids without a key, or with another id's key, are rejected
/// without an effect on others.
pub(crate) async fn any_text_is_a_distinct_id(setup: Setup) {
    let long = "x".repeat(annals::PERSISTENCE_ID_BYTES_MAX);
    let ids = [
        "a",
        "0:a",
        "1:a",
        ":",
        "p:a",
        "t:annals",
        "é\u{0}𐐷\n",
        "-",
        "|",
        "a-0",
        " ",
        &long,
    ];
    let journal = setup.journal().await;
    let mut kept = Vec::new();
    for (text_of, id) in ids.iter().enumerate() {
        let id: PersistenceId = id.parse().expect("an id");
        let appended = journal
            .append(&id, Expected::Empty, text(format!("{text_of}")))
            .await;
        match appended {
            Ok(_) => kept.push((text_of, id)),
            Err(error) => {
                let error = Error::from(error);
                assert!(!setup.variant.takes_every_id, "a distinct id: {error:?}");
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            }
        }
    }
    assert!(kept.len() >= ids.len() / 2, "{kept:?}");
    for (text_of, id) in kept {
        let events = journal
            .replay(&id, Window::ALL)
            .try_collect::<Vec<Event>>()
            .await;
        let events = events.expect("a replay");
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data.payload, text_of.to_string());
    }
}

/// Payload, codec, manifest, schema, tags, metadata, time, token, causation and correlation.
pub(crate) async fn events_keep_all_their_fields(setup: Setup) {
    let journal = setup.journal().await;
    let payloads: [(Codec, &[u8]); 6] = [
        (Codec::Bytes, &[0, 1, 255]),
        (Codec::Json, b"{\"a\":1}"),
        (Codec::Text, "é".as_bytes()),
        (Codec::Cbor, &[0xA1, 0x61, 0x61, 0x01]),
        (Codec::Protobuf, &[0x08, 0x01]),
        (Codec::Other("akka:666".into()), &[0, 1, 255]),
    ];
    let events: Vec<NewEvent> = payloads
        .into_iter()
        .map(|(codec, payload)| {
            let event = NewEvent::new(codec, payload.to_vec());
            let event = event.manifest("M").schema(7);
            event.tag("t1").tag("t2").metadata("k", "v")
        })
        .chain([NewEvent::default(), NewEvent::default().tag("lonely")])
        .collect();
    let token = journal.token();
    let append = Append::of(events.clone()).token(token);
    let append = append.causation("c-1").correlation("é");
    let appended = journal
        .append(&id(), Expected::Empty, append)
        .await
        .expect("an append");
    let found: Vec<Event> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .expect("a replay");
    assert_eq!(found.len(), events.len());
    for (event, want) in found.iter().zip(&events) {
        assert_eq!(&event.data, want);
        assert_eq!((event.token, event.time_ms), (token, appended.time_ms));
        assert_eq!(event.causation.as_deref(), Some("c-1"));
        assert_eq!(event.correlation.as_deref(), Some("é"));
    }
    let bare = Expected::Last(appended.last);
    let bare = journal.append(&id(), bare, text("bare")).await;
    let window = Window::from(bare.expect("an append").first);
    let found = journal.replay(&id(), window).try_collect::<Vec<Event>>();
    for event in found.await.expect("a replay") {
        assert_eq!((event.causation, event.correlation), (None, None));
    }
}

/// Larger than an item, incompressible; with windows and deletions that end inside it.
pub(crate) async fn a_large_append_is_atomic(setup: Setup) {
    let journal = setup.journal().await;
    let noise = |n: u64| -> Vec<u8> {
        let random = annals::Random::seeded(n);
        (0..20_000)
            .flat_map(|_| random.bits().to_le_bytes())
            .collect()
    };
    let events: Vec<NewEvent> = (1..=6)
        .map(|n| NewEvent::new(Codec::Bytes, noise(n)))
        .collect();
    journal
        .append(&id(), Expected::Empty, events)
        .await
        .expect("an append");
    journal
        .append(&id(), Expected::Last(number(6)), text("a-7"))
        .await
        .expect("an append");
    let check = async |window: Window, want: &[u64]| {
        let events = setup
            .journal()
            .await
            .replay(&id(), window)
            .try_collect::<Vec<Event>>()
            .await;
        let events = events.expect("a replay");
        let numbers: Vec<_> = events
            .iter()
            .map(|event| event.sequence_number.get())
            .collect();
        assert_eq!(numbers, want, "{window:?}");
        for event in events
            .iter()
            .filter(|event| event.sequence_number < number(7))
        {
            assert_eq!(event.data.payload, noise(event.sequence_number.get()));
        }
    };
    check(Window::ALL, &[1, 2, 3, 4, 5, 6, 7]).await;
    check(Window::from(number(5)), &[5, 6, 7]).await;
    journal
        .delete_to(&id(), number(4))
        .await
        .expect("a deletion");
    check(Window::ALL, &[5, 6, 7]).await;
    journal
        .delete_to(&id(), number(6))
        .await
        .expect("a deletion");
    check(Window::ALL, &[7]).await;
}

/// Across the partitions of a layout, also inside a longer batch.
pub(crate) async fn a_long_history_is_continuous(setup: Setup) {
    let journal = setup.journal().await;
    let mut last = 0u64;
    for count in [998, 1, 1, 1, 999, 2_500, 3] {
        let events: Vec<NewEvent> = (last + 1..=last + count)
            .map(|n| text(format!("a-{n}")))
            .collect();
        let expected = SequenceNumber::new(last).map_or(Expected::Empty, Expected::Last);
        let appended = journal.append(&id(), expected, events).await;
        last += count;
        assert_eq!(appended.expect("an append").last, number(last));
    }
    for deleted in [0, 999, 1_000, 1_500, 3_100, 4_500, last] {
        if let Some(to) = SequenceNumber::new(deleted) {
            journal.delete_to(&id(), to).await.expect("a deletion");
        }
        for from in [
            1,
            999,
            1_000,
            1_001,
            1_002,
            2_001,
            3_000,
            4_501,
            last,
            last + 1,
        ] {
            let want: Vec<u64> = (from.max(deleted + 1)..=last).collect();
            let journal = setup.journal().await;
            assert_eq!(replay(&journal, Window::from(number(from))).await, want);
        }
        let highest = setup.journal().await.highest(&id()).await;
        assert_eq!(highest.expect("highest"), Some(number(last)));
    }
    for n in [1_500, 3_000, last + 1, 9_999] {
        let outcome = setup
            .journal()
            .await
            .append(&id(), Expected::Last(number(n)), text("x"))
            .await;
        assert_conflict(outcome);
    }
}

/// In order and without gaps, until it is dropped.
pub(crate) async fn following_delivers_new_events(setup: Setup) {
    let journal = five(&setup).await;
    let mut followed = setup.journal().await.follow(&id(), number(4));
    let mut numbers = Vec::new();
    for n in 6..=9u64 {
        while numbers.last() != Some(&(n - 1)) {
            let event = followed
                .try_next()
                .await
                .expect("an event")
                .expect("it never ends");
            numbers.push(event.sequence_number.get());
        }
        journal
            .append(&id(), Expected::Any, text(format!("a-{n}")))
            .await
            .expect("an append");
    }
    assert_eq!(numbers, [4, 5, 6, 7, 8]);
}
