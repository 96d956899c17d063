//! Settings that do not match the state table: values of the JVM are never silently taken as missing
//! or overwritten.

use std::sync::Arc;

use annals::copy::{Copier, CopyEndpoint};
use annals::items::{Items, TableSpec};
use annals::layout::{AnnalsLayout, Hint, Layout};
use annals::memory::Memory;
use annals::state::{State, States};
use annals::store::Store;
use annals::verify::{Finding, Problem, Remedy, StoredKind};
use annals::{Annals, Codec, Error, ErrorKind, Payload, PersistenceId};
use annals_jvm::AnyLayout;
use annals_jvm::settings::StoredRevision;
use futures::TryStreamExt;

use crate::j5ik2o_stores_plugin::{ID, PluginStates, j5ik2o};

fn id() -> PersistenceId {
    ID.parse().unwrap()
}

fn text(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

/// Tables of the plugin, with one value that its module of this generation wrote.
struct Bed {
    store: Store,
    settings: AnyLayout,
    plugin: PluginStates,
}

impl Bed {
    async fn new(module: StoredRevision, revision: u64) -> Self {
        let mut settings = j5ik2o();
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let store = Store::from_items(items.clone());
        let tables = settings.tables().unwrap();
        tables.create_missing(&store).await.unwrap();
        settings.j5ik2o.dynamo_db_state.stored_revision = module;
        let plugin = PluginStates::new(&items, &settings);
        plugin.upsert(ID, revision, "the JVM's").await;
        Self {
            store,
            settings: j5ik2o(),
            plugin,
        }
    }

    fn states(&self) -> States {
        self.settings.states(&self.store).unwrap()
    }

    async fn get(&self) -> Result<Option<State>, Error> {
        self.states().get(&id()).await
    }

    async fn findings(&self) -> Vec<Finding> {
        let found = self.states().verify(None);
        let found: Vec<Vec<Finding>> = found.try_collect().await.unwrap();
        found.concat()
    }

    async fn hints(&self) -> Vec<Hint> {
        let tables: Vec<TableSpec> = self.settings.tables().unwrap().all().cloned().collect();
        self.settings.hints(&self.store, &tables).await.unwrap()
    }

    /// The failure of a copy of everything into other tables.
    async fn copy_failure(&self) -> Option<Error> {
        let source = Annals::open(self.store.clone(), &self.settings).await;
        let target = Annals::create(Memory::new(), &AnnalsLayout::default()).await;
        let (source, target) = (source.unwrap(), target.unwrap());
        let copier = Copier::new(CopyEndpoint::from(&source), CopyEndpoint::from(&target));
        let outcomes: Result<Vec<_>, Error> = copier.all("").try_collect().await;
        match outcomes {
            Err(error) => Some(error),
            Ok(outcomes) => outcomes.into_iter().find_map(|outcome| outcome.failure),
        }
    }
}

fn chain(error: &Error) -> String {
    annals::layout::support::error_chain(error)
}

#[tokio::test]
async fn a_revision_of_the_v1_module_is_refused_under_v2() {
    let mut bed = Bed::new(StoredRevision::V1, 1).await;
    let stored = bed.plugin.get(ID).await;
    assert_eq!(stored.1, 1);

    let refused = bed.get().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let told = chain(&refused);
    assert!(
        told.contains("set stored-revision of j5ik2o.dynamo-db-state to v1"),
        "{told}"
    );
    assert!(told.contains(ID), "{told}");
    // Neither a create nor an update nor a deletion touches it.
    let states = bed.states();
    for revision in [1, 2] {
        let ended = states.upsert(&id(), revision, text("ours")).await;
        assert_eq!(Error::from(ended.unwrap_err()).kind(), ErrorKind::Invalid);
        let ended = states.delete(&id(), Some(revision)).await;
        assert_eq!(Error::from(ended.unwrap_err()).kind(), ErrorKind::Invalid);
    }
    assert_eq!(bed.plugin.get(ID).await, stored);

    let found = bed.findings().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kind, found[0].problem),
        (StoredKind::Value, Problem::Unreadable)
    );
    assert_eq!(found[0].persistence_id, Some(id()));
    assert!(found[0].detail.contains("stored-revision"), "{found:?}");
    assert!(matches!(found[0].remedy, Remedy::Left(_)));

    let hints = bed.hints().await;
    assert_eq!(hints.len(), 1, "{hints:?}");
    assert!(
        hints[0].is_wrong && hints[0].detail.contains("set stored-revision"),
        "{hints:?}"
    );
    assert_eq!(hints[0].table, *bed.plugin.table.name());

    let failure = bed.copy_failure().await.expect("the value is not copied");
    assert_eq!(failure.kind(), ErrorKind::Invalid);
    assert!(chain(&failure).contains("stored-revision"));

    bed.settings.j5ik2o.dynamo_db_state.stored_revision = StoredRevision::V1;
    assert_eq!(bed.get().await.unwrap().unwrap().revision, 1);
    assert_eq!((bed.findings().await, bed.hints().await), (vec![], vec![]));
    assert!(bed.copy_failure().await.is_none());
}

