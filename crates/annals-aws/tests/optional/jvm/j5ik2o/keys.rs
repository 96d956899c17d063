//! Tables whose key resolvers changed: one history under two kinds of keys.

use annals_jvm::AnyLayout;
use annals_jvm::settings::{PartitionKeyKind, SortKeyKind};

use super::super::both::{after, events, id, number, we_append, with_each};
use super::super::program::Plugin;
use super::super::{sharing, texts};

type Keys = (PartitionKeyKind, SortKeyKind, u32);

fn keys() -> [(Keys, Keys); 5] {
    use PartitionKeyKind::{PersistenceIdBased, SequenceNumberBased};
    use SortKeyKind::{PersistenceIdWithSeqNr, SeqNr};
    let now = (PersistenceIdBased, PersistenceIdWithSeqNr, 64);
    let spread = (SequenceNumberBased, PersistenceIdWithSeqNr, 64);
    [
        // Up to 1.11, and today.
        (spread, now),
        (now, spread),
        ((SequenceNumberBased, SeqNr, 64), now),
        ((PersistenceIdBased, PersistenceIdWithSeqNr, 7), now),
        (spread, (SequenceNumberBased, PersistenceIdWithSeqNr, 7)),
    ]
}

fn keyed(settings: &AnyLayout, (partition, sort, shards): Keys) -> AnyLayout {
    let mut settings = settings.clone();
    let journal = &mut settings.j5ik2o.dynamo_db_journal;
    journal.partition_key_resolver_class_name = partition;
    journal.sort_key_resolver_class_name = sort;
    journal.shard_count = shards;
    settings
}

/// The tables, with the first kind of keys.
fn before(keys: Keys) -> Vec<(Plugin, AnyLayout)> {
    let (plugin, settings) = sharing::of_j5ik2o_as(|_| {});
    vec![(plugin, keyed(&settings, keys))]
}

pub(crate) async fn a_history_with_two_kinds_of_keys_is_complete() {
    for (then, now) in keys() {
        with_each(before(then), async |both| {
            let mixed = id("mixed-1");
            both.they_append(&mixed, &texts("then", 10), true);
            both.share_as(keyed(&both.settings, now));
            both.they_append(&mixed, &texts("now", 5), true);
            assert_eq!(both.agree(&mixed, &[]).await, 15);
            let journal = both.journal().await;
            we_append(&journal, &mixed, after(15), events(&texts("ours", 3))).await;
            assert_eq!(both.agree(&mixed, &[]).await, 18);
            // Tombstones replace the rows; the plugin would add a second row for each.
            for (to, left) in [(7, 11), (12, 6)] {
                journal.delete_to(&mixed, number(to)).await.unwrap();
                both.agree_on(&mixed, (left, 18)).await;
            }
            let mark = 1;
            assert_eq!(both.their_items("journal").len(), 18 + mark);
            both.they_append(&mixed, &texts("theirs", 2), true);
            assert_eq!(both.agree(&mixed, &[]).await, 20);
        })
        .await;
    }
}

/// The settings changed and changed back: rows of the time between have other keys.
pub(crate) async fn a_history_continues_after_the_keys_changed_back() {
    for (then, meanwhile) in keys() {
        with_each(before(then), async |both| {
            let back = id("back-1");
            both.they_append(&back, &texts("then", 5), true);
            let first = both.settings.clone();
            both.share_as(keyed(&first, meanwhile));
            both.they_append(&back, &texts("meanwhile", 5), true);
            both.share_as(first);
            assert_eq!(both.agree(&back, &[]).await, 10);
            let journal = both.journal().await;
            we_append(&journal, &back, after(10), events(&texts("ours", 2))).await;
            assert_eq!(both.agree(&back, &[]).await, 12);
        })
        .await;
    }
}

/// Nothing is stored under the current keys: everything is found through the index.
pub(crate) async fn a_history_with_old_keys_continues() {
    for (then, now) in keys() {
        with_each(before(then), async |both| {
            let (old, gone) = (id("old-1"), id("gone-1"));
            both.they_append(&old, &texts("then", 6), true);
            both.they_append(&gone, &texts("then", 4), true);
            both.they_delete(&gone, 4);
            both.share_as(keyed(&both.settings, now));
            assert_eq!(both.agree(&old, &[]).await, 6);
            assert_eq!(both.agree(&gone, &[]).await, 4);
            let journal = both.journal().await;
            journal.delete_to(&old, number(2)).await.unwrap();
            assert_eq!(both.agree(&old, &[]).await, 6);
            we_append(&journal, &old, after(6), events(&texts("ours", 2))).await;
            we_append(&journal, &gone, after(4), events(&texts("ours", 1))).await;
            assert_eq!(both.they_append(&old, &texts("now", 1), false), 9);
            assert_eq!(both.they_append(&gone, &texts("now", 2), true), 7);
            assert_eq!(both.agree(&old, &[]).await, 9);
            assert_eq!(both.agree(&gone, &[]).await, 7);
        })
        .await;
    }
}
