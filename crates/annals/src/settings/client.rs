//! How the client of DynamoDB behaves, under the names of the JVM plugins' `aws-client-config`.
//!
//! Never: holds the proxy's password, which is a secret.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::optional::{empty_is_no_number, empty_is_none};

/// How the client of DynamoDB behaves. Times are in milliseconds.
///
/// ```
/// use annals::settings::{AwsClientSettings, Settings};
/// use std::time::Duration;
///
/// let aws_client_config = AwsClientSettings {
///     max_connections: 200,
///     request_timeout: 1_000,
///     ..AwsClientSettings::default()
/// };
/// let settings = Settings { aws_client_config, ..Settings::default() };
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
