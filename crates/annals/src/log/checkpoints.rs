//! Checkpoints: the positions of pumps, stored in the event table, where a restart resumes.
//!
//! Guarantees: a saved position is read back. Saving an older one again is harmless, because an event
//! that is pumped twice is stored once. The original does not read checkpoints.

use std::sync::Arc;

use futures::TryStreamExt;

use super::shared::{Put, Shared};
use super::tables;
use crate::Result;
use crate::items::{Condition, Item, Query, Value, Write};

/// The checkpoints of one pump: a position per shard, or per persistence id.
///
/// ```
/// use annals::log::{Checkpoints, Log};
/// use annals::memory::Memory;
/// use annals::settings::LogSettings;
/// use annals::store::Store;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let log = Log::create(Store::new(Memory::new()), &LogSettings::default()).await?;
/// let checkpoints = log.checkpoints("kinesis:claps");
/// checkpoints.save([("shardId-0", "49590338271490256608559692538361571095921575989136588898")]).await?;
/// let found = checkpoints.load(&["shardId-0", "shardId-1"]).await?;
/// assert!(found[0].is_some() && found[1].is_none());
/// checkpoints.delete(&["shardId-0"]).await?;
/// assert!(checkpoints.names().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    shared: Arc<Shared>,
    pump: String,
}

fn text_of(item: &Item, name: &str) -> Option<String> {
    item.get(name).and_then(Value::as_str).map(str::to_owned)
}

impl Checkpoints {
    pub(super) fn new(shared: Arc<Shared>, pump: String) -> Self {
        Self { shared, pump }
    }

    /// The last saved position of each name, in the order of the names.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn load(&self, names: &[&str]) -> Result<Vec<Option<String>>> {
        let keys = names
            .iter()
            .map(|name| tables::checkpoint_key(&self.pump, name));
        let table = &self.shared.tables.event;
        let got = self.shared.store.get(table, keys.collect()).await?;
        let position = |item: &Option<Item>| text_of(item.as_ref()?, tables::POSITION);
        Ok(got.items.iter().map(position).collect())
    }

    /// Saves a position if the saved one is still `before`. Returns the position that is saved now:
    /// the new one, or that of another pump.
    pub(super) async fn advance(
        &self,
        name: &str,
        before: Option<&str>,
        position: &str,
    ) -> Result<Option<String>> {
        let item = tables::checkpoint_item(&self.pump, name, position);
        let condition = before.map_or(Condition::Absent, |before| {
            Condition::Equals(tables::POSITION.to_owned(), before.into())
        });
        let table = &self.shared.tables.event;
        Ok(match self.shared.put(table, item, condition).await? {
            Put::Stored => Some(position.to_owned()),
            Put::Refused(existing) => existing.and_then(|item| text_of(&item, tables::POSITION)),
        })
    }

    /// The names that have a checkpoint.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn names(&self) -> Result<Vec<String>> {
        let items = self
            .shared
            .query(Query::of(tables::checkpoints(&self.pump)));
        let names = items.try_filter_map(|item| async move { Ok(text_of(&item, tables::OF)) });
        names.try_collect().await
    }

    /// Deletes the checkpoints of names that do not come back.
    ///
    /// # Errors
    /// As the store fails; some may be deleted then.
    pub async fn delete(&self, names: &[&str]) -> Result<()> {
        let key = |name: &&str| Write::Delete(tables::checkpoint_key(&self.pump, name));
        self.write(names.iter().map(key).collect()).await
    }

    /// Saves positions, each with its name. Names must not repeat.
    ///
    /// # Errors
    /// As the store fails; some may be saved then.
    pub async fn save<N, P>(&self, positions: impl IntoIterator<Item = (N, P)>) -> Result<()>
    where
        N: AsRef<str>,
        P: AsRef<str>,
    {
        let put = |(name, position): (N, P)| {
            let (name, position) = (name.as_ref(), position.as_ref());
            Write::Put(tables::checkpoint_item(&self.pump, name, position))
        };
        self.write(positions.into_iter().map(put).collect()).await
    }

    async fn write(&self, writes: Vec<Write>) -> Result<()> {
        let batch = self.shared.write(&self.shared.tables.event, writes).await;
        batch.failure.map_or(Ok(()), Err)
    }
}
