//! A store with accounts, and the rows that a sink keeps of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals::entity::EntityEvent;
use annals::journal::Expected;
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::projection::{OnPoison, RunSettings, Running, Target};
use annals::{Annals, Clock, NewEvent, PersistenceId, SystemClock};
use annals_sql::SqlSink;
use annals_sql::sqlx::Pool;

use crate::databases::Db;
use crate::ledger::{Booked, Ledger, Switches};

pub(crate) struct Stage<D: Db> {
    pub(crate) annals: Annals,
    pub(crate) home: D::Home,
    /// The test's own.
    pub(crate) pool: Pool<D>,
    pub(crate) switches: Arc<Switches>,
    /// What was appended, by id.
    pub(crate) journal: BTreeMap<String, Vec<Booked>>,
}

impl<D: Db> Stage<D> {
    pub(crate) async fn new() -> Self {
        let layout = AnnalsLayout::default();
        let annals = Annals::create(Memory::new(), &layout).await.unwrap();
        let home = D::home().await;
        Self {
            annals,
            pool: D::pool(&home).await,
            home,
            switches: Arc::default(),
            journal: BTreeMap::new(),
        }
    }

    /// Drops the database. Not called if the test fails.
    pub(crate) async fn close(self) {
        self.pool.close().await;
        D::close(self.home).await;
    }

    /// Appends events to an account, all at once.
    pub(crate) async fn append(&mut self, account: &str, events: &[Booked]) {
        let id: PersistenceId = format!("Account|{account}").parse().unwrap();
        let new: Vec<NewEvent> = events
            .iter()
            .map(|event| event.to_event().unwrap())
            .collect();
        let appended = self.annals.journal().append(&id, Expected::Any, new);
        appended.await.unwrap();
        let all = self.journal.entry(id.to_string()).or_default();
        all.extend_from_slice(events);
    }

    /// A sink as another process would have it: with a pool of its own.
    pub(crate) async fn sink(&self) -> Arc<SqlSink<D::View<1>>> {
        self.sink_of::<1>().await
    }

    pub(crate) async fn sink_of<const R: u32>(&self) -> Arc<SqlSink<D::View<R>>> {
        let pool = D::pool(&self.home).await;
        SqlSink::new(pool, D::view(Ledger::new(&self.switches)))
    }

    pub(crate) async fn start(&self, target: Arc<dyn Target>) -> Running<()> {
        self.start_with(target, settings()).await
    }

    pub(crate) async fn start_with(
        &self,
        target: Arc<dyn Target>,
        settings: RunSettings,
    ) -> Running<()> {
        let starting = self.annals.projections().target(target);
        starting.settings(settings).start().await.unwrap()
    }

    /// Checks that every event of the journal was applied once, in order.
    pub(crate) async fn check(&self) {
        self.check_revision(1).await;
    }

    pub(crate) async fn check_revision(&self, revision: u32) {
        let select = format!("SELECT id, CAST(number AS text) FROM applied_{revision} ORDER BY n");
        let mut applied: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for row in D::rows(&self.pool, &select).await {
            let numbers = applied.entry(row[0].clone()).or_default();
            numbers.push(row[1].parse().unwrap());
        }
        let all = self.journal.iter();
        let want: BTreeMap<String, Vec<usize>> = all
            .map(|(id, events)| (id.clone(), (1..=events.len()).collect()))
            .collect();
        assert_eq!(applied, want);
        let select = format!(
            "SELECT entity, CAST(events AS text), CAST(cents AS text) FROM balance_{revision} ORDER BY entity"
        );
        let balances = D::rows(&self.pool, &select).await;
        let all = self.journal.iter();
        let want: Vec<Vec<String>> = all
            .map(|(id, events)| {
                let cents: u32 = events.iter().map(Booked::cents).sum();
                let entity = id.strip_prefix("Account|").unwrap().to_owned();
                vec![entity, events.len().to_string(), cents.to_string()]
            })
            .collect();
        assert_eq!(balances, want);
    }

    /// The events that were applied to an account, by number.
    pub(crate) async fn applied(&self, account: &str) -> Vec<String> {
        let select = format!(
            "SELECT CAST(number AS text) FROM applied_1 WHERE id = 'Account|{account}' ORDER BY n"
        );
        let rows = D::rows(&self.pool, &select).await.into_iter();
        rows.flatten().collect()
    }

    /// Why a share of a build does not go on.
    pub(crate) async fn stopped(&self) -> Option<String> {
        let status = self.annals.projections().status("ledger").await.unwrap();
        let mut builds = status.unwrap().builds.into_iter();
        builds.find_map(|build| build.shares.into_iter().find_map(|share| share.stopped))
    }

    pub(crate) async fn dead_letters(&self) -> Vec<String> {
        let letters = self.annals.projections().dead_letters("ledger").await;
        let letters = letters.unwrap().unwrap().into_iter();
        letters
            .map(|one| {
                format!(
                    "{} {}..{} ({})",
                    one.persistence_id, one.from, one.to, one.events
                )
            })
            .collect()
    }
}

/// Leases that expire quickly.
pub(crate) fn settings() -> RunSettings {
    RunSettings::default().lease(Duration::from_millis(400))
}

pub(crate) fn with_dead_letters() -> RunSettings {
    settings().attempts(1).on_poison(OnPoison::DeadLetter)
}

pub(crate) async fn caught_up(running: &Running<()>) {
    let caught_up = SystemClock::within(Duration::from_secs(60), running.caught_up());
    caught_up.await.expect("it catches up").unwrap();
}

/// Waits until something holds.
pub(crate) async fn until<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = SystemClock::new();
    for _ in 0..1500 {
        if let Some(found) = found().await {
            return found;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} does not happen");
}

/// A number that counts up, for closures.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, to: usize) {
        self.0.store(to, Ordering::SeqCst);
    }
}
