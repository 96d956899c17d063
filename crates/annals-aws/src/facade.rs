//! Everything on DynamoDB: `annals::Annals`, opened with one call.
//!
//! Promises: region and credentials come from AWS's own chain, and where the settings or the
//! environment (`AWS_ENDPOINT_URL`) name another address, that is spoken to.
//! Never: changes a table that is there.

use std::sync::Arc;

use annals::settings::Settings;
use annals::{Annals, Random, Result, SystemClock};

use crate::DynamoDb;

/// Everything on DynamoDB; tables that are missing are made, which takes AWS some seconds each.
///
/// ```no_run
/// use annals::settings::Settings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// // As the environment has it.
/// let annals = annals_aws::create(&Settings::default()).await?;
///
/// // A server of one's own, and tables of one's own names.
/// let settings = Settings {
///     endpoint: Some("http://127.0.0.1:8000".to_owned()),
///     journal_table: Some("orders".parse()?),
///     snapshot_table: Some("orders-snapshots".parse()?),
///     ..Settings::default()
/// };
/// let orders = annals_aws::create(&settings).await?;
/// # let _ = (annals, orders);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid` where there is no region, a setting cannot work, or a table was made for other
/// settings; the others as DynamoDB fails.
pub async fn create(settings: &Settings) -> Result<Annals> {
    Annals::create(items(settings).await?, settings).await
}

/// Everything on DynamoDB, whose tables are there.
///
/// # Errors
/// As [`create`], and `Invalid` where a table is missing.
pub async fn open(settings: &Settings) -> Result<Annals> {
    Annals::open(items(settings).await?, settings).await
}

async fn items(settings: &Settings) -> Result<Arc<DynamoDb>> {
    let clock = Arc::new(SystemClock::new());
    let opened = DynamoDb::open(settings, clock, Random::from_machine());
    Ok(Arc::new(opened.await?))
}
