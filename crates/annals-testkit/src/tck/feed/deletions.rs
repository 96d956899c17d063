//! What is fed of deletions and purges.

use super::{
    all_events, append, entries_of, events_of, id_of, number, open, read, stored, text, texts,
};
use crate::tck::Setup;
use annals::feed::{Entry, What};
use annals::{Annals, Event, PersistenceId, SequenceNumber};
use futures::TryStreamExt;

/// Checks what is fed of an id whose events up to `to` are deleted, of `last`: each event that is left,
/// the others at most once, and after them that they are deleted.
fn check_deleted(entries: &[Entry], (to, last): (u64, u64)) {
    let numbers: Vec<u64> = numbers(entries);
    assert!(numbers.is_sorted_by(|one, next| one < next), "{entries:?}");
    let left = numbers.iter().copied().filter(|n| *n > to);
    assert_eq!(
        left.collect::<Vec<_>>(),
        (to + 1..=last).collect::<Vec<_>>()
    );
    let is_of_deleted = |entry: &Entry| match &entry.what {
        What::Appended(_) => events_of(entry)[0].sequence_number.get() <= to,
        What::Missing(number) => number.get() <= to,
        _ => false,
    };
    let is_notice = |entry: &Entry| entry.what == What::Deleted(number(to));
    let event = entries.iter().rposition(is_of_deleted);
    let notice = entries.iter().rposition(is_notice);
    assert!(notice.is_some() && notice > event, "{entries:?}");
    let most = entries.iter().filter_map(|entry| match entry.what {
        What::Deleted(to) => Some(to.get()),
        _ => None,
    });
    assert_eq!(most.max(), Some(to), "{entries:?}");
}

fn numbers(entries: &[Entry]) -> Vec<u64> {
    let events = all_events(entries);
    let numbers = events.iter().map(|event| event.sequence_number.get());
    numbers.collect()
}

/// Two single events, three together, and one of another id.
async fn six(annals: &Annals) -> PersistenceId {
    let id = id_of("Cart", 1);
    append(annals.journal(), &id, text("a-1")).await;
    append(annals.journal(), &id, text("a-2")).await;
    append(annals.journal(), &id_of("Cart", 2), text("x")).await;
    append(annals.journal(), &id, texts("b", 3)).await;
    id
}

async fn delete(annals: &Annals, id: &PersistenceId, to: SequenceNumber) {
    let deleted = annals.journal().delete_to(id, to).await;
    deleted.expect("a deletion");
}

/// Inside of a batch. Readers that have read the events get only notices.
pub(crate) async fn a_deletion_is_fed_after_the_events(setup: Setup) {
    let annals = open(&setup).await;
    let id = six(&annals).await;
    let (_, before) = read(annals.feed()).await;
    delete(&annals, &id, number(4)).await;

    let (notices, _) = read(annals.feed().after(before.clone())).await;
    assert!(notices.iter().all(|entry| entry.id == id), "{notices:?}");
    assert_eq!(numbers(&notices), [0; 0]);
    let is_final = |entry: &Entry| entry.what == What::Deleted(number(4));
    assert!(notices.iter().any(is_final), "{notices:?}");
    let (all, _) = read(annals.feed()).await;
    check_deleted(&entries_of(&all, &id), (4, 5));
    assert_eq!(entries_of(&all, &id_of("Cart", 2)).len(), 1);

    // It changes nothing to delete less, and what comes later is fed.
    delete(&annals, &id, number(3)).await;
    append(annals.journal(), &id, texts("c", 2)).await;
    let (all, _) = read(annals.feed()).await;
    check_deleted(&entries_of(&all, &id), (4, 7));
    let (later, _) = read(annals.feed().after(before)).await;
    assert_eq!(numbers(&later), [6, 7]);
    delete(&annals, &id, number(6)).await;
    let (all, _) = read(annals.feed()).await;
    check_deleted(&entries_of(&all, &id), (6, 7));
}

/// Each append that can no longer be read is reported as missing, at its place.
pub(crate) async fn a_deletion_of_everything_is_fed(setup: Setup) {
    let annals = open(&setup).await;
    let id = six(&annals).await;
    delete(&annals, &id, SequenceNumber::LAST).await;
    let (all, _) = read(annals.feed()).await;
    let found = entries_of(&all, &id);
    check_deleted(&found, (5, 5));
    let appends = found.iter().filter(|entry| match entry.what {
        What::Appended(_) | What::Missing(_) => true,
        What::Deleted(_) => false,
        _ => panic!("{found:?}"),
    });
    assert_eq!(appends.count(), 3, "{found:?}");
    append(annals.journal(), &id, text("c")).await;
    let (all, _) = read(annals.feed()).await;
    check_deleted(&entries_of(&all, &id), (5, 6));
}

/// It goes on after the event that it read last, whatever is left of the append.
pub(crate) async fn a_reader_resumes_inside_an_append_that_is_deleted_in_part(setup: Setup) {
    let annals = open(&setup).await;
    let id = id_of("Cart", 1);
    append(annals.journal(), &id, text("a")).await;
    append(annals.journal(), &id, texts("b", 5)).await;
    let batches: Vec<_> = annals.feed().batches().try_collect().await.expect("it");
    let positions = batches.iter().flat_map(|batch| {
        let events = batch.events();
        let events = events.map(|(event, at)| (event.sequence_number.get(), at));
        events.collect::<Vec<_>>()
    });
    let positions: Vec<_> = positions.collect();
    assert_eq!(positions.len(), 6);
    for to in 2..=5 {
        delete(&annals, &id, number(to)).await;
        for (read_to, position) in &positions {
            let (rest, _) = read(annals.feed().after(position.clone())).await;
            let rest = numbers(&rest);
            // A store may still have the values that were deleted, or not.
            let left: Vec<u64> = (read_to.max(&to) + 1..=6).collect();
            let all: Vec<u64> = (read_to + 1..=6).collect();
            let is_right = rest == left || rest == all;
            assert!(is_right, "deleted to {to}, read to {read_to}: {rest:?}");
        }
    }
}

