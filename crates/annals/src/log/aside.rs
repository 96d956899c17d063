//! Records that could not become events: kept whole, with the reason, until an operator decides.
//!
//! A record that says something else than the event under its id, that is too large for its slot,
//! or that does not parse would be met by every sweep for ever if it stayed in the buffer, and the
//! original's scan would put it over the event that is there. So it is moved out of the way.

use std::pin::Pin;

use futures::stream::{Stream, StreamExt};

use super::{Log, tables};
use crate::Result;
use crate::items::{Condition, Item, Query, query_all};

/// A record that was set aside.
///
/// ```
/// use annals::Annals;
/// use annals::log::Record;
/// use annals::settings::LogSettings;
/// use futures::TryStreamExt;
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let annals = Annals::embedded(folder.path()).await?;
/// let log = annals.create_log(&LogSettings::default()).await?;
/// for n in [1, 2] {
///     // The same id, and something else the second time.
///     let record = Record::json("web", "a".parse()?, "1000".parse()?, &json!(n));
///     log.ingest_one(record).await;
///     log.sweep().await;
/// }
/// let aside = log.set_aside().try_next().await?.expect("the second one");
/// assert!(aside.reason.contains("event id=`a`"));
/// log.forget_aside(&aside.name).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// What names it among those set aside.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The record, as the buffer had it.
    pub record: Item,
}

/// Records that were set aside, as they come. An error ends it.
/// See [`Aside`] for an example.
pub type AsideStream = Pin<Box<dyn Stream<Item = Result<Aside>> + Send>>;

impl Log {
    /// The records that were set aside.
    pub fn set_aside(&self) -> AsideStream {
        let query = Query::of(tables::aside());
        let items = query_all(self.items.clone(), self.tables.event.clone(), query);
        Box::pin(items.map(|item| {
            let (name, reason, record) = tables::aside_of(item?);
            Ok(Aside {
                name,
                reason,
                record,
            })
        }))
    }

    /// Forgets a record that was set aside, for good.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn forget_aside(&self, name: &str) -> Result<()> {
        let key = tables::aside_key(name);
        let deleted = self
            .items
            .delete(&self.tables.event, key, Condition::Always);
        deleted.await?;
        Ok(())
    }
}
