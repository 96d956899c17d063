//! The feed where settings matter: journals that share a table, deletions of the JVM, keys that do not
//! have the id, and keys of older settings. The properties of `annals_testkit::tck` are the rest.

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::feed::{Entry, What};
use annals::items::Items;
use annals::journal::{Expected, Journal};
use annals::layout::{Layout, Tables};
use annals::memory::Memory;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::store::Store;
use annals::{Annals, NewEvent, PersistenceId, Result, SequenceNumber};
use annals_jvm::j5ik2o::{J5ik2oJournal, PartitionKeyResolver, Resolvers, SortKeyResolver};
use annals_jvm::settings::PartitionKeyKind;
use annals_jvm::{AnyLayout, LayoutName};
use futures::TryStreamExt;
use tempfile::TempDir;

use crate::j5ik2o_plugin::j5ik2o;
use annals_testkit::journals::{after, number, text};

/// A store that erases values at once, and one that keeps them.
fn stores() -> (TempDir, [Arc<dyn Items>; 2]) {
    let folder = TempDir::new().unwrap();
    let embedded = Embedded::open(folder.path(), &Default::default()).unwrap();
    (folder, [Arc::new(Memory::new()), Arc::new(embedded)])
}

async fn entries(annals: &Annals, id: &PersistenceId) -> Vec<Entry> {
    let batches: Vec<_> = annals.feed().batches().try_collect().await.unwrap();
    let entries = batches.into_iter().flat_map(|batch| batch.entries);
    entries.filter(|entry| entry.id == *id).collect()
}

/// The payloads of the events.
fn texts_of(entries: &[Entry]) -> Vec<String> {
    let events = entries.iter().flat_map(|entry| match &entry.what {
        What::Appended(events) => events.as_slice(),
        _ => &[],
    });
    let texts = events.map(|fed| String::from_utf8(fed.event.data.payload.to_vec()));
    texts.map(Result::unwrap).collect()
}

fn count(entries: &[Entry], what: &What) -> usize {
    entries.iter().filter(|entry| entry.what == *what).count()
}

fn events(name: &str, count: u64) -> Vec<NewEvent> {
    (1..=count).map(|n| text(format!("{name}{n}"))).collect()
}

fn akka() -> AnyLayout {
    AnyLayout {
        layout: LayoutName::Akka,
        ..AnyLayout::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_that_share_a_table_have_feeds_of_their_own() {
    let (_folder, stores) = stores();
    for items in stores {
        let id = "2-P-Cart".parse().unwrap();
        let mut journals = Vec::new();
        for name in ["journal", "journal-2", "other"] {
            let mut settings = akka();
            settings.journal_name = name.to_owned();
            let annals = Annals::create(items.clone(), &settings).await.unwrap();
            let journal = annals.journal();
            let both = events(name, 2);
            journal.append(&id, Expected::Any, both).await.unwrap();
            journal.delete_to(&id, number(1)).await.unwrap();
            journals.push((name, annals));
        }
        for (name, annals) in journals {
            let batches: Vec<_> = annals.feed().batches().try_collect().await.unwrap();
            let all = batches.into_iter().flat_map(|batch| batch.entries);
            let all: Vec<Entry> = all.collect();
            assert!(all.iter().all(|entry| entry.id == id), "{all:?}");
            assert_eq!(texts_of(&all), [format!("{name}2")]);
            assert!(count(&all, &What::Deleted(number(1))) >= 1);
        }
    }
}

/// A deletion frees keys if the JVM deletes too. A writer with an old end puts its event below the low
/// marker, notices it and removes it again.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_put_below_the_low_marker_are_not_fed() {
    let (_folder, stores) = stores();
    for items in stores {
        let settings = AnyLayout {
            jvm_deletes: true,
            ..akka()
        };
        let id = "Cart-1".parse().unwrap();
        let stale = Annals::create(items.clone(), &settings).await.unwrap();
        let journal = stale.journal();
        journal.append(&id, after(0), text("a1")).await.unwrap();
        let annals = Annals::open(items.clone(), &settings).await.unwrap();
        let journal = annals.journal();
        journal.append(&id, after(1), events("b", 2)).await.unwrap();
        journal.delete_to(&id, number(3)).await.unwrap();

        let late = stale.journal().append(&id, after(1), text("late"));
        late.await.unwrap_err();
        let anywhere = stale.journal().append(&id, Expected::Any, text("c1"));
        assert_eq!(anywhere.await.unwrap().last, number(4));
        let found = entries(&annals, &id).await;
        let fed = texts_of(&found);
        assert!(!fed.contains(&"late".to_owned()), "{fed:?}");
        assert_eq!(fed.last().unwrap(), "c1");
        assert!(count(&found, &What::Deleted(number(3))) >= 1);

        for _ in 0..2 {
            assert_eq!(count(&entries(&annals, &id).await, &What::Purged), 0);
            annals.journal().delete_to(&id, number(4)).await.unwrap();
        }
        annals.journal().purge(&id).await.unwrap();
        let again = annals.journal().append(&id, after(0), text("d1"));
        again.await.unwrap();
        let found = entries(&annals, &id).await;
        let purged = found.iter().rposition(|entry| entry.what == What::Purged);
        assert_eq!(texts_of(&found[purged.unwrap()..]), ["d1"]);
    }
}

/// Without a marker before the purge: it puts one, for the feed.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_is_fed_once_if_the_jvm_deletes() {
    let (_folder, stores) = stores();
    for items in stores {
        let settings = AnyLayout {
            jvm_deletes: true,
            ..akka()
        };
        let id = "Cart-1".parse().unwrap();
        let annals = Annals::create(items, &settings).await.unwrap();
        let journal = annals.journal();
        journal.append(&id, after(0), events("a", 2)).await.unwrap();
        assert!(journal.purge(&id).await.unwrap());
        journal.append(&id, after(0), events("b", 2)).await.unwrap();
        let found = entries(&annals, &id).await;
        assert_eq!(count(&found, &What::Purged), 1);
        let purged = found.iter().rposition(|entry| entry.what == What::Purged);
        assert_eq!(texts_of(&found[purged.unwrap()..]), ["b1", "b2"]);
    }
}

