//! The JVM and we on the same tables, and what each of us reads.

use std::sync::Arc;

use annals::items::Items;
use annals::journal::{Append, Appended, Expected, Journal, Window};
use annals::layout::Layout;
use annals::snapshot::Snapshots;
use annals::verify::{Problem, Verify};
use annals::{Event, NewEvent, Payload, PersistenceId, Random, SequenceNumber, SystemClock};
use annals_aws::DynamoDb;
use annals_jvm::AnyLayout;
use annals_jvm::settings::{Format, SnapshotOrder};
use annals_testkit::store;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};

use super::program::{Plugin, Session};
use super::sharing;
use crate::{jvm_lines, server};

/// The JVM and we, on new tables.
pub(super) struct Both {
    jvm: Session,
    pub(super) store: Arc<DynamoDb>,
    pub(super) settings: AnyLayout,
}

/// Runs a test with each plugin of the `akka` layout in turn.
pub(super) async fn with_each_plugin(test: impl AsyncFn(&mut Both)) {
    with_each(sharing::of_akka(), test).await;
}

/// As [`with_each_plugin`], and with the j5ik2o plugin with the two most different pairs of resolvers.
pub(super) async fn with_every_layout(test: impl AsyncFn(&mut Both)) {
    let mut all = sharing::of_akka();
    let mut pairs = sharing::of_j5ik2o();
    all.extend(pairs.pop());
    all.extend(pairs.drain(..1));
    with_each(all, test).await;
}

/// Runs a test with each of these in turn, on new tables.
pub(super) async fn with_each(all: Vec<(Plugin, AnyLayout)>, test: impl AsyncFn(&mut Both)) {
    for (plugin, settings) in all {
        let mut both = Both::open(plugin, settings).await;
        test(&mut both).await;
        for table in both.settings.tables().unwrap().all() {
            assert!(both.store.drop_table(table.name()).await.unwrap());
        }
    }
}

impl Both {
    async fn open(plugin: Plugin, settings: AnyLayout) -> Self {
        let (endpoint, store) = (server::endpoint().await, server::open().await);
        let jvm = Session::of(plugin, &endpoint);
        let mut both = Self {
            jvm,
            store,
            settings: settings.clone(),
        };
        both.share_as(settings);
        let numbered = sharing::is_numbered(&both.settings);
        both.jvm
            .ask(json!({"do": "create-tables", "legacy": numbered}));
        both
    }

    /// Gives both these settings from now on.
    pub(super) fn share_as(&mut self, settings: AnyLayout) {
        let theirs = sharing::theirs(&settings);
        self.jvm.ask(json!({"do": "open", "settings": theirs}));
        self.settings = settings;
    }

