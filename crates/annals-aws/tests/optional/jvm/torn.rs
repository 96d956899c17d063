//! A writer of ours dies within a batch: both skip the rest of it, and the history continues.

use std::sync::Arc;

use annals::items::{Condition, Item, Items, Scan, Value, scan_all};
use annals::journal::Expected;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{PersistenceId, Random, SystemClock};
use annals_testkit::store;
use futures::TryStreamExt;

use super::both::{Both, after, events, id, number, we_append, we_append_each, with_each_plugin};
use super::texts;

/// Events before the batch, so that it crosses a boundary: 95 to 105.
const BEFORE: usize = 94;
const BATCH: usize = 11;

/// Writes a history that ends in some members of a batch, given by their indexes in the order of
/// their puts.
pub(super) async fn leave_torn(
    both: &Both,
    id: &PersistenceId,
    (before, batch, members): (usize, usize, &[usize]),
) {
    let journal = both.journal().await;
    we_append_each(&journal, id, &texts("ours", before)).await;
    // On another store the batch is complete: its items are those of the dead writer.
    let elsewhere = Arc::new(Memory::new());
    let table = both.settings.tables().unwrap().journal;
    let created = elsewhere.create_table(&table, Default::default()).await;
    created.unwrap();
    let clock = Arc::new(SystemClock::new());
    let random = Random::from_machine();
    let copy = both
        .settings
        .journal(&store(elsewhere.clone(), clock, random))
        .await;
    let copy = copy.unwrap();
    we_append_each(&copy, id, &texts("ours", before)).await;
    let torn = events(&texts("torn", batch));
    we_append(&copy, id, after(before as u64), torn).await;
    let all = scan_all(elsewhere, Arc::new(table.clone()), Scan::whole());
    let mut items: Vec<Item> = all.try_collect().await.unwrap();
    items.retain(|item| item.get("cnt").is_some());
    items.sort_by_key(|item| item.get("idx").and_then(Value::as_u64));
    assert_eq!(items.len(), batch);
    for place in members {
        let put = both
            .store
            .put(&table, items[*place].clone(), Condition::Absent);
        put.await.unwrap();
    }
}

/// The first members of the batch.
fn first(members: usize) -> (usize, usize, &'static [usize]) {
    const PLACES: [usize; BATCH] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    (BEFORE, BATCH, &PLACES[..members])
}

/// Only the first member, or all but the last, or up to the boundary.
const MEMBERS: [usize; 3] = [1, BATCH - 1, 5];

pub(crate) async fn the_jvm_continues_after_our_torn_batch() {
    with_each_plugin(async |both| {
        for members in MEMBERS {
            let id = id(&format!("they-go-on-{members}"));
            leave_torn(both, &id, first(members)).await;
            let (seen, highest) = both.they_see(&id);
            assert_eq!(seen.len(), BEFORE);
            // The high mark of the batch's partition was never put: the JVM does not read past it.
            assert_eq!(highest, 99.min((BEFORE + members) as u64));
            let (seen, highest) = both.we_see(&id).await;
            assert_eq!((seen.len(), highest), (BEFORE, (BEFORE + members) as u64));
            go_on(both, &id).await;
        }
    })
    .await;
}

/// The JVM uses the next sequence number it knows, which may belong to the dead batch.
async fn go_on(both: &mut Both, id: &PersistenceId) {
    both.they_append(id, &texts("theirs", 1), false);
    both.agree(id, &[]).await;
    let journal = both.journal().await;
    we_append(&journal, id, Expected::Any, events(&texts("ours", 3))).await;
    both.agree(id, &[]).await;
    both.they_append(id, &texts("theirs", 3), true);
    both.agree(id, &[]).await;
    assert_eq!(both.they_see(id).0.len(), BEFORE + 7);
}

pub(crate) async fn we_continue_after_our_torn_batch() {
    with_each_plugin(async |both| {
        for members in MEMBERS {
            let id = id(&format!("we-go-on-{members}"));
            leave_torn(both, &id, first(members)).await;
            let journal = both.journal().await;
            let ours = events(&texts("ours", 2));
            let appended = we_append(&journal, &id, after(BEFORE as u64), ours).await;
            // Its last sequence number is taken, so it can never become complete.
            assert_eq!(appended.first.get(), (BEFORE + BATCH) as u64);
            assert_eq!(both.agree(&id, &[]).await, 106);
            both.they_append(&id, &texts("theirs", 3), true);
            assert_eq!(both.agree(&id, &[]).await, 109);
            assert_eq!(both.they_see(&id).0.len(), BEFORE + 5);
            journal.delete_to(&id, number(106)).await.unwrap();
            assert_eq!(both.agree(&id, &[]).await, 109);
            assert_eq!(both.they_see(&id).0.len(), 3);
        }
    })
    .await;
}
