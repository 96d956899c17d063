//! Tables, columns and separators with other names, and the first form of the journal.

use annals_jvm::AnyLayout;
use annals_jvm::settings::{J5ik2oJournal, PartitionKeyKind};

use super::super::both::{Both, after, events, id, number, we_append, with_each};
use super::super::program::Plugin;
use super::super::{sharing, texts};

/// Every name, and all that a key or an attribute depends on.
fn renamed(journal: &mut J5ik2oJournal) {
    let columns = &mut journal.columns_def;
    for (name, new) in [
        (&mut columns.partition_key_column_name, "my_pkey"),
        (&mut columns.sort_key_column_name, "my_skey"),
        (&mut columns.persistence_id_column_name, "my_id"),
        (&mut columns.sequence_nr_column_name, "my_number"),
        (&mut columns.deleted_column_name, "my_deleted"),
        (&mut columns.message_column_name, "my_message"),
        (&mut columns.ordering_column_name, "my_ordering"),
        (&mut columns.tags_column_name, "my_tags"),
    ] {
        *name = new.to_owned();
    }
    journal.get_journal_rows_index_name = "my_rows".to_owned();
    journal.tag_separator = ";".to_owned();
    journal.persistence_id_separator = "#".to_owned();
    journal.shard_count = 1_024;
}

/// The sequence number is the sort key, and an id has a partition per shard.
fn numbered(journal: &mut J5ik2oJournal) {
    let columns = &mut journal.columns_def;
    columns.sort_key_column_name = columns.sequence_nr_column_name.clone();
    journal.partition_key_resolver_class_name = PartitionKeyKind::SequenceNumberBased;
}

/// An expression that splits ids in an unintended way, which then determines the keys.
fn odd(journal: &mut J5ik2oJournal) {
    journal.persistence_id_separator = "|".to_owned();
}

fn all() -> Vec<(Plugin, AnyLayout)> {
    vec![
        sharing::of_j5ik2o_as(renamed),
        sharing::of_j5ik2o_as(numbered),
        sharing::of_j5ik2o_as(odd),
    ]
}

pub(crate) async fn tables_and_columns_may_have_any_names() {
    with_each(all(), async |both: &mut Both| {
        for name in ["my#1", "Cart|日本#😀", "my-1"] {
            let (id, journal) = (id(name), both.journal().await);
            both.they_append(&id, &texts("theirs", 12), true);
            let mut ours = events(&texts("ours", 3));
            ours[0].tags = vec!["a,b".to_owned(), "c".to_owned()];
            if both.settings.j5ik2o.dynamo_db_journal.tag_separator == "," {
                ours[0].tags.remove(0);
            }
            let want = ours[0].tags.clone();
            we_append(&journal, &id, after(12), ours).await;
            assert_eq!(both.agree(&id, &[]).await, 15);
            assert_eq!(both.we_see(&id).await.0[12].data.tags, want);
            both.they_delete(&id, 2);
            journal.delete_to(&id, number(13)).await.unwrap();
            assert_eq!(both.they_append(&id, &texts("theirs", 1), false), 16);
            both.agree_on(&id, (3, 16)).await;
        }
    })
    .await;
}