    /// The name of the plugin.
    pub(super) fn plugin(&self) -> &'static str {
        self.jvm.plugin()
    }

    /// We write this generation of items from now on.
    pub(super) fn write_format(&mut self, format: Format) {
        self.settings.format = format;
    }

    /// Sets `jvm-deletes` for our journals from now on.
    pub(super) fn expect_deletions(&mut self) {
        self.settings.jvm_deletes = true;
    }

    /// Our journal, as in a new process.
    pub(super) async fn journal(&self) -> Journal {
        let clock = Arc::new(SystemClock::new());
        let random = Random::from_machine();
        let store = store(self.store.clone(), clock, random);
        let opened = self.settings.journal(&store);
        opened.await.unwrap()
    }

    pub(super) fn snapshots(&self, order: SnapshotOrder) -> Snapshots {
        let settings = AnyLayout {
            snapshot_order: order,
            ..self.settings.clone()
        };
        let clock = Arc::new(SystemClock::new());
        let random = Random::from_machine();
        settings
            .snapshots(&store(self.store.clone(), clock, random))
            .unwrap()
    }

    /// The response of the JVM to a request about an id.
    #[track_caller]
    pub(super) fn ask(&mut self, id: &PersistenceId, mut request: Json) -> Json {
        request["persistenceId"] = id.as_str().into();
        self.jvm.ask(request)
    }

    /// The ids that the JVM lists.
    pub(super) fn their_ids(&mut self, scan: bool) -> Json {
        let mut answer = self.jvm.ask(json!({"do": "ids", "scan": scan}));
        answer["persistenceIds"].take()
    }

    /// The items of a table, read by the JVM.
    pub(super) fn their_items(&mut self, table: &str) -> Vec<Json> {
        let answer = self.jvm.ask(json!({"do": "items", "table": table}));
        answer["items"].as_array().unwrap().clone()
    }

    /// The JVM appends. Returns the last sequence number.
    #[track_caller]
    pub(super) fn they_append(&mut self, id: &PersistenceId, events: &[Json], atomic: bool) -> u64 {
        let request = json!({"do": "append", "events": events, "atomic": atomic});
        let answer = self.ask(id, request);
        let numbers = answer["sequenceNrs"].as_array().unwrap();
        assert_eq!(numbers.len(), events.len());
        numbers.last().unwrap().as_u64().unwrap()
    }

    #[track_caller]
    pub(super) fn they_delete(&mut self, id: &PersistenceId, to: u64) {
        self.ask(id, json!({"do": "delete", "to": to}));
    }

    /// What the JVM recovers: the events, and the highest sequence number.
    #[track_caller]
    pub(super) fn they_see(&mut self, id: &PersistenceId) -> (Vec<Json>, u64) {
        let mut answer = self.ask(id, json!({"do": "replay"}));
        let Json::Array(events) = answer["events"].take() else {
            panic!("{answer}");
        };
        (events, answer["highest"].as_u64().unwrap())
    }

    /// What we replay: the events, and the highest sequence number.
    pub(super) async fn we_see(&self, id: &PersistenceId) -> (Vec<Event>, u64) {
        let journal = self.journal().await;
        let events = journal.replay(id, Window::ALL).try_collect::<Vec<_>>();
        let events = events.await.unwrap();
        let highest = journal.highest(id).await.unwrap();
        (events, highest.map_or(0, SequenceNumber::get))
    }

    /// Asserts that both read the same history: sequence numbers, serializers, manifests, values and
    /// highest sequence number. `ours` are sequence numbers that only we deliver. Nothing is damaged
    /// except torn batches. Returns the highest sequence number.
    pub(super) async fn agree(&mut self, id: &PersistenceId, ours: &[u64]) -> u64 {
        self.compare(id, ours).await.1
    }

    /// As [`agree`](Self::agree), with this number of events and highest sequence number.
    pub(super) async fn agree_on(&mut self, id: &PersistenceId, want: (usize, u64)) {
        let found = self.compare(id, &[]).await;
        assert_eq!(found, want, "{} {id}", self.jvm.plugin());
    }

    /// The number of events that both read, and the highest sequence number.
    async fn compare(&mut self, id: &PersistenceId, ours: &[u64]) -> (usize, u64) {
        let (theirs, their_highest) = self.they_see(id);
        let (mut events, highest) = self.we_see(id).await;
        let plugin = self.jvm.plugin();
        assert_eq!(highest, their_highest, "{plugin} {id}");
        let numbers = |event: &Event| event.sequence_number.get();
        for number in ours {
            let at = events.iter().position(|event| numbers(event) == *number);
            events.remove(at.unwrap_or_else(|| panic!("{plugin} {id}: {number} is missing")));
        }
        let found: Vec<u64> = events.iter().map(numbers).collect();
        let want = theirs
            .iter()
            .map(|line| line["sequenceNr"].as_u64().unwrap());
        assert_eq!(found, Vec::from_iter(want), "{plugin} {id}");
        for (event, line) in events.into_iter().zip(&theirs) {
            jvm_lines::check(line, &Payload::from(event.data));
        }
        let mut wrong = self
            .journal()
            .await
            .verify(id, Verify::Check)
            .await
            .unwrap();
        wrong.retain(|finding| finding.problem != Problem::IncompleteBatch);
        assert_eq!(wrong, [], "{plugin} {id}");
        (theirs.len(), highest)
    }

    /// What the JVM recovers, as lines of type and value.
    #[track_caller]
    pub(super) fn they_show(&mut self, id: &PersistenceId) -> Vec<Json> {
        let of_line = |line: &Json| json!({"type": line["type"], "value": line["value"]});
        self.they_see(id).0.iter().map(of_line).collect()
    }

    /// Asserts that the JVM recovers exactly these.
    #[track_caller]
    pub(super) fn they_recover(&mut self, id: &PersistenceId, want: &[Json]) {
        let found = self.they_show(id);
        assert_eq!(found, want, "{} {id}", self.jvm.plugin());
    }
}

pub(super) fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

pub(super) fn after(last: u64) -> Expected {
    SequenceNumber::new(last).map_or(Expected::Empty, Expected::Last)
}

pub(super) fn number(n: u64) -> SequenceNumber {
    SequenceNumber::new(n).unwrap()
}

/// The events for lines of type and value.
pub(super) fn events(lines: &[Json]) -> Vec<NewEvent> {
    let event = |line: &Json| jvm_lines::event_of(line["type"].as_str().unwrap(), &line["value"]);
    lines.iter().map(event).collect()
}

/// We append events, all or none.
pub(super) async fn we_append(
    journal: &Journal,
    id: &PersistenceId,
    expected: Expected,
    append: impl Into<Append>,
) -> Appended {
    let appended = journal.append(id, expected, append.into()).await;
    appended.unwrap()
}

/// We append one by one. Returns the last sequence number.
pub(super) async fn we_append_each(journal: &Journal, id: &PersistenceId, lines: &[Json]) -> u64 {
    let mut last = 0;
    for event in events(lines) {
        last = we_append(journal, id, Expected::Any, event)
            .await
            .last
            .get();
    }
    last
}
