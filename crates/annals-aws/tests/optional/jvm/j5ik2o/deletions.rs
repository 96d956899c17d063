//! Either deletes, the other sees it, and both continue. Deleted rows stay as tombstones.

use super::super::both::{after, events, id, number, we_append};
use super::super::deletions::{Side, delete};
use super::super::texts;
use super::with_each_keys;

pub(crate) async fn both_continue_after_a_deletion_by_either() {
    use Side::{They, We};
    with_each_keys(async |both| {
        for (at, sides) in [[We, They, We], [They, We, They]].into_iter().enumerate() {
            let name = format!("deleted-{at}");
            let (id, journal) = (id(&name), both.journal().await);
            we_append(&journal, &id, after(0), events(&texts("ours", 8))).await;
            both.they_append(&id, &texts("theirs", 30), true);
            // Within our batch, after it, and within theirs: both deliver the rest.
            for (side, to, left) in [(sides[0], 5, 33), (sides[1], 9, 29), (sides[2], 20, 18)] {
                delete(both, side, (&name, to)).await;
                both.agree_on(&id, (left, 38)).await;
            }
            // Deleted events stay deleted.
            delete(both, sides[1], (&name, 20)).await;
            delete(both, sides[0], (&name, u64::MAX >> 1)).await;
            both.agree_on(&id, (0, 38)).await;
            let journal = both.journal().await;
            we_append(&journal, &id, after(38), events(&texts("ours", 2))).await;
            assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 41);
            both.agree_on(&id, (3, 41)).await;
        }
    })
    .await;
}

/// Nothing is left of a purged id: its numbering restarts at 1, for the JVM too.
pub(crate) async fn numbering_restarts_for_both_after_a_purge() {
    with_each_keys(async |both| {
        let (id, journal) = (id("purged-1"), both.journal().await);
        both.they_append(&id, &texts("theirs", 30), true);
        journal.delete_to(&id, number(20)).await.unwrap();
        we_append(&journal, &id, after(30), events(&texts("ours", 10))).await;
        both.they_delete(&id, 33);
        journal.purge(&id).await.unwrap();
        assert_eq!(both.their_items("journal").len(), 0);
        assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 1);
        we_append(&journal, &id, after(1), events(&texts("ours", 2))).await;
        assert_eq!(both.agree(&id, &[]).await, 3);
    })
    .await;
}
