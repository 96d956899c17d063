//! Checks endpoint addresses, host names and region names as text. Pure.
//!
//! Guarantees: a request to an accepted endpoint can be built, so a typing error is reported at open
//! and not by the first write. Never contacts the network, and never prints a password out of an
//! address.

use annals::{Error, Result};
use http::Uri;
use url::Host;

/// Checks that `endpoint` is `http` or `https`, a host, an optional port, and nothing else.
///
/// # Errors
/// `Invalid` if it is anything else.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<()> {
    if endpoint.contains('@') {
        return Err(Error::invalid(
            "an endpoint contains no user name and no password; credentials come from the AWS credential chain",
        ));
    }
    if is_origin(endpoint) {
        return Ok(());
    }
    Err(Error::invalid(
        "an endpoint is http:// or https://, a host and a port from 1 to 65535, such as http://localhost:8000",
    )
    .fact("endpoint", endpoint.escape_debug()))
}

/// Whether the SDK's own parser reads exactly a scheme, a host and perhaps a port.
fn is_origin(endpoint: &str) -> bool {
    let Ok(uri) = endpoint.parse::<Uri>() else {
        return false;
    };
    let (Some(scheme @ ("http" | "https")), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return false;
    };
    // The parser drops a fragment and accepts any port, so what it has read is compared.
    let port = uri.port_u16().filter(|port| *port > 0);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let read = format!("{scheme}://{host}{port}");
    is_host(host) && endpoint.strip_suffix('/').unwrap_or(endpoint) == read
}

/// Whether `host` is an ASCII name or an IP address; version 6 in brackets.
pub(crate) fn is_host(host: &str) -> bool {
    host.is_ascii() && !host.contains('%') && Host::parse(host).is_ok()
}

/// Checks that `region` can be the name of a region.
///
/// # Errors
/// `Invalid` if it cannot.
pub(crate) fn check_region(region: &str) -> Result<()> {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !region.is_empty() && region.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid(
        "an AWS region is a name like eu-west-1; check --region, region in annals.toml and AWS_REGION",
    )
    .fact("region", region.escape_debug()))
}

#[cfg(test)]
mod tests {
    use annals::ErrorKind;

    use super::*;

    #[test]
    fn accepts_a_scheme_a_host_and_a_port() {
        for endpoint in [
            "http://localhost:8000",
            "http://127.0.0.1:1",
            "http://127.0.0.1:65535/",
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://localhost:80",
            "http://[::1]:8000",
            "http://[::1]",
            "http://dynamodb_local:8000",
        ] {
            check_endpoint(endpoint).unwrap();
        }
    }

    #[test]
    fn refuses_everything_else() {
        let schemes = ["", "localhost:8000", "ftp://localhost", "HTTP//x", "http:"];
        let ports = ["0", "99999", "65536", "1 x", "", "+1", "-1", "80a"];
        let hosts = [
            "", " ", "a b", ":8000", "[::1", "::1", "[x]:1", "h\u{e9}", "a%b", "%41", "a\nb",
        ];
        let rests = ["/x", "//", "?a=b", "#a", "/?"];
        let wrong = schemes.map(str::to_owned).into_iter();
        let wrong = wrong.chain(ports.map(|port| format!("http://127.0.0.1:{port}")));
        let wrong = wrong.chain(hosts.map(|host| format!("http://{host}")));
        let wrong = wrong.chain(rests.map(|rest| format!("http://localhost:8000{rest}")));
        for endpoint in wrong {
            let error = check_endpoint(&endpoint).expect_err(&endpoint);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let shown = format!("endpoint=`{}`", endpoint.escape_debug());
            assert!(error.to_string().ends_with(&shown), "{error}");
        }
    }

    #[test]
    fn never_prints_a_password() {
        for endpoint in ["http://me:hidden@localhost", "me:hidden@localhost:8000"] {
            let text = check_endpoint(endpoint).unwrap_err().to_string();
            assert!(
                text.contains("no password") && !text.contains("hidden"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_region_has_lower_case_letters_digits_and_dashes() {
        for region in ["us-east-1", "local", "1"] {
            assert!(check_region(region).is_ok(), "{region}");
        }
        for region in ["", " ", "eu west", "EU-WEST-1", "eu_west", "x/y", "\u{e9}"] {
            let error = check_region(region).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{region}");
        }
    }
}
