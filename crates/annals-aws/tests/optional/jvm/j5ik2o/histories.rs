//! Histories of all kinds: the other reads them and continues.

use annals::PersistenceId;
use serde_json::{Value as Json, json};

use super::super::both::{Both, after, events, id, we_append, we_append_each};
use super::super::{lines, opaque, texts, values};
use super::with_each_keys;

/// Batch sizes; one request of the plugin holds 25.
const STEPS: [usize; 5] = [1, 2, 30, 1, 120];
const ALL: u64 = 154;

/// Both append to a history in turn.
async fn go_on(both: &mut Both, id: &PersistenceId, last: u64) {
    let journal = both.journal().await;
    let ours = events(&texts("ours", 1));
    we_append(&journal, id, after(last), ours).await;
    assert_eq!(both.they_append(id, &texts("theirs", 2), true), last + 3);
    let ours = events(&texts("ours", 3));
    we_append(&journal, id, after(last + 3), ours).await;
    assert_eq!(both.they_append(id, &texts("theirs", 1), false), last + 7);
    assert_eq!(both.agree(id, &[]).await, last + 7);
}

pub(crate) async fn we_replay_the_events_of_the_jvm_and_append() {
    with_each_keys(async |both| {
        let batches = id("batches-1");
        for count in STEPS {
            both.they_append(&batches, &texts("batch", count), count > 1);
        }
        assert_eq!(both.agree(&batches, &[]).await, ALL);
        go_on(both, &batches, ALL).await;
        // More than the keys of one digit: plain numbers are not in the order of texts.
        let singles = id("singles-1");
        both.they_append(&singles, &texts("single", 12), false);
        assert_eq!(both.agree(&singles, &[]).await, 12);
        go_on(both, &singles, 12).await;
        let payloads = id("Payloads|1-2");
        let every = [lines(&values()), lines(&opaque()[..2])].concat();
        let last = both.they_append(&payloads, &every, true);
        assert_eq!(both.agree(&payloads, &[]).await, last);
        go_on(both, &payloads, last).await;
    })
    .await;
}

pub(crate) async fn the_jvm_recovers_our_events() {
    with_each_keys(async |both| {
        let (batches, journal) = (id("batches-1"), both.journal().await);
        let (mut last, mut all) = (0, Vec::new());
        for count in STEPS {
            let lines = texts("batch", count);
            let ours = events(&lines);
            last = we_append(&journal, &batches, after(last), ours)
                .await
                .last
                .get();
            all.extend(lines);
        }
        both.they_recover(&batches, &all);
        assert_eq!(both.agree(&batches, &[]).await, ALL);
        go_on(both, &batches, ALL).await;
        let (singles, lines) = (id("singles-1"), texts("single", 12));
        we_append_each(&journal, &singles, &lines).await;
        both.they_recover(&singles, &lines);
        go_on(both, &singles, 12).await;
    })
    .await;
}

/// The plugin stores tags with an event, as we do.
pub(crate) async fn tags_are_preserved() {
    with_each_keys(async |both| {
        let tagged = |event: &str, tags: &[&str]| {
            let value = json!({"event": event, "tags": tags});
            json!({"type": "tagged", "value": value})
        };
        let (tags, journal) = (id("tags-1"), both.journal().await);
        let all: [&[&str]; 3] = [&["red"], &["blue", "red"], &[]];
        let theirs = all.map(|tags| tagged("theirs", tags));
        both.they_append(&tags, &theirs, true);
        let mut ours = events(&texts("ours", 3));
        for (event, tags) in ours.iter_mut().zip(all) {
            event.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        }
        we_append(&journal, &tags, after(3), ours).await;
        both.agree(&tags, &[]).await;
        let (mut found, _) = both.we_see(&tags).await;
        for (event, want) in found.iter_mut().zip(all.iter().cycle()) {
            event.data.tags.sort();
            assert_eq!(event.data.tags, *want);
        }
        assert_eq!(found.len(), 6);
        let attributes = both.their_items("journal");
        let of = |item: &Json| item["tags"]["S"].as_str().map(str::to_owned);
        let joined: Vec<_> = attributes.iter().filter_map(of).collect();
        assert_eq!(joined.len(), 4);
        assert_eq!(joined.iter().filter(|tags| *tags == "red").count(), 2);
    })
    .await;
}