#[tokio::test]
async fn the_v2_module_is_read_from_its_first_revision_on() {
    let bed = Bed::new(StoredRevision::V2, 1).await;
    assert_eq!(bed.plugin.get(ID).await.1, 2);
    assert_eq!(bed.get().await.unwrap().unwrap().revision, 1);
    assert_eq!((bed.findings().await, bed.hints().await), (vec![], vec![]));
    bed.states().upsert(&id(), 2, text("ours")).await.unwrap();
    assert_eq!(bed.plugin.get(ID).await, (Some("ours".to_owned()), 3));
}

#[tokio::test]
async fn values_that_other_settings_stored_are_reported() {
    let mut bed = Bed::new(StoredRevision::V2, 1).await;
    // One that we deleted is reported by its tombstone.
    let gone = "my-2".parse().unwrap();
    bed.states().upsert(&gone, 1, text("ours")).await.unwrap();
    bed.states().delete(&gone, None).await.unwrap();
    bed.settings.j5ik2o.dynamo_db_state.shard_count = 1024;
    assert_eq!(bed.get().await.unwrap(), None, "it is not found");

    let found = bed.findings().await;
    assert_eq!(found.len(), 2, "{found:?}");
    for finding in &found {
        assert_eq!(
            (finding.kind, finding.problem),
            (StoredKind::Value, Problem::Stray)
        );
        assert!(finding.detail.contains("set shard-count"), "{found:?}");
    }
    for id in [&id(), &gone] {
        let id = format!("id=`{id}`");
        assert!(found.iter().any(|it| it.detail.contains(&id)), "{found:?}");
    }

    let hints = bed.hints().await;
    assert_eq!(hints.len(), 1, "{hints:?}");
    assert!(
        hints[0].is_wrong && hints[0].detail.contains("2 of 2 values"),
        "{hints:?}"
    );

    // It could not be read if it were listed, and a copy would leave it out.
    let failure = bed.copy_failure().await.expect("the value is not copied");
    assert_eq!(failure.kind(), ErrorKind::Invalid);
    assert!(chain(&failure).contains("shard-count"));
}

#[tokio::test]
async fn an_id_without_a_prefix_gets_advice_that_state_can_follow() {
    let bed = Bed::new(StoredRevision::V2, 1).await;
    let nothing: PersistenceId = "--".parse().unwrap();
    let refused = bed.states().get(&nothing).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let told = chain(&refused);
    assert!(
        told.contains("choose another id or persistence-id-separator"),
        "{told}"
    );
    assert!(!told.contains("SequenceNumberBased"), "{told}");
    // The journal has the resolvers that it names.
    let journal = bed.settings.journal(&bed.store).await.unwrap();
    let told = chain(&journal.highest(&nothing).await.unwrap_err());
    assert!(told.contains("SequenceNumberBased with SeqNr"), "{told}");
}
