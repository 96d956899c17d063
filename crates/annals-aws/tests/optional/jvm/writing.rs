//! We write, the JVM recovers.

use annals::PersistenceId;
use annals::journal::{Append, Expected};
use annals_jvm::settings::{Format, SnapshotOrder};
use futures::TryStreamExt;
use serde_json::json;

use super::both::{
    Both, after, events, id, number, we_append, we_append_each, with_each_plugin, with_every_layout,
};
use super::{lines, texts, values};

/// Both generations of items; the plugins read both.
const FORMATS: [Format; 2] = [Format::A, Format::B];

fn id_in(format: Format, name: &str) -> PersistenceId {
    id(&format!("{format:?}|{name}"))
}

pub(crate) async fn the_jvm_recovers_our_events() {
    with_each_plugin(async |both| {
        for format in FORMATS {
            both.write_format(format);
            for (name, steps) in [
                ("one", &[(1, false)][..]),
                ("singles", &[(202, false)]),
                (
                    "batches",
                    &[(94, false), (11, true), (93, false), (5, true)],
                ),
                ("batch-first", &[(99, true), (3, true), (203, true)]),
            ] {
                let (id, journal) = (id_in(format, name), both.journal().await);
                let (mut last, mut all) = (0, Vec::new());
                for (count, is_batch) in steps {
                    let lines = texts("ours", *count);
                    last = match is_batch {
                        true => {
                            let ours = events(&lines);
                            we_append(&journal, &id, after(last), ours).await.last.get()
                        }
                        false => we_append_each(&journal, &id, &lines).await,
                    };
                    all.extend(lines);
                }
                assert_eq!(last, all.len() as u64);
                both.they_recover(&id, &all);
                assert_eq!(both.agree(&id, &[]).await, last);
                assert_eq!(both.they_append(&id, &texts("theirs", 2), true), last + 2);
                both.agree(&id, &[]).await;
            }
        }
    })
    .await;
}

pub(crate) async fn the_jvm_decodes_every_codec() {
    with_every_layout(async |both| {
        for format in FORMATS {
            both.write_format(format);
            let (id, journal, lines) = (
                id_in(format, "codecs"),
                both.journal().await,
                lines(&values()),
            );
            we_append_each(&journal, &id, &lines).await;
            we_append(&journal, &id, Expected::Any, events(&lines)).await;
            both.they_recover(&id, &[lines.clone(), lines].concat());
            both.agree(&id, &[]).await;
        }
    })
    .await;
}

/// Tags, metadata, causation, and a manifest that the serializer of the JVM does not have.
pub(crate) async fn the_plugin_ignores_our_extra_attributes() {
    with_every_layout(async |both| {
        for format in FORMATS {
            both.write_format(format);
            let (id, journal, lines) = (
                id_in(format, "extra"),
                both.journal().await,
                lines(&values()),
            );
            let mut all = events(&lines);
            for event in &mut all {
                event.tags = vec!["red".to_owned(), "blue".to_owned()];
                event.metadata.insert("by".to_owned(), "alice".to_owned());
                if event.manifest.is_empty() {
                    event.manifest = "no.such.Class".to_owned();
                    event.schema = 3;
                }
            }
            let append = Append::of(all.clone());
            let append = append.causation("cause").correlation("correlation");
            we_append(&journal, &id, after(0), append).await;
            both.they_recover(&id, &lines);
            let (found, _) = both.we_see(&id).await;
            let found: Vec<_> = found.into_iter().map(|event| event.data).collect();
            assert_eq!(found, all);
        }
    })
    .await;
}

pub(crate) async fn the_jvm_loads_our_snapshots() {
    with_each_plugin(async |both| {
        for format in FORMATS {
            both.write_format(format);
            let (id, lines) = (id_in(format, "snapshots"), lines(&values()));
            let snapshots = both.snapshots(SnapshotOrder::default());
            for ((line, event), at) in lines.iter().zip(events(&lines)).zip(1u64..) {
                snapshots.save(&id, number(at), event.into()).await.unwrap();
                let request = json!({"do": "load-snapshot", "maxSequenceNr": at});
                let loaded = both.ask(&id, request);
                assert_eq!(loaded["snapshot"]["sequenceNr"], at);
                assert_eq!(loaded["snapshot"]["type"], line["type"]);
                assert_eq!(loaded["snapshot"]["value"], line["value"]);
            }
        }
    })
    .await;
}

/// The read journal lists ids by the index, or by a scan, and reads parts of a history.
pub(crate) async fn the_read_journal_lists_and_reads_our_events() {
    with_each_plugin(async |both| {
        let journal = both.journal().await;
        let ids = ["Cart|1", "Cart|2-b", "ünïcödé"];
        for name in ids {
            we_append(&journal, &id(name), after(0), events(&texts("ours", 120))).await;
        }
        // A tombstone keeps its id listed; a deletion by the JVM would not.
        journal.delete_to(&id("Cart|1"), number(120)).await.unwrap();
        both.they_append(&id("theirs"), &texts("theirs", 1), false);
        let want = json!(["Cart|1", "Cart|2-b", "theirs", "ünïcödé"]);
        let listed = journal.persistence_ids("").map_ok(|id| id.to_string());
        let mut listed: Vec<String> = listed.try_collect().await.unwrap();
        listed.sort();
        assert_eq!(json!(listed), want);
        if both.plugin() == "akka" {
            return; // Akka's 1.1.2 has no read journal.
        }
        assert_eq!(both.their_ids(false), want);
        assert_eq!(both.their_ids(true), want);
        check_query(both);
    })
    .await;
}

fn check_query(both: &mut Both) {
    // All events are of one batch, and the plugin drops an incomplete one.
    for (from, to, want) in [(0, 120, 120), (1, 200, 120), (2, 120, 0), (1, 119, 0)] {
        let request = json!({"do": "query", "from": from, "to": to});
        let found = both.ask(&id("Cart|2-b"), request);
        let count = found["events"].as_array().map(Vec::len);
        assert_eq!(count, Some(want), "{from} to {to}");
    }
}
