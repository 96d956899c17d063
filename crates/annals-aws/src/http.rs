//! The HTTP client under the SDK: connection pool, timeouts, proxy and user agent.
//!
//! Guarantees: built as the SDK builds its own, with the settings in place of its defaults. Without a
//! proxy in the settings, the SDK's proxy variables apply. Never retries an attempt and never bounds a
//! whole one: `retry` does both.

use annals::{Error, Result};
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents, SharedHttpClient};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};

use crate::proxy::Proxy;
use crate::settings::AwsClientSettings;

/// AWS-LC, the SDK's default, takes a tenth of a fresh build to compile (decision 18).
const TLS: tls::Provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);

/// The client with which the SDK fetches credentials: as the SDK's default, except for [`TLS`].
pub(crate) fn credentials_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = Connector::builder()
            .tls_provider(TLS)
            .proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}

/// Builds the HTTP client for these settings.
///
/// # Errors
/// `Invalid` if the SDK refuses the proxy's address.
pub(crate) fn http_client(
    limits: &AwsClientSettings,
    proxy: Option<Proxy>,
) -> Result<SharedHttpClient> {
    let mut timeouts =
        HttpConnectorSettings::builder().connect_timeout(limits.connection_timeout());
    timeouts.set_read_timeout(limits.socket_timeout());
    let connector = Connector::builder()
        .connector_settings(timeouts.build())
        .pool_idle_timeout(limits.connection_max_idle())
        .proxy_config(proxy_config(proxy)?)
        .tls_provider(TLS)
        .build();
    let connector = SharedHttpConnector::new(connector);
    Ok(http_client_fn(move |_, _| connector.clone()))
}

fn proxy_config(proxy: Option<Proxy>) -> Result<ProxyConfig> {
    let Some(proxy) = proxy else {
        return Ok(ProxyConfig::from_env());
    };
    let config = ProxyConfig::all(proxy.address.as_str()).map_err(|cause| {
        Error::invalid("proxy-host and proxy-port are no usable address; check both").because(cause)
    })?;
    Ok(match proxy.login {
        Some(login) => config.with_basic_auth(login.user, login.password),
        None => config,
    })
}

/// Prefixes the `user-agent` header of the SDK, which is not signed.
#[derive(Debug)]
pub(crate) struct UserAgent(String);

impl UserAgent {
    /// # Errors
    /// `Invalid` if a header cannot hold the text.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
            return Ok(Self(text.trim().to_owned()));
        }
        Err(Error::invalid("a user agent contains printable ASCII only")
            .fact("user-agent", text.escape_debug()))
    }
}

const USER_AGENT: &str = "user-agent";

impl Intercept for UserAgent {
    fn name(&self) -> &'static str {
        "annals::UserAgent"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.request_mut().headers_mut();
        let own = headers.get(USER_AGENT).unwrap_or_default();
        let all = format!("{}, {own}", self.0);
        headers.insert(USER_AGENT, all);
        Ok(())
    }
}
