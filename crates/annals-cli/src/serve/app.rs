//! What handlers work with: the store, opened when it can be, and what is under way.

use std::future::Future;
use std::sync::Arc;

use crate::settings::{Settings, StoreKind};
use annals::items::{TableName, TableSpec};
use annals::log::Log;
use annals::store::Store;
use annals::{Annals, Clock, Result, SystemClock};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::auth::Guard;
use super::finishing::{Finishing, Orphans};
use super::limits::Limits;
use super::metrics::{self, Meters};
use super::problem::Answer;
use super::router::routes;
use super::sweeper::Horizon;
use super::tail::{Looking, Tails};
use super::turns::Turns;
use super::under_way::UnderWay;
use crate::open::{self, Absent};

/// Everything a handler needs. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    store: Store,
    settings: Settings,
    annals: OnceCell<Annals>,
    log: OnceCell<Log>,
    clock: Arc<dyn Clock>,
    guard: Guard,
    limits: Limits,
    metrics: PrometheusHandle,
    meters: Meters,
    under_way: UnderWay,
    orphans: Orphans,
    closing: CancellationToken,
    tails: Tails,
    turns: Turns,
    horizon: Horizon,
}

impl App {
    /// On the store of the settings: on this machine made, with its tables, where it is missing.
    ///
    /// # Errors
    /// As the store fails to open. DynamoDB is asked nothing yet.
    pub(crate) async fn open(settings: &Settings, guard: Guard, limits: Limits) -> Result<Self> {
        // The store's own meters look for the recorder when it is made.
        let metrics = metrics::recorder()?;
        let store = open::store(settings, Absent::Create).await?;
        let under_way = UnderWay::new(&limits);
        let app = Self(Arc::new(Inner {
            store,
            settings: settings.clone(),
            annals: OnceCell::new(),
            log: OnceCell::new(),
            clock: Arc::new(SystemClock::new()),
            guard,
            limits,
            metrics,
            meters: Meters::new(routes().into_iter().map(|(path, _)| path))?,
            orphans: Orphans::new(under_way.clone()),
            under_way,
            closing: CancellationToken::new(),
            turns: Turns::new(),
            horizon: Horizon::default(),
            tails: Tails::new(match settings.store {
                // Nobody else can have the folder open, so every append passes through here.
                StoreKind::Embedded => Looking::WhenTold,
                StoreKind::DynamoDb => Looking::AlsoByItself,
            }),
        }));
        if settings.store == StoreKind::Embedded {
            let annals = Annals::create(app.store(), &settings.layout()).await?;
            annals.journal().prepare().await?;
            let log = annals.create_log(&settings.log).await?;
            app.0.annals.set(annals).ok();
            app.0.log.set(log).ok();
        }
        Ok(app)
    }

    /// Journal, snapshots and state: opened at the first call that finds their tables.
    pub(super) async fn annals(&self) -> Result<&Annals> {
        let open = || async {
            let layout = self.0.settings.layout();
            Annals::open(&self.0.store, &layout).await
        };
        self.0.annals.get_or_try_init(open).await
    }

    /// The time-ordered log: opened at the first call that finds its tables.
    pub(super) async fn log(&self) -> Result<&Log> {
        let open = || Log::open(&self.0.store, &self.0.settings.log);
        self.0.log.get_or_try_init(open).await
    }

    /// The log, where somebody has used it.
    pub(super) fn opened_log(&self) -> Option<&Log> {
        self.0.log.get()
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

    pub(super) fn meters(&self) -> &Meters {
        &self.0.meters
    }

    pub(super) fn under_way(&self) -> &UnderWay {
        &self.0.under_way
    }

    pub(super) fn tails(&self) -> &Tails {
        &self.0.tails
    }

    pub(super) fn horizon(&self) -> &Horizon {
        &self.0.horizon
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// Done when the server is to stop.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// A write to its end, also where its caller goes away meanwhile: what was begun is finished,
    /// and a shutdown waits for it.
    pub(super) fn accept<T: Send + 'static>(
        &self,
        write: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Finishing<Answer<T>> {
        Finishing::new(write, &self.0.orphans)
    }

    /// Goes on with a write that nobody waits for.
    pub(super) fn go_on_with(&self, write: impl Future<Output = ()> + Send + 'static) {
        self.0.orphans.take(write, 0);
    }

    /// Waits for every write whose caller has gone.
    pub(super) async fn finish_accepted(&self) {
        self.0.orphans.finish().await;
    }
}