/// The entries before a purge and after it. It has exactly one.
fn at_purge(entries: &[Entry]) -> (&[Entry], &[Entry]) {
    let is_purge = |entry: &&Entry| entry.what == What::Purged;
    assert_eq!(entries.iter().filter(is_purge).count(), 1, "{entries:?}");
    let at = entries.iter().position(|entry| is_purge(&entry));
    let (before, after) = entries.split_at(at.expect("it was counted"));
    (before, &after[1..])
}

async fn purge(annals: &Annals, id: &PersistenceId) {
    let purged = annals.journal().purge(id).await;
    assert!(purged.expect("a purge"), "there was something");
}

/// Purges an id, appends to it again, and checks what is fed to a reader that has read what was there,
/// and to one that starts.
async fn check_purge(annals: &Annals, id: &PersistenceId) {
    let (_, before) = read(annals.feed()).await;
    purge(annals, id).await;
    let mut want: Vec<Event> = Vec::new();
    for events in [texts("new", 1), texts("newer", 3)] {
        let appended = append(annals.journal(), id, events).await;
        want.extend(stored(annals.journal(), id, appended).await);
    }
    assert_eq!(want[0].sequence_number, SequenceNumber::FIRST);

    let (later, _) = read(annals.feed().after(before)).await;
    let later = entries_of(&later, id);
    let (old, new) = at_purge(&later);
    assert_eq!(numbers(old), [0; 0]);
    assert_eq!(all_events(new), want);
    let (all, _) = read(annals.feed()).await;
    let all = entries_of(&all, id);
    let (old, new) = at_purge(&all);
    let is_new = |event: &Event| want.contains(event);
    assert!(!all_events(old).iter().any(is_new), "{old:?}");
    assert_eq!(all_events(new), want);
    let is_append = |entry: &Entry| matches!(entry.what, What::Appended(_));
    assert!(new.iter().all(is_append), "{new:?}");
}

/// After everything that was there, and before everything that follows.
pub(crate) async fn a_purge_is_fed_once_and_numbering_restarts(setup: Setup) {
    let annals = open(&setup).await;
    let id = six(&annals).await;
    check_purge(&annals, &id).await;
}

/// Of some events, of all, and of an id that is long enough for markers.
pub(crate) async fn a_purge_after_a_deletion_is_fed_once(setup: Setup) {
    let annals = open(&setup).await;
    let id = six(&annals).await;
    delete(&annals, &id, number(4)).await;
    check_purge(&annals, &id).await;
    let all = id_of("Order", 1);
    append(annals.journal(), &all, texts("a", 3)).await;
    delete(&annals, &all, SequenceNumber::LAST).await;
    check_purge(&annals, &all).await;
    let long = id_of("Order", 2);
    append(annals.journal(), &long, texts("a", 120)).await;
    append(annals.journal(), &long, texts("b", 120)).await;
    delete(&annals, &long, number(110)).await;
    delete(&annals, &long, number(210)).await;
    check_purge(&annals, &long).await;
}

/// It has the numbers of the old one, but not its place.
pub(crate) async fn a_batch_that_replaces_a_purged_one_is_fed_once(setup: Setup) {
    let annals = open(&setup).await;
    let id = id_of("Cart", 1);
    append(annals.journal(), &id, texts("old", 3)).await;
    purge(&annals, &id).await;
    let appended = append(annals.journal(), &id, texts("new", 3)).await;
    let want = stored(annals.journal(), &id, appended).await;
    let (all, _) = read(annals.feed()).await;
    let (old, new) = at_purge(&all);
    assert_eq!(all_events(new), want);
    assert!(!all_events(old).contains(&want[0]), "{old:?}");
}

/// What is left of the new one looks like what is left of the old one.
pub(crate) async fn a_batch_that_replaces_a_purged_one_is_fed_once_after_a_deletion(setup: Setup) {
    let annals = open(&setup).await;
    let id = id_of("Cart", 1);
    append(annals.journal(), &id, texts("old", 3)).await;
    purge(&annals, &id).await;
    append(annals.journal(), &id, texts("new", 3)).await;
    let deleted = annals.journal().delete_to(&id, number(1)).await;
    deleted.expect("a deletion");
    let (all, _) = read(annals.feed()).await;
    let (old, new) = at_purge(&all);
    let texts = |events: Vec<Event>| -> Vec<Vec<u8>> {
        let payloads = events.into_iter().map(|event| event.data.payload.to_vec());
        payloads
            .filter(|payload| payload.starts_with(b"new"))
            .collect()
    };
    assert!(texts(all_events(old)).is_empty(), "{old:?}");
    assert!(texts(all_events(new)).ends_with(&[b"new-2".to_vec(), b"new-3".to_vec()]));
}

/// Of an id that has never had events, and of one that was purged already.
pub(crate) async fn a_purge_of_nothing_is_not_fed(setup: Setup) {
    let annals = open(&setup).await;
    let id = six(&annals).await;
    purge(&annals, &id).await;
    let (want, _) = read(annals.feed()).await;
    for id in [id, id_of("Order", 1)] {
        let purged = annals.journal().purge(&id).await;
        assert!(!purged.expect("a purge"), "there was nothing");
    }
    assert_eq!(read(annals.feed()).await.0, want);
}
