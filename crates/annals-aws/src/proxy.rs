//! The proxy in front of DynamoDB: which one, and who we are to it, checked as text. Pure.
//!
//! Promises: what passes is an address that can be connected to.
//! Never: keeps a password in the settings, or prints one.

use std::fmt::{self, Write as _};

use crate::settings::AwsClientSettings;
use annals::{Error, Result};

use crate::endpoint::is_host;

/// Where the password of `proxy-username` comes from.
pub(crate) const PASSWORD: &str = "ANNALS_PROXY_PASSWORD";

/// The proxy that the settings name. Spoken to in HTTP; what it passes on may be HTTPS.
pub(crate) struct Proxy {
    /// `http://host:port`.
    pub(crate) address: String,
    /// The name and the password, fit to stand in an address.
    pub(crate) user: Option<(String, String)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = f.debug_struct("Proxy");
        printed.field("address", &self.address);
        printed.finish_non_exhaustive()
    }
}

impl Proxy {
    /// The proxy of these settings, where they name one.
    ///
    /// # Errors
    /// `Invalid` where only half of it is set, or the host is none.
    pub(crate) fn of(
        settings: &AwsClientSettings,
        password: impl FnOnce() -> Option<String>,
    ) -> Result<Option<Self>> {
        let user = settings.proxy_username.as_deref();
        let (host, port) = match (&settings.proxy_host, settings.proxy_port) {
            (None, None) if user.is_none() => return Ok(None),
            (Some(host), Some(port)) if port > 0 => (host, port),
            _ => {
                return Err(Error::invalid(
                    "a proxy has a host and a port; set aws-client-config.proxy-host and aws-client-config.proxy-port, or none of the proxy's settings",
                ));
            }
        };
        if !is_host(host) {
            return Err(Error::invalid(format!(
                "a proxy's host is a name or an IP address, without a scheme. proxy-host=`{}`",
                host.escape_debug()
            )));
        }
        let user = match (user, password()) {
            (None, _) => None,
            (Some(user), Some(password)) => Some((quoted(user), quoted(&password))),
            (Some(_), None) => {
                return Err(Error::invalid(format!(
                    "the proxy's user has a password; set {PASSWORD} in the environment"
                )));
            }
        };
        let address = format!("http://{host}:{port}");
        Ok(Some(Self { address, user }))
    }
}

/// The text as it may stand before the host of an address.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(quoted, "%{byte:02X}");
        }
    }
    quoted
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
    fn half_a_proxy_is_refused() {
        let none = Proxy::of(&settings("", 0, ""), || None);
        assert!(none.unwrap().is_none());
        for (host, port, user) in [
            ("proxy", 0, ""),
            ("", 3128, ""),
            ("", 0, "me"),
            ("http://proxy", 3128, ""),
            ("me@proxy", 3128, ""),
            ("proxy", 3128, "me"),
        ] {
            let error = Proxy::of(&settings(host, port, user), || None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{host} {port} {user}");
        }
        let zero = AwsClientSettings {
            proxy_port: Some(0),
            ..settings("proxy", 1, "")
        };
        assert!(Proxy::of(&zero, || None).is_err());
    }

    #[test]
    fn a_password_may_hold_anything_and_is_not_printed() {
        let password = || Some("p@ss:/w%rd \u{e9}".to_owned());
        let proxy = Proxy::of(&settings("proxy", 3128, "me@corp"), password).unwrap();
        let proxy = proxy.unwrap();
        assert_eq!(proxy.address, "http://proxy:3128");
        let (user, password) = proxy.user.clone().unwrap();
        assert_eq!(user, "me%40corp");
        assert_eq!(password, "p%40ss%3A%2Fw%25rd%20%C3%A9");
        let printed = format!("{proxy:?}");
        assert!(
            !printed.contains("p%40ss") && !printed.contains("p@ss"),
            "{printed}"
        );
    }
}
