//! The application state that handlers share: the store, opened when it can be, and the requests in
//! flight.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::settings::{Settings, StoreKind};
use ::metrics::Counter;
use annals::items::{Items, TableName, TableSpec};
use annals::log::Log;
use annals::projection::IdView;
use annals::store::Store;
use annals::{Annals, Clock, Result, SystemClock};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use super::admission::{
    AppendQueue, DetachedWrites, Finishing, Guard, InFlight, Limits, body_bytes,
};
use super::group_lag::ReportedGroups;
use super::metrics;
use super::problem::Answer;
use super::projection_metrics::ProjectionMetrics;
use super::sweeper::Horizon;
use super::tail::{Polling, Tails};
use crate::open::{self, Absent, Access};

/// Everything a handler needs. Clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    store: Store,
    settings: Settings,
    annals: Reopened<Annals>,
    log: Reopened<Log>,
    ids: Reopened<Option<IdView>>,
    /// Changes when everything is opened again.
    reopened: watch::Sender<()>,
    clock: Arc<dyn Clock>,
    guard: Guard,
    limits: Limits,
    metrics: PrometheusHandle,
    conflicts: Counter,
    in_flight: InFlight,
    detached_writes: DetachedWrites,
    append_queue: AppendQueue,
    closing: CancellationToken,
    tails: Tails,
    horizon: Horizon,
    projection_metrics: ProjectionMetrics,
    reported_groups: ReportedGroups,
    /// How often ids may have been purged.
    purges: AtomicU64,
}

/// The store of a server, to be closed when the server has stopped.
pub(crate) struct OpenStore(Arc<dyn Items>);

impl OpenStore {
    /// How long to wait for tasks that still have the store.
    const WAIT_MAX: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(5);

    /// Closes the store, and returns when its files are closed: an embedded store notes then that it
    /// was. Waits for tasks that were aborted and still have the store; one that does not end is
    /// reported.
    pub(crate) async fn close(self) {
        let (clock, items) = (SystemClock::new(), self.0);
        let released = async {
            while Arc::strong_count(&items) > 1 {
                clock.sleep(Self::PAUSE).await;
            }
        };
        if SystemClock::within(Self::WAIT_MAX, released)
            .await
            .is_none()
        {
            tracing::warn!(
                users = Arc::strong_count(&items) - 1,
                "the store was not closed cleanly: it is still in use. nothing acknowledged is lost"
            );
            return;
        }
        // It waits for threads and files.
        let closed = tokio::task::spawn_blocking(move || drop(items)).await;
        if let Err(error) = closed {
            tracing::warn!(%error, "the store was not closed cleanly");
        }
    }
}

/// What is opened by the first call that can, and again after it was closed.
struct Reopened<T>(RwLock<Arc<OnceCell<Arc<T>>>>);

impl<T> Reopened<T> {
    fn new() -> Self {
        Self(RwLock::new(Arc::new(OnceCell::new())))
    }

    fn cell(&self) -> Arc<OnceCell<Arc<T>>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn get(&self, open: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let cell = self.cell();
        let open = || async { open.await.map(Arc::new) };
        cell.get_or_try_init(open).await.cloned()
    }

    fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(OnceCell::new());
    }
}

impl App {
    /// Opens the store of the settings. The embedded store and its tables are created if missing.
    ///
    /// # Errors
    /// As the store fails to open. DynamoDB gets no request yet, so a server starts without it, too.
    pub(crate) async fn open(
        settings: &Settings,
        guard: Guard,
        limits: Limits,
    ) -> Result<(Self, OpenStore)> {
        // The store's own metrics need the recorder when the store is opened.
        let metrics = metrics::recorder()?;
        let opened = open::store(settings, Absent::Create, Access::Write).await?;
        let store = Store::from_items(opened.items.clone());
        let in_flight = InFlight::new(&limits);
        let app = Self(Arc::new(Inner {
            store,
            settings: Settings {
                // Clients read the settings, too, and run in another folder.
                data: std::path::absolute(&settings.data).unwrap_or_else(|_| settings.data.clone()),
                ..settings.clone()
            },
            annals: Reopened::new(),
            log: Reopened::new(),
            ids: Reopened::new(),
            reopened: watch::Sender::new(()),
            clock: Arc::new(SystemClock::new()),
            guard,
            limits,
            metrics,
            conflicts: metrics::conflicts(),
            detached_writes: DetachedWrites::new(in_flight.clone()),
            in_flight,
            append_queue: AppendQueue::new(),
            closing: CancellationToken::new(),
            horizon: Horizon::default(),
            projection_metrics: ProjectionMetrics::default(),
            reported_groups: ReportedGroups::default(),
            purges: AtomicU64::new(0),
            tails: Tails::new(match settings.store {
                // No other process can have the folder open.
                StoreKind::Embedded => Polling::OnAppend,
                StoreKind::DynamoDb => Polling::AlsoByTime,
            }),
        }));
        if settings.store == StoreKind::Embedded {
            let annals = Annals::create(app.store(), &settings.layout()).await?;
            annals.journal().prepare().await?;
            let log = annals.create_log(&settings.log).await?;
            app.0.annals.cell().set(Arc::new(annals)).ok();
            app.0.log.cell().set(Arc::new(log)).ok();
        }
        Ok((app, OpenStore(opened.items)))
    }

