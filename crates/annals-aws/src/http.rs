//! The HTTP client under the SDK's: its pool, its timeouts, its proxy, and the user agent.
//!
//! Promises: built as the SDK builds its own, with what the settings say in the place of its
//! defaults; without a proxy in the settings, the environment's is used as the SDK uses it.
//! Trusts: [`Proxy`] to be an address.
//! Never: ends an attempt as a whole, or repeats one: `retry` does.

use crate::settings::AwsClientSettings;
use annals::{Error, Result};
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents, SharedHttpClient};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Connector, tls};
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};

use crate::proxy::Proxy;

/// The client for these settings.
///
/// # Errors
/// `Invalid` where the proxy's address cannot be one.
pub(crate) fn http_client(
    limits: &AwsClientSettings,
    proxy: Option<Proxy>,
) -> Result<SharedHttpClient> {
    let mut timeouts =
        HttpConnectorSettings::builder().connect_timeout(limits.connection_timeout());
    timeouts.set_read_timeout(limits.socket_timeout());
    let aws_lc = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc);
    let connector = Connector::builder()
        .connector_settings(timeouts.build())
        .pool_idle_timeout(limits.connection_max_idle())
        .proxy_config(proxy_config(proxy)?)
        .tls_provider(aws_lc)
        .build();
    let connector = SharedHttpConnector::new(connector);
    Ok(http_client_fn(move |_, _| connector.clone()))
}

fn proxy_config(proxy: Option<Proxy>) -> Result<ProxyConfig> {
    let Some(proxy) = proxy else {
        return Ok(ProxyConfig::from_env());
    };
    let config = ProxyConfig::all(proxy.address.as_str())
        .map_err(|cause| Error::invalid("the proxy's address cannot be used").because(cause))?;
    Ok(match proxy.user {
        Some((name, password)) => config.with_basic_auth(name, password),
        None => config,
    })
}

/// Puts a text before the SDK's own words in the header `user-agent`, which is not signed.
#[derive(Debug)]
pub(crate) struct UserAgent(String);

impl UserAgent {
    /// # Errors
    /// `Invalid` where a header cannot hold the text.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
            return Ok(Self(text.trim().to_owned()));
        }
        Err(Error::invalid(format!(
            "a user agent is of printable ASCII. user-agent=`{}`",
            text.escape_debug()
        )))
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
