//! Faults: each happens as documented, and a seed decides them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::items::{Condition, Item, Items, Key, Query, Scan, TableSpec, Write};
use annals::memory::Memory;
use annals::store::Store;
use annals::{Error, ErrorKind, Random, Result};
use annals_testkit::faulty::{Faults, Faulty};
use futures::FutureExt;

use crate::{item, key, table};

async fn failing(seed: u64, faults: Faults) -> (Arc<Memory>, Arc<Faulty>, TableSpec) {
    let (memory, table) = table().await;
    let faulty = Faulty::new(memory.clone(), Random::seeded(seed), faults);
    (memory, Arc::new(faulty), table)
}

async fn stored(items: &dyn Items, table: &TableSpec, key: Key) -> Option<Item> {
    let got = items.get(table, vec![key]).await.unwrap();
    got.items.into_iter().next().unwrap()
}

#[track_caller]
fn check_unavailable<T, E: Into<Error>>(result: Result<T, E>, want: &str) {
    let error: Error = result.err().expect("it fails").into();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:?}").contains(want), "{error:?}");
}

/// Checks that every verb on items fails with this error, and whether the writes are stored.
async fn check_always(faults: Faults, want: &str, is_there: bool) {
    let (memory, faulty, table) = failing(1, faults).await;
    memory
        .put(&table, item(3), Condition::Always)
        .await
        .unwrap();
    check_unavailable(faulty.get(&table, vec![key(1)]).await, want);
    check_unavailable(faulty.query(&table, Query::of("a")).await, want);
    check_unavailable(faulty.scan(&table, Scan::whole()).await, want);
    check_unavailable(faulty.put(&table, item(1), Condition::Absent).await, want);
    let batch = vec![Write::Put(item(2))];
    let written = faulty.write(&table, batch.clone()).await;
    assert_eq!(written.as_ref().unwrap_err().remaining, batch);
    check_unavailable(written, want);
    check_unavailable(faulty.delete(&table, key(3), Condition::Always).await, want);
    for n in [1, 2] {
        assert_eq!(stored(&*memory, &table, key(n)).await.is_some(), is_there);
    }
    assert_eq!(stored(&*memory, &table, key(3)).await.is_none(), is_there);
    let found = faulty.describe_table(table.name()).await.unwrap();
    assert_eq!(found, Some(table), "tables are left alone");
}

#[tokio::test]
async fn an_injected_fault_gets_error_context_from_the_store_handle() {
    for faults in [
        Faults {
            error: 1_000,
            ..Faults::none()
        },
        Faults {
            lost_answer: 1_000,
            ..Faults::none()
        },
    ] {
        let (_, faulty, table) = failing(1, faults).await;
        let faulty = Store::from(faulty);
        let told = |error: Error| error.to_string();
        let get = faulty.get(&table, vec![key(1), key(2)]).await;
        let put = faulty.put(&table, item(1), Condition::Absent).await;
        let delete = faulty.delete(&table, key(3), Condition::Always).await;
        let query = faulty.query(&table, Query::of("a")).await;
        let batch = vec![Write::Put(item(2)), Write::Delete(key(3))];
        let write = faulty.write(&table, batch).await;
        for (told, facts) in [
            (
                told(get.unwrap_err()),
                "request=`get`, table=`numbered`, keys=`a, 1; a, 2`",
            ),
            (
                told(put.unwrap_err().into()),
                "request=`put`, table=`numbered`, key=`a, 1`",
            ),
            (
                told(delete.unwrap_err().into()),
                "request=`delete`, table=`numbered`, key=`a, 3`",
            ),
            (
                told(query.unwrap_err()),
                "request=`query`, table=`numbered`, partition=`a`",
            ),
            (
                told(write.unwrap_err().cause),
                "request=`write`, table=`numbered`, put=`a, 2`, delete=`a, 3`",
            ),
        ] {
            assert!(told.ends_with(facts), "{told}");
        }
    }
}

