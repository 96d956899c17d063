//! What goes wrong with durable state under the algorithms of j5ik2o's plugin, and does not under
//! ours; and how each reads the other's values.

use std::sync::Arc;

use annals::items::{
    Condition, Items, Key, KeyAttribute, KeySchema, Scan, TableSpec, Value, scan_all,
};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::state::{NewState, StateError, States};
use annals::{Codec, ErrorKind, ManualClock, Payload, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_jvm::settings::{StoredRevision, TableNameKind};
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::j5ik2o_state_schedules::Stepped;
use crate::j5ik2o_stores_plugin::{ID, PluginStates, TWINS, j5ik2o, number, partition};

const MODULES: [StoredRevision; 2] = [StoredRevision::V1, StoredRevision::V2];

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn text(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

struct Bed {
    memory: Arc<Memory>,
    items: Arc<dyn Items>,
    settings: AnyLayout,
    states: States,
    plugin: PluginStates,
}

impl Bed {
    async fn new(module: StoredRevision) -> Self {
        let mut settings = j5ik2o();
        settings.j5ik2o.dynamo_db_state.stored_revision = module;
        let memory = Arc::new(Memory::new());
        let items: Arc<dyn Items> = memory.clone();
        let table = settings.tables().unwrap().state.unwrap();
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
        Self {
            states: open(&items, &settings, 1),
            plugin: PluginStates::new(&items, &settings),
            memory,
            items,
            settings,
        }
    }

    async fn upsert(&self, revision: u64, value: &str) -> Result<(), StateError> {
        self.states.upsert(&id(ID), revision, text(value)).await
    }

    /// Revision and value.
    async fn get(&self) -> Option<(u64, String)> {
        let found = self.states.get(&id(ID)).await.unwrap()?;
        let value = found.value.unwrap().bytes.to_vec();
        Some((found.revision, String::from_utf8(value).unwrap()))
    }

    async fn revision(&self) -> u64 {
        self.states.revision(&id(ID)).await.unwrap()
    }

    async fn count(&self) -> usize {
        let table = self.plugin.table.clone();
        let all = scan_all(self.items.clone(), table.into(), Scan::whole());
        all.try_collect::<Vec<_>>().await.unwrap().len()
    }
}

fn open(items: &Arc<dyn Items>, settings: &AnyLayout, seed: u64) -> States {
    let clock = Arc::new(ManualClock::at_ms(1_000));
    settings
        .states(&store(items.clone(), clock, Random::seeded(seed)))
        .unwrap()
}

#[track_caller]
fn assert_conflict(ended: Result<(), StateError>, want: u64) {
    match ended {
        Err(StateError::Conflict { found, .. }) => assert_eq!(found, want),
        other => panic!("a conflict was expected: {other:?}"),
    }
}

#[tokio::test]
async fn of_two_writers_one_gets_a_conflict() {
    let bed = Bed::new(StoredRevision::V2).await;
    // Two nodes have read revision 1, and both write 2.
    bed.plugin.upsert(ID, 1, "read by both").await;
    bed.plugin.upsert(ID, 2, "lost").await;
    bed.plugin.upsert(ID, 2, "last").await;
    assert_eq!(bed.plugin.get(ID).await.0.unwrap(), "last");
    bed.upsert(3, "first").await.unwrap();
    assert_conflict(bed.upsert(3, "second").await, 3);
    assert_eq!(bed.get().await, Some((3, "first".to_owned())));
}

#[tokio::test]
async fn revisions_continue_after_a_deletion() {
    for module in MODULES {
        let bed = Bed::new(module).await;
        bed.plugin.upsert(ID, 1, "a").await;
        assert!(bed.plugin.delete(ID, None).await);
        assert_eq!(bed.plugin.get(ID).await, (None, 0), "and it restarts at 0");
        bed.upsert(1, "a").await.unwrap();
        bed.states.delete(&id(ID), Some(2)).await.unwrap();
        assert_eq!(
            bed.plugin.get(ID).await,
            (None, 0),
            "the plugin sees absence"
        );
        assert_eq!(bed.revision().await, 2);
        assert_conflict(bed.upsert(1, "stale").await, 2);
        assert_eq!(
            bed.plugin.get(ID).await,
            (None, 0),
            "and nothing of the refused"
        );
        bed.upsert(3, "c").await.unwrap();
        assert_eq!(bed.get().await, Some((3, "c".to_owned())));
        assert_eq!(
            bed.count().await,
            2,
            "the value, and the mark of the deletion"
        );
    }
}

#[tokio::test]
async fn either_modules_revisions_are_read_and_written() {
    for (module, stored) in [(StoredRevision::V1, 7), (StoredRevision::V2, 8)] {
        let bed = Bed::new(module).await;
        bed.plugin.upsert(ID, 7, "jvm").await;
        assert_eq!(bed.plugin.get(ID).await.1, stored);
        assert_eq!(bed.get().await, Some((7, "jvm".to_owned())));
        bed.upsert(8, "ours").await.unwrap();
        assert_eq!(
            bed.plugin.get(ID).await,
            (Some("ours".to_owned()), stored + 1)
        );
        // Read as the other module's, every revision is off by one, and every write fails.
        let mut other = bed.settings.clone();
        other.j5ik2o.dynamo_db_state.stored_revision = match module {
            StoredRevision::V1 => StoredRevision::V2,
            StoredRevision::V2 => StoredRevision::V1,
        };
        let other = open(&bed.items, &other, 2);
        assert_ne!(other.revision(&id(ID)).await.unwrap(), 8);
    }
}

#[tokio::test]
async fn a_deletion_of_a_revision_works() {
    // Akka passes the current revision plus one, to writes and deletions.
    let bed = Bed::new(StoredRevision::V1).await;
    bed.plugin.upsert(ID, 1, "a").await;
    assert!(
        !bed.plugin.delete(ID, Some(2)).await,
        "the plugin's always fails"
    );
    bed.states.delete(&id(ID), Some(2)).await.unwrap();
    assert_eq!(bed.get().await, None);
    // The other module's works, until the entity is recovered with a revision that is too high.
    let bed = Bed::new(StoredRevision::V2).await;
    bed.plugin.upsert(ID, 1, "a").await;
    let (_, recovered) = bed.plugin.get(ID).await;
    assert!(!bed.plugin.delete(ID, Some(recovered + 1)).await);
    assert_eq!(bed.revision().await, 1);
    bed.states.delete(&id(ID), Some(2)).await.unwrap();
    assert_eq!(bed.plugin.get(ID).await, (None, 0));
}

#[tokio::test]
async fn ids_of_one_partition_are_kept_apart() {
    let [one, other] = TWINS;
    assert_eq!(partition(one), partition(other));
    let bed = Bed::new(StoredRevision::V2).await;
    // Before v1.14.0 the partition was the whole key.
    let key = KeySchema::new(KeyAttribute::text("pkey"));
    let older = PluginStates {
        table: TableSpec::new("Older".parse().unwrap(), key).unwrap(),
        ..bed.plugin.clone()
    };
    let created = bed.items.create_table(&older.table, Default::default());
    created.await.unwrap();
    older.upsert(one, 1, one).await;
    older.upsert(other, 1, other).await;
    assert_eq!(older.get(one).await.0.unwrap(), other, "overwritten");
    for who in [one, other] {
        bed.states.upsert(&id(who), 1, text(who)).await.unwrap();
    }
    bed.states.delete(&id(other), Some(2)).await.unwrap();
    let found = bed.states.get(&id(one)).await.unwrap().unwrap();
    assert_eq!(found.value, Some(text(one)));
    assert_eq!(bed.states.get(&id(other)).await.unwrap(), None);
}

#[tokio::test]
async fn values_that_the_plugin_writes_after_our_deletion_are_live() {
    let bed = Bed::new(StoredRevision::V2).await;
    for revision in 1..=4 {
        bed.upsert(revision, "ours").await.unwrap();
    }
    bed.states.delete(&id(ID), None).await.unwrap();
    assert_eq!(bed.revision().await, 5);
    // The plugin sees no value, and starts at 1.
    bed.plugin.upsert(ID, 1, "jvm").await;
    assert_eq!(bed.get().await, Some((1, "jvm".to_owned())));
    bed.upsert(2, "ours").await.unwrap();
    bed.states.delete(&id(ID), Some(3)).await.unwrap();
    assert_eq!(bed.get().await, None);
    assert_eq!(bed.revision().await, 5, "the tombstone is never lowered");
    // Its own deletions leave no tombstone.
    let bed = Bed::new(StoredRevision::V2).await;
    bed.upsert(1, "ours").await.unwrap();
    assert!(bed.plugin.delete(ID, None).await);
    assert_eq!((bed.get().await, bed.revision().await), (None, 0));
    bed.upsert(1, "again").await.unwrap();
}

#[tokio::test]
async fn a_value_has_the_plugins_attributes() {
    let bed = Bed::new(StoredRevision::V2).await;
    let new = NewState::from(Payload::new(Codec::Json, "{}").manifest("com.example.Cart"));
    bed.states.upsert(&id(ID), 1, new.tag("a,b")).await.unwrap();
    let key = PluginStates::key(ID);
    let got = bed.items.get(&bed.plugin.table, vec![key]).await.unwrap();
    let item = got.items[0].clone().unwrap();
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap();
    assert_eq!((text("persistence-id"), text("tags")), (ID, "a,b"));
    assert_eq!(text("serializer-manifest"), "com.example.Cart");
    assert_eq!(number(&item, "serializer-id"), 31);
    assert_eq!(
        (number(&item, "revision-nr"), number(&item, "ordering")),
        (2, 1_000)
    );
    let payload = item.get("payload").and_then(Value::as_bytes).unwrap();
    assert_eq!(&payload[..], b"{}");
    // And two of ours: who wrote it, and the checksum.
    assert_eq!(item.len(), 11);
}

#[tokio::test]
async fn a_prefix_may_name_the_table() {
    let mut bed = Bed::new(StoredRevision::V2).await;
    let section = &mut bed.settings.j5ik2o.dynamo_db_state;
    section.table_name_resolver_class_name = TableNameKind::Prefix;
    let states = open(&bed.items, &bed.settings, 1);
    let table = TableSpec::new("counter".parse().unwrap(), bed.plugin.table.key().clone());
    let created = bed
        .items
        .create_table(table.as_ref().unwrap(), Default::default());
    created.await.unwrap();
    states.upsert(&id("counter-1"), 1, text("a")).await.unwrap();
    states.upsert(&id("none"), 1, text("b")).await.unwrap();
    let all = scan_all(bed.items.clone(), table.unwrap().into(), Scan::whole());
    assert_eq!(all.try_collect::<Vec<_>>().await.unwrap().len(), 1);
    assert_eq!(bed.count().await, 1, "without a prefix, in the one table");
    let ended = states.upsert(&id("no table-1"), 1, text("a")).await;
    assert_eq!(
        annals::Error::from(ended.unwrap_err()).kind(),
        ErrorKind::Invalid
    );
}

/// A process that crashes after this many requests.
async fn interrupt(bed: &Bed, act: impl AsyncFn(&States), requests: usize) {
    let stepped: Arc<dyn Items> = Arc::new(Stepped::new(&bed.memory, false));
    let states = open(&stepped, &bed.settings, 7);
    let mut acting = std::pin::pin!(act(&states));
    for _ in 0..=requests {
        if futures::poll!(&mut acting).is_ready() {
            return;
        }
    }
}

#[tokio::test]
async fn an_interrupted_deletion_is_finished_by_the_next_reader() {
    let mut seen = Vec::new();
    for requests in 0..6 {
        let bed = Bed::new(StoredRevision::V2).await;
        bed.upsert(1, "a").await.unwrap();
        let delete = async |states: &States| {
            let _ = states.delete(&id(ID), Some(2)).await;
        };
        interrupt(&bed, delete, requests).await;
        let is_shown = bed.plugin.get(ID).await.0.is_some();
        let found = bed.get().await;
        seen.push((is_shown, found.is_some()));
        match found {
            Some(found) => {
                assert_eq!(found, (1, "a".to_owned()), "{requests}");
                assert_eq!(bed.revision().await, 1);
            }
            None => {
                assert_eq!(bed.revision().await, 2, "{requests}");
                assert_eq!(bed.plugin.get(ID).await, (None, 0), "{requests}");
            }
        }
    }
    // Before it is decided, before it is finished, and after.
    for stage in [(true, true), (true, false), (false, false)] {
        assert!(seen.contains(&stage), "{seen:?}");
    }
}

#[tokio::test]
async fn lost_responses_are_unavailable_and_not_conflicts() {
    let bed = Bed::new(StoredRevision::V2).await;
    for seed in 0..200 {
        let faults = Faults {
            lost_answer: 300,
            error: 100,
            ..Faults::none()
        };
        let faulty: Arc<dyn Items> =
            Arc::new(Faulty::new(bed.items.clone(), Random::seeded(seed), faults));
        let states = open(&faulty, &bed.settings, seed + 10);
        let before = bed.revision().await;
        let next = before + 1;
        let ended = match seed % 3 {
            2 => states.delete(&id(ID), Some(next)).await.map(|_| ()),
            _ => states.upsert(&id(ID), next, text("x")).await,
        };
        let found = bed.revision().await;
        match ended {
            Ok(()) => assert_eq!(found, next, "seed {seed}"),
            Err(StateError::Conflict { .. }) => panic!("seed {seed}: nobody else writes"),
            Err(StateError::Store(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                assert!(found == before || found == next, "seed {seed}");
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_stored_write_is_recognised() {
    let bed = Bed::new(StoredRevision::V2).await;
    let repeating: Arc<dyn Items> = Arc::new(Stepped::new(&bed.memory, true));
    let states = open(&repeating, &bed.settings, 7);
    let work = async {
        for revision in [1, 2, 4, 5] {
            let written = states.upsert(&id(ID), revision, text("x")).await;
            written.unwrap();
            if revision == 2 {
                states.delete(&id(ID), Some(3)).await.unwrap();
            }
        }
    };
    let mut work = std::pin::pin!(work);
    while futures::poll!(&mut work).is_pending() {}
    assert_eq!(bed.get().await, Some((5, "x".to_owned())));
}

#[tokio::test]
async fn damage_and_oversized_values_are_errors() {
    let bed = Bed::new(StoredRevision::V2).await;
    let large = Payload::new(Codec::Bytes, vec![0; 400 * 1_024]);
    let error = bed.states.upsert(&id(ID), 1, large).await.unwrap_err();
    let error = annals::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("one item of at most 409600"));
    let ended = bed.states.upsert(&id(ID), u64::MAX, text("x")).await;
    assert_eq!(
        annals::Error::from(ended.unwrap_err()).kind(),
        ErrorKind::Invalid
    );
    assert_eq!(bed.count().await, 0);
    bed.upsert(1, "a").await.unwrap();
    let key: Key = PluginStates::key(ID);
    let got = bed.items.get(&bed.plugin.table, vec![key]).await.unwrap();
    let item = got.items[0].clone().unwrap();
    for damaged in [
        item.clone().with("persistence-id", "another"),
        item.clone().with("revision-nr", 0u64),
        item.clone().with("serializer-id", "text"),
        item.with("ordering", true),
    ] {
        let put = bed.items.put(&bed.plugin.table, damaged, Condition::Always);
        put.await.unwrap();
        let error = bed.states.get(&id(ID)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
