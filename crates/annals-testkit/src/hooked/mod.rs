//! A store whose every call goes through a hook, which may delay it, change it, repeat it, answer it
//! itself, or lose its answer. Every other decorator for tests is a hook.
//!
//! Guarantees: a call that the hook passes on unchanged behaves as without the hook. If the hook fails a
//! call, the caller gets the error type of that call; all writes of a batch remain.
//! Relies on hooks to return the answer of the call they were given; panics otherwise.

mod call;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use annals::Result;
use annals::items::{
    BatchError, Billing, ChangePage, Changes, Condition, Cost, Got, History, Item, Items, Key,
    Page, PageBudget, Query, Scan, TableName, TableSpec, Write, WriteError,
};
use async_trait::async_trait;

pub use call::{Answer, Answered, Call, Failure};

/// Handles the calls of a [`Hooked`] store.
///
/// ```
/// use annals::Error;
/// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
/// use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
/// use std::sync::Arc;
///
/// /// Puts replace other items, and their answers are lost.
/// struct Careless;
///
/// #[async_trait::async_trait]
/// impl Hook for Careless {
///     async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
///         let Call::Put(_, _, condition) = &mut call else {
///             return call.send(inner).await;
///         };
///         *condition = Condition::Always;
///         call.send(inner).await?;
///         Err(Error::unavailable("answer lost").into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Hooked::over(Arc::new(Memory::new()), Careless);
/// items.create_table(&table, Default::default()).await?;
/// for n in [1u64, 2] {
///     let note = Item::new().with("id", "a").with("n", n);
///     assert!(items.put(&table, note, Condition::Absent).await.is_err());
/// }
/// let found = items.get(&table, vec![Key::new("a")]).await?.items;
/// assert_eq!(found, [Some(Item::new().with("id", "a").with("n", 2u64))]);
/// # Ok(())
/// # }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a hook",
    label = "`annals_testkit::hooked::Hook` is not implemented for `{Self}`",
    note = "implement its method `call`, which may pass the call on with `Call::send`"
)]
pub trait Hook: Send + Sync + 'static {
    /// Handles a call; [`Call::send`] passes it on to the `inner` store.
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered;
}

/// A store whose every call goes through a hook. It dereferences to the hook. See [`Hook`] for an
/// example.
pub struct Hooked<H> {
    inner: Arc<dyn Items>,
    hook: H,
}

impl<H> Hooked<H> {
    /// The store `inner`, with the hook in front of it.
    pub fn over(inner: Arc<dyn Items>, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The store without the hook.
    pub fn inner(&self) -> &Arc<dyn Items> {
        &self.inner
    }
}

impl<H: Hook> Hooked<H> {
    async fn pass<T: From<Answer>, E: From<Failure>>(&self, call: Call<'_>) -> Result<T, E> {
        Ok(self.hook.call(&*self.inner, call).await?.into())
    }
}

impl<H> Deref for Hooked<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hook
    }
}

/// Without the hook, so that a hook may hold futures and functions.
impl<H> fmt::Debug for Hooked<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Hooked");
        shown.field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Hook> Items for Hooked<H> {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.pass(Call::Get(table, keys)).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.pass(Call::Put(table, item, condition)).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.pass(Call::Delete(table, key, condition)).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let all = writes.clone();
        let written = self.pass(Call::Write(table, writes)).await;
        written.map_err(|failure: Failure| failure.of_batch(all))
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.pass(Call::Query(table, query)).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.pass(Call::Scan(table, scan)).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.pass(Call::CreateTable(spec, billing)).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.pass(Call::DescribeTable(name)).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.pass(Call::DropTable(name)).await
    }

    fn changes(&self) -> Option<&dyn Changes> {
        self.inner.changes().map(|_| self as &dyn Changes)
    }
}

impl<H> Hooked<H> {
    fn inner_changes(&self) -> Result<&dyn Changes> {
        self.inner.changes().ok_or_else(call::no_changes)
    }
}

#[async_trait]
impl<H: Hook> Changes for Hooked<H> {
    async fn history(&self) -> Result<History> {
        self.inner_changes()?.history().await
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        self.pass(Call::ReadChanges(table, after, budget)).await
    }

    async fn wait_for_change(&self, after: u64) -> Result<()> {
        self.inner_changes()?.wait_for_change(after).await
    }
}
