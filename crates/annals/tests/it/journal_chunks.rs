//! Appends too large for an item, interrupted at the worst moments; and the end of sequence numbers.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Item, Items};
use annals::journal::{Append, AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::verify::Verify;
use annals::{Codec, Error, ErrorKind, Event, NewEvent, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_testkit::hooked::Hooked;
use annals_testkit::journals::{after, append, id, number, open_at, replay, text, window};
use futures::TryStreamExt;

use crate::chunk_stage::{HOUR, Stage, noise, set};

/// Sweeps; returns the number of orphaned chunks. A check before it finds as many.
async fn swept(journal: &Journal) -> usize {
    let seen = journal.orphans(HOUR, Verify::Check).await.unwrap();
    let swept = journal.orphans(HOUR, Verify::Repair).await.unwrap();
    assert_eq!(seen.len(), swept.len());
    swept.len()
}

async fn stage() -> (Arc<Hooked<Stage>>, Journal) {
    let stage = Stage::new().await;
    let journal = open_at(stage.clone(), stage.clock.clone(), 1).await;
    (stage, journal)
}

/// An append of two chunks.
fn large(seed: u64) -> Append {
    let random = Random::seeded(seed);
    let noise = noise(&random, 70_000);
    let token = annals::Token::draw(&random);
    Append::of(vec![NewEvent::new(Codec::Bytes, noise), text("end")]).token(token)
}

async fn check_whole(journal: &Journal, append: &Append) {
    let found = replay(journal, Window::ALL).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|event| event.data).collect();
    assert_eq!(found, append.events);
}

/// Leaves the chunks of an append whose commit is not stored.
async fn interrupt(stage: &Stage, journal: &Journal, append: &Append) {
    set(&stage.loses_items, true);
    let outcome = journal.append(&id(), Expected::Empty, append.clone()).await;
    let error: Error = outcome.unwrap_err().into();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    set(&stage.loses_items, false);
}

#[tokio::test]
async fn old_chunks_of_an_incomplete_append_are_swept() {
    let (stage, journal) = stage().await;
    interrupt(&stage, &journal, &large(1)).await;
    assert_eq!(stage.chunks().await, 2);
    stage.clock.advance(HOUR);
    assert_eq!(swept(&journal).await, 0);
    stage.clock.advance(HOUR);
    assert_eq!(swept(&journal).await, 2);
    assert_eq!(stage.chunks().await, 0);
    append(&journal, 0, vec![text("a")]).await;
    assert_eq!(swept(&journal).await, 0);
}

#[tokio::test]
async fn an_append_in_flight_keeps_its_chunks() {
    let (stage, journal) = stage().await;
    let append = large(1);
    interrupt(&stage, &journal, &append).await;
    stage.clock.advance(2 * HOUR);
    // Rewritten chunks are young again.
    interrupt(&stage, &journal, &append).await;
    assert_eq!(swept(&journal).await, 0);
    let landed = journal.append(&id(), Expected::Empty, append.clone()).await;
    assert_eq!(landed.unwrap().last.get(), 2);
    stage.clock.advance(100 * HOUR);
    assert_eq!(swept(&journal).await, 0);
    check_whole(&journal, &append).await;
}

#[tokio::test]
async fn chunks_whose_commit_key_is_taken_are_swept_at_once() {
    let (stage, journal) = stage().await;
    interrupt(&stage, &journal, &large(1)).await;
    append(&journal, 0, vec![text("a")]).await;
    assert_eq!(swept(&journal).await, 2);
    assert_eq!(stage.chunks().await, 0);
}

/// Even after later appends of the same journal.
#[tokio::test]
async fn an_append_of_expected_any_whose_response_was_lost_is_not_repeated() {
    let (stage, journal) = stage().await;
    append(&journal, 0, vec![text("a")]).await;
    let once = Append::from(text("once")).token(journal.token());
    set(&stage.loses_answers, true);
    let lost = journal.append(&id(), Expected::Any, once.clone()).await;
    assert!(matches!(lost, Err(AppendError::Store(_))));
    set(&stage.loses_answers, false);
    for n in 3..6 {
        let other = journal.append(&id(), Expected::Any, text("b")).await;
        assert_eq!(other.unwrap().first.get(), n);
    }
    let again = journal.append(&id(), Expected::Any, once).await;
    assert_eq!(again.unwrap().first.get(), 2);
    assert_eq!(replay(&journal, Window::ALL).await.unwrap().len(), 5);
}

/// An interrupted append is remembered for its id: on another id it would leave a gap.
#[tokio::test]
async fn a_token_used_on_one_id_appends_after_the_last_event_of_another() {
    let (stage, journal) = stage().await;
    append(&journal, 0, vec![text("a"); 5]).await;
    let once = Append::from(text("once")).token(journal.token());
    set(&stage.loses_items, true);
    let lost = journal.append(&id(), Expected::Any, once.clone()).await;
    assert!(matches!(lost, Err(AppendError::Store(_))));
    set(&stage.loses_items, false);
    let other = "Cart|other".parse().unwrap();
    let landed = journal.append(&other, Expected::Any, once).await;
    assert_eq!(landed.unwrap().first.get(), 1);
    let found: Vec<Event> = journal
        .replay(&other, Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn a_sweep_of_young_chunks_is_refused() {
    let (_, journal) = stage().await;
    let soon = journal
        .orphans(HOUR - Duration::from_millis(1), Verify::Repair)
        .await;
    assert_eq!(soon.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn an_append_whose_chunks_took_too_long_is_not_put() {
    let (stage, journal) = stage().await;
    set(&stage.is_slow, true);
    let outcome = journal.append(&id(), Expected::Empty, large(1)).await;
    let error: Error = outcome.unwrap_err().into();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(journal.highest(&id()).await.unwrap(), None);
    set(&stage.is_slow, false);
    let again = journal.append(&id(), Expected::Empty, large(1)).await;
    assert!(again.is_ok());
}

#[tokio::test]
async fn an_append_that_stalled_during_a_sweep_is_complete() {
    for is_lost in [false, true] {
        let (stage, journal) = stage().await;
        let append = large(1);
        let (memory, clock) = (stage.memory.clone(), stage.clock.clone());
        stage.before_put.set(async move {
            clock.advance(3 * HOUR);
            let sweeper = open_at(memory, clock, 2).await;
            assert_eq!(swept(&sweeper).await, 2);
        });
        set(&stage.loses_answers, is_lost);
        let landed = journal.append(&id(), Expected::Empty, append.clone()).await;
        if is_lost {
            set(&stage.loses_answers, false);
            landed.unwrap_err();
            let again = journal.append(&id(), Expected::Empty, append.clone()).await;
            again.unwrap();
        }
        check_whole(&journal, &append).await;
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&journal).await, 0);
        check_whole(&journal, &append).await;
    }
}

#[tokio::test]
async fn a_refused_append_removes_its_chunks_and_is_a_conflict() {
    let (stage, journal) = stage().await;
    append(&journal, 0, vec![text("a")]).await;
    for (is_lost, left) in [(false, 0), (true, 2)] {
        set(&stage.loses_deletes, is_lost);
        let outcome = journal.append(&id(), Expected::Empty, large(1)).await;
        assert!(matches!(outcome, Err(AppendError::Conflict(_))));
        assert_eq!(stage.chunks().await, left);
    }
    set(&stage.loses_deletes, false);
    assert_eq!(swept(&journal).await, 2);
}

#[tokio::test]
async fn a_token_reused_for_other_events_damages_nothing() {
    let (stage, journal) = stage().await;
    let landed = large(1);
    let token = landed.token.unwrap();
    journal
        .append(&id(), Expected::Empty, landed.clone())
        .await
        .unwrap();
    for expected in [Expected::Empty, after(2)] {
        let other = large(2).token(token);
        let outcome = journal.append(&id(), expected, other).await;
        if expected == Expected::Empty {
            assert_eq!(
                outcome.unwrap().last.get(),
                2,
                "it is taken for a repetition"
            );
        }
    }
    assert_eq!(stage.chunks().await, 4);
    let first = replay(&journal, window(1..=2, u64::MAX)).await.unwrap();
    let first: Vec<_> = first.into_iter().map(|event| event.data).collect();
    assert_eq!(first, landed.events);
}

#[tokio::test]
async fn a_deletion_interrupted_before_the_chunks_leaves_orphans_and_no_damage() {
    let (stage, journal) = stage().await;
    journal
        .append(&id(), Expected::Empty, large(1))
        .await
        .unwrap();
    journal.append(&id(), after(2), large(2)).await.unwrap();
    append(&journal, 4, vec![text("left")]).await;
    set(&stage.loses_deletes, true);
    for to in [1, 3, 4, 4] {
        // The first commit is deleted before the second, and the chunks of both stay.
        let _ = journal.delete_to(&id(), number(to)).await;
        replay(&journal, Window::ALL).await.unwrap();
    }
    set(&stage.loses_deletes, false);
    journal.delete_to(&id(), number(4)).await.unwrap();
    let left = replay(&journal, Window::ALL).await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(stage.chunks().await > 0);
    swept(&journal).await;
    assert_eq!(stage.chunks().await, 0);
    assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(5)));
}

/// The tombstone of one commit with all numbers up to `last`: see `docs/format.md`.
fn endless(last: u64) -> Item {
    let partition = format!("0:{}", id());
    let mut blob = vec![1, 3, 0x83, 0x1b];
    blob.extend(last.to_be_bytes());
    blob.extend([0x00, 0x48, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(partition.as_bytes());
    checksum.update(&1u64.to_be_bytes());
    checksum.update(&blob);
    blob.extend(checksum.finalize().to_be_bytes());
    Item::new()
        .with("p", partition)
        .with("n", 1u64)
        .with("c", blob)
}

#[tokio::test]
async fn sequence_numbers_run_out_and_are_not_reused() {
    let (stage, journal) = stage().await;
    let last = SequenceNumber::LAST.get();
    let table = AnyLayout::default().tables().unwrap().journal;
    let mark = endless(last - 10);
    stage.put(&table, mark, Condition::Absent).await.unwrap();
    assert_eq!(
        journal.highest(&id()).await.unwrap(),
        Some(number(last - 10))
    );
    let invalid = |outcome: Result<_, AppendError>| {
        let error: Error = outcome
            .map(|_: annals::journal::Appended| ())
            .unwrap_err()
            .into();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    };
    let eleven = vec![text("x"); 11];
    invalid(journal.append(&id(), Expected::Any, eleven.clone()).await);
    invalid(journal.append(&id(), after(last - 10), eleven).await);
    append(&journal, last - 10, vec![text("x"); 9]).await;
    append(&journal, last - 1, vec![text("x")]).await;
    for journal in [
        journal.clone(),
        open_at(stage.clone(), stage.clock.clone(), 2).await,
    ] {
        invalid(journal.append(&id(), Expected::Any, text("x")).await);
        invalid(journal.append(&id(), after(last), text("x")).await);
        assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(last)));
        for (from, to, count) in [
            (1, last, 10),
            (last - 4, last, 5),
            (last, last, 1),
            (1, last - 9, 1),
        ] {
            let found = replay(&journal, window(from..=to, u64::MAX)).await.unwrap();
            assert_eq!(found.len(), count, "{from} to {to}");
        }
    }
    journal.delete_to(&id(), number(last - 3)).await.unwrap();
    assert_eq!(replay(&journal, Window::ALL).await.unwrap().len(), 3);
    journal.delete_to(&id(), number(last)).await.unwrap();
    assert_eq!(replay(&journal, Window::ALL).await.unwrap().len(), 0);
    assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(last)));
}
