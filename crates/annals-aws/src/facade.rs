//! Everything on DynamoDB: `annals::Annals`, opened with one call.
//!
//! Guarantees: region and credentials come from AWS's own chain; another address is used where the
//! settings or the environment (`AWS_ENDPOINT_URL`) name one. Never changes an existing table.

use annals::layout::Layout;
use annals::store::Store;
use annals::{Annals, Result};

use crate::DynamoDb;
use crate::settings::AwsSettings;

/// Everything on DynamoDB; missing tables are created, which takes AWS some seconds each.
///
/// ```no_run
/// use annals::layout::{AnnalsLayout, TableNames};
/// use annals_aws::AwsSettings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// // As the environment has it.
/// let annals = annals_aws::create(&AwsSettings::default(), &AnnalsLayout::default()).await?;
///
/// // A server and table names of one's own.
/// let settings = AwsSettings {
///     endpoint: Some("http://127.0.0.1:8000".to_owned()),
///     ..AwsSettings::default()
/// };
/// let layout = AnnalsLayout::new(TableNames {
///     journal: Some("orders".parse()?),
///     snapshot: Some("orders-snapshots".parse()?),
///     ..TableNames::default()
/// });
/// let orders = annals_aws::create(&settings, &layout).await?;
/// # let _ = (annals, orders);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid` where there is no region, a setting cannot work, or a table was created for other
/// settings; the others as DynamoDB fails.
pub async fn create(settings: &AwsSettings, layout: &dyn Layout) -> Result<Annals> {
    Annals::create(store(settings).await?, layout).await
}

/// Everything on DynamoDB; the tables must exist.
///
/// # Errors
/// As [`create`], and `Invalid` where a table is missing.
pub async fn open(settings: &AwsSettings, layout: &dyn Layout) -> Result<Annals> {
    Annals::open(store(settings).await?, layout).await
}

async fn store(settings: &AwsSettings) -> Result<Store> {
    Ok(Store::new(DynamoDb::open(settings).await?))
}