/// Keys that nobody can parse.
#[derive(Debug)]
struct Opaque;

impl PartitionKeyResolver for Opaque {
    fn resolve(&self, id: &PersistenceId, _: u64) -> Result<String> {
        Ok(id.as_str().chars().rev().collect())
    }
}

impl SortKeyResolver for Opaque {
    fn resolve(&self, _: &PersistenceId, number: u64) -> Result<String> {
        Ok(format!("<{:x}>", number ^ 0xabcd))
    }
}

/// The `j5ik2o` layout with these keys.
#[derive(Clone, Debug)]
struct OpaqueLayout(AnyLayout);

#[async_trait::async_trait]
impl Layout for OpaqueLayout {
    fn name(&self) -> &'static str {
        "opaque"
    }

    fn tables(&self) -> Result<Tables> {
        self.0.tables()
    }

    async fn journal(&self, store: &Store) -> Result<Journal> {
        let resolvers = Resolvers {
            partition: Arc::new(Opaque),
            sort: Arc::new(Opaque),
        };
        let layout = J5ik2oJournal::open_with(store, &self.0, resolvers)?;
        Ok(Journal::new(Arc::new(layout), store))
    }

    fn snapshots(&self, store: &Store) -> Result<Snapshots> {
        self.0.snapshots(store)
    }

    fn states(&self, store: &Store) -> Result<States> {
        self.0.states(store)
    }
}

/// The id is in the item, or, if its value was erased, in the item that is there now.
#[tokio::test(flavor = "multi_thread")]
async fn keys_need_not_have_the_id() {
    for soft_delete in [true, false] {
        let (_folder, stores) = stores();
        for items in stores {
            let mut settings = j5ik2o(PartitionKeyKind::PersistenceIdBased);
            settings.j5ik2o.dynamo_db_journal.soft_delete = soft_delete;
            let layout = OpaqueLayout(settings);
            let annals = Annals::create(items, &layout).await.unwrap();
            let (journal, id) = (annals.journal(), "annals|x".parse().unwrap());
            journal.append(&id, after(0), text("a1")).await.unwrap();
            journal.append(&id, after(1), events("b", 3)).await.unwrap();
            let found = entries(&annals, &id).await;
            assert_eq!(texts_of(&found), ["a1", "b1", "b2", "b3"]);

            journal.delete_to(&id, SequenceNumber::LAST).await.unwrap();
            let found = entries(&annals, &id).await;
            let is_append =
                |entry: &&Entry| matches!(entry.what, What::Appended(_) | What::Missing(_));
            assert_eq!(found.iter().filter(is_append).count(), 2, "{found:?}");
            assert_eq!(found.last().unwrap().what, What::Deleted(number(4)));

            assert!(journal.purge(&id).await.unwrap());
            journal.append(&id, after(0), text("c1")).await.unwrap();
            let found = entries(&annals, &id).await;
            assert_eq!(count(&found, &What::Purged), 1);
            assert_eq!(texts_of(&found[found.len() - 1..]), ["c1"]);
        }
    }
}

/// Single events and batches that were appended with other resolvers.
#[tokio::test(flavor = "multi_thread")]
async fn rows_under_keys_of_older_settings_are_fed() {
    let (_folder, stores) = stores();
    for items in stores {
        let id = "Cart-1".parse().unwrap();
        let kinds = [
            PartitionKeyKind::PersistenceIdBased,
            PartitionKeyKind::SequenceNumberBased,
        ];
        for (from, kind) in [0, 4].into_iter().zip(kinds) {
            let annals = Annals::create(items.clone(), &j5ik2o(kind)).await.unwrap();
            let journal = annals.journal();
            journal.append(&id, after(from), text("a1")).await.unwrap();
            let three = events("b", 3);
            journal.append(&id, after(from + 1), three).await.unwrap();
        }
        for kind in kinds {
            let annals = Annals::open(items.clone(), &j5ik2o(kind)).await.unwrap();
            let found = entries(&annals, &id).await;
            let want = ["a1", "b1", "b2", "b3", "a1", "b1", "b2", "b3"];
            assert_eq!(texts_of(&found), want);
            assert_eq!(found.len(), 4);
        }
    }
}
