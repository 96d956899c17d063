//! Opens [`annals::Annals`] on DynamoDB with one call.
//!
//! Guarantees: region and credentials come from the AWS credential chain; the endpoint comes from the
//! settings or from `AWS_ENDPOINT_URL`. Never changes an existing table.

use annals::layout::Layout;
use annals::store::Store;
use annals::{Annals, Result};

use crate::DynamoDb;
use crate::settings::AwsSettings;

/// Opens everything on DynamoDB and creates missing tables, which takes AWS some seconds each.
///
/// ```no_run
/// use annals::layout::{AnnalsLayout, TableNames};
/// use annals_aws::AwsSettings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// // Region, endpoint and credentials from the environment.
/// let annals = annals_aws::create(&AwsSettings::default(), &AnnalsLayout::default()).await?;
///
/// // Another endpoint, and other table names.
/// let settings = AwsSettings::at("http://127.0.0.1:8000");
/// let names = TableNames::default()
///     .journal("orders".parse()?)
///     .snapshot("orders-snapshots".parse()?);
/// let layout = AnnalsLayout::new(names);
/// let orders = annals_aws::create(&settings, &layout).await?;
/// # let _ = (annals, orders);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid` if there is no region, a setting is invalid, or a table was created with other settings;
/// otherwise as DynamoDB fails.
pub async fn create(settings: &AwsSettings, layout: &dyn Layout) -> Result<Annals> {
    Annals::create(store(settings).await?, layout).await
}

/// Opens everything on DynamoDB. The tables must exist.
///
/// # Errors
/// As [`create`], and `Invalid` if a table is missing.
pub async fn open(settings: &AwsSettings, layout: &dyn Layout) -> Result<Annals> {
    Annals::open(store(settings).await?, layout).await
}

async fn store(settings: &AwsSettings) -> Result<Store> {
    Ok(Store::new(DynamoDb::open(settings).await?))
}