    /// Journal, snapshots and state, opened by the first call that finds their tables.
    pub(super) async fn annals(&self) -> Result<Arc<Annals>> {
        let open = async {
            let layout = self.0.settings.layout();
            Annals::open(&self.0.store, &layout).await
        };
        self.0.annals.get(open).await
    }

    /// Journal, snapshots and state, if they were used.
    pub(super) fn opened_annals(&self) -> Option<Arc<Annals>> {
        self.0.annals.cell().get().cloned()
    }

    /// The built-in view of ids, opened by the first call that finds the journal; `None`: the store has
    /// no feed.
    pub(super) async fn ids(&self) -> Result<Option<IdView>> {
        // Without a request to a store that cannot have one.
        if self.store().changes().is_none() {
            return Ok(None);
        }
        let open = async { self.annals().await?.projections().ids() };
        let view = self.0.ids.get(open).await?;
        Ok((*view).clone())
    }

    /// Changes when everything is opened again.
    pub(super) fn reopened(&self) -> watch::Receiver<()> {
        self.0.reopened.subscribe()
    }

    /// The time-ordered log, opened by the first call that finds its tables.
    pub(super) async fn log(&self) -> Result<Arc<Log>> {
        let open = Log::open(&self.0.store, &self.0.settings.log);
        self.0.log.get(open).await
    }

    /// The log, if it was used.
    pub(super) fn opened_log(&self) -> Option<Arc<Log>> {
        self.0.log.cell().get().cloned()
    }

    /// A table was changed by a client that uses the store itself, as another process would. If the
    /// journal lost items, its ids may have been purged: what was remembered about them is forgotten.
    pub(super) fn changed(&self, table: &str, has_deleted: bool) {
        if self
            .journal_table()
            .is_ok_and(|journal| journal.as_str() == table)
        {
            if has_deleted {
                self.forget_ids();
            }
            self.0.tails.notify_all(has_deleted);
        }
    }

    /// How often ids may have been purged. An append during which this changes may have remembered an
    /// event that is gone; call [`forget_ids`](Self::forget_ids) after it.
    pub(super) fn purges(&self) -> u64 {
        self.0.purges.load(Ordering::Acquire)
    }

    /// Forgets the last sequence numbers of all ids.
    pub(super) fn forget_ids(&self) {
        // First, so that an append that ends later notices it.
        self.0.purges.fetch_add(1, Ordering::AcqRel);
        if let Some(annals) = self.0.annals.cell().get() {
            annals.journal().forget_cached();
        }
    }

    /// Opens everything again: a table was dropped.
    pub(super) fn reopen(&self) {
        // Tails keep the journal that they began with.
        self.forget_ids();
        self.0.annals.close();
        self.0.log.close();
        // After the journal, so that it does not open the former one.
        self.0.ids.close();
        self.0.reopened.send_replace(());
        self.0.tails.notify_all(true);
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The name of the journal's table.
    pub(super) fn journal_table(&self) -> Result<TableName> {
        let tables = self.0.settings.tables()?;
        Ok(tables.journal.name().clone())
    }

    /// Whether the store has a table.
    pub(super) async fn has(&self, table: &TableSpec) -> Result<bool> {
        let found = self.0.store.describe_table(table.name()).await?;
        Ok(found.is_some())
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.0.guard
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(super) fn metrics(&self) -> &PrometheusHandle {
        &self.0.metrics
    }

    /// The counter of conflicts.
    pub(super) fn conflicts(&self) -> &Counter {
        &self.0.conflicts
    }

    pub(super) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    pub(super) fn append_queue(&self) -> &AppendQueue {
        &self.0.append_queue
    }

    pub(super) fn tails(&self) -> &Tails {
        &self.0.tails
    }

    pub(super) fn horizon(&self) -> &Horizon {
        &self.0.horizon
    }

    pub(super) fn projection_metrics(&self) -> &ProjectionMetrics {
        &self.0.projection_metrics
    }

    pub(super) fn reported_groups(&self) -> &ReportedGroups {
        &self.0.reported_groups
    }

    /// Cancelled when the server is to stop.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Runs a write to its end, also if its client disconnects; a shutdown waits for it.
    pub(super) fn finish<T: Send + 'static>(
        &self,
        write: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Finishing<Answer<T>> {
        Finishing::new(write, &self.0.detached_writes)
    }

    /// Runs a write in a task of its own, with the body of the request that is being answered.
    pub(super) fn detach(&self, write: impl Future<Output = ()> + Send + 'static) {
        self.0.detached_writes.spawn(write, body_bytes());
    }

    /// Waits for the writes of all disconnected clients.
    pub(super) async fn finish_detached(&self) {
        self.0.detached_writes.finish().await;
    }
}
