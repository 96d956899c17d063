//! Opens the DynamoDB client from settings, region, credentials and timeouts.
//!
//! Guarantees: sends nothing before the first operation, and refuses invalid settings at once. Missing
//! credentials are reported by the first request. Never prints a secret; the only one it reads is the
//! proxy password, from the environment.

use std::fmt;
use std::sync::Arc;

use annals::{Clock, Error, Random, Result, SystemClock};
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Credentials, StalledStreamProtectionConfig};
use futures::future::BoxFuture;

use crate::endpoint::{check_endpoint, check_region};
use crate::error::Service;
use crate::http::{UserAgent, http_client};
use crate::proxy::Proxy;
use crate::retry::Sender;
use crate::settings::{AwsClientSettings, AwsSettings};

/// Items in DynamoDB, or in a server with the same API.
///
/// Every operation retries within `client-execution-timeout` and counts retries in its cost; an
/// operation of many requests gives each of them that long. Needs a Tokio runtime with I/O and time.
///
/// ```no_run
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals_aws::{AwsSettings, DynamoDb};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let items = DynamoDb::open(&AwsSettings::at("http://localhost:8000")).await?;
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
    /// How many requests of one batch are in flight at once.
    pub(crate) batch_concurrency: usize,
    /// The configuration of the client, from which [`bench`](crate::bench) makes a bare one.
    pub(crate) shared: SdkConfig,
}

/// How many requests one batch may have in flight, so that it leaves connections to others.
const BATCH_CONCURRENCY_MAX: usize = 8;

impl DynamoDb {
    /// Opens DynamoDB with credentials from the AWS credential chain.
    ///
    /// # Errors
    /// `Invalid` if there is no region, or a setting is invalid.
    pub async fn open(settings: &AwsSettings) -> Result<Self> {
        check(settings)?;
        let shared = load(loader(settings)).await;
        let clock = Arc::new(SystemClock::new());
        Self::with_config(shared, settings, clock, Random::from_machine())
    }

    /// Opens a server that accepts any credentials, with dummy keys. For tests.
    ///
    /// # Errors
    /// `Invalid` without an endpoint, so that it never reaches AWS.
    #[doc(hidden)]
    pub async fn open_local(
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        check(settings)?;
        if settings.endpoint.is_none() {
            return Err(Error::invalid("a local server needs an endpoint; set it"));
        }
        let keys = Credentials::new("local", "local", None, None, "open_local");
        let shared = load(loader(settings).credentials_provider(keys)).await;
        Self::with_config(shared, settings, clock, random)
    }

    pub(crate) fn with_config(
        shared: SdkConfig,
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        // From settings, environment or profile.
        check_location(&shared)?;
        let limits = &settings.aws_client_config;
        Ok(Self {
            client: Client::from_conf(client_config(&shared, limits)?.build()),
            sender: Sender::new(Service::DynamoDb, limits, clock, random),
            batch_concurrency: limits.max_connections.min(BATCH_CONCURRENCY_MAX),
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

/// The SDK client without its own retries and stalled-stream protection: [`Sender`] alone retries
/// and enforces timeouts.
fn client_config(shared: &SdkConfig, limits: &AwsClientSettings) -> Result<Builder> {
    let proxy = Proxy::from_settings(limits, || std::env::var(crate::proxy::PASSWORD).ok())?;
    let mut config = Builder::from(shared)
        .http_client(http_client(limits, proxy)?)
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(text) = &limits.user_agent {
        config = config.interceptor(UserAgent::new(text)?);
    }
    Ok(config)
}

/// Checks that there is a region, and that region and endpoint are valid.
pub(crate) fn check_location(shared: &SdkConfig) -> Result<()> {
    shared.endpoint_url().map_or(Ok(()), check_endpoint)?;
    match shared.region() {
        Some(region) => check_region(region.as_ref()),
        None => Err(Error::invalid(
            "no AWS region; set --region, region in annals.toml or AWS_REGION",
        )),
    }
}

pub(crate) fn loader(settings: &AwsSettings) -> ConfigLoader {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(crate::http::credentials_client());
    if let Some(profile) = &settings.profile {
        loader = loader.profile_name(profile);
    }
    match (&settings.endpoint, &settings.region) {
        (None, None) => loader,
        (None, Some(region)) => loader.region(Region::new(region.clone())),
        (Some(endpoint), _) => loader.endpoint_url(endpoint).region(local_region(settings)),
    }
}

/// Loads the configuration. The future is boxed so that the SDK's credential chain is compiled here,
/// and not again in every crate that opens a client.
pub(crate) fn load(loader: ConfigLoader) -> BoxFuture<'static, SdkConfig> {
    Box::pin(loader.load())
}

/// The region for a custom endpoint. A local server accepts any, so there is a default, and the
/// instance metadata service is not queried: on a laptop that would wait for a timeout.
fn local_region(settings: &AwsSettings) -> RegionProviderChain {
    const DEFAULT: &str = "us-east-1";
    let mut profile = ProfileFileRegionProvider::builder();
    if let Some(name) = &settings.profile {
        profile = profile.profile_name(name);
    }
    RegionProviderChain::first_try(settings.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build())
        .or_else(Region::new(DEFAULT))
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
        Some((name, _)) => Err(Error::invalid("setting must be at least 1")
            .fact("setting", format_args!("aws-client-config.{name}"))),
    }
}

#[cfg(test)]
mod tests {
    use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec, Write};
    use annals::{ErrorKind, ManualClock};
    use aws_credential_types::provider::error::CredentialsError;
    use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};

    use super::*;

    /// A credential chain that finds nothing.
    #[derive(Debug)]
    struct NoCredentials;

    impl ProvideCredentials for NoCredentials {
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
    fn refuses_to_open_without_a_region() {
        let error = open(SdkConfig::builder().build()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            "no AWS region; set --region, region in annals.toml or AWS_REGION"
        );
    }

    #[test]
    fn refuses_an_invalid_region_or_endpoint_from_any_source() {
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

    /// An endpoint for DynamoDB alone, from the environment, bypasses our checks, and the SDK's error
    /// about it contains the whole request.
    #[tokio::test]
    async fn an_unbuildable_request_is_reported_without_its_contents() {
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
                assert!(text.contains("; check the endpoint"), "{text}");
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
        let ours = local_region(&set(Some("eu-north-1"))).region().await;
        assert_eq!(ours, Some(Region::new("eu-north-1")));
        assert!(local_region(&set(None)).region().await.is_some());
    }

    #[tokio::test]
    async fn the_first_request_reports_missing_credentials() {
        let shared = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url("http://127.0.0.1:1")
            .credentials_provider(SharedCredentialsProvider::new(NoCredentials));
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
    fn debug_output_has_no_secret() {
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
