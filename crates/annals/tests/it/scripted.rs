//! Scripted faults: each affects only the call that it is for.

use std::sync::Arc;

use annals::items::{Condition, Item, Items, Query, Scan, TableSpec, Write};
use annals::memory::Memory;
use annals::store::Verb;
use annals::{Error, ErrorKind, Random};
use annals_testkit::faulty::{Faults, Faulty};
use futures::FutureExt;

use crate::{item, key, table};

async fn scripted() -> (Arc<Memory>, Arc<Faulty>, TableSpec) {
    let (memory, table) = table().await;
    (memory.clone(), Arc::new(Faulty::scripted(memory)), table)
}

async fn n_items(items: &dyn Items, table: &TableSpec) -> usize {
    items.scan(table, Scan::whole()).await.unwrap().items.len()
}

/// The kind of the error that a call of the verb ends in.
async fn kind(items: &dyn Items, table: &TableSpec, verb: Verb) -> Option<ErrorKind> {
    let error: Option<Error> = match verb {
        Verb::Get => items.get(table, vec![key(1)]).await.err(),
        Verb::Query => items.query(table, Query::of("a")).await.err(),
        Verb::Scan => items.scan(table, Scan::whole()).await.err(),
        Verb::Changes => {
            let changes = items.changes().expect("memory keeps its changes");
            let read = changes.read_changes(table, 0, Default::default()).await;
            read.err()
        }
        Verb::Put => {
            let put = items.put(table, item(1), Condition::Always).await;
            put.err().map(Error::from)
        }
        Verb::Delete => {
            let deleted = items.delete(table, key(1), Condition::Always).await;
            deleted.err().map(Error::from)
        }
        Verb::Write => {
            let written = items.write(table, vec![Write::Put(item(1))]).await;
            written.err().map(Error::from)
        }
        _ => items.describe_table(table.name()).await.err(),
    };
    error.map(|error| error.kind())
}

#[tokio::test]
async fn the_next_calls_of_a_verb_fail_as_scripted() {
    let (_, faulty, table) = scripted().await;
    for verb in Verb::ALL {
        faulty.spare_next(verb, 1);
        faulty.fail_next(verb, 2, ErrorKind::Conflict);
        faulty.fail_next(verb, 1, ErrorKind::Corrupt);
        faulty.lose_next(verb, 1);
    }
    for verb in Verb::ALL {
        for want in [
            None,
            Some(ErrorKind::Conflict),
            Some(ErrorKind::Conflict),
            Some(ErrorKind::Corrupt),
            Some(ErrorKind::Unavailable),
            None,
        ] {
            assert_eq!(kind(&*faulty, &table, verb).await, want, "{verb:?}");
        }
    }
}

#[tokio::test]
async fn failed_writes_are_not_stored_and_writes_with_a_lost_response_are() {
    let (memory, faulty, table) = scripted().await;
    let put = |n| faulty.put(&table, item(n), Condition::Absent);
    faulty.fail_next(Verb::Put, 1, ErrorKind::Unavailable);
    put(1).await.unwrap_err();
    assert_eq!(n_items(&*memory, &table).await, 0);
    faulty.lose_next(Verb::Put, 1);
    put(1).await.unwrap_err();
    assert_eq!(n_items(&*memory, &table).await, 1);
    put(2).await.unwrap();
}

#[tokio::test]
async fn scripted_faults_override_random_ones() {
    let (memory, table) = table().await;
    let always = Faults {
        error: 1_000,
        ..Faults::none()
    };
    let faulty = Faulty::new(memory, Random::seeded(1), always);
    faulty.spare_next(Verb::Put, 1);
    assert_eq!(kind(&faulty, &table, Verb::Put).await, None);
    let drawn = Some(ErrorKind::Unavailable);
    assert_eq!(kind(&faulty, &table, Verb::Put).await, drawn);
}

fn spawn_put(
    faulty: &Arc<Faulty>,
    table: &TableSpec,
    item: Item,
) -> tokio::task::JoinHandle<Option<ErrorKind>> {
    let (faulty, table) = (faulty.clone(), table.clone());
    tokio::spawn(async move {
        let put = faulty.put(&table, item, Condition::Absent).await;
        put.err().map(|error| Error::from(error).kind())
    })
}

#[tokio::test]
async fn held_calls_wait_before_or_after_the_store() {
    let (memory, faulty, table) = scripted().await;
    faulty.hold(Verb::Put);
    let puts = [1, 2].map(|n| spawn_put(&faulty, &table, item(n)));
    faulty.until_held(2).await;
    assert_eq!(n_items(&*memory, &table).await, 0);
    assert_eq!(kind(&*faulty, &table, Verb::Get).await, None, "only puts");
    // Waiting calls continue, though the next ones are held.
    faulty.release(Verb::Put);
    faulty.hold_answers(Verb::Put);
    let third = spawn_put(&faulty, &table, item(3));
    faulty.until_held(3).await;
    assert_eq!(n_items(&*memory, &table).await, 3);
    faulty.release(Verb::Put);
    for put in puts.into_iter().chain([third]) {
        assert_eq!(put.await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_held_call_fails_in_a_crash_and_a_dropped_one_is_not_held() {
    let (memory, faulty, table) = scripted().await;
    faulty.hold(Verb::Put);
    let put = spawn_put(&faulty, &table, item(1));
    faulty.until_held(1).await;
    faulty.crash();
    faulty.revive();
    faulty.release(Verb::Put);
    assert_eq!(put.await.unwrap(), Some(ErrorKind::Unavailable));
    assert_eq!(n_items(&*memory, &table).await, 0);
    faulty.hold(Verb::Put);
    let put = spawn_put(&faulty, &table, item(1));
    faulty.until_held(1).await;
    put.abort();
    assert!(put.await.unwrap_err().is_cancelled());
    assert!(faulty.until_held(1).now_or_never().is_none());
}
