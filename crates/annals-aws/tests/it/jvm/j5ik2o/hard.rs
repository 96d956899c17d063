//! Deletions that leave nothing (`soft-delete` = false): of ours keys stay that the plugin does not
//! see, the last row of all, marked, and a mark.

use annals::PersistenceId;

use super::super::both::{Both, after, events, id, number, we_append, with_each};
use super::super::{sharing, texts};

/// Runs a test with each pair of resolvers, where nobody keeps what is deleted.
async fn with_each_keys(test: impl AsyncFn(&mut Both)) {
    let mut all = sharing::of_j5ik2o();
    for (_, settings) in &mut all {
        settings.j5ik2o.dynamo_db_journal.soft_delete = false;
    }
    with_each(all, test).await;
}

async fn delete(both: &Both, id: &PersistenceId, to: u64) {
    let journal = both.journal().await;
    journal.delete_to(id, number(to)).await.unwrap();
}

/// How many of the table's items the plugin's index shows.
fn shown(both: &mut Both) -> usize {
    let items = both.their_items("journal");
    let is_shown = items
        .iter()
        .filter(|item| !item["persistence-id"].is_null());
    is_shown.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_we_remove_the_jvm_does_not_see() {
    with_each_keys(async |both| {
        let (id, journal) = (id("hard-1"), both.journal().await);
        both.they_append(&id, &texts("theirs", 5), true);
        we_append(&journal, &id, (after(5), events(&texts("ours", 4)))).await;
        for (to, left) in [(1, 8), (7, 2)] {
            delete(both, &id, to).await;
            both.agree_on(&id, (left, 9)).await;
            assert_eq!(shown(both), left);
        }
        both.they_append(&id, &texts("theirs", 1), false);
        assert_eq!(both.agree(&id, &[]).await, 10);
        delete(both, &id, 10).await;
        // The last row stays, marked: the plugin goes on behind it, where after a hard deletion of
        // its own it would begin at 1 again.
        assert_eq!(both.they_see(&id), (Vec::new(), 10));
        assert_eq!(both.we_see(&id).await, (Vec::new(), 10));
        we_append(&journal, &id, (after(10), events(&texts("ours", 2)))).await;
        assert_eq!(both.agree(&id, &[]).await, 12);
        assert_eq!(both.they_append(&id, &texts("theirs", 3), true), 15);
        both.agree_on(&id, (5, 15)).await;
    })
    .await;
}

/// What the plugin removes is gone without a trace: where an id's events begin is all that we know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_jvm_removes_is_not_missed() {
    with_each_keys(async |both| {
        let (id, journal) = (id("hard-1"), both.journal().await);
        we_append(&journal, &id, (after(0), events(&texts("ours", 5)))).await;
        both.they_append(&id, &texts("theirs", 4), true);
        // Inside of our batch, and of theirs.
        for (to, left) in [(3, 6), (7, 2)] {
            both.they_delete(&id, to);
            both.agree_on(&id, (left, 9)).await;
        }
        let journal = both.journal().await;
        we_append(&journal, &id, (after(9), events(&texts("ours", 2)))).await;
        assert_eq!(both.agree(&id, &[]).await, 11);
        delete(both, &id, 8).await;
        assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 12);
        both.agree_on(&id, (4, 12)).await;
    })
    .await;
}
