//! Opening: settings, region, credentials and timeouts become a client of the SDK.
//!
//! Promises: nothing is sent before the first verb, and a setting that cannot work is refused here.
//! Trusts: AWS's own chain for credentials; whether there are any, the first request finds out.
//! Never: prints a secret; the only one it reads is the proxy's password, out of the environment.

use std::fmt;
use std::sync::Arc;

use crate::settings::{AwsClientSettings, AwsSettings};
use annals::{Clock, Error, Random, Result, SystemClock};
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Credentials, StalledStreamProtectionConfig};

use crate::endpoint::{check_endpoint, check_region};
use crate::error::Service;
use crate::http::{UserAgent, http_client};
use crate::proxy::Proxy;
use crate::retry::Sender;

/// Items in DynamoDB, or in a server that speaks like it.
///
/// Every verb retries within `client-execution-timeout` and counts its retries into the cost; a
/// verb of many requests gives each of them that long. Needs a Tokio runtime with I/O and time.
///
/// ```no_run
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals_aws::AwsSettings;
/// use annals_aws::DynamoDb;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let settings = AwsSettings {
///     endpoint: Some("http://localhost:8000".to_owned()),
///     ..AwsSettings::default()
/// };
/// let items = DynamoDb::open(&settings).await?;
///
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// items.create_table(&table, Default::default()).await?;
/// let note = Item::new().with("id", "a");
/// let cost = items.put(&table, note, Condition::Absent).await?;
/// assert_eq!((cost.requests, cost.write_units), (1, 1));
/// # Ok(())
/// # }
/// ```
pub struct DynamoDb {
    pub(crate) client: Client,
    pub(crate) sender: Sender,
    /// How many requests of one batch are under way at once.
    pub(crate) batches_at_once: usize,
    /// What the client was made from, for [`bench`](crate::bench) to make a bare one.
    pub(crate) shared: SdkConfig,
}

/// How many requests one batch may have under way, so that it leaves connections to others.
const BATCHES_AT_ONCE_MAX: usize = 8;

impl DynamoDb {
    /// Opens DynamoDB with credentials from AWS's own chain.
    ///
    /// # Errors
    /// `Invalid` where there is no region, or a setting cannot work.
    pub async fn open(settings: &AwsSettings) -> Result<Self> {
        check(settings)?;
        let shared = loader(settings).load().await;
        let clock = Arc::new(SystemClock::new());
        Self::with_config(shared, settings, clock, Random::from_machine())
    }

    /// Opens a server that takes any credentials, with keys that mean nothing. For tests.
    ///
    /// # Errors
    /// `Invalid` without an endpoint, which keeps this away from AWS.
    #[doc(hidden)]
    pub async fn open_local(
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        check(settings)?;
        if settings.endpoint.is_none() {
            return Err(Error::invalid("a local server has an endpoint; set it"));
        }
        let keys = Credentials::new("local", "local", None, None, "open_local");
        let shared = loader(settings).credentials_provider(keys).load().await;
        Self::with_config(shared, settings, clock, random)
    }

    pub(crate) fn with_config(
        shared: SdkConfig,
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        // Wherever they came from: settings, environment or profile.
        check_place(&shared)?;
        let limits = &settings.aws_client_config;
        Ok(Self {
            client: Client::from_conf(client_config(&shared, limits)?.build()),
            sender: Sender::new(Service::DynamoDb, limits, clock, random),
            batches_at_once: limits.max_connections.min(BATCHES_AT_ONCE_MAX),
            shared,
        })
    }
}

impl fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDb")
            .field("endpoint", &self.shared.endpoint_url())
            .field("region", &self.shared.region().map(Region::as_ref))
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

/// The SDK's client as we use it: [`Sender`] alone retries and ends what takes too long, so the
/// SDK's retries and its watch over stalled streams would only cost time.
fn client_config(shared: &SdkConfig, limits: &AwsClientSettings) -> Result<Builder> {
    let proxy = Proxy::of(limits, || std::env::var(crate::proxy::PASSWORD).ok())?;
    let mut config = Builder::from(shared)
        .http_client(http_client(limits, proxy)?)
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(text) = &limits.user_agent {
        config = config.interceptor(UserAgent::new(text)?);
    }
    Ok(config)
}

/// Whether there is a region, and nothing is wrong with it or with the address.
pub(crate) fn check_place(shared: &SdkConfig) -> Result<()> {
    shared.endpoint_url().map_or(Ok(()), check_endpoint)?;
    match shared.region() {
        Some(region) => check_region(region.as_ref()),
        None => Err(Error::invalid(
            "no AWS region; set --region, region in annals.toml or AWS_REGION",
        )),
    }
}

pub(crate) fn loader(settings: &AwsSettings) -> ConfigLoader {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12());
    if let Some(profile) = &settings.profile {
        loader = loader.profile_name(profile);
    }
    match (&settings.endpoint, &settings.region) {
        (None, None) => loader,
        (None, Some(region)) => loader.region(Region::new(region.clone())),
        (Some(endpoint), _) => loader.endpoint_url(endpoint).region(near_region(settings)),
    }
}

