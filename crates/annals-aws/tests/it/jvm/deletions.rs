//! We delete, the JVM goes on, and the reverse. Our deletions leave emptied items below the low
//! mark, which the plugin does not replay, but looks at for the highest number: where it deletes the
//! same ids as well, we are told so, and remove them as it does.

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_deletes_and_both_go_on() {
    use Side::{They, We};
    with_each_plugin(async |both| {
        for (at, sides) in [[We, They, We], [They, We, They], [We, We, We]]
            .into_iter()
            .enumerate()
        {
            let name = format!("deleted-{at}");
            let id = id(&name);
            let journal = both.journal().await;
            we_append(&journal, &id, (after(0), events(&texts("ours", 90)))).await;
            both.they_append(&id, &texts("theirs", 70), false);
            // Whole histories, the middle of a hundred, a hundred and more, and everything.
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
            we_append(&journal, &id, (after(205), events(&texts("ours", 2)))).await;
            assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 208);
            assert_eq!(both.agree(&id, &[]).await, 208);
            assert_eq!(both.they_see(&id).0.len(), 3);
        }
    })
    .await;
}

/// The plugin drops what is left of a batch; we deliver it, since it was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deletion_leaves_of_a_batch_only_we_deliver() {
    with_each_plugin(async |both| {
        for side in [Side::We, Side::They] {
            for is_ours in [true, false] {
                let name = format!("cut-{side:?}-{is_ours}");
                let (id, journal) = (id(&name), both.journal().await);
                both.they_append(&id, &texts("theirs", 96), false);
                let batch = texts("batch", 8);
                let last = match is_ours {
                    true => {
                        let append = (after(96), events(&batch));
                        we_append(&journal, &id, append).await.last.get()
                    }
                    false => both.they_append(&id, &batch, true),
                };
                assert_eq!(last, 104);
                both.agree(&id, &[]).await;
                delete(both, side, (&name, 101)).await;
                assert_eq!(both.agree(&id, &[102, 103, 104]).await, 104);
                we_append(&journal, &id, (after(104), events(&texts("ours", 2)))).await;
                assert_eq!(both.they_append(&id, &texts("theirs", 2), true), 108);
                both.agree(&id, &[102, 103, 104]).await;
            }
        }
    })
    .await;
}

/// Nothing is left of an id that was purged: for the JVM, too, its numbers begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purged_id_begins_anew_for_both() {
    with_each_plugin(async |both| {
        let (id, journal) = (id("purged"), both.journal().await);
        both.they_append(&id, &texts("theirs", 150), false);
        journal.delete_to(&id, number(20)).await.unwrap();
        we_append(&journal, &id, (after(150), events(&texts("ours", 60)))).await;
        journal.purge(&id).await.unwrap();
        assert_eq!(both.agree(&id, &[]).await, 0);
        assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 1);
        assert_eq!(both.agree(&id, &[]).await, 1);
        we_append(&journal, &id, (after(1), events(&texts("ours", 2)))).await;
        assert_eq!(both.agree(&id, &[]).await, 3);
    })
    .await;
}

/// The plugin looks for the highest number in the last hundred, also below the low mark: what we
/// emptied there it would take for the end, and use numbers again that nobody replays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jvm_deletes_the_rest_behind_what_we_deleted() {
    with_each_plugin(async |both| {
        both.expect_deletions();
        for before in [5, 105] {
            let id = id(&format!("the-rest-{before}"));
            let journal = both.journal().await;
            let ours = events(&texts("ours", before));
            let last = we_append(&journal, &id, (after(0), ours)).await.last;
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

/// What the JVM deletes it removes, and with that frees the numbers: a journal of ours that was open
/// all the while, and remembers the id as it was, would not be refused. It looks once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_journal_notices_what_the_jvm_deleted_meanwhile() {
    with_each_plugin(async |both| {
        both.expect_deletions();
        let (id, journal) = (id("stale"), both.journal().await);
        we_append(&journal, &id, (after(0), events(&texts("ours", 5)))).await;
        let last = both.they_append(&id, &texts("theirs", 3), false);
        both.they_delete(&id, last);
        let append = (Expected::Any, events(&texts("ours", 1)));
        let appended = we_append(&journal, &id, append).await;
        assert_eq!(appended.first.get(), last + 1);
        both.agree(&id, &[]).await;
        assert_eq!(both.they_see(&id).0.len(), 1);
    })
    .await;
}
