//! Hard deletions (`soft-delete` = false): ours leave keys that the plugin does not see, the last row as
//! a tombstone, and a mark.

use annals::PersistenceId;

use super::super::both::{Both, after, events, id, number, we_append, with_each};
use super::super::{sharing, texts};

/// Runs a test with each pair of resolvers and hard deletions.
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

pub(crate) async fn the_jvm_does_not_see_the_events_we_remove() {
    with_each_keys(async |both| {
        let (id, journal) = (id("hard-1"), both.journal().await);
        both.they_append(&id, &texts("theirs", 5), true);
        we_append(&journal, &id, after(5), events(&texts("ours", 4))).await;
        for (to, left) in [(1, 8), (7, 2)] {
            delete(both, &id, to).await;
            both.agree_on(&id, (left, 9)).await;
            assert_eq!(shown(both), left);
        }
        both.they_append(&id, &texts("theirs", 1), false);
        assert_eq!(both.agree(&id, &[]).await, 10);
        delete(both, &id, 10).await;
        // The last row stays as a tombstone: the plugin continues after it, where after a hard
        // deletion of its own it would restart at 1.
        assert_eq!(both.they_see(&id), (Vec::new(), 10));
        assert_eq!(both.we_see(&id).await, (Vec::new(), 10));
        we_append(&journal, &id, after(10), events(&texts("ours", 2))).await;
        assert_eq!(both.agree(&id, &[]).await, 12);
        assert_eq!(both.they_append(&id, &texts("theirs", 3), true), 15);
        both.agree_on(&id, (5, 15)).await;
    })
    .await;
}

/// A removal by the plugin leaves no trace except the first remaining event.
pub(crate) async fn we_accept_the_removals_of_the_jvm() {
    with_each_keys(async |both| {
        let (id, journal) = (id("hard-1"), both.journal().await);
        we_append(&journal, &id, after(0), events(&texts("ours", 5))).await;
        both.they_append(&id, &texts("theirs", 4), true);
        // Inside of our batch, and of theirs.
        for (to, left) in [(3, 6), (7, 2)] {
            both.they_delete(&id, to);
            both.agree_on(&id, (left, 9)).await;
        }
        let journal = both.journal().await;
        we_append(&journal, &id, after(9), events(&texts("ours", 2))).await;
        assert_eq!(both.agree(&id, &[]).await, 11);
        delete(both, &id, 8).await;
        assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 12);
        both.agree_on(&id, (4, 12)).await;
    })
    .await;
}
