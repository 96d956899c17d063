//! We delete and the JVM continues, and the reverse. Our deletions leave empty items below the low mark,
//! which the plugin does not replay but reads for the highest sequence number. If it deletes events of
//! the same ids, `jvm-deletes` is set and we remove items as it does.

use annals::journal::Expected;

use super::both::{Both, after, events, id, number, we_append, with_each_plugin};
use super::texts;

/// Who deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    We,
    They,
}

pub(super) async fn delete(both: &mut Both, side: Side, (name, to): (&str, u64)) {
    match side {
        Side::We => {
            let journal = both.journal().await;
            journal.delete_to(&id(name), number(to)).await.unwrap();
        }
        Side::They => both.they_delete(&id(name), to),
    }
}

pub(crate) async fn both_continue_after_a_deletion_by_either() {
    use Side::{They, We};
    with_each_plugin(async |both| {
        for (at, sides) in [[We, They, We], [They, We, They], [We, We, We]]
            .into_iter()
            .enumerate()
        {
            let name = format!("deleted-{at}");
            let id = id(&name);
            let journal = both.journal().await;
            we_append(&journal, &id, after(0), events(&texts("ours", 90))).await;
            both.they_append(&id, &texts("theirs", 70), false);
            // Parts of a partition, whole partitions, and everything.
            for (side, to, left) in [(sides[0], 90, 70), (sides[1], 99, 61), (sides[2], 130, 30)] {
                delete(both, side, (&name, to)).await;
                let (events, _) = both.they_see(&id);
                assert_eq!(events.len(), left, "{side:?} {to}");
                assert_eq!(both.agree(&id, &[]).await, 160);
            }
            assert_eq!(both.they_append(&id, &texts("theirs", 45), true), 205);
            both.agree(&id, &[]).await;
            delete(both, sides[0], (&name, u64::MAX >> 1)).await;
            assert_eq!(both.they_see(&id).0.len(), 0);
            assert_eq!(both.agree(&id, &[]).await, 205);
            let journal = both.journal().await;
            we_append(&journal, &id, after(205), events(&texts("ours", 2))).await;
            assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 208);
            assert_eq!(both.agree(&id, &[]).await, 208);
            assert_eq!(both.they_see(&id).0.len(), 3);
        }
    })
    .await;
}

/// The plugin drops the rest of a batch; we deliver it, because it was acknowledged.
pub(crate) async fn only_we_deliver_the_rest_of_a_batch_after_a_deletion() {
    with_each_plugin(async |both| {
        for side in [Side::We, Side::They] {
            for is_ours in [true, false] {
                let name = format!("cut-{side:?}-{is_ours}");
                let (id, journal) = (id(&name), both.journal().await);
                both.they_append(&id, &texts("theirs", 96), false);
                let batch = texts("batch", 8);
                let last = match is_ours {
                    true => {
                        let ours = events(&batch);
                        we_append(&journal, &id, after(96), ours).await.last.get()
                    }
                    false => both.they_append(&id, &batch, true),
                };
                assert_eq!(last, 104);
                both.agree(&id, &[]).await;
                delete(both, side, (&name, 101)).await;
                assert_eq!(both.agree(&id, &[102, 103, 104]).await, 104);
                we_append(&journal, &id, after(104), events(&texts("ours", 2))).await;
                assert_eq!(both.they_append(&id, &texts("theirs", 2), true), 108);
                both.agree(&id, &[102, 103, 104]).await;
            }
        }
    })
    .await;
}

/// Nothing is left of a purged id: its numbering restarts at 1, for the JVM too.
pub(crate) async fn numbering_restarts_for_both_after_a_purge() {
    with_each_plugin(async |both| {
        let (id, journal) = (id("purged"), both.journal().await);
        both.they_append(&id, &texts("theirs", 150), false);
        journal.delete_to(&id, number(20)).await.unwrap();
        we_append(&journal, &id, after(150), events(&texts("ours", 60))).await;
        journal.purge(&id).await.unwrap();
        assert_eq!(both.agree(&id, &[]).await, 0);
        assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 1);
        assert_eq!(both.agree(&id, &[]).await, 1);
        we_append(&journal, &id, after(1), events(&texts("ours", 2))).await;
        assert_eq!(both.agree(&id, &[]).await, 3);
    })
    .await;
}

/// The plugin searches the last partition for the highest sequence number, even below the low mark. Our
/// empty items there would end its search, and it would reuse sequence numbers.
pub(crate) async fn the_jvm_deletes_the_events_after_our_deletion() {
    with_each_plugin(async |both| {
        both.expect_deletions();
        for before in [5, 105] {
            let id = id(&format!("the-rest-{before}"));
            let journal = both.journal().await;
            let ours = events(&texts("ours", before));
            let last = we_append(&journal, &id, after(0), ours).await.last;
            journal.delete_to(&id, last).await.unwrap();
            let last = both.they_append(&id, &texts("theirs", 3), false);
            both.they_delete(&id, last);
            assert_eq!(both.agree(&id, &[]).await, last);
            assert_eq!(both.they_append(&id, &texts("theirs", 1), false), last + 1);
            both.agree(&id, &[]).await;
            assert_eq!(both.they_see(&id).0.len(), 1);
        }
    })
    .await;
}

/// The JVM removes items, which frees their keys: an open journal of ours with an old cache would not
/// be refused, so it reads again.
pub(crate) async fn an_open_journal_notices_a_deletion_by_the_jvm() {
    with_each_plugin(async |both| {
        both.expect_deletions();
        let (id, journal) = (id("stale"), both.journal().await);
        we_append(&journal, &id, after(0), events(&texts("ours", 5))).await;
        let last = both.they_append(&id, &texts("theirs", 3), false);
        both.they_delete(&id, last);
        let ours = events(&texts("ours", 1));
        let appended = we_append(&journal, &id, Expected::Any, ours).await;
        assert_eq!(appended.first.get(), last + 1);
        both.agree(&id, &[]).await;
        assert_eq!(both.they_see(&id).0.len(), 1);
    })
    .await;
}
