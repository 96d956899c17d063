//! Projections: read models and reactions that follow the feed.
//!
//! ```text
//! feed ─► share (lease, position) ─► target: View, Handler, or a database's own transaction
//! ```
//!
//! | Target | Guarantee | How |
//! | --- | --- | --- |
//! | [`View`]: rows in the same store | exactly once | a row carries the position that it reflects |
//! | [`Handler`]: anything | at least once | the persistence id and the sequence number are the idempotency key |
//! | [`Target`]: a database's own transaction | exactly once | the position is saved in the same transaction |
//!
//! Guarantees:
//! - A view's rows equal the fold of the events, whatever crashed.
//! - The position of a share never passes an event that was neither handled nor made a dead letter.
//! - A runner that lost its share changes nothing: every write is conditional on what it read.
//! - The events of an id are handled in the order of their sequence numbers.
//!
//! Any number of processes may run the same projection. They divide its shares, each a range of slices
//! ([`slice_of`](crate::feed::slice_of)), under leases.

mod control;
mod delivering;
mod fed;
mod handled;
mod handler;
mod ids;
mod progress;
mod record;
mod row;
mod rows;
mod runner;
mod running;
mod settings;
mod share;
mod status;
pub(crate) mod table;
mod target;
#[cfg(feature = "testkit")]
pub mod testkit;
mod typed;
mod view;
mod worker;

use std::sync::Arc;

use crate::feed::Reading;
use crate::journal::Journal;
use crate::{Error, PersistenceId, Result};

pub use fed::Fed;
pub use handler::Handler;
pub use ids::IdView;
pub use rows::{RowPage, RowQuery, Rows, ascending, descending};
pub use running::{Running, Starting};
pub use settings::{OnPoison, RunSettings};
pub use status::{BuildStatus, DeadLetter, ProjectionStatus, ShareStatus};
pub use target::{Delivered, Delivery, Failure, Kind, ShareContext, Target};
pub use typed::TypedReading;
pub use view::View;

use control::{Action, Control};
use handler::HandlerTarget;
use record::Records;
use view::ViewTarget;

/// The projections of a store: starts them, and shows and steers those that run anywhere.
/// [`Annals::projections`](crate::Annals::projections) returns it.
///
/// ```
/// # use annals::entity::{EntityEvent, Stored};
/// # use annals::feed::Filter;
/// # use annals::projection::{Fed, View};
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, memory::Memory};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # enum CartEvent { Opened }
/// # struct Carts;
/// # #[derive(Serialize, Deserialize, Stored)]
/// # struct Cart;
/// # impl View for Carts {
/// #     const NAME: &'static str = "carts";
/// #     type Event = CartEvent;
/// #     type Row = Cart;
/// #     fn source() -> Filter { Filter::new().category("Cart") }
/// #     fn key(event: &Fed<CartEvent>) -> Option<String> { Some(event.entity().to_owned()) }
/// #     fn apply(_: Option<Cart>, _: &Fed<CartEvent>) -> Option<Cart> { Some(Cart) }
/// # }
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let carts = annals.projections().view::<Carts>().shares(4).start().await?;
/// # annals.journal().append(&"Cart|42".parse()?, Expected::Empty, CartEvent::Opened.to_event()?).await?;
/// carts.caught_up().await?;
///
/// let status = annals.projections().status("carts").await?.expect("it was started");
/// assert_eq!((status.builds[0].handled, status.builds[0].lag_events), (1, 0));
/// assert_eq!(status.builds[0].shares.len(), 4);
/// assert!(annals.projections().dead_letters("carts").await?.is_some_and(|letters| letters.is_empty()));
///
/// assert!(annals.projections().pause("carts").await?);
/// assert!(!annals.projections().pause("orders").await?); // there is none
/// # carts.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Projections {
    journal: Journal,
}

impl Projections {
    /// The projections over the feed of a journal.
    pub fn of(journal: &Journal) -> Self {
        Self {
            journal: journal.clone(),
        }
    }

    fn records(&self) -> Result<Records> {
        Ok(Records {
            store: self.journal.store().clone(),
            table: Arc::new(table::spec()?),
        })
    }

    /// Starts a view.
    pub fn view<V: View>(&self) -> Starting<Rows<V>> {
        Starting::new(&self.journal, |records, reader| {
            let target = Arc::new(ViewTarget::<V>::new(records.clone(), reader));
            (target, Rows::new(records))
        })
    }

    /// Starts a handler.
    pub fn handler<H: Handler>(&self, handler: H) -> Starting<Arc<H>> {
        let handler = Arc::new(handler);
        Starting::new(&self.journal, |_, reader| {
            let target = HandlerTarget {
                handler: handler.clone(),
                reader,
            };
            (Arc::new(target), handler)
        })
    }

    /// Starts a target of another kind, such as a sink of the crate `annals-sql`.
    pub fn target(&self, target: Arc<dyn Target>) -> Starting<()> {
        Starting::new(&self.journal, |_, _| (target, ()))
    }

    /// The built-in view of ids; `None` if the store or the layout has no feed. It needs no name, and is
    /// not among those that [`list`](Self::list) shows.
    ///
    /// # Errors
    /// `Invalid` if a setting does not fit.
    pub fn ids(&self) -> Result<Option<IdView>> {
        IdView::open(&self.journal, self.records()?)
    }

    /// The rows of a view that runs elsewhere.
    ///
    /// # Errors
    /// `Invalid` if a setting does not fit.
    pub fn rows<V: View>(&self) -> Result<Rows<V>> {
        Ok(Rows::new(self.records()?))
    }

