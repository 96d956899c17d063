//! Snapshots with each pair of resolvers: either loads and deletes those of the other.

use annals::snapshot::Criteria;
use annals_jvm::AnyLayout;
use annals_jvm::settings::{PartitionKeyKind, SnapshotOrder, SortKeyKind};
use serde_json::{Value as Json, json};

use super::super::both::{Both, events, id, number, with_each};
use super::super::program::Plugin;
use super::super::{lines, sharing, values};
use crate::jvm_lines;

/// The tables with each pair of resolvers for snapshots.
fn each() -> Vec<(Plugin, AnyLayout)> {
    let partitions = [
        PartitionKeyKind::PersistenceIdBased,
        PartitionKeyKind::SequenceNumberBased,
    ];
    let sorts = [SortKeyKind::PersistenceIdWithSeqNr, SortKeyKind::SeqNr];
    let pairs = partitions.map(|partition| sorts.map(|sort| (partition, sort)));
    let with_keys = |(partition, sort)| {
        let (plugin, mut settings) = sharing::of_j5ik2o_as(|_| {});
        let section = &mut settings.j5ik2o.dynamo_db_snapshot;
        section.partition_key_resolver_class_name = partition;
        section.sort_key_resolver_class_name = sort;
        (plugin, settings)
    };
    pairs.concat().into_iter().map(with_keys).collect()
}

fn load(both: &mut Both, text: &str, at: u64) -> Json {
    let request = json!({"do": "load-snapshot", "maxSequenceNr": at});
    both.ask(&id(text), request)["snapshot"].clone()
}

pub(crate) async fn both_load_snapshots_of_either() {
    with_each(each(), async |both| {
        let snapshots = both.snapshots(SnapshotOrder::SequenceNumber);
        let (theirs, ours) = (id("theirs-1"), id("ours-1"));
        let every = lines(&values());
        for ((line, event), at) in every.iter().zip(events(&every)).zip(1u64..) {
            let save = json!({"do": "save-snapshot", "snapshot": line, "at": at});
            let saved = both.ask(&theirs, save);
            let found = snapshots.load(&theirs, Criteria::ALL).await;
            let found = found.unwrap().unwrap();
            assert_eq!(found.sequence_number.get(), at);
            assert_eq!(found.time_ms, saved["timestamp"].as_u64().unwrap());
            let loaded = load(both, "theirs-1", at);
            jvm_lines::check(&loaded, &found.payload);

            let saved = snapshots.save(&ours, number(at), event.into()).await;
            saved.unwrap();
            let loaded = load(both, "ours-1", at);
            assert_eq!(loaded["sequenceNr"], at);
            assert_eq!(loaded["type"], line["type"]);
            assert_eq!(loaded["value"], line["value"]);
        }
        // Each deletes what the other saved.
        let up_to = Criteria::ALL.up_to(number(3));
        snapshots.delete(&theirs, up_to).await.unwrap();
        assert_eq!(load(both, "theirs-1", 3), Json::Null);
        both.ask(&ours, json!({"do": "delete-snapshots", "maxSequenceNr": 3}));
        assert_eq!(snapshots.load(&ours, up_to).await.unwrap(), None);
        assert!(
            snapshots
                .load(&ours, Criteria::ALL)
                .await
                .unwrap()
                .is_some()
        );
        assert_eq!(load(both, "theirs-1", 4)["sequenceNr"], 4);
    })
    .await;
}
