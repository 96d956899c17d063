//! A store, and other things that a process does, in which the process crashes at a chosen step.
//!
//! Guarantees: the step before the crash took effect or did not, as chosen; nothing after it does, except
//! a write that is chosen to be late.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::Result;
use crate::items::{
    BatchError, Billing, ChangePage, Changes, Condition, Cost, Got, History, Item, Items, Key,
    Page, PageBudget, Query, Scan, TableName, TableSpec, Write, WriteError,
};

/// What becomes of the step at which a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// It does not take effect.
    Before,
    /// It took effect, but the process does not learn that.
    After,
    /// It takes effect when the next process is done: the request was on its way all the time.
    Late,
}

/// What a step can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// It changes nothing.
    Read,
    /// It changes something outside the store.
    Act,
    /// It changes the store.
    Write,
}

impl StepKind {
    /// The crashes that make a difference.
    pub(super) fn crashes(self) -> &'static [Crash] {
        match self {
            Self::Read => &[Crash::Before],
            Self::Act => &[Crash::Before, Crash::After],
            Self::Write => &[Crash::Before, Crash::After, Crash::Late],
        }
    }
}

/// The step at which a process crashed.
#[derive(Clone, Debug)]
pub(super) struct Crashed {
    pub(super) what: String,
    pub(super) kind: StepKind,
}

/// A write that is on its way.
type Late = BoxFuture<'static, ()>;

/// Counts the steps of a process, and stops it at one of them.
#[derive(Default)]
pub(super) struct Steps {
    taken: AtomicU64,
    /// `None`: it never crashes.
    crash: Option<(u64, Crash)>,
    crashed: Mutex<Option<Crashed>>,
    late: Mutex<Option<Late>>,
    stopped: Notify,
}

impl Steps {
    pub(super) fn crashing_at(step: u64, crash: Crash) -> Arc<Self> {
        Arc::new(Self {
            crash: Some((step, crash)),
            ..Self::default()
        })
    }

    /// Where it crashed; `None` if it needed fewer steps.
    pub(super) fn crashed(&self) -> Option<Crashed> {
        lock(&self.crashed).clone()
    }

    /// The write that is on its way.
    pub(super) fn take_late(&self) -> Option<Late> {
        lock(&self.late).take()
    }

    /// Waits for the crash.
    pub(super) async fn stopped(&self) {
        loop {
            let stopped = self.stopped.notified();
            if self.crashed().is_some() {
                return;
            }
            stopped.await;
        }
    }

    /// Takes a step that is no write of a store.
    pub(super) async fn act<T>(
        &self,
        what: impl FnOnce() -> String + Send,
        call: impl Future<Output = T> + Send,
    ) -> T {
        let crashed = || Crashed {
            what: what(),
            kind: StepKind::Act,
        };
        self.take(crashed, None, call).await
    }

    async fn take<T>(
        &self,
        crashed: impl FnOnce() -> Crashed + Send,
        late: Option<&(dyn Fn() -> Late + Sync)>,
        call: impl Future<Output = T> + Send,
    ) -> T {
        let step = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        let Some((at, crash)) = self.crash else {
            return call.await;
        };
        if step < at {
            return call.await;
        }
        if step == at {
            match (crash, late) {
                (Crash::After, _) => drop(call.await),
                (Crash::Late, Some(late)) => *lock(&self.late) = Some(late()),
                (Crash::Before | Crash::Late, _) => {}
            }
            *lock(&self.crashed) = Some(crashed());
            self.stopped.notify_waiters();
        }
        // Also whatever else the process has in flight.
        std::future::pending().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The store of a process that crashes. Each call is a step.
pub(super) struct Crashing {
    pub(super) inner: Arc<dyn Items>,
    pub(super) steps: Arc<Steps>,
}

impl Crashing {
    async fn read<T>(&self, what: &str, of: &TableName, call: impl Future<Output = T> + Send) -> T {
        let crashed = || Crashed {
            what: format!("{what} {of}"),
            kind: StepKind::Read,
        };
        self.steps.take(crashed, None, call).await
    }

    async fn write_step<T>(
        &self,
        what: impl FnOnce() -> String + Send,
        late: &(dyn Fn() -> Late + Sync),
        call: impl Future<Output = T> + Send,
    ) -> T {
        let crashed = || Crashed {
            what: what(),
            kind: StepKind::Write,
        };
        self.steps.take(crashed, Some(late), call).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Crashing {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        let what = keys.first().map_or("get of nothing in".to_owned(), |key| {
            format!("get of ({key}) in")
        });
        let call = self.inner.get(table, keys);
        self.read(&what, table.name(), call).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let what = || match table.key_of(&item) {
            Ok(key) => format!("put of ({key}) in {}", table.name()),
            Err(_) => format!("put in {}", table.name()),
        };
        let late = || {
            let (inner, table) = (self.inner.clone(), table.clone());
            let (item, condition) = (item.clone(), condition.clone());
            async move { drop(inner.put(&table, item, condition).await) }.boxed()
        };
        let call = self.inner.put(table, item.clone(), condition.clone());
        self.write_step(what, &late, call).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let what = || format!("delete of ({key}) in {}", table.name());
        let late = || {
            let (inner, table) = (self.inner.clone(), table.clone());
            let (key, condition) = (key.clone(), condition.clone());
            async move { drop(inner.delete(&table, key, condition).await) }.boxed()
        };
        let call = self.inner.delete(table, key.clone(), condition.clone());
        self.write_step(what, &late, call).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let what = || format!("batch of {} writes in {}", writes.len(), table.name());
        let late = || {
            let (inner, table, writes) = (self.inner.clone(), table.clone(), writes.clone());
            async move { drop(inner.write(&table, writes).await) }.boxed()
        };
        let call = self.inner.write(table, writes.clone());
        self.write_step(what, &late, call).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let what = format!("query of ({}) in", query.partition);
        let call = self.inner.query(table, query);
        self.read(&what, table.name(), call).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let call = self.inner.scan(table, scan);
        self.read("scan of", table.name(), call).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let what = || format!("creation of the table {}", spec.name());
        let late = || {
            let (inner, spec) = (self.inner.clone(), spec.clone());
            async move { drop(inner.create_table(&spec, billing).await) }.boxed()
        };
        let call = self.inner.create_table(spec, billing);
        self.write_step(what, &late, call).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let call = self.inner.describe_table(name);
        self.read("description of the table", name, call).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let what = || format!("deletion of the table {name}");
        let late = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { drop(inner.drop_table(&name).await) }.boxed()
        };
        let call = self.inner.drop_table(name);
        self.write_step(what, &late, call).await
    }

    fn changes(&self) -> Option<&dyn Changes> {
        self.inner.changes().map(|_| self as &dyn Changes)
    }
}

impl Crashing {
    fn inner_changes(&self) -> Result<&dyn Changes> {
        let missing = || crate::Error::invalid("this store does not keep its changes");
        self.inner.changes().ok_or_else(missing)
    }
}

#[async_trait]
impl Changes for Crashing {
    async fn history(&self) -> Result<History> {
        self.inner_changes()?.history().await
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        let call = self.inner_changes()?.read_changes(table, after, budget);
        let what = format!("read of the changes after {after} of");
        self.read(&what, table.name(), call).await
    }

    async fn wait_for_change(&self, after: u64) -> Result<()> {
        self.inner_changes()?.wait_for_change(after).await
    }
}

impl fmt::Debug for Crashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crashing")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