/// The region where an endpoint is set: a server of one's own takes any, so there is a default,
/// and the machine's metadata service, which a laptop would wait for in vain, is not asked.
fn near_region(settings: &AwsSettings) -> RegionProviderChain {
    const ANY: &str = "us-east-1";
    let mut profile = ProfileFileRegionProvider::builder();
    if let Some(name) = &settings.profile {
        profile = profile.profile_name(name);
    }
    RegionProviderChain::first_try(settings.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build())
        .or_else(Region::new(ANY))
}

pub(crate) fn check(settings: &AwsSettings) -> Result<()> {
    let limits = &settings.aws_client_config;
    let at_least_one = [
        ("max-connections", limits.max_connections as u64),
        ("connection-timeout", limits.connection_timeout),
        ("request-timeout", limits.request_timeout),
        ("client-execution-timeout", limits.client_execution_timeout),
        ("socket-timeout", limits.socket_timeout.unwrap_or(1)),
        (
            "connection-max-idle-millis",
            limits.connection_max_idle_millis,
        ),
    ];
    match at_least_one.iter().find(|(_, value)| *value == 0) {
        None => Ok(()),
        Some((name, _)) => Err(Error::invalid(format!(
            "setting must be at least 1. setting=`aws-client-config.{name}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec, Write};
    use annals::{ErrorKind, ManualClock};
    use aws_credential_types::provider::error::CredentialsError;
    use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};

    use super::*;

    /// A chain that ends without credentials.
    #[derive(Debug)]
    struct Nobody;

    impl ProvideCredentials for Nobody {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("nothing found")))
        }
    }

    fn open(shared: aws_config::SdkConfig) -> Result<DynamoDb> {
        let clock = Arc::new(ManualClock::at_ms(0));
        DynamoDb::with_config(shared, &AwsSettings::default(), clock, Random::seeded(1))
    }

    #[test]
    fn without_a_region_nothing_opens() {
        let error = open(SdkConfig::builder().build()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            "no AWS region; set --region, region in annals.toml or AWS_REGION"
        );
    }

    #[test]
    fn a_region_or_endpoint_that_cannot_be_one_is_refused_wherever_it_came_from() {
        let refused = |shared: SdkConfig| {
            let error = open(shared).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            error.to_string()
        };
        let text = refused(SdkConfig::builder().region(Region::new("eu west")).build());
        assert!(text.ends_with("region=`eu west`"), "{text}");
        let shared = SdkConfig::builder().region(Region::new("eu-west-1"));
        let text = refused(shared.endpoint_url("http://127.0.0.1:99999").build());
        assert!(
            text.ends_with("endpoint=`http://127.0.0.1:99999`"),
            "{text}"
        );
    }

    /// An address for DynamoDB alone, out of the environment, goes past our checks; and what the
    /// SDK says about it holds the whole request.
    #[tokio::test]
    async fn a_request_that_cannot_be_built_is_told_without_its_contents() {
        let keys = Credentials::new("access", "hidden", None, None, "test");
        let shared = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(keys));
        let mut store = open(shared.build()).unwrap();
        let key = KeySchema::new(KeyAttribute::text("id"));
        let table = TableSpec::new("notes".parse().unwrap(), key).unwrap();
        let note = Item::new().with("id", "a").with("text", "confidential");
        for endpoint in ["http://127.0.0.1:1 x", "http://", "non sense"] {
            let config = Builder::from(&store.shared).endpoint_url(endpoint);
            store.client = Client::from_conf(config.build());
            let put = store.put(&table, note.clone(), Condition::Always).await;
            let put = Error::from(put.unwrap_err());
            let batch = store.write(&table, vec![Write::Put(note.clone())]).await;
            for error in [put, batch.unwrap_err().cause] {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
                let text = format!("{error} {error:?}");
                assert!(text.contains("; check its address"), "{text}");
                assert!(!text.contains("confidential"), "{text}");
                assert!(!text.contains("hidden"), "{text}");
            }
        }
    }

    #[tokio::test]
    async fn an_endpoint_needs_no_region_and_a_region_that_is_set_wins() {
        let set = |region: Option<&str>| AwsSettings {
            region: region.map(str::to_owned),
            profile: Some("no-such-profile".to_owned()),
            ..AwsSettings::default()
        };
        let ours = near_region(&set(Some("eu-north-1"))).region().await;
        assert_eq!(ours, Some(Region::new("eu-north-1")));
        assert!(near_region(&set(None)).region().await.is_some());
    }

    #[tokio::test]
    async fn missing_credentials_are_found_out_by_the_first_request() {
        let shared = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url("http://127.0.0.1:1")
            .credentials_provider(SharedCredentialsProvider::new(Nobody));
        let store = open(shared.build()).unwrap();
        let key = KeySchema::new(KeyAttribute::text("id"));
        let table = TableSpec::new("notes".parse().unwrap(), key).unwrap();
        let error = store.get(&table, vec![Key::new("a")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.starts_with("no AWS credentials; set AWS_PROFILE"),
            "{text}"
        );
    }

    #[test]
    fn a_store_prints_no_secret() {
        let keys = Credentials::new("access", "hidden", None, None, "test");
        let shared = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(keys));
        let printed = format!("{:?}", open(shared.build()).unwrap());
        assert!(
            printed.contains("us-east-1") && !printed.contains("hidden"),
            "{printed}"
        );
    }
}
