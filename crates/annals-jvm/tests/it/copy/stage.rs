//! Source and target of a copy, test data, and comparison of their contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals::copy::{Copied, Copier, CopyEndpoint, Outcome};
use annals::items::Items;
use annals::journal::{Append, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshot};
use annals::state::{NewState, State};
use annals::store::Store;
use annals::verify::Verify;
use annals::{
    Annals, Codec, ErrorKind, Event, ManualClock, NewEvent, Payload, PersistenceId, Token,
};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use futures::TryStreamExt;

use annals_testkit::journals::{after, number};

pub(super) fn settings(layout: LayoutName) -> AnyLayout {
    AnyLayout {
        layout,
        ..AnyLayout::default()
    }
}

/// A source or target with its store and clock.
pub(super) struct Stage {
    pub(super) annals: Annals,
    pub(super) clock: Arc<ManualClock>,
}

impl Stage {
    /// A layout in a store of its own.
    pub(super) async fn new(layout: LayoutName) -> Self {
        Self::on(Arc::new(Memory::new()), layout).await
    }

    pub(super) async fn on(items: Arc<dyn Items>, layout: LayoutName) -> Self {
        let settings = settings(layout);
        for table in settings.tables().unwrap().all() {
            if items.describe_table(table.name()).await.unwrap().is_none() {
                let created = items.create_table(table, Default::default()).await;
                created.unwrap();
            }
        }
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let annals = Annals::open(Store::from(items).with_clock(clock.clone()), &settings).await;
        let annals = annals.unwrap();
        annals.journal().prepare().await.unwrap();
        Self { annals, clock }
    }

    /// Appends after the last event, a second later.
    pub(super) async fn append(&self, id: &str, events: impl Into<Append>) {
        self.clock.advance(std::time::Duration::from_secs(1));
        let id = id.parse().unwrap();
        let journal = self.annals.journal();
        let last = journal.highest(&id).await.unwrap().map_or(0, |n| n.get());
        journal.append(&id, after(last), events).await.unwrap();
    }

    pub(super) async fn delete(&self, id: &str, to: u64) {
        let id = id.parse().unwrap();
        let journal = self.annals.journal();
        journal.delete_to(&id, number(to)).await.unwrap();
    }

    pub(super) async fn save(&self, id: &str, at: u64, state: &str) {
        self.clock.advance(std::time::Duration::from_secs(1));
        let (id, state) = (
            id.parse().unwrap(),
            Payload::new(Codec::Text, state.to_owned()),
        );
        let snapshots = self.annals.snapshots();
        snapshots.save(&id, number(at), state).await.unwrap();
    }

    pub(super) async fn upsert(&self, id: &str, revision: u64, state: NewState) {
        self.clock.advance(std::time::Duration::from_secs(1));
        let states = self.annals.states().unwrap();
        let id = id.parse().unwrap();
        states.upsert(&id, revision, state).await.unwrap();
    }

    pub(super) fn has_states(&self) -> bool {
        self.annals.states().is_ok()
    }

    pub(super) async fn events(&self, id: &str) -> Vec<Event> {
        let id = id.parse().unwrap();
        let events = self.annals.journal().replay(&id, Window::ALL);
        events.try_collect().await.unwrap()
    }

    pub(super) async fn numbers(&self, id: &str) -> Vec<u64> {
        let events = self.events(id).await;
        events.iter().map(|e| e.sequence_number.get()).collect()
    }

    /// Everything that must be equal in source and target.
    pub(super) async fn seen(&self) -> Seen {
        let journal = self.annals.journal();
        let ids: Vec<PersistenceId> = journal.persistence_ids("").try_collect().await.unwrap();
        let mut seen = Seen::default();
        for id in ids {
            let mut events = self.events(id.as_str()).await;
            for event in &mut events {
                event.token = Token::from_bytes([0; 8]);
            }
            let highest = journal.highest(&id).await.unwrap().unwrap().get();
            let found = self.annals.snapshots().find(&id, Criteria::ALL);
            let mut snapshots: Vec<Snapshot> = found.try_collect().await.unwrap();
            for snapshot in &mut snapshots {
                snapshot.anchor = None;
            }
            seen.journals.insert(id, (highest, events, snapshots));
        }
        if let Ok(states) = self.annals.states() {
            let mut ids = states.ids("");
            while let Some(id) = ids.try_next().await.unwrap() {
                let state = states.last(&id).await.unwrap().unwrap();
                seen.states.insert(id, state);
            }
        }
        seen
    }

