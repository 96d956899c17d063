//! What handlers work with: the store, opened when it can be, and what is under way.

use std::future::Future;
use std::sync::Arc;

use annals::items::{Items, TableSpec};
use annals::log::Log;
use annals::settings::{Settings, StoreKind};
use annals::{Annals, Clock, Result, SystemClock};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::auth::Guard;
use super::finishing::Finishing;
use super::limits::Limits;
use super::metrics::{self, Meters};
use super::problem::Answer;
use super::router::routes;
use super::tail::{Looking, Tails};
use super::traced::{self, Traced};
use super::turns::Turns;
use crate::open::{self, Absent};

/// Everything a handler needs. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    items: Arc<dyn Items>,
    settings: Settings,
    annals: OnceCell<Annals>,
    log: OnceCell<Log>,
    clock: Arc<dyn Clock>,
    guard: Guard,
    limits: Limits,
    metrics: PrometheusHandle,
    meters: Meters,
    requests: Semaphore,
    /// Writes whose callers have gone.
    orphans: TaskTracker,
    closing: CancellationToken,
    tails: Tails,
    turns: Turns,
}

impl App {
    /// On the store of the settings: on this machine made, with its tables, where it is missing.
    ///
    /// # Errors
    /// As the store fails to open. DynamoDB is asked nothing yet.
    pub(crate) async fn open(settings: &Settings, guard: Guard, limits: Limits) -> Result<Self> {
        // The store's own meters look for the recorder when it is made.
        let metrics = metrics::recorder()?;
        let items: Arc<dyn Items> = open::store(settings, Absent::Create).await?;
        let items = match traced::is_wanted() {
            true => Arc::new(Traced::new(items)),
            false => items,
        };
        let app = Self(Arc::new(Inner {
            items,
            settings: settings.clone(),
            annals: OnceCell::new(),
            log: OnceCell::new(),
            clock: Arc::new(SystemClock::new()),
            guard,
            limits,
            metrics,
            meters: Meters::new(routes().into_iter().map(|(path, _)| path)),
            requests: Semaphore::new(limits.requests),
            orphans: TaskTracker::new(),
            closing: CancellationToken::new(),
            turns: Turns::new(),
            tails: Tails::new(match settings.store {
                // Nobody else can have the folder open, so every append passes through here.
                StoreKind::Embedded => Looking::WhenTold,
                StoreKind::DynamoDb => Looking::AlsoByItself,
            }),
        }));
        if settings.store == StoreKind::Embedded {
            let annals = Annals::create(app.items().clone(), settings).await?;
            annals.journal().prepare().await?;
            let log = annals.create_log(&settings.log).await?;
            app.0.annals.set(annals).ok();
            app.0.log.set(log).ok();
        }
        Ok(app)
    }

    /// Journal, snapshots and state: opened at the first call that finds their tables.
    pub(super) async fn annals(&self) -> Result<&Annals> {
        let open = || Annals::open(self.0.items.clone(), &self.0.settings);
        self.0.annals.get_or_try_init(open).await
    }

    /// The time-ordered log: opened at the first call that finds its tables.
    pub(super) async fn log(&self) -> Result<&Log> {
        let open = || {
            let (items, clock) = (self.0.items.clone(), self.0.clock.clone());
            Log::open(items, &self.0.settings.log, clock)
        };
        self.0.log.get_or_try_init(open).await
    }

    pub(super) fn items(&self) -> &Arc<dyn Items> {
        &self.0.items
    }

    /// The tables of the layout.
    pub(super) fn tables(&self) -> Result<Vec<TableSpec>> {
        let tables = self.0.settings.layout.tables(&self.0.settings)?;
        Ok(tables.all().cloned().collect())
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

    pub(super) fn requests(&self) -> &Semaphore {
        &self.0.requests
    }

    pub(super) fn tails(&self) -> &Tails {
        &self.0.tails
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
    pub(super) async fn accept<T: Send + 'static>(
        &self,
        write: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Answer<T> {
        Finishing::new(write, &self.0.orphans).await
    }

    /// Waits for every write whose caller has gone.
    pub(super) async fn finish_accepted(&self) {
        self.0.orphans.close();
        self.0.orphans.wait().await;
    }
}
