//! Whether a projection has handled events, for those who want to delete them.
//!
//! Guarantees: events count as handled only if the live build and every one that is being made have passed
//! them, and their id has no dead letters in them. What is handled once stays so, but a build that is added
//! later needs the events, too.

use super::Projections;
use super::control;
use super::share::{self, Share};
use crate::feed::{Position, Reading};
use crate::{PersistenceId, Result};

impl Projections {
    /// Whether a projection has handled every event of an id up to a position, so that it does not need
    /// them any more. `None`: there is no such projection.
    ///
    /// The live build and any that is being made must have passed the position. `Some(false)` also while
    /// an event of the id is a dead letter. A projection whose source does not have the id needs nothing
    /// of it.
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
    /// let id = "Cart|42".parse()?;
    /// # let opened = CartEvent::Opened.to_event()?;
    /// let appended = annals.journal().append(&id, Expected::Empty, opened).await?;
    /// let position = annals.feed().head().await?; // after these events
    /// # let carts = annals.projections().view::<Carts>().start().await?;
    /// # carts.caught_up().await?;
    ///
    /// let has_handled = annals.projections().has_handled("carts", &position, &id).await?;
    /// if has_handled == Some(true) {
    ///     annals.journal().delete_to(&id, appended.last).await?;
    /// }
    /// # assert_eq!(has_handled, Some(true));
    /// # carts.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the position is of another store's feed, or the projection reads another journal.
    pub async fn has_handled(
        &self,
        name: &str,
        position: &Position,
        id: &PersistenceId,
    ) -> Result<Option<bool>> {
        let position = Reading::new(&self.journal).locate(position).await?;
        let handled = self.handled_to(name, id).await?;
        Ok(handled.map(|all| all.iter().all(|to| to.includes(&position))))
    }

    /// The positions up to which builds have handled the events of an id: the events that all of them
    /// include are not needed any more. None if no build wants the id.
    pub(crate) async fn handled_to(
        &self,
        name: &str,
        id: &PersistenceId,
    ) -> Result<Option<Vec<Position>>> {
        let Some((records, control)) = self.load(name).await? else {
            return Ok(None);
        };
        let builds = control.builds.iter();
        let builds = builds.filter(|build| build.stage.needs_events());
        let mut all = Vec::new();
        for build in builds.filter(|build| build.source.filter().accepts_id(id)) {
            let share = share::of(id, build.shares);
            let key = control::key_of(name, build).share(share);
            let found = records.get::<Share>(key).await?;
            let share = found.map(|found| found.content).unwrap_or_default();
            let start = &build.start;
            all.push(match share.dead.contains_key(id.as_str()) {
                true => Position::start(start.generation(), lanes(start)),
                false => share.at.unwrap_or_else(|| start.clone()),
            });
        }
        Ok(Some(all))
    }
}

fn lanes(position: &Position) -> u16 {
    u16::try_from(position.lanes().len()).unwrap_or(u16::MAX)
}
