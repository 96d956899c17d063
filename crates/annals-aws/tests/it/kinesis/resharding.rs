//! Splits and merges while a stream is pumped: a parent is finished before its children.

use annals_aws::kinesis::Begin;

use super::place::{Place, drain, numbered, places, texts_of};

#[tokio::test]
async fn nothing_is_lost_or_doubled_while_shards_split_and_merge() {
    for place in places("split and merge").await {
        place.create(2).await;
        let mut all = Vec::new();
        let put = async |label: &str| {
            let records = numbered(label, 40);
            place.put(records.clone()).await;
            records
        };
        all.extend(put("a").await);
        let mut pump = place.pump(Begin::TrimHorizon).await;
        // Steps in between, so that some shards are half read when they close.
        pump.step().await;
        place.split().await;
        all.extend(put("b").await);
        pump.step().await;
        place.merge().await;
        all.extend(put("c").await);
        pump.step().await;
        // And a restart, with all kinds of shards.
        drop(pump);
        let mut pump = place.pump(Begin::TrimHorizon).await;
        pump.step().await;
        place.split().await;
        place.split().await;
        all.extend(put("d").await);
        drain(&mut pump).await;
        assert_eq!(place.texts().await, texts_of(&all));
        let done = drain(&mut place.pump(Begin::TrimHorizon).await).await;
        assert_eq!(done.records, 0, "a restart reads nothing again");
    }
}

#[tokio::test]
async fn a_child_is_not_read_before_its_parents_are_finished() {
    let place = Place::here().await;
    place.create(2).await;
    place.put(numbered("a", 60)).await;
    place.split().await;
    place.put(numbered("b", 60)).await;
    place.merge().await;
    place.put(numbered("c", 60)).await;
    drain(&mut place.pump(Begin::TrimHorizon).await).await;

    let shards = place.shards().await;
    let reads: Vec<String> = place
        .fake()
        .script
        .seen()
        .iter()
        .filter_map(shard_read)
        .collect();
    assert!(reads.len() > 20, "{reads:?}");
    let mut children = 0;
    for shard in &shards {
        let first = reads.iter().position(|id| *id == shard.shard_id).unwrap();
        let parents = [&shard.parent_shard_id, &shard.adjacent_parent_shard_id];
        for parent in parents.into_iter().flatten() {
            let last = reads.iter().rposition(|id| id == parent).unwrap();
            assert!(last < first, "{parent} goes on behind {}", shard.shard_id);
            children += 1;
        }
    }
    assert_eq!(
        children, 4,
        "two after the split, two parents after the merge"
    );
}

fn shard_read(seen: &crate::script::Seen) -> Option<String> {
    let iterator = seen.body["ShardIterator"].as_str()?;
    iterator.split('/').nth(1).map(str::to_owned)
}

#[tokio::test]
async fn latest_skips_closed_shards_and_reads_their_children_that_come_later() {
    for place in places("latest and resharding").await {
        place.create(1).await;
        place.put(numbered("a", 20)).await;
        place.split().await;
        place.put(numbered("b", 20)).await;
        let mut pump = place.pump(Begin::Latest).await;
        let mut all = numbered("c", 20);
        place.put(all.clone()).await;
        place.merge().await;
        let last = numbered("d", 20);
        place.put(last.clone()).await;
        all.extend(last);
        drain(&mut pump).await;
        assert_eq!(place.texts().await, texts_of(&all));
    }
}

#[tokio::test]
async fn a_shard_that_the_stream_dropped_is_told() {
    let place = Place::here().await;
    place.create(1).await;
    place.put(numbered("a", 30)).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    assert_eq!(pump.step().await.finished, 0);
    place.split().await;
    let last = numbered("b", 20);
    place.put(last.clone()).await;
    let parent = "shardId-000000000000";
    place.fake().state().forget(place.stream.as_str(), parent);
    let done = drain(&mut pump).await;
    assert_eq!(done.dropped.len(), 1);
    assert_eq!(done.dropped[0].as_str(), parent);
    assert_eq!(done.records, 20, "its children are read all the same");
}

/// The names of what the pump keeps checkpoints of.
async fn kept(place: &Place) -> Vec<String> {
    let arn = format!(
        "arn:aws:kinesis:us-east-1:000000000000:stream/{}",
        place.stream
    );
    let checkpoints = place.log().await.checkpoints(format!("kinesis:{arn}"));
    checkpoints.names().await.unwrap()
}

#[tokio::test]
async fn checkpoints_of_shards_that_are_gone_are_forgotten() {
    let place = Place::here().await;
    place.create(1).await;
    place.put(numbered("a", 30)).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    drain(&mut pump).await;
    place.split().await;
    place.put(numbered("b", 20)).await;
    drain(&mut pump).await;
    let parent = "shardId-000000000000";
    assert!(kept(&place).await.iter().any(|name| name == parent));
    // It was read to its end: nothing is lost, and nothing is told.
    place.fake().state().forget(place.stream.as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let done = drain(&mut pump).await;
    assert!(done.dropped.is_empty(), "{done:?}");
    let names = kept(&place).await;
    assert!(names.iter().all(|name| name != parent), "{names:?}");
    assert_eq!(names.len(), 2 + 1, "the children's, and that it has begun");
}

/// Also by a pump that was not there when it happened.
#[tokio::test]
async fn a_shard_that_was_dropped_between_two_pumps_is_told() {
    let place = Place::here().await;
    place.create(1).await;
    place.put(numbered("a", 30)).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    pump.step().await;
    place.split().await;
    let parent = "shardId-000000000000";
    place.fake().state().forget(place.stream.as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let done = drain(&mut pump).await;
    assert_eq!(done.dropped.len(), 1, "{done:?}");
    assert_eq!(done.dropped[0].as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    assert!(drain(&mut pump).await.dropped.is_empty(), "told once");
}
