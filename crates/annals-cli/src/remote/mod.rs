//! The store behind a running server, for `--server`.
//!
//! Guarantees: as every store, so commands cannot tell the difference; the conformance suite runs on
//! it. Relies on `/v1/items` of the server.

mod client;
#[cfg(test)]
mod runners;
#[cfg(test)]
mod tests;

use std::time::Duration;

use annals::items::limits::{GET_BATCH_MAX, WRITE_BATCH_MAX};
use annals::items::{
    BatchError, Billing, ChangePage, Changes, Condition, Cost, Got, History, Item, Items, Key,
    Page, PageBudget, Query, Scan, TableName, TableSpec, Write, WriteError, check_key,
    check_writes, item_from_json, item_size, item_to_json,
};
use annals::{Error, Result};
use async_trait::async_trait;

pub(crate) use self::client::Client;
use crate::wire::{ChangesRead, ItemsCall, ItemsResult, ItemsTable, items as wire};

/// About how many bytes of items are sent in one request. Escaped as JSON, they take up to six times as
/// many, which must be within the server's limit for bodies.
const BATCH_BYTES: usize = 1 << 20;

/// How long to wait before asking again whether the store has changed.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The store of a server.
#[derive(Debug)]
pub(crate) struct RemoteItems(Client);

impl RemoteItems {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    pub(crate) fn address(&self) -> &str {
        self.0.address()
    }

    async fn written(&self, call: &ItemsCall) -> Result<Cost, WriteError> {
        match self.0.items(call).await? {
            ItemsResult::Written { cost } => Ok(cost.into()),
            ItemsResult::Refused { existing, cost } => {
                let existing = existing.as_ref().map(item_from_json).transpose()?;
                Err(WriteError::Refused {
                    existing: existing.map(Box::new),
                    cost: cost.into(),
                })
            }
            _ => Err(unexpected().into()),
        }
    }

    async fn page(&self, call: &ItemsCall) -> Result<Page> {
        let page = self.0.items(call).await?.into_page()?;
        page.ok_or_else(unexpected)
    }
}

fn unexpected() -> Error {
    Error::invalid("the response belongs to another call; use the server's version of annals")
}

/// How many of the first writes go into one request.
fn batch_len(writes: &[Write]) -> usize {
    let mut bytes = 0;
    let fits = writes.iter().take(WRITE_BATCH_MAX).take_while(|write| {
        bytes += match write {
            Write::Put(item) => item_size(item),
            Write::Delete(_) => 0,
        };
        bytes <= BATCH_BYTES
    });
    fits.count().max(1)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for RemoteItems {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        for key in &keys {
            check_key(table, key)?;
        }
        let mut wanted: Vec<&Key> = Vec::with_capacity(keys.len());
        let mut places = std::collections::HashMap::new();
        for key in &keys {
            places.entry(key).or_insert_with(|| {
                wanted.push(key);
                wanted.len() - 1
            });
        }
        let (mut found, mut cost) = (Vec::with_capacity(wanted.len()), Cost::ZERO);
        for some in wanted.chunks(GET_BATCH_MAX) {
            let call = ItemsCall::Get {
                table: ItemsTable::new(table),
                keys: some.iter().map(|key| wire::Key::new(key)).collect(),
            };
            match self.0.items(&call).await? {
                ItemsResult::Got { items, cost: more } if items.len() == some.len() => {
                    cost += more.into();
                    for item in items {
                        found.push(item.as_ref().map(item_from_json).transpose()?);
                    }
                }
                _ => return Err(unexpected()),
            }
        }
        let place = |key: &Key| places.get(key).and_then(|at| found.get(*at));
        let items = keys.iter().map(|key| place(key).cloned().flatten());
        Ok(Got::new(items.collect(), cost))
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let call = ItemsCall::Put {
            table: ItemsTable::new(table),
            item: item_to_json(&item),
            condition: wire::Condition::new(&condition),
        };
        self.written(&call).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let call = ItemsCall::Delete {
            table: ItemsTable::new(table),
            key: wire::Key::new(&key),
            condition: wire::Condition::new(&condition),
        };
        self.written(&call).await
    }

    async fn write(&self, table: &TableSpec, mut writes: Vec<Write>) -> Result<Cost, BatchError> {
        // The whole batch is checked before a part of it is sent.
        if let Err(cause) = check_writes(table, &writes) {
            return Err(BatchError::new(writes, Cost::ZERO, cause));
        }
        let (all, mut cost) = (writes.len(), Cost::ZERO);
        while !writes.is_empty() {
            let rest = writes.split_off(batch_len(&writes));
            let call = ItemsCall::Write {
                table: ItemsTable::new(table),
                writes: writes.iter().map(wire::Write::new).collect(),
            };
            let cause = match self.0.items(&call).await {
                Ok(ItemsResult::Written { cost: more }) => {
                    cost += more.into();
                    writes = rest;
                    continue;
                }
                Ok(_) => unexpected(),
                Err(error) => error,
            };
            writes.extend(rest);
            return Err(BatchError::new(writes, cost + Cost::request(), cause));
        }
        // Small requests are our own choice, and cost nothing at the store.
        Ok(cost.in_requests(Cost::write_requests(all)))
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let call = ItemsCall::Query {
            table: ItemsTable::new(table),
            query: wire::Query::new(&query),
        };
        self.page(&call).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let call = ItemsCall::Scan {
            table: ItemsTable::new(table),
            scan: wire::Scan::new(&scan),
        };
        self.page(&call).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let call = ItemsCall::CreateTable {
            table: ItemsTable::new(spec),
            billing: billing.into(),
        };
        match self.0.tables(&call).await? {
            ItemsResult::Created {} => Ok(()),
            _ => Err(unexpected()),
        }
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let call = ItemsCall::DescribeTable {
            name: name.to_string(),
        };
        match self.0.items(&call).await? {
            ItemsResult::Described { table } => table.map(ItemsTable::spec).transpose(),
            _ => Err(unexpected()),
        }
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let call = ItemsCall::DropTable {
            name: name.to_string(),
        };
        match self.0.tables(&call).await? {
            ItemsResult::Dropped { existed } => Ok(existed),
            _ => Err(unexpected()),
        }
    }

    /// Whether the server's store keeps them is known only from its answer.
    fn changes(&self) -> Option<&dyn Changes> {
        Some(self)
    }
}

#[async_trait]
impl Changes for RemoteItems {
    async fn history(&self) -> Result<History> {
        match self.0.items(&ItemsCall::History {}).await? {
            ItemsResult::History {
                history: Some(number),
                origins,
                last,
            } => {
                let origins = origins.into_iter().map(Into::into).collect();
                Ok(History::new(number, last.into()).continuing(origins))
            }
            ItemsResult::History { history: None, .. } => Err(Error::invalid(
                "the server's store has no feed; use the embedded store",
            )),
            _ => Err(unexpected()),
        }
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        let call = ItemsCall::Changes(ChangesRead {
            table: ItemsTable::new(table),
            after,
            changes: budget.changes,
            bytes: budget.bytes,
        });
        let page = self.0.items(&call).await?.into_changes()?;
        page.ok_or_else(unexpected)
    }

    /// Asks again and again, soon after a change and less often while there is none.
    async fn wait_for_change(&self, after: u64) -> Result<()> {
        let mut pause = PAUSE_MIN;
        while self.history().await?.last.position <= after {
            self.0.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Ok(())
    }
}
