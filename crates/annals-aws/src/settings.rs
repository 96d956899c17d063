//! Where DynamoDB and Kinesis are, and how their clients behave. Client settings have the names of the
//! JVM plugins' `aws-client-config`.
//!
//! Guarantees: contains no secret; the proxy password comes from the environment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use annals::settings::optional::{empty_is_no_number, empty_is_none};

/// How the DynamoDB and Kinesis clients behave. Times are in milliseconds.
///
/// ```
/// use annals_aws::AwsSettings;
/// use std::time::Duration;
///
/// let mut settings = AwsSettings::default();
/// settings.aws_client_config.max_connections = 200;
/// settings.aws_client_config.request_timeout = 1_000;
/// assert_eq!(settings.aws_client_config.request_timeout(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct AwsClientSettings {
    /// Requests in flight at once, each on its own connection. Smaller: requests wait for each other.
    /// Larger: more sockets, and a table is throttled sooner.
    pub max_connections: usize,
    /// Time limit for connecting.
    pub connection_timeout: u64,
    /// Time limit for one attempt.
    pub request_timeout: u64,
    /// Time limit for an operation with all its retries.
    pub client_execution_timeout: u64,
    /// How long a server may be silent before the attempt is retried; `None`: as long as
    /// [`request_timeout`](Self::request_timeout). Smaller: slow responses are discarded. Larger: a
    /// dead connection is noticed later.
    #[serde(with = "empty_is_no_number")]
    pub socket_timeout: Option<u64>,
    /// How long an idle connection is kept. Smaller: more handshakes. Larger: more connections that a
    /// gateway has silently closed.
    pub connection_max_idle_millis: u64,
    /// Retries per request; `None`: until [`client_execution_timeout`](Self::client_execution_timeout).
    /// Smaller: a short outage becomes an error sooner. Larger: the caller waits longer for it.
    #[serde(with = "empty_is_no_number")]
    pub max_error_retry: Option<u32>,
    /// The host of the HTTP proxy; `None`: from `HTTPS_PROXY` and the like.
    #[serde(with = "empty_is_none")]
    pub proxy_host: Option<String>,
    /// The proxy's port.
    #[serde(with = "empty_is_no_number")]
    pub proxy_port: Option<u16>,
    /// The user name at the proxy; the password comes from `ANNALS_PROXY_PASSWORD`.
    #[serde(with = "empty_is_none")]
    pub proxy_username: Option<String>,
    /// Prefix of the `User-Agent` header of every request.
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

/// Settings of Kinesis. Region, profile and client settings are those of DynamoDB.
///
/// ```
/// use annals_aws::KinesisSettings;
///
/// assert_eq!(KinesisSettings::default().poll_ms, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct KinesisSettings {
    /// The endpoint of Kinesis; empty: the region's. The DynamoDB endpoint is never used for it.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// How many milliseconds a pump waits after it has read everything. Less: more requests, and a
    /// shard allows five per second over all readers. More: records wait longer.
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
/// let settings = AwsSettings::at("http://127.0.0.1:8000");
/// assert_eq!(settings.aws_client_config.max_connections, 50);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct AwsSettings {
    /// The endpoint of DynamoDB; empty: the region's.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// The AWS region; empty: from the environment or the profile.
    #[serde(with = "empty_is_none")]
    pub region: Option<String>,
    /// The AWS profile; empty: from the environment.
    #[serde(with = "empty_is_none")]
    pub profile: Option<String>,
    /// Kinesis.
    pub kinesis: KinesisSettings,
    /// The clients.
    pub aws_client_config: AwsClientSettings,
}

impl AwsSettings {
    /// The default settings with this endpoint of DynamoDB.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: Some(endpoint.into()),
            ..Self::default()
        }
    }
}
