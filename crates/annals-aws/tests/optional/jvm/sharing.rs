//! Our settings for shared tables, and the same as settings of the plugin.

use annals::layout::Layout;
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::{J5ik2oJournal, PartitionKeyKind, SortKeyKind};
use serde_json::{Map, Value as Json, json};

use super::program::Plugin;
use crate::server;

/// Journals of the `akka` layout, by name and shards: the default, and one with so few shards that the
/// third partition overwrites the mark of the first.
const JOURNALS: [(Plugin, &str, u32); 2] = [
    (Plugin::Pekko, "journal", 10),
    (Plugin::Akka, "Other-journal", 2),
];

/// The package of the j5ik2o plugin.
const CLASSES: &str = "com.github.j5ik2o.akka.persistence.dynamodb";

/// The plugins of the `akka` layout.
pub(super) fn of_akka() -> Vec<(Plugin, AnyLayout)> {
    let of_journal = |(plugin, name, shards): (Plugin, &str, u32)| {
        let settings = AnyLayout {
            layout: LayoutName::Akka,
            journal_table: Some(server::unique("jvm-journal")),
            snapshot_table: Some(server::unique("jvm-snapshot")),
            journal_name: name.to_owned(),
            sequence_shards: shards,
            ..AnyLayout::default()
        };
        (plugin, settings)
    };
    JOURNALS.map(of_journal).into()
}

/// The plugin of j5ik2o with each pair of resolvers: the first keys are in order, the last are
/// spread over partitions, and the others are a bit of both.
pub(super) fn of_j5ik2o() -> Vec<(Plugin, AnyLayout)> {
    let partitions = [
        PartitionKeyKind::PersistenceIdBased,
        PartitionKeyKind::SequenceNumberBased,
    ];
    let sorts = [SortKeyKind::PersistenceIdWithSeqNr, SortKeyKind::SeqNr];
    let pairs = partitions.map(|partition| sorts.map(|sort| (partition, sort)));
    let with_keys = |(partition, sort)| {
        of_j5ik2o_as(|journal| {
            journal.partition_key_resolver_class_name = partition;
            journal.sort_key_resolver_class_name = sort;
        })
    };
    pairs.concat().into_iter().map(with_keys).collect()
}

/// The plugin of j5ik2o with a journal of this kind.
pub(super) fn of_j5ik2o_as(choose: impl FnOnce(&mut J5ik2oJournal)) -> (Plugin, AnyLayout) {
    let mut settings = AnyLayout {
        layout: LayoutName::J5ik2o,
        ..AnyLayout::default()
    };
    let sections = &mut settings.j5ik2o;
    sections.dynamo_db_journal.table_name = Some(server::unique("jvm-journal"));
    sections.dynamo_db_snapshot.table_name = Some(server::unique("jvm-snapshot"));
    sections.dynamo_db_state.table_name = Some(server::unique("jvm-state"));
    choose(&mut sections.dynamo_db_journal);
    (Plugin::J5ik2o, settings)
}

/// Whether the sort key is the sequence number itself, as in the first journals of j5ik2o.
pub(super) fn is_numbered(ours: &AnyLayout) -> bool {
    let columns = &ours.j5ik2o.dynamo_db_journal.columns_def;
    columns.sort_key_column_name == columns.sequence_nr_column_name
}

/// The settings of the plugin for the same tables, by their full path. The timeouts are for busy
/// machines; no test waits for them.
pub(super) fn theirs(ours: &AnyLayout) -> Json {
    if ours.layout == LayoutName::J5ik2o {
        return theirs_of_j5ik2o(ours);
    }
    let tables = ours.tables().unwrap();
    json!({
        "dynamodb-journal.journal-table": tables.journal.name().as_str(),
        "dynamodb-journal.journal-name": ours.journal_name,
        "dynamodb-journal.sequence-shards": ours.sequence_shards.to_string(),
        "dynamodb-snapshot-store.snapshot-table": tables.snapshot.name().as_str(),
        "dynamodb-journal.circuit-breaker.call-timeout": "100s",
        "dynamodb-journal.recovery-event-timeout": "100s",
        "dynamodb-snapshot-store.circuit-breaker.call-timeout": "100s",
    })
}

/// Our sections have the plugin's own keys.
fn theirs_of_j5ik2o(ours: &AnyLayout) -> Json {
    let mut sections = serde_json::to_value(&ours.j5ik2o).unwrap();
    for kind in ["journal", "snapshot"] {
        for key in ["Partition", "Sort"] {
            let name = format!("{}-key-resolver-class-name", key.to_lowercase());
            let class = &mut sections[format!("dynamo-db-{kind}")][name];
            let short = class.as_str().unwrap();
            *class = json!(format!("{CLASSES}.{kind}.{key}KeyResolver${short}"));
        }
    }
    // The program is built without the module for states; it only creates the table.
    let state = sections["dynamo-db-state"]["table-name"].take();
    sections["dynamo-db-state"] = json!({"table-name": state});
    let mut paths = json!({});
    for fallback in ["journal-plugin-fallback", "snapshot-store-plugin-fallback"] {
        let limit = format!("akka.persistence.{fallback}.circuit-breaker.call-timeout");
        paths[limit] = "100s".into();
    }
    paths["akka.persistence.journal-plugin-fallback.recovery-event-timeout"] = "100s".into();
    flatten("j5ik2o", &sections, paths.as_object_mut().unwrap());
    paths
}

fn flatten(path: &str, value: &Json, into: &mut Map<String, Json>) {
    match value {
        Json::Object(all) => {
            for (name, value) in all {
                flatten(&format!("{path}.{name}"), value, into);
            }
        }
        plain => {
            into.insert(path.to_owned(), plain.clone());
        }
    }
}
