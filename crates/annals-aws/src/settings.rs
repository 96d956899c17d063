//! Where DynamoDB and Kinesis are, and how their clients behave, under the names of the JVM plugins'
//! `aws-client-config`.
//!
//! Never: holds the proxy's password, which is a secret.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use annals::settings::optional::{empty_is_no_number, empty_is_none};

/// How the client of DynamoDB behaves. Times are in milliseconds.
///
/// ```
/// use annals_aws::{AwsClientSettings, AwsSettings};
/// use std::time::Duration;
///
/// let aws_client_config = AwsClientSettings {
///     max_connections: 200,
///     request_timeout: 1_000,
///     ..AwsClientSettings::default()
/// };
/// let settings = AwsSettings { aws_client_config, ..AwsSettings::default() };
/// assert_eq!(settings.aws_client_config.request_timeout(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AwsClientSettings {
    /// Requests under way at once, each on a connection of its own. Smaller: requests wait for
    /// each other. Larger: more sockets, and a table is throttled sooner.
    pub max_connections: usize,
    /// Until a connection stands.
    pub connection_timeout: u64,
    /// Until one attempt has its answer.
    pub request_timeout: u64,
    /// Until an operation gives up, with all its retries.
    pub client_execution_timeout: u64,
    /// Until a silent server is given up and the attempt repeated; `None`: as long as
    /// [`request_timeout`](Self::request_timeout). Smaller: slow answers are thrown away. Larger:
    /// a dead connection is noticed later.
    #[serde(with = "empty_is_no_number")]
    pub socket_timeout: Option<u64>,
    /// How long a connection that nobody uses is kept. Smaller: more handshakes. Larger: more
    /// connections that something in between has closed without a word.
    pub connection_max_idle_millis: u64,
    /// How often one request is repeated at most; `None`: until the operation's time is over.
    /// Smaller: a short outage is an error sooner. Larger: a caller waits longer for one.
    #[serde(with = "empty_is_no_number")]
    pub max_error_retry: Option<u32>,
    /// The proxy between us and DynamoDB; `None`: what `HTTPS_PROXY` and its like say.
    #[serde(with = "empty_is_none")]
    pub proxy_host: Option<String>,
    /// The proxy's port.
    #[serde(with = "empty_is_no_number")]
    pub proxy_port: Option<u16>,
    /// Who we are to the proxy; the password comes from `ANNALS_PROXY_PASSWORD`.
    #[serde(with = "empty_is_none")]
    pub proxy_username: Option<String>,
    /// What stands before the SDK's own words in the `User-Agent` of every request.
    #[serde(with = "empty_is_none")]
    pub user_agent: Option<String>,
}

impl Default for AwsClientSettings {
    fn default() -> Self {
        Self {
            max_connections: 50,
            connection_timeout: 2_000,
            request_timeout: 5_000,
            client_execution_timeout: 15_000,
            socket_timeout: None,
            connection_max_idle_millis: 60_000,
            max_error_retry: None,
            proxy_host: None,
            proxy_port: None,
            proxy_username: None,
            user_agent: None,
        }
    }
}

impl AwsClientSettings {
    /// [`connection_timeout`](Self::connection_timeout) as a duration.
    pub fn connection_timeout(&self) -> Duration {
        Duration::from_millis(self.connection_timeout)
    }

    /// [`request_timeout`](Self::request_timeout) as a duration.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout)
    }

    /// [`client_execution_timeout`](Self::client_execution_timeout) as a duration.
    pub fn client_execution_timeout(&self) -> Duration {
        Duration::from_millis(self.client_execution_timeout)
    }

    /// [`socket_timeout`](Self::socket_timeout) as a duration.
    pub fn socket_timeout(&self) -> Option<Duration> {
        self.socket_timeout.map(Duration::from_millis)
    }

    /// [`connection_max_idle_millis`](Self::connection_max_idle_millis) as a duration.
    pub fn connection_max_idle(&self) -> Duration {
        Duration::from_millis(self.connection_max_idle_millis)
    }
}

/// Streams of Kinesis. Region, profile and client are those of DynamoDB.
///
/// ```
/// use annals_aws::KinesisSettings;
///
/// assert_eq!(KinesisSettings::default().poll_ms, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KinesisSettings {
    /// The address of Kinesis; empty: the region's own. Never that of DynamoDB.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// How many milliseconds a pump waits that has read everything. Less: more requests, of which a
    /// shard takes five a second from all its readers. More: records wait longer.
    pub poll_ms: u64,
}

impl Default for KinesisSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            poll_ms: 1_000,
        }
    }
}

/// Where DynamoDB and Kinesis are, and how their clients behave.
///
/// ```
/// use annals_aws::AwsSettings;
///
/// let settings = AwsSettings {
///     endpoint: Some("http://127.0.0.1:8000".to_owned()),
///     ..AwsSettings::default()
/// };
/// assert_eq!(settings.aws_client_config.max_connections, 50);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AwsSettings {
    /// The address of DynamoDB; empty: the region's own.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// The AWS region; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub region: Option<String>,
    /// The AWS profile; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub profile: Option<String>,
    /// Streams of Kinesis.
    pub kinesis: KinesisSettings,
    /// The clients.
    pub aws_client_config: AwsClientSettings,
}
