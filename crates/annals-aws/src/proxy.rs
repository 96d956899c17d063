//! The HTTP proxy named by the settings, checked as text. Pure.
//!
//! Guarantees: an accepted proxy has an address that can be connected to. Never keeps a password in
//! the settings, and never prints one.

use std::fmt;

use annals::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::endpoint::is_host;
use crate::settings::AwsClientSettings;

/// The environment variable with the password of `proxy-username`.
pub(crate) const PASSWORD: &str = "ANNALS_PROXY_PASSWORD";

/// Everything except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The proxy. Reached over HTTP; what it forwards may be HTTPS.
pub(crate) struct Proxy {
    /// `http://host:port`.
    pub(crate) address: String,
    pub(crate) login: Option<Login>,
}

/// Credentials for the proxy, percent-encoded.
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = f.debug_struct("Proxy");
        printed.field("address", &self.address);
        printed.finish_non_exhaustive()
    }
}

impl Proxy {
    /// Returns the proxy of these settings, if they name one.
    ///
    /// # Errors
    /// `Invalid` if a part of it is missing, or the host is not one.
    pub(crate) fn from_settings(
        settings: &AwsClientSettings,
        password: impl FnOnce() -> Option<String>,
    ) -> Result<Option<Self>> {
        let user = settings.proxy_username.as_deref();
        let (host, port) = match (&settings.proxy_host, settings.proxy_port) {
            (None, None) if user.is_none() => return Ok(None),
            (Some(host), Some(port)) if port > 0 => (host, port),
            _ => {
                return Err(Error::invalid(
                    "a proxy needs a host and a port; set aws-client-config.proxy-host and aws-client-config.proxy-port, or none of the proxy settings",
                ));
            }
        };
        if !is_host(host) {
            return Err(Error::invalid(
                "proxy-host is a host name or an IP address, without a scheme",
            )
            .fact("proxy-host", host.escape_debug()));
        }
        let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
        let login = match (user, password()) {
            (None, _) => None,
            (Some(user), Some(password)) => Some(Login {
                user: encode(user),
                password: encode(&password),
            }),
            (Some(_), None) => {
                return Err(Error::invalid(format!(
                    "proxy-username needs a password; set {PASSWORD} in the environment"
                )));
            }
        };
        let address = format!("http://{host}:{port}");
        Ok(Some(Self { address, login }))
    }
}

#[cfg(test)]
mod tests {
    use annals::ErrorKind;

    use super::*;

    fn settings(host: &str, port: u16, user: &str) -> AwsClientSettings {
        let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        AwsClientSettings {
            proxy_host: set(host),
            proxy_port: Some(port).filter(|port| *port > 0),
            proxy_username: set(user),
            ..AwsClientSettings::default()
        }
    }

    #[test]
    fn refuses_an_incomplete_proxy() {
        let none = Proxy::from_settings(&settings("", 0, ""), || None);
        assert!(none.unwrap().is_none());
        for (host, port, user) in [
            ("proxy", 0, ""),
            ("", 3128, ""),
            ("", 0, "me"),
            ("http://proxy", 3128, ""),
            ("me@proxy", 3128, ""),
            ("proxy", 3128, "me"),
        ] {
            let error = Proxy::from_settings(&settings(host, port, user), || None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{host} {port} {user}");
        }
        let zero = AwsClientSettings {
            proxy_port: Some(0),
            ..settings("proxy", 1, "")
        };
        assert!(Proxy::from_settings(&zero, || None).is_err());
    }

    #[test]
    fn encodes_the_password_and_never_prints_it() {
        let password = || Some("p@ss:/w%rd \u{e9}".to_owned());
        let proxy = Proxy::from_settings(&settings("proxy", 3128, "me@corp"), password);
        let proxy = proxy.unwrap().unwrap();
        assert_eq!(proxy.address, "http://proxy:3128");
        let login = proxy.login.as_ref().unwrap();
        assert_eq!(login.user, "me%40corp");
        assert_eq!(login.password, "p%40ss%3A%2Fw%25rd%20%C3%A9");
        let printed = format!("{proxy:?}");
        assert!(
            !printed.contains("p%40ss") && !printed.contains("p@ss"),
            "{printed}"
        );
    }
}
