//! How far projections and consumer groups have come, for the retention of entities.

use async_trait::async_trait;

use crate::entity::{Consumer, Consumers};
use crate::feed::{Position, Reading};
use crate::group::Groups;
use crate::journal::Journal;
use crate::projection::{Projections, table};
use crate::{PersistenceId, Result};

/// The projections and consumer groups over a journal.
#[derive(Debug)]
pub(crate) struct FeedConsumers {
    pub(crate) journal: Journal,
    pub(crate) groups: Groups,
}

#[async_trait]
impl Consumers for FeedConsumers {
    fn check(&self, consumer: &Consumer) -> Result<()> {
        let (Consumer::Projection(name) | Consumer::Group(name)) = consumer;
        table::check_name(name)?;
        Reading::new(&self.journal).lanes().map(drop)
    }

    async fn handled_to(
        &self,
        consumer: &Consumer,
        id: &PersistenceId,
    ) -> Result<Option<Vec<Position>>> {
        match consumer {
            Consumer::Projection(name) => Projections::of(&self.journal).handled_to(name, id).await,
            Consumer::Group(name) => self.groups.group(name)?.handled_to(id).await,
        }
    }
}
