//! The journal's properties of bulk appends.

use futures::StreamExt;
use futures::stream;

use super::{id, number, replay, text};
use crate::tck::Setup;
use annals::journal::{Append, AppendError, Appended, BulkAppend, Expected, Journal, Window};
use annals::{Error, ErrorKind, PersistenceId, SequenceNumber};

/// More than are open at once.
const MANY: u64 = 300;

async fn append_many(
    journal: &Journal,
    appends: Vec<BulkAppend>,
) -> Vec<Result<Appended, AppendError>> {
    let count = appends.len();
    let results: Vec<_> = journal.append_many(stream::iter(appends)).collect().await;
    assert_eq!(results.len(), count, "a result for each append");
    results
}

/// On the layout `j5ik2o`, ids with the same text before `-` may be refused: they may share keys.
fn other(n: u64) -> PersistenceId {
    format!("other{n}-1").parse().expect("an id")
}

/// Each append says in its number of events which one it is.
pub(crate) async fn results_of_a_bulk_are_in_its_order(setup: Setup) {
    let journal = setup.journal().await;
    let appends = (0..MANY).map(|n| {
        let events: Vec<_> = (0..=n % 3).map(|_| text("x")).collect();
        BulkAppend::new(other(n % 50), Expected::Any, events)
    });
    let results = append_many(&journal, appends.collect()).await;
    let mut last = [0; 50];
    for (n, result) in (0..MANY).zip(results) {
        let appended = result.expect("an append");
        let last = &mut last[n as usize % 50];
        let want = (number(*last + 1), number(*last + n % 3 + 1));
        assert_eq!((appended.first, appended.last), want, "append {n}");
        *last += n % 3 + 1;
    }
    for n in 0..50 {
        let highest = setup.journal().await.highest(&other(n)).await;
        let want = SequenceNumber::new(last[n as usize]);
        assert_eq!(highest.expect("highest"), want);
    }
}

/// Each relies on the one before it, which is not durable yet when it is given.
pub(crate) async fn appends_of_a_bulk_to_one_id_run_in_order(setup: Setup) {
    let journal = setup.journal().await;
    let appends = (1..=MANY).map(|n| {
        let expected = SequenceNumber::new(n - 1).map_or(Expected::Empty, Expected::Last);
        BulkAppend::new(id(), expected, text(format!("a-{n}")))
    });
    for result in append_many(&journal, appends.collect()).await {
        result.expect("an append");
    }
    let numbers: Vec<u64> = (1..=MANY).collect();
    assert_eq!(replay(&setup.journal().await, Window::ALL).await, numbers);
}

/// And a refused one is the outcome of its own place.
pub(crate) async fn a_failed_append_of_a_bulk_stops_no_other(setup: Setup) {
    let journal = setup.journal().await;
    let a = |n: u64| text(format!("a-{n}"));
    let results = append_many(
        &journal,
        vec![
            BulkAppend::new(id(), Expected::Empty, a(1)),
            BulkAppend::new(id(), Expected::Empty, text("x")),
            BulkAppend::new(id(), Expected::Last(number(1)), a(2)),
            BulkAppend::new(other(1), Expected::Last(number(7)), text("x")),
            BulkAppend::new(id(), Expected::Any, vec![]),
            BulkAppend::new(other(1), Expected::Empty, text("x")),
            BulkAppend::new(id(), Expected::Any, a(3)),
        ],
    )
    .await;
    let results = results.into_iter().map(|result| match result {
        Ok(appended) => Ok(appended.last.get()),
        Err(error) => Err(Error::from(error).kind()),
    });
    let (conflict, invalid) = (Err(ErrorKind::Conflict), Err(ErrorKind::Invalid));
    let want = [Ok(1), conflict, Ok(2), conflict, invalid, Ok(1), Ok(3)];
    assert_eq!(results.collect::<Vec<_>>(), want);
    assert_eq!(replay(&setup.journal().await, Window::ALL).await, [1, 2, 3]);
}

/// In one bulk, and in a bulk that is repeated.
pub(crate) async fn a_key_that_is_repeated_in_a_bulk_is_stored_once(setup: Setup) {
    let keyed = |n: u64| {
        let key = format!("key-{n}").parse().expect("a key");
        let append = Append::from(text(format!("a-{n}"))).idempotency_key(key);
        BulkAppend::new(id(), Expected::Any, append)
    };
    let appends = vec![keyed(1), keyed(2), keyed(1), keyed(2), keyed(3)];
    for _ in 0..2 {
        let journal = setup.journal().await;
        let results = append_many(&journal, appends.clone()).await;
        let numbers = results.into_iter().map(|it| it.expect("it").last.get());
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
        assert_eq!(replay(&journal, Window::ALL).await, [1, 2, 3]);
    }
}
