//! Our DynamoDB client against the bare SDK: both put the same items into the same table of the same
//! server, alternately.
//!
//! Guarantees: every put is conditional and of a new key, as an append makes it. The table is dropped
//! afterwards.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Item, Items, TableName, TableSpec};
use annals::{Clock, Result};
use annals_aws::DynamoDb;
use annals_aws::bench::BareSdk;

use super::race::{self, Race};
use super::{Contender, Payload};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientPlan {
    /// How many laps each client runs.
    pub(crate) laps: usize,
    /// How long a lap lasts at most.
    pub(crate) lap_time: Duration,
    /// How many puts are in flight at once.
    pub(crate) tasks: usize,
}

impl Default for ClientPlan {
    fn default() -> Self {
        Self {
            laps: 9,
            lap_time: Duration::from_secs(1),
            tasks: 50,
        }
    }
}

/// Puts per second of the lap whose ratio is the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClientRow {
    /// How many puts were in flight at once.
    pub(crate) tasks: usize,
    /// The bare SDK.
    pub(crate) bare: f64,
    /// Our client.
    pub(crate) ours: f64,
    /// Ours to bare: at 1 our client costs nothing.
    pub(crate) ours_to_bare: f64,
}

/// Bytes of a payload: a kilobyte with its key.
const PAYLOAD_BYTES: usize = 1_000;

/// Measures both clients on a table that it creates and drops. If it is cancelled, the caller drops
/// the table.
///
/// # Errors
/// `Conflict` if the table exists; otherwise as the puts fail.
pub(crate) async fn measure_client(
    store: &Arc<DynamoDb>,
    name: TableName,
    plan: ClientPlan,
    clock: Arc<dyn Clock>,
) -> Result<ClientRow> {
    let table = Arc::new(BareSdk::table(name)?);
    store.create_table(&table, Default::default()).await?;
    let race = Race {
        laps: plan.laps,
        lap_time: plan.lap_time,
        clock,
    };
    let contenders = [bare(store, &table), ours(store, &table)];
    let payload = Payload::new(plan.tasks, PAYLOAD_BYTES);
    let laps = race::race(&race, payload, &contenders).await;
    store.drop_table(table.name()).await?;
    let lap = race::median_lap(laps?, 1, 0);
    Ok(ClientRow {
        tasks: plan.tasks,
        bare: race::rate(&lap, 0),
        ours: race::rate(&lap, 1),
        ours_to_bare: race::ratio(&lap, 1, 0),
    })
}

fn bare(store: &DynamoDb, table: &Arc<TableSpec>) -> Contender {
    let (client, table) = (BareSdk::new(store), table.clone());
    Contender::new(move |number, payload| {
        let (client, table) = (client.clone(), table.clone());
        async move { client.put(table.name(), number, payload).await }
    })
}

fn ours(store: &Arc<DynamoDb>, table: &Arc<TableSpec>) -> Contender {
    let (store, table) = (store.clone(), table.clone());
    Contender::new(move |number, payload| {
        let (store, table) = (store.clone(), table.clone());
        async move {
            let item = Item::new().with("p", "ours").with("n", number);
            let item = item.with("d", payload);
            store.put(&table, item, Condition::Absent).await?;
            Ok(())
        }
    })
}