#[tokio::test]
async fn an_error_happens_before_the_call() {
    let error = Faults {
        error: 1_000,
        ..Faults::none()
    };
    check_always(error, "connection failed", false).await;
}

#[tokio::test]
async fn a_throttled_call_did_nothing() {
    let throttled = Faults {
        throttled: 1_000,
        ..Faults::none()
    };
    check_always(throttled, "throttled", false).await;
}

#[tokio::test]
async fn a_lost_response_keeps_the_write() {
    let lost = Faults {
        lost_answer: 1_000,
        ..Faults::none()
    };
    check_always(lost, "answer lost", true).await;
}

#[tokio::test]
async fn an_unprocessed_batch_lists_exactly_the_missing_writes() {
    let unprocessed = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let mut parts = 0;
    for seed in 0..20 {
        let (memory, faulty, table) = failing(seed, unprocessed).await;
        let batch: Vec<Write> = (0..10).map(|n| Write::Put(item(n))).collect();
        let error = faulty.write(&table, batch.clone()).await.unwrap_err();
        assert_eq!(error.cause.kind(), ErrorKind::Unavailable);
        assert!(!error.remaining.is_empty());
        for (n, write) in (0u64..).zip(&batch) {
            let is_there = stored(&*memory, &table, key(n)).await.is_some();
            assert_eq!(is_there, !error.remaining.contains(write), "{n}");
        }
        parts += usize::from(error.remaining.len() < batch.len());
    }
    assert!(parts > 10, "most batches are divided, {parts} were");
}

#[tokio::test]
async fn an_unprocessed_batch_ends_when_the_rest_is_resent() {
    let (memory, faulty, table) = failing(5, Faults::bad_day()).await;
    let mut remaining: Vec<Write> = (0..100).map(|n| Write::Put(item(n))).collect();
    for _ in 0..1_000 {
        match faulty.write(&table, remaining).await {
            Ok(_) => {
                let page = memory.scan(&table, Scan::whole()).await.unwrap();
                assert_eq!(page.items.len(), 100);
                return;
            }
            Err(error) => remaining = error.remaining,
        }
    }
    panic!("never done");
}

#[tokio::test]
async fn an_invalid_batch_is_always_rejected() {
    let unprocessed = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let (memory, faulty, table) = failing(1, unprocessed).await;
    let batch = vec![Write::Put(item(1)), Write::Put(item(1))];
    let error = faulty.write(&table, batch.clone()).await.unwrap_err();
    assert_eq!(error.cause.kind(), ErrorKind::Invalid);
    assert_eq!(error.remaining, batch);
    assert_eq!(stored(&*memory, &table, key(1)).await, None);
    assert!(faulty.write(&table, vec![]).await.is_ok(), "nothing to do");
}

#[tokio::test]
async fn a_delay_yields_to_other_tasks() {
    let delay = Faults {
        delay: 1_000,
        ..Faults::none()
    };
    let (_, faulty, table) = failing(1, delay).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let turns = turns.clone();
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    for n in 0..10 {
        let before = turns.load(Ordering::Relaxed);
        faulty
            .put(&table, item(n), Condition::Absent)
            .await
            .unwrap();
        assert!(turns.load(Ordering::Relaxed) > before, "put {n}");
    }
    other.abort();
}

#[tokio::test]
async fn without_faults_no_call_ever_waits() {
    let (_, faulty, table) = failing(1, Faults::none()).await;
    for n in 0..50 {
        let put = faulty.put(&table, item(n), Condition::Absent);
        put.now_or_never().expect("at once").unwrap();
    }
}

