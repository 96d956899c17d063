//! Golden snapshots that j5ik2o's plugin saved, and hand-made golden values of durable state, as its
//! two modules store them (`interop/j5ik2o/README.md`).

use std::sync::Arc;

use annals::items::Items;
use annals::layout::Layout;
use annals::snapshot::{Criteria, Snapshots};
use annals::{Codec, ManualClock, Payload, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::StoredRevision;
use annals_testkit::store;
use serde_json::Value as Json;

use crate::j5ik2o_chapters::{chapters, holding, id_of, lines, states};
use crate::jvm_lines;
use annals_testkit::journals::number;

fn snapshots(items: Arc<dyn Items>, settings: &AnyLayout) -> Snapshots {
    let clock = Arc::new(ManualClock::at_ms(1_800_000_000_000));
    settings
        .snapshots(&store(items, clock, Random::seeded(1)))
        .unwrap()
}

/// The upper bounds; the plugin ignores the lower ones.
fn criteria(line: &Json) -> Criteria {
    let bound = |name: &str| line[name].as_u64();
    Criteria::ALL
        .up_to(bound("maxSequenceNr").map_or(SequenceNumber::LAST, number))
        .until_ms(bound("maxTimestamp").unwrap_or(u64::MAX))
}

#[tokio::test]
async fn every_golden_snapshot_is_loaded_as_the_plugin_loads_it() {
    let mut loaded = 0;
    for chapter in chapters() {
        let settings = &chapter.settings;
        let table = settings.tables().unwrap().snapshot;
        let memory = holding(&table, chapter.items("snapshot")).await;
        let snapshots = snapshots(memory, settings);
        for line in chapter.lines("snapshot") {
            let (id, bounds) = (id_of(line), &line["criteria"]);
            let found = snapshots.load(&id, criteria(bounds)).await.unwrap();
            let (want, found) = (&line["found"], found.unwrap());
            assert_eq!(found.sequence_number.get(), want["sequenceNr"], "{line}");
            assert_eq!(found.time_ms, want["timestamp"], "{line}");
            jvm_lines::check(want, &found.payload);
            // Lower bounds apply here.
            if let Some(min) = bounds["minSequenceNr"].as_u64() {
                let both = criteria(bounds).at_least(number(min));
                let found = snapshots.load(&id, both).await.unwrap();
                assert_eq!(found.is_some(), want["sequenceNr"].as_u64() >= Some(min));
            }
            loaded += 1;
        }
    }
    assert_eq!(loaded, 73);
}

#[tokio::test]
async fn every_golden_value_is_read_and_updated() {
    let mut read = 0;
    for (module, stored) in [("v1", StoredRevision::V1), ("v2", StoredRevision::V2)] {
        let mut settings = crate::j5ik2o_plugin::j5ik2o(Default::default());
        settings.j5ik2o.dynamo_db_state.stored_revision = stored;
        let table = settings.tables().unwrap().state.unwrap();
        let memory = holding(&table, lines_of(module)).await;
        let clock = Arc::new(ManualClock::at_ms(1_800_000_000_000));
        let kept = settings
            .states(&store(memory, clock, Random::seeded(1)))
            .unwrap();
        for line in states(module) {
            let (id, want) = (id_of(&line), &line["found"]);
            let found = kept.get(&id).await.unwrap();
            let told = line["revision"].as_u64().unwrap();
            // The plugin returns the stored number, which is one more in its second module.
            let revision = match stored {
                StoredRevision::V1 => told,
                StoredRevision::V2 => told.saturating_sub(1),
            };
            assert_eq!(found.as_ref().map_or(0, |state| state.revision), revision);
            match found.and_then(|state| state.value) {
                Some(value) => jvm_lines::check(want, &value),
                None => assert!(want.is_null(), "{line}"),
            }
            let next = Payload::new(Codec::Text, "next");
            kept.upsert(&id, revision + 1, next).await.unwrap();
            assert_eq!(kept.revision(&id).await.unwrap(), revision + 1);
            read += 1;
        }
    }
    assert_eq!(read, 38);
}

fn lines_of(module: &str) -> Vec<annals::items::Item> {
    let lines = lines(&format!("state-{module}.jsonl")).into_iter();
    lines
        .map(|line| annals::items::item_from_json(&line["Item"]).unwrap())
        .collect()
}
