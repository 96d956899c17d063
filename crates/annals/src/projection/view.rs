//! Views: rows in the same store, each the fold of the events that have its key.
//!
//! Guarantees: every event is in its row exactly once, whatever crashed. A row carries the position that
//! it reflects and is only written over the version that was read, so a batch that comes again, or a
//! runner that lost its share, changes nothing twice. Nothing is written before the whole batch was
//! folded.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

use super::fed::{self, Fed};
use super::record::Records;
use super::row::{RowKey, StoredRow};
use super::rows;
use super::table::{BuildKey, KEY_BYTES_MAX};
use super::target::{Delivered, Delivery, Failure, Kind, ShareContext, Target};
use crate::entity::{EntityEvent, EventReader, Stored};
use crate::feed::Filter;
use crate::items::{Item, WriteError};
use crate::{Error, PersistenceId, Result};

/// Rows that follow the events: a read model.
///
/// ```
/// use annals::entity::{EntityEvent, Stored};
/// use annals::feed::Filter;
/// use annals::projection::{Fed, View};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, EntityEvent)]
/// enum CartEvent {
///     Added { cents: u64 },
///     CheckedOut,
/// }
///
/// struct OpenCarts;
///
/// #[derive(Default, Debug, PartialEq, Serialize, Deserialize, Stored)]
/// struct OpenCart {
///     items: u64,
///     cents: u64,
/// }
///
/// impl View for OpenCarts {
///     const NAME: &'static str = "open-carts";
///     type Event = CartEvent;
///     type Row = OpenCart;
///
///     fn source() -> Filter {
///         Filter::new().category("Cart")
///     }
///
///     fn key(event: &Fed<CartEvent>) -> Option<String> {
///         Some(event.entity().to_owned())
///     }
///
///     fn apply(row: Option<OpenCart>, event: &Fed<CartEvent>) -> Option<OpenCart> {
///         let mut cart = row.unwrap_or_default();
///         match &event.event {
///             CartEvent::Added { cents } => {
///                 cart.items += 1;
///                 cart.cents += cents;
///                 Some(cart)
///             }
///             CartEvent::CheckedOut => None, // the row is deleted
///         }
///     }
/// }
///
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, memory::Memory};
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let carts = annals.projections().view::<OpenCarts>().start().await?;
///
/// let added = CartEvent::Added { cents: 350 }.to_event()?;
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, added).await?;
///
/// carts.caught_up().await?;
/// assert_eq!(carts.get("42").await?, Some(OpenCart { items: 1, cents: 350 }));
/// # carts.stop().await;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a view",
    label = "`annals::projection::View` is not implemented for `{Self}`",
    note = "implement `View`: its name, its events, its rows, `source`, `key` and `apply`"
)]
pub trait View: Send + Sync + 'static {
    /// The name. It names the stored rows, so it must never change.
    const NAME: &'static str;
    /// Raise it when rows are computed differently, or their type changes: a higher revision is built
    /// from the start of the feed, beside the live one.
    const REVISION: u32 = 1;
    /// The events.
    type Event: EntityEvent;
    /// The rows.
    type Row: Stored + Send + Sync + 'static;

    /// Which events it wants.
    fn source() -> Filter;

    /// The key of the row that an event changes, 1 to 500 bytes; `None` if it changes none.
    fn key(event: &Fed<Self::Event>) -> Option<String>;

    /// The row after an event. `None`: there is none, and an existing one is deleted.
    fn apply(row: Option<Self::Row>, event: &Fed<Self::Event>) -> Option<Self::Row>;

    /// The place of a row in the order of [`Rows::ordered`](super::Rows::ordered), up to 500 bytes:
    /// text, or a number by [`ascending`](super::ascending) or [`descending`](super::descending).
    fn order(row: &Self::Row) -> Option<String> {
        let _ = row;
        None
    }

    /// The key of the row to delete when everything of an id is purged; its numbering restarts at 1.
    fn purged(id: &PersistenceId) -> Option<String> {
        let _ = id;
        None
    }
}

/// How many rows are written at the same time.
const CONCURRENT_WRITES: usize = 256;

/// The target of a view.
pub(super) struct ViewTarget<V> {
    records: Records,
    reader: EventReader,
    view: PhantomData<fn() -> V>,
}

/// A change of a row.
enum Change<E> {
    Apply(Box<Fed<E>>),
    Delete,
}

/// A change of a row, and the delivery that it comes from.
struct RowChange<'a, E> {
    index: usize,
    delivery: &'a Delivery,
    change: Change<E>,
}

/// A row after its changes.
struct FoldedRow {
    row: StoredRow,
    order: Option<String>,
    /// Whether it must be stored: there was a row at some time, or there is an item.
    is_written: bool,
}

/// Why a row could not be folded.
enum FoldError {
    /// Because of a delivery.
    Poison(usize, Error),
    /// Because of the stored row.
    Stored(Error),
}

impl From<FoldError> for Failure {
    fn from(error: FoldError) -> Self {
        match error {
            FoldError::Poison(index, cause) => Self::Poison {
                index,
                done: 0,
                cause,
            },
            FoldError::Stored(error) => Self::Failed(error),
        }
    }
}