    /// Fails if verification has findings.
    pub(super) async fn check(&self) {
        let journal = self.annals.journal();
        let mut ids = journal.persistence_ids("");
        while let Some(id) = ids.try_next().await.unwrap() {
            let findings = journal.verify(&id, Verify::Check).await.unwrap();
            assert!(findings.is_empty(), "{id}: {findings:?}");
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) journals: BTreeMap<PersistenceId, (u64, Vec<Event>, Vec<Snapshot>)>,
    pub(super) states: BTreeMap<PersistenceId, State>,
}

impl Seen {
    pub(super) fn events(&self) -> u64 {
        let events = self.journals.values().map(|(_, events, _)| events.len());
        events.sum::<usize>() as u64
    }

    pub(super) fn snapshots(&self) -> u64 {
        let found = self.journals.values().map(|(_, _, found)| found.len());
        found.sum::<usize>() as u64
    }
}

pub(super) fn copier(from: &Stage, to: &Stage) -> Copier {
    Copier::new(
        CopyEndpoint::from(&from.annals),
        CopyEndpoint::from(&to.annals),
    )
}

pub(super) async fn outcomes(copier: &Copier) -> Vec<Outcome> {
    copier.all("").try_collect().await.unwrap()
}

/// Copies everything, without a failure.
pub(super) async fn copy(from: &Stage, to: &Stage) -> Copied {
    let mut all = Copied::default();
    for outcome in outcomes(&copier(from, to)).await {
        assert!(outcome.failure.is_none(), "{outcome:?}");
        all += outcome.copied;
    }
    all
}

/// Copies everything; returns the only failure.
pub(super) async fn failure(copier: &Copier) -> (ErrorKind, String) {
    let outcomes = outcomes(copier).await;
    let mut failures = outcomes
        .iter()
        .filter_map(|outcome| outcome.failure.clone());
    let failure = failures.next().expect("a copy fails");
    assert!(failures.next().is_none(), "{outcomes:?}");
    (failure.kind(), failure.to_string())
}

/// Fills a store with one of everything.
pub(super) async fn fill(side: &Stage) {
    let rich = |n: u64| {
        let codecs = [
            Codec::Json,
            Codec::Text,
            Codec::Bytes,
            Codec::Cbor,
            Codec::Other("akka:1042".into()),
        ];
        NewEvent::new(codecs[n as usize % 5].clone(), format!("{{\"n\":{n}}}"))
            .manifest(format!("Event{n}"))
            .schema(n as u32 % 3)
            .tag(format!("tag{n}"))
            .tag("all")
            .metadata("by", format!("user {n}"))
    };
    for n in 0..7 {
        side.append("Plain-1", rich(n)).await;
    }
    for (n, count) in [(1, 3), (2, 1), (3, 5)] {
        let mut append = Append::of((0..count).map(rich).collect::<Vec<_>>());
        append.causation = Some(format!("request-{n}"));
        append.correlation = (n > 1).then(|| "order-7".to_owned());
        side.append("Batch-2", append).await;
    }
    for n in 0..12 {
        side.append("Cut-3", rich(n)).await;
    }
    side.save("Cut-3", 5, "five").await;
    side.save("Cut-3", 9, "nine").await;
    side.delete("Cut-3", 5).await;
    side.append("Gone-4", vec![rich(1); 4]).await;
    side.save("Gone-4", 4, "four").await;
    side.delete("Gone-4", 4).await;
    let large = NewEvent::new(Codec::Bytes, vec![7; 300_000]);
    side.append("Large-5", large.clone()).await;
    side.append("Large-5", vec![rich(1), rich(2)]).await;
    side.append("Large-5", large).await;
    for n in 0..25 {
        let ten: Vec<_> = (0..10).map(|m| rich(10 * n + m)).collect();
        side.append("Many-6", ten).await;
    }
    // Inside a batch, and far after the first hundred.
    side.delete("Many-6", 123).await;
    if side.has_states() {
        let value = |text: &str| NewState::from(Payload::new(Codec::Text, text.to_owned()));
        for revision in 1..=3 {
            side.upsert("Value-1", revision, value("v").tag("carts"))
                .await;
        }
        side.upsert("Value-2", 1, value("gone")).await;
        let id = "Value-2".parse().unwrap();
        side.annals
            .states()
            .unwrap()
            .delete(&id, None)
            .await
            .unwrap();
        side.upsert("Plain-1", 1, value("beside events")).await;
    }
}
