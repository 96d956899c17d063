//! The JVM writes, we read and append.

use annals::snapshot::Criteria;
use annals::{Codec, Payload, PersistenceId};
use annals_jvm::settings::SnapshotOrder;
use serde_json::{Value as Json, json};

use super::both::{
    Both, after, events, id, number, we_append, with_each_plugin, with_every_layout,
};
use super::{lines, opaque, texts, values};
use crate::jvm_lines;

/// Histories around the boundaries of partitions, each with the highest sequence number by the JVM.
fn written(both: &mut Both) -> Vec<(PersistenceId, u64)> {
    let mut all = Vec::new();
    for count in [1, 99, 100, 250] {
        let id = id(&format!("singles-{count}"));
        let last = both.they_append(&id, &texts("single", count), false);
        all.push((id, last));
    }
    let batches = id("batches");
    both.they_append(&batches, &texts("single", 94), false);
    both.they_append(&batches, &texts("batch", 11), true); // 95 to 105
    both.they_append(&batches, &texts("single", 93), false);
    let last = both.they_append(&batches, &texts("batch", 5), true); // 199 to 203
    all.push((batches, last));
    let first = id("batch-first");
    both.they_append(&first, &texts("batch", 99), true);
    let last = both.they_append(&first, &texts("batch", 103), true); // begins at a hundred
    all.push((first, last));
    let payloads = id("Payloads|1-2");
    let every = [lines(&values()), lines(&opaque())].concat();
    both.they_append(&payloads, &every, false);
    let last = both.they_append(&payloads, &every, true);
    all.push((payloads, last));
    all
}

pub(crate) async fn we_replay_the_events_of_the_jvm_and_append() {
    with_each_plugin(async |both| {
        let all = written(both);
        for (id, last) in &all {
            assert_eq!(both.agree(id, &[]).await, *last);
            let journal = both.journal().await;
            let ours = events(&texts("ours", 1));
            let appended = we_append(&journal, id, after(*last), ours).await;
            assert_eq!(appended.first.get(), last + 1);
            both.agree(id, &[]).await;
            let ours = events(&texts("ours", 105));
            let appended = we_append(&journal, id, after(last + 1), ours).await;
            assert_eq!(appended.last.get(), last + 106);
            both.agree(id, &[]).await;
            assert_eq!(both.they_append(id, &texts("theirs", 3), true), last + 109);
            both.agree(id, &[]).await;
        }
    })
    .await;
}

pub(crate) async fn events_read_from_the_jvm_can_be_written_back() {
    with_every_layout(async |both| {
        let (theirs, copy) = (id("theirs"), id("copy"));
        let every = [lines(&values()), lines(&opaque())].concat();
        both.they_append(&theirs, &every, false);
        let (found, _) = both.we_see(&theirs).await;
        let found: Vec<_> = found.into_iter().map(|event| event.data).collect();
        let journal = both.journal().await;
        we_append(&journal, &copy, after(0), found).await;
        // As the JVM replays the original: one plugin unwraps tagged events, the others do not.
        let every = both.they_show(&theirs);
        both.they_recover(&copy, &every);
        both.agree(&copy, &[]).await;
    })
    .await;
}

pub(crate) async fn we_load_snapshots_of_the_jvm() {
    with_each_plugin(async |both| {
        let snapshots = both.snapshots(SnapshotOrder::SequenceNumber);
        let mut every = lines(&values());
        every.push(json!({"type": "java", "value": "java"}));
        every.push(json!({"type": "delivery", "value": {
            "current": 5, "delivery": 4, "message": "message",
            "destination": format!("{}://interop/user/receiver", both.plugin()),
        }}));
        let id = id("snapshots");
        for (line, at) in every.iter().zip(1u64..) {
            let saved = both.ask(
                &id,
                json!({"do": "save-snapshot", "snapshot": line, "at": at}),
            );
            let found = snapshots.load(&id, Criteria::ALL).await.unwrap().unwrap();
            assert_eq!(found.sequence_number.get(), at);
            assert_eq!(found.time_ms, saved["timestamp"].as_u64().unwrap());
            let loaded = both.ask(&id, json!({"do": "load-snapshot", "maxSequenceNr": at}));
            assert_eq!(loaded["snapshot"]["type"], line["type"]);
            jvm_lines::check(&loaded["snapshot"], &found.payload);
        }
        agree_on_the_newest(both, &id).await;
        snapshots
            .delete(&id, Criteria::at(number(3)))
            .await
            .unwrap();
        both.ask(&id, json!({"do": "delete-snapshots", "maxSequenceNr": 2}));
        let found = snapshots
            .load(&id, Criteria::ALL.up_to(number(3)))
            .await
            .unwrap();
        assert_eq!(found, None);
        let loaded = both.ask(&id, json!({"do": "load-snapshot", "maxSequenceNr": 3}));
        assert_eq!(loaded["snapshot"], Json::Null);
    })
    .await;
}

/// By time both choose the same snapshot, whatever its sequence number.
async fn agree_on_the_newest(both: &mut Both, id: &PersistenceId) {
    let snapshots = both.snapshots(SnapshotOrder::Timestamp);
    let state = Payload::new(Codec::Text, "saved last");
    snapshots.save(id, number(2), state).await.unwrap();
    for (request, criteria) in [
        (json!({}), Criteria::ALL),
        (json!({"maxSequenceNr": 4}), Criteria::ALL.up_to(number(4))),
    ] {
        let mut request = request;
        request["do"] = "load-snapshot".into();
        let theirs = both.ask(id, request);
        let ours = snapshots.load(id, criteria).await.unwrap().unwrap();
        assert_eq!(ours.sequence_number.get(), theirs["snapshot"]["sequenceNr"]);
        jvm_lines::check(&theirs["snapshot"], &ours.payload);
    }
}
