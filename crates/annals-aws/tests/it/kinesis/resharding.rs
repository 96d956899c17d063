//! Splits and merges while a stream is pumped: parents are read before their children.

use annals_aws::kinesis::Begin;

use super::place::{Place, drain, numbered};

#[tokio::test]
async fn a_child_is_not_read_before_its_parents_are_finished() {
    let place = Place::here().await;
    place.create(2).await;
    place.put(numbered("a", 60)).await;
    place.split().await;
    place.put(numbered("b", 60)).await;
    place.merge().await;
    place.put(numbered("c", 60)).await;
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;

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
            assert!(last < first, "{parent} continues after {}", shard.shard_id);
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
async fn reports_an_expired_shard() {
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

/// The shards with a checkpoint.
async fn kept(place: &Place) -> Vec<String> {
    let arn = format!(
        "arn:aws:kinesis:us-east-1:000000000000:stream/{}",
        place.stream
    );
    let checkpoints = place.log().await.checkpoints(format!("kinesis:{arn}"));
    checkpoints.names().await.unwrap()
}

#[tokio::test]
async fn deletes_checkpoints_of_expired_shards() {
    let place = Place::here().await;
    place.create(1).await;
    place.put(numbered("a", 30)).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let _ = drain(&mut pump).await;
    place.split().await;
    place.put(numbered("b", 20)).await;
    let _ = drain(&mut pump).await;
    let parent = "shardId-000000000000";
    assert!(kept(&place).await.iter().any(|name| name == parent));
    // It was read to its end: nothing is lost or reported.
    place.fake().state().forget(place.stream.as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let done = drain(&mut pump).await;
    assert!(done.dropped.is_empty(), "{done:?}");
    let names = kept(&place).await;
    assert!(names.iter().all(|name| name != parent), "{names:?}");
    assert_eq!(names.len(), 2 + 1, "the children's, and that it has begun");
}

/// Also by a pump that started later.
#[tokio::test]
async fn reports_a_shard_that_expired_between_two_pumps() {
    let place = Place::here().await;
    place.create(1).await;
    place.put(numbered("a", 30)).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let _ = pump.step().await;
    place.split().await;
    let parent = "shardId-000000000000";
    place.fake().state().forget(place.stream.as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let done = drain(&mut pump).await;
    assert_eq!(done.dropped.len(), 1, "{done:?}");
    assert_eq!(done.dropped[0].as_str(), parent);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    assert!(drain(&mut pump).await.dropped.is_empty(), "reported once");
}