    /// Every projection that was started on this journal, by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<ProjectionStatus>> {
        let records = self.records()?;
        let mut all = Vec::new();
        if table::exists(&records.store, &records.table).await? {
            let reading = Reading::new(&self.journal);
            let (feed, journal) = (reading.lanes()?, reading.table()?);
            let ours = Control::list(&records).await?.into_iter();
            for (name, control) in ours.filter(|(_, control)| control.journal == journal) {
                all.push(status::of_projection(&records, &*feed, (&name, &control)).await?);
            }
        }
        Ok(all)
    }

    /// How a projection is doing; `None` if it was never started.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn status(&self, name: &str) -> Result<Option<ProjectionStatus>> {
        let Some((records, control)) = self.load(name).await? else {
            return Ok(None);
        };
        let feed = Reading::new(&self.journal).lanes()?;
        let status = status::of_projection(&records, &*feed, (name, &control));
        status.await.map(Some)
    }

    /// Pauses a projection everywhere: its runners save and release their shares. `false`: there is none.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn pause(&self, name: &str) -> Result<bool> {
        self.set_paused(name, true).await
    }

    /// Resumes a projection that is paused. `false`: there is none.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        self.set_paused(name, false).await
    }

    async fn set_paused(&self, name: &str, is_paused: bool) -> Result<bool> {
        let changed = self.change(name, |control| {
            control.is_paused = is_paused;
            Ok(())
        });
        changed.await
    }

    /// Builds a view again from the start of the feed, beside the live build. Programs that run the live
    /// revision do it. [`switch`](Self::switch) makes it live. Returns the number of the new build;
    /// `None`: there is no such projection.
    ///
    /// # Errors
    /// `Invalid` if it is not a view, or is being rebuilt already.
    pub async fn rebuild(&self, name: &str) -> Result<Option<u32>> {
        if self.load(name).await?.is_none() {
            return Ok(None);
        }
        let shape = Reading::new(&self.journal).lanes()?.shape().await?;
        let start = shape.start();
        let now_ms = self.journal.store().clock().now_ms();
        let mut number = None;
        let changed = self.change(name, |control| {
            number = Some(control.rebuild(start.clone(), now_ms)?);
            Ok(())
        });
        changed.await?;
        Ok(number)
    }

    /// Makes the build that is being made live, in one step. Returns its number; `None`: there is no such
    /// projection.
    ///
    /// # Errors
    /// `Invalid` if none is being made, or it is more than a second late.
    pub async fn switch(&self, name: &str) -> Result<Option<u32>> {
        let Some(status) = self.status(name).await? else {
            return Ok(None);
        };
        let building = status
            .builds
            .iter()
            .rfind(|build| build.stage == "building");
        let Some(building) = building else {
            return Err(Error::invalid(
                "no build is being made; start one with `annals projection rebuild`, or raise the revision",
            )
            .fact("projection", name));
        };
        if !building.is_caught_up() {
            return Err(
                Error::invalid("the build has not caught up yet; switch later")
                    .fact("projection", name)
                    .fact("build", building.build)
                    .fact("lag_events", building.lag_events)
                    .fact("lag_ms", building.lag_ms),
            );
        }
        let now_ms = self.journal.store().clock().now_ms();
        let number = building.build;
        self.change(name, |control| control.switch(number, now_ms))
            .await?;
        Ok(Some(number))
    }

    /// The dead letters of a projection, by build and share; `None`: there is no such projection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn dead_letters(&self, name: &str) -> Result<Option<Vec<DeadLetter>>> {
        let Some((records, control)) = self.load(name).await? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for build in &control.builds {
            all.extend(status::dead_letters(&records, (name, build)).await?);
        }
        Ok(Some(all))
    }

    /// Asks the runners to handle dead letters again, in order: those of an id, or all. It takes a moment.
    /// `false`: there is no such projection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn retry(&self, name: &str, id: Option<&PersistenceId>) -> Result<bool> {
        self.request(name, id, Action::Retry).await
    }

    /// Asks the runners to give dead letters up: those of an id, or all. Later events of the id are
    /// handled again. `false`: there is no such projection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn discard(&self, name: &str, id: Option<&PersistenceId>) -> Result<bool> {
        self.request(name, id, Action::Discard).await
    }

    async fn request(
        &self,
        name: &str,
        id: Option<&PersistenceId>,
        action: Action,
    ) -> Result<bool> {
        let id = id.map(PersistenceId::to_string);
        let changed = self.change(name, |control| {
            control.request(id.clone(), action);
            Ok(())
        });
        changed.await
    }

    /// The control record of a projection.
    async fn load(&self, name: &str) -> Result<Option<(Records, Control)>> {
        table::check_name(name)?;
        let records = self.records()?;
        if !table::exists(&records.store, &records.table).await? {
            return Ok(None);
        }
        let Some(control) = Control::load(&records, name).await? else {
            return Ok(None);
        };
        let journal = Reading::new(&self.journal).table()?;
        match control.journal == journal {
            true => Ok(Some((records, control))),
            false => Err(Error::invalid(
                "this projection reads another journal; open that one, with its layout and table",
            )
            .fact("projection", name)
            .fact("journal", control.journal)
            .fact("opened", journal)),
        }
    }

    async fn change(
        &self,
        name: &str,
        change: impl FnMut(&mut Control) -> Result<()> + Send,
    ) -> Result<bool> {
        match self.load(name).await? {
            None => Ok(false),
            Some((records, _)) => Control::change(&records, name, change).await,
        }
    }
}
