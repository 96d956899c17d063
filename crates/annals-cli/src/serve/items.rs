//! The store itself over HTTP: the nine methods of `Items`, and the server's settings. `--server` uses
//! it, so that every command works beside a running server as it does on the store.
//!
//! Guarantees: a call is the store's own, with its conditions, limits and costs. Tails notice writes
//! that come this way, and the server forgets what it remembered about a journal from which items were
//! deleted: the last sequence number of a purged id is not the last any more.

use annals::items::{PageBudget, WriteError, item_from_json, item_to_json};
use annals::store::Store;
use annals::{Error, Result};

use super::app::App;
use super::http::{self, Call, parse};
use super::problem::Answer;
use crate::wire::{ChangesRead, ItemsCall, ItemsResult, ItemsTable, items as wire_items};

/// `GET /v1/settings`
pub(super) async fn settings(call: Call) -> Answer {
    call.no_params()?;
    Ok(http::json(&call.app.settings().to_json()?))
}

/// `POST /v1/items`
pub(super) async fn call(call: Call) -> Answer {
    call.no_params()?;
    let (app, _, body) = call.read_json().await?;
    let sent: ItemsCall = parse(&body)?;
    drop(body);
    let store = app.clone();
    let running = async move { Ok(http::json(&run(&store, sent).await?)) };
    app.finish(running).await
}

async fn run(app: &App, call: ItemsCall) -> Result<ItemsResult> {
    let store = app.store();
    Ok(match call {
        ItemsCall::Get { table, keys } => {
            let keys = keys.iter().map(wire_items::Key::key).collect::<Result<_>>();
            ItemsResult::got(&store.get(&table.spec()?, keys?).await?)
        }
        ItemsCall::Put {
            table,
            item,
            condition,
        } => {
            let (name, spec) = (table.name.clone(), table.spec()?);
            let (item, condition) = (item_from_json(&item)?, condition.condition()?);
            let put = store.put(&spec, item, condition).await;
            app.changed(&name, false);
            written(put)?
        }
        ItemsCall::Delete {
            table,
            key,
            condition,
        } => {
            let (name, spec) = (table.name.clone(), table.spec()?);
            let deleted = store
                .delete(&spec, key.key()?, condition.condition()?)
                .await;
            app.changed(&name, true);
            written(deleted)?
        }
        ItemsCall::Write { table, writes } => {
            let (name, spec) = (table.name.clone(), table.spec()?);
            let deletes = |it: &_| matches!(it, wire_items::Write::Delete(_));
            let has_deletes = writes.iter().any(deletes);
            let writes = writes.iter().map(wire_items::Write::write);
            let done = store.write(&spec, writes.collect::<Result<_>>()?).await;
            app.changed(&name, has_deletes);
            // The client repeats the whole batch: that is safe, and all it can do anyway if the
            // response is lost.
            ItemsResult::Written {
                cost: done.map_err(|error| error.cause)?.into(),
            }
        }
        ItemsCall::Query { table, query } => {
            ItemsResult::page(&store.query(&table.spec()?, query.query()?).await?)
        }
        ItemsCall::Scan { table, scan } => {
            ItemsResult::page(&store.scan(&table.spec()?, scan.scan()?).await?)
        }
        ItemsCall::History {} => history(store).await?,
        ItemsCall::Changes(read) => read_changes(store, read).await?,
        ItemsCall::CreateTable { table, billing } => {
            store.create_table(&table.spec()?, billing.into()).await?;
            ItemsResult::Created {}
        }
        ItemsCall::DescribeTable { name } => {
            let found = store.describe_table(&name.parse()?).await?;
            let table = found.as_ref().map(ItemsTable::new);
            ItemsResult::Described { table }
        }
        ItemsCall::DropTable { name } => {
            let dropped = store.drop_table(&name.parse()?).await;
            // One that failed may disappear later.
            app.reopen();
            ItemsResult::Dropped { existed: dropped? }
        }
    })
}

async fn history(store: &Store) -> Result<ItemsResult> {
    let Some(changes) = store.changes() else {
        let last = Default::default();
        return Ok(ItemsResult::History {
            history: None,
            origins: Vec::new(),
            last,
        });
    };
    let found = changes.history().await?;
    Ok(ItemsResult::History {
        history: Some(found.number),
        origins: found.origins.into_iter().map(Into::into).collect(),
        last: found.last.into(),
    })
}

async fn read_changes(store: &Store, read: ChangesRead) -> Result<ItemsResult> {
    let missing = || Error::invalid("the server's store does not keep its changes");
    // No more than a page of this server would have.
    let limit = PageBudget::default();
    let budget = PageBudget {
        changes: read.changes.min(limit.changes),
        bytes: read.bytes.min(limit.bytes),
    };
    let changes = store.changes().ok_or_else(missing)?;
    let page = changes
        .read_changes(&read.table.spec()?, read.after, budget)
        .await?;
    Ok(ItemsResult::changes(&page))
}

fn written(outcome: Result<annals::items::Cost, WriteError>) -> Result<ItemsResult> {
    match outcome {
        Ok(cost) => Ok(ItemsResult::Written { cost: cost.into() }),
        Err(WriteError::Refused { existing, cost }) => Ok(ItemsResult::Refused {
            existing: existing.as_deref().map(item_to_json),
            cost: cost.into(),
        }),
        Err(WriteError::Failed(error)) => Err::<_, Error>(error),
    }
}