#[tokio::test]
async fn a_crash_fails_everything_until_revived_and_may_leave_its_write() {
    let crash = Faults {
        crash: 1_000,
        ..Faults::none()
    };
    let mut landed = 0;
    for seed in 0..20 {
        let (memory, faulty, table) = failing(seed, crash).await;
        check_unavailable(
            faulty.put(&table, item(1), Condition::Absent).await,
            "crashed",
        );
        assert!(faulty.is_crashed());
        landed += usize::from(stored(&*memory, &table, key(1)).await.is_some());
        check_unavailable(faulty.get(&table, vec![]).await, "crashed");
        check_unavailable(faulty.describe_table(table.name()).await, "crashed");
        check_unavailable(faulty.drop_table(table.name()).await, "crashed");
        let created = faulty.create_table(&table, Default::default()).await;
        check_unavailable(created, "crashed");
        faulty.revive();
        assert!(!faulty.is_crashed());
        assert!(faulty.describe_table(table.name()).await.unwrap().is_some());
    }
    assert!((5..=15).contains(&landed), "{landed} of 20 writes stored");
}

#[tokio::test]
async fn a_frozen_call_waits_before_or_after_its_write_until_the_thaw() {
    let mut landed = 0;
    for seed in 0..20 {
        let (memory, faulty, table) = failing(seed, Faults::none()).await;
        faulty.freeze();
        let call = tokio::spawn({
            let (faulty, table) = (faulty.clone(), table.clone());
            async move { faulty.put(&table, item(1), Condition::Absent).await }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished(), "frozen");
        landed += usize::from(stored(&*memory, &table, key(1)).await.is_some());
        faulty.thaw();
        call.await.unwrap().unwrap();
        assert_eq!(stored(&*faulty, &table, key(1)).await, Some(item(1)));
    }
    assert!((5..=15).contains(&landed), "{landed} of 20 writes stored");
}

#[tokio::test]
async fn a_call_frozen_during_a_crash_never_succeeds() {
    for seed in 0..20 {
        let (memory, faulty, table) = failing(seed, Faults::none()).await;
        faulty.freeze();
        let call = tokio::spawn({
            let (faulty, table) = (faulty.clone(), table.clone());
            async move { faulty.put(&table, item(1), Condition::Absent).await }
        });
        tokio::task::yield_now().await;
        let had_landed = stored(&*memory, &table, key(1)).await.is_some();
        faulty.crash();
        faulty.revive();
        faulty.thaw();
        check_unavailable(call.await.unwrap(), "crashed");
        let has_landed = stored(&*memory, &table, key(1)).await.is_some();
        assert_eq!(has_landed, had_landed, "nothing is written after the crash");
    }
}

/// Four tasks on one thread, with all faults; returns the outcome of each call, in order.
async fn history(seed: u64) -> (Vec<String>, Vec<Item>) {
    let faults = Faults {
        crash: 5,
        ..Faults::bad_day()
    };
    let (memory, faulty, table) = failing(seed, faults).await;
    let ends = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tasks = (0..4u64).map(|task| {
        let (faulty, table, ends) = (faulty.clone(), table.clone(), ends.clone());
        tokio::spawn(async move {
            for n in 0..20 {
                let new = item(n).with("by", task);
                let put = faulty.put(&table, new, Condition::Absent).await;
                ends.lock().unwrap().push(format!("{task} {n} {put:?}"));
                let batch = (0..5).map(|i| Write::Put(item(100 * task + n + i)));
                let written = faulty.write(&table, batch.collect()).await;
                ends.lock().unwrap().push(format!("{task} {n} {written:?}"));
                if faulty.is_crashed() {
                    faulty.revive();
                }
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap();
    }
    let page = memory.scan(&table, Scan::whole()).await.unwrap();
    let ends = std::mem::take(&mut *ends.lock().unwrap());
    (ends, page.items)
}

#[tokio::test]
async fn the_same_seed_gives_the_same_outcomes() {
    for seed in 0..10 {
        assert_eq!(history(seed).await, history(seed).await, "seed {seed}");
    }
    assert_ne!(history(1).await, history(2).await, "another seed differs");
}
