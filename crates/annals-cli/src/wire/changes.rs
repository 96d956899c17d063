//! Wire types of the changes of a store, as `/v1/items` has them.
//!
//! Guarantees: a page reads back as it was.

use annals::Result;
use annals::items::{
    self, Change as ItemChange, ChangePage, Changed, LastChange, item_from_json, item_to_json,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::items::{ItemsResult, ItemsTable, Key};

/// Which changes are read: those of a table after a position, and at most how many.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsChangesRead")]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangesRead {
    pub(crate) table: ItemsTable,
    #[schemars(with = "super::Count")]
    pub(crate) after: u64,
    #[schemars(with = "super::Count")]
    pub(crate) changes: usize,
    #[schemars(with = "super::Count")]
    pub(crate) bytes: usize,
}

/// A change of an item: what it became, `null` if it was deleted, or nothing if that was erased since.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsChange")]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    #[schemars(with = "super::Count")]
    position: u64,
    key: Key,
    has_replaced: bool,
    now: Now,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsChanged")]
#[serde(rename_all = "snake_case")]
enum Now {
    Put(Json),
    Erased,
    Deleted,
}

/// A position among the changes of a store, and when it was written.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsMoment")]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    #[schemars(with = "super::Count")]
    position: u64,
    #[schemars(with = "super::Count")]
    time_ms: u64,
}

impl From<LastChange> for Moment {
    fn from(last: LastChange) -> Self {
        Self {
            position: last.position,
            time_ms: last.time_ms,
        }
    }
}

impl From<Moment> for LastChange {
    fn from(moment: Moment) -> Self {
        Self::new(moment.position, moment.time_ms)
    }
}

/// A history that another one continues: up to `last` they have the same changes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsOrigin")]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    history: u32,
    #[schemars(with = "super::Count")]
    last: u64,
}

impl From<items::Origin> for Origin {
    fn from(origin: items::Origin) -> Self {
        Self {
            history: origin.number,
            last: origin.last,
        }
    }
}

impl From<Origin> for items::Origin {
    fn from(origin: Origin) -> Self {
        Self {
            number: origin.history,
            last: origin.last,
        }
    }
}

impl Change {
    fn new(change: &ItemChange) -> Self {
        Self {
            position: change.position,
            key: Key::new(&change.key),
            has_replaced: change.has_replaced,
            now: match &change.now {
                Changed::Put(item) => Now::Put(item_to_json(item)),
                Changed::Erased => Now::Erased,
                Changed::Deleted => Now::Deleted,
            },
        }
    }

    fn change(self) -> Result<ItemChange> {
        let now = match self.now {
            Now::Put(item) => Changed::Put(item_from_json(&item)?),
            Now::Erased => Changed::Erased,
            Now::Deleted => Changed::Deleted,
        };
        let key = self.key.key()?;
        Ok(ItemChange::new(self.position, key, self.has_replaced, now))
    }
}

impl ItemsResult {
    pub(crate) fn changes(page: &ChangePage) -> Self {
        Self::Changes {
            changes: page.changes.iter().map(Change::new).collect(),
            upto: page.upto.into(),
            last: page.last.into(),
            cost: page.cost.into(),
        }
    }

    /// The changes; `None` if it is the result of another call.
    pub(crate) fn into_changes(self) -> Result<Option<ChangePage>> {
        let Self::Changes {
            changes,
            upto,
            last,
            cost,
        } = self
        else {
            return Ok(None);
        };
        let changes = changes.into_iter().map(Change::change);
        let changes = changes.collect::<Result<_>>()?;
        let page = ChangePage::new(changes, upto.into(), last.into(), cost.into());
        Ok(Some(page))
    }
}
