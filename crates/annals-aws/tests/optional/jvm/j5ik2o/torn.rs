//! A writer of ours dies within a batch. The plugin knows no batches and replays its events, which we
//! never do, until the batch is closed by our next append or by a repair.

use annals::PersistenceId;
use annals::journal::Expected;
use annals::verify::{Problem, Verify};

use super::super::both::{Both, after, events, id, number, we_append};
use super::super::texts;
use super::super::torn::leave_torn;
use super::with_each_keys;

/// 4 to 14.
const BEFORE: usize = 3;
const BATCH: usize = 11;
/// The first, and some that were put at the same time; all but the last.
const MEMBERS: [&[usize]; 2] = [&[0, 3, 7], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]];

/// Leaves a batch torn: the plugin sees its members, and we do not.
async fn tear(both: &mut Both, name: &str, members: &[usize]) -> PersistenceId {
    let id = id(&format!("{name}-{}", members.len()));
    leave_torn(both, &id, (BEFORE, BATCH, members)).await;
    let (seen, highest) = both.they_see(&id);
    assert_eq!(seen.len(), BEFORE + members.len());
    assert_eq!(highest, (BEFORE + 1 + members[members.len() - 1]) as u64);
    let (seen, highest) = both.we_see(&id).await;
    assert_eq!((seen.len(), highest), (BEFORE, BEFORE as u64));
    id
}

pub(crate) async fn the_jvm_skips_a_torn_batch_that_our_next_append_closes() {
    with_each_keys(async |both| {
        for members in MEMBERS {
            let id = tear(both, "closed", members).await;
            let journal = both.journal().await;
            let ours = events(&texts("ours", 2));
            let appended = we_append(&journal, &id, after(BEFORE as u64), ours).await;
            // All its sequence numbers are taken, so it can never become complete.
            assert_eq!(appended.first.get(), 15);
            assert_eq!(both.agree(&id, &[]).await, 16);
            both.they_append(&id, &texts("theirs", 3), true);
            both.agree_on(&id, (BEFORE + 5, 19)).await;
            journal.delete_to(&id, number(16)).await.unwrap();
            both.agree_on(&id, (3, 19)).await;
        }
    })
    .await;
}

/// The JVM uses the next sequence number it knows, within the batch or after it. Until a repair only its
/// recovery has the torn events; they were never acknowledged.
pub(crate) async fn the_jvm_continues_after_a_torn_batch_until_it_is_repaired() {
    with_each_keys(async |both| {
        for members in MEMBERS {
            let id = tear(both, "repaired", members).await;
            both.they_append(&id, &texts("theirs", 1), false);
            let journal = both.journal().await;
            let ours = events(&texts("ours", 2));
            we_append(&journal, &id, Expected::Any, ours).await;
            assert_eq!(both.they_see(&id).0.len(), BEFORE + members.len() + 3);
            assert_eq!(both.we_see(&id).await.0.len(), BEFORE + 3);
            let found = journal.verify(&id, Verify::Repair).await.unwrap();
            let found: Vec<Problem> = found.iter().map(|finding| finding.problem).collect();
            assert_eq!(found, [Problem::IncompleteBatch]);
            both.agree(&id, &[]).await;
            assert_eq!(both.they_see(&id).0.len(), BEFORE + 3);
            both.they_append(&id, &texts("theirs", 2), true);
            let ours = events(&texts("ours", 1));
            we_append(&both.journal().await, &id, Expected::Any, ours).await;
            both.agree(&id, &[]).await;
            assert_eq!(both.they_see(&id).0.len(), BEFORE + 6);
        }
    })
    .await;
}