type Changes<'a, E> = Vec<RowChange<'a, E>>;

impl<V: View> ViewTarget<V> {
    pub(super) fn new(records: Records, reader: EventReader) -> Self {
        Self {
            records,
            reader,
            view: PhantomData,
        }
    }

    /// The changes of each row, in order.
    fn changes<'a>(
        &self,
        batch: &'a [Delivery],
    ) -> Result<HashMap<String, Changes<'a, V::Event>>, FoldError> {
        let mut by_key: HashMap<String, Changes<'a, V::Event>> = HashMap::new();
        for (index, delivery) in batch.iter().enumerate() {
            let changes = self.changes_of(delivery);
            for (key, change) in changes.map_err(|cause| FoldError::Poison(index, cause))? {
                by_key.entry(key).or_default().push(RowChange {
                    index,
                    delivery,
                    change,
                });
            }
        }
        Ok(by_key)
    }

    /// The changes of a delivery, each with the key of its row.
    fn changes_of(&self, delivery: &Delivery) -> Result<Vec<(String, Change<V::Event>)>> {
        let changes = match &delivery.what {
            Delivered::Event(event) => {
                let events = fed::read::<V::Event>(&self.reader, event)?.into_iter();
                let keyed = events.map(|event| {
                    let key = fed::guarded("computing the key", || V::key(&event))?;
                    Ok(key.map(|key| (key, Change::Apply(Box::new(event)))))
                });
                let keyed: Result<Vec<_>> = keyed.filter_map(Result::transpose).collect();
                keyed?
            }
            Delivered::Purged => {
                let key = fed::guarded("computing the key", || V::purged(&delivery.id))?;
                key.map(|key| (key, Change::Delete)).into_iter().collect()
            }
            Delivered::Deleted(_) | Delivered::Missing(_) => Vec::new(),
        };
        for (key, _) in &changes {
            check_key(key)?;
        }
        Ok(changes)
    }

    /// The row after the changes that it does not have yet; `has` says which it has.
    fn fold(
        &self,
        mut row: StoredRow,
        changes: &[RowChange<'_, V::Event>],
        has: impl Fn(&StoredRow, &Delivery) -> bool,
    ) -> Result<Option<FoldedRow>, FoldError> {
        let mut value = row.value.as_ref().map(rows::decode::<V>).transpose();
        let mut is_written = !row.is_absent();
        let mut last = None;
        for change in changes.iter().filter(|change| !has(&row, change.delivery)) {
            let before = value.map_err(FoldError::Stored)?;
            let after = match &change.change {
                Change::Delete => Ok(None),
                Change::Apply(event) => {
                    fed::guarded("applying an event", || V::apply(before, event))
                }
            };
            let after = after.map_err(|cause| FoldError::Poison(change.index, cause))?;
            is_written |= after.is_some();
            value = Ok(after);
            last = Some(change);
        }
        let Some(last) = last else {
            return Ok(None);
        };
        let poison = |cause| FoldError::Poison(last.index, cause);
        let value = value.map_err(FoldError::Stored)?;
        let order = match &value {
            None => None,
            Some(value) => {
                fed::guarded("computing the order", || V::order(value)).map_err(poison)?
            }
        };
        if let Some(order) = &order {
            check_order(order).map_err(poison)?;
        }
        row.value = value
            .map(|value| value.to_payload())
            .transpose()
            .map_err(poison)?;
        Ok(Some(FoldedRow {
            row,
            order,
            is_written,
        }))
    }

    /// Folds what a share delivered into a row; `None`: the row has everything.
    fn fold_batch(
        &self,
        share: u16,
        row: StoredRow,
        changes: &[RowChange<'_, V::Event>],
    ) -> Result<Option<FoldedRow>, FoldError> {
        let folded = self.fold(row, changes, |row, delivery| {
            row.reflects(share, delivery.lane, delivery.at)
        });
        let mut folded = folded?;
        if let Some(folded) = &mut folded {
            for change in changes {
                let Delivery { lane, at, .. } = change.delivery;
                if !folded.row.reflects(share, *lane, *at) {
                    folded.row.set_reflected(share, *lane, *at);
                }
            }
        }
        Ok(folded)
    }

    /// Writes a folded row. Returns the row that was there instead, if it changed meanwhile.
    async fn write(
        &self,
        build: &BuildKey,
        key: &str,
        mut folded: FoldedRow,
    ) -> Result<Option<StoredRow>> {
        let condition = folded.row.unchanged();
        folded.row.renew(self.records.store.random());
        let order = folded.order.as_deref();
        let item = folded.row.to_item(RowKey { build, key, order });
        match self
            .records
            .store
            .put(&self.records.table, item, condition)
            .await
        {
            Ok(_) => Ok(None),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => match existing {
                // Our own: its response was lost.
                Some(existing) if folded.row.is_version_of(&existing) => Ok(None),
                existing => stored_row(existing.as_deref()).map(Some),
            },
        }
    }

    /// Writes a folded row, folding again as long as others change it.
    async fn settle(
        &self,
        share: &ShareContext,
        key: &str,
        (mut folded, changes): (FoldedRow, &[RowChange<'_, V::Event>]),
    ) -> Result<(), Failure> {
        let build = BuildKey::new(share.projection.as_str(), share.build);
        while folded.is_written {
            let Some(found) = self.write(&build, key, folded).await? else {
                return Ok(());
            };
            folded = match self.fold_batch(share.share, found, changes) {
                Ok(Some(folded)) => folded,
                Ok(None) => return Ok(()),
                // Other rows are written: the batch has to come again.
                Err(FoldError::Poison(_, error) | FoldError::Stored(error)) => {
                    return Err(Failure::Failed(error));
                }
            };
        }
        Ok(())
    }

    async fn rows(&self, build: &BuildKey, keys: &[&String]) -> Result<Vec<StoredRow>> {
        let table = &self.records.table;
        let found = keys.iter().map(|key| build.row(key)).collect();
        let found = self.records.store.get(table, found).await?;
        let found = found.items.iter();
        found.map(|item| stored_row(item.as_ref())).collect()
    }

    /// Applies a dead letter to a row.
    async fn retry_row(
        &self,
        share: &ShareContext,
        key: &String,
        changes: &[RowChange<'_, V::Event>],
    ) -> Result<(), Failure> {
        let build = BuildKey::new(share.projection.as_str(), share.build);
        loop {
            let row = self.rows(&build, &[key]).await?.remove(0);
            let folded = self.fold(row, changes, |row, delivery| {
                let letter = delivery.event();
                letter.is_some_and(|letter| row.has_retried(share.share, letter))
            });
            let Some(mut folded) = folded?.filter(|folded| folded.is_written) else {
                return Ok(());
            };
            let letters = changes.iter().filter_map(|change| change.delivery.event());
            letters.for_each(|letter| folded.row.set_retried(share.share, letter));
            // After the row was read: if the lease still holds, no other runner retried in between.
            if !share.holds_lease().await? {
                return Err(Failure::Lost);
            }
            if self.write(&build, key, folded).await?.is_none() {
                return Ok(());
            }
        }
    }
}

fn stored_row(item: Option<&Item>) -> Result<StoredRow> {
    item.map_or_else(|| Ok(StoredRow::default()), StoredRow::from_item)
}

fn check_key(key: &str) -> Result<()> {
    match (1..=KEY_BYTES_MAX).contains(&key.len()) {
        true => Ok(()),
        false => Err(
            Error::invalid(format!("the key of a row has 1 to {KEY_BYTES_MAX} bytes"))
                .fact("bytes", key.len()),
        ),
    }
}

fn check_order(order: &str) -> Result<()> {
    match order.len() <= KEY_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "a place in the order has up to {KEY_BYTES_MAX} bytes"
        ))
        .fact("bytes", order.len())),
    }
}

