//! Checkpoints: how far a pump has come, kept in the event table, so that a restart goes on there.
//!
//! Promises: what is saved is read back. Saving an older position again is harmless: what is pumped
//! twice is stored once.
//! Never: is read by the original.

use std::sync::Arc;

use futures::TryStreamExt;

use super::{Log, tables};
use crate::Result;
use crate::items::{Condition, Items, Query, TableSpec, Value, Write, WriteError, query_all};

/// The checkpoints of one pump, by what it pumps: a shard, or a persistence id.
///
/// ```
/// use annals::log::{Checkpoints, Log};
/// use annals::memory::Memory;
/// use annals::settings::LogSettings;
/// use annals::SystemClock;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let clock = Arc::new(SystemClock::new());
/// let log = Log::create(Arc::new(Memory::new()), &LogSettings::default(), clock).await?;
/// let checkpoints = log.checkpoints("kinesis:claps");
/// checkpoints.save(&[("shardId-0", "49590338271490256608559692538361571095921575989136588898")]).await?;
/// let found = checkpoints.load(&["shardId-0", "shardId-1"]).await?;
/// assert!(found[0].is_some() && found[1].is_none());
/// checkpoints.forget(&["shardId-0"]).await?;
/// assert!(checkpoints.names().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    items: Arc<dyn Items>,
    table: Arc<TableSpec>,
    pump: String,
}

impl Log {
    /// The checkpoints of a pump.
    pub fn checkpoints(&self, pump: impl Into<String>) -> Checkpoints {
        Checkpoints {
            items: self.items.clone(),
            table: self.tables.event.clone(),
            pump: pump.into(),
        }
    }
}

impl Checkpoints {
    /// The positions that were saved last, in the order of what they are of.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn load(&self, of: &[&str]) -> Result<Vec<Option<String>>> {
        let mut keys = Vec::with_capacity(of.len());
        for of in of {
            keys.push(tables::checkpoint_key(&self.pump, of));
        }
        let got = self.items.get(&self.table, keys).await?;
        let position = |item: &crate::items::Item| {
            let position = item.get(tables::POSITION).and_then(Value::as_str);
            position.map(str::to_owned)
        };
        let items = got.items.iter();
        Ok(items.map(|item| item.as_ref().and_then(position)).collect())
    }

    /// Saves a position where the one before it is still what it was. Answers the one that stands: the
    /// new one, or another's.
    pub(super) async fn advance(
        &self,
        of: &str,
        before: Option<&str>,
        position: &str,
    ) -> Result<Option<String>> {
        let item = tables::checkpoint_item(&self.pump, of, position);
        let condition = before.map_or(Condition::Absent, |before| {
            Condition::Equals(tables::POSITION.to_owned(), before.into())
        });
        match self.items.put(&self.table, item, condition).await {
            Ok(_) => Ok(Some(position.to_owned())),
            Err(WriteError::Refused { existing, .. }) => {
                let standing = existing
                    .as_deref()
                    .and_then(|item| item.get(tables::POSITION));
                Ok(standing.and_then(Value::as_str).map(str::to_owned))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// What there are checkpoints of.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn names(&self) -> Result<Vec<String>> {
        let query = Query::of(tables::checkpoints(&self.pump));
        let items = query_all(self.items.clone(), self.table.clone(), query);
        let names = items.try_filter_map(|item| async move {
            let name = item.get(tables::OF).and_then(Value::as_str);
            Ok(name.map(str::to_owned))
        });
        names.try_collect().await
    }

    /// Forgets positions for good: of what is gone and does not come back.
    ///
    /// # Errors
    /// As the store fails; some may be forgotten then.
    pub async fn forget(&self, of: &[&str]) -> Result<()> {
        let deletes = of.iter().map(|of| {
            let key = tables::checkpoint_key(&self.pump, of);
            Write::Delete(key)
        });
        self.items.write(&self.table, deletes.collect()).await?;
        Ok(())
    }

    /// Saves positions, each with what it is of; each of those once.
    ///
    /// # Errors
    /// As the store fails; some may be saved then.
    pub async fn save(&self, positions: &[(&str, &str)]) -> Result<()> {
        let mut writes = Vec::with_capacity(positions.len());
        for (of, position) in positions {
            let item = tables::checkpoint_item(&self.pump, of, position);
            writes.push(Write::Put(item));
        }
        self.items.write(&self.table, writes).await?;
        Ok(())
    }
}