#[async_trait]
impl<V: View> Target for ViewTarget<V> {
    fn name(&self) -> &str {
        V::NAME
    }

    fn revision(&self) -> u32 {
        V::REVISION
    }

    fn kind(&self) -> Kind {
        Kind::View
    }

    fn source(&self) -> Filter {
        V::source()
    }

    async fn handle(&self, share: &ShareContext, batch: &[Delivery]) -> Result<(), Failure> {
        let build = BuildKey::new(share.projection.as_str(), share.build);
        let by_key = self.changes(batch)?;
        let keys: Vec<&String> = by_key.keys().collect();
        let stored = self.rows(&build, &keys).await?;
        let mut folded = Vec::with_capacity(stored.len());
        let mut poison: Option<(usize, Error)> = None;
        for (row, (key, changes)) in stored.into_iter().zip(&by_key) {
            match self.fold_batch(share.share, row, changes) {
                Ok(Some(row)) => folded.push((key, (row, changes.as_slice()))),
                Ok(None) => {}
                Err(FoldError::Poison(index, cause)) => {
                    if poison.as_ref().is_none_or(|(first, _)| index < *first) {
                        poison = Some((index, cause));
                    }
                }
                Err(FoldError::Stored(error)) => return Err(error.into()),
            }
        }
        if let Some((index, cause)) = poison {
            return Err(FoldError::Poison(index, cause).into());
        }
        let mut writes = Vec::with_capacity(folded.len());
        for (key, row) in folded {
            writes.push(self.settle(share, key, row));
        }
        let writes = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES);
        writes.try_collect::<()>().await
    }

    async fn retry(&self, share: &ShareContext, letter: &Delivery) -> Result<(), Failure> {
        let by_key = self.changes(std::slice::from_ref(letter))?;
        for (key, changes) in &by_key {
            self.retry_row(share, key, changes).await?;
        }
        Ok(())
    }

    async fn drop_build(&self, build: u32) -> Result<()> {
        rows::drop_all(&self.records, &BuildKey::new(V::NAME, build)).await
    }
}

impl<V> fmt::Debug for ViewTarget<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewTarget").finish_non_exhaustive()
    }
}
