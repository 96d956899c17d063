//! Where DynamoDB is: the address of a server and the name of a region, checked as text. Pure.
//!
//! Promises: what passes makes a request that can be sent, so that a slip of the pen is told at
//! open and not by the first write.
//! Never: asks the network whether anybody is there, or prints a password out of an address.

use std::net::Ipv6Addr;

use annals::{Error, Result};

/// Whether `endpoint` is `http` or `https`, a host and perhaps a port, and nothing more.
///
/// # Errors
/// `Invalid`, saying what is wrong with it.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<()> {
    match problem_of(endpoint) {
        None => Ok(()),
        Some(Problem::User) => Err(Error::invalid(
            "an endpoint carries no user and no password; credentials come from AWS's own chain",
        )),
        Some(Problem::Other(what)) => Err(Error::invalid(format!(
            "an endpoint is an address like http://localhost:8000: {what}. endpoint=`{}`",
            endpoint.escape_debug()
        ))),
    }
}

enum Problem {
    User,
    Other(&'static str),
}

fn problem_of(endpoint: &str) -> Option<Problem> {
    let scheme_and_rest = endpoint.split_once("://");
    let Some(("http" | "https", rest)) = scheme_and_rest else {
        // Also `user:password@host` without a scheme.
        return Some(match endpoint.contains('@') {
            true => Problem::User,
            false => Problem::Other("it begins with http:// or https://"),
        });
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('@') {
        return Some(Problem::User);
    }
    if authority.contains(['/', '?', '#']) {
        return Some(Problem::Other("it ends after the host and the port"));
    }
    let (host, port) = match authority.rsplit_once(':') {
        // The last colon of an address in brackets is its own.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if !is_host(host) {
        return Some(Problem::Other("its host is a name or an IP address"));
    }
    let is_wrong = port.is_some_and(|port| !is_port(port));
    is_wrong.then_some(Problem::Other("its port is a number from 1 to 65535"))
}

/// Whether `host` is a name or an IP address, one of version 6 in brackets.
pub(crate) fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !host.is_empty() && host.bytes().all(is_plain)
}

fn is_port(port: &str) -> bool {
    // `parse` takes a plus sign.
    port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Whether `region` can be the name of a region.
///
/// # Errors
/// `Invalid`, where it cannot.
pub(crate) fn check_region(region: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !region.is_empty() && region.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an AWS region is a name like eu-west-1; check --region, region in annals.toml and AWS_REGION. region=`{}`",
        region.escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use annals::ErrorKind;

    use super::*;

    #[track_caller]
    fn check(endpoint: &str, want: Option<&str>) {
        let got = check_endpoint(endpoint);
        let text = got.as_ref().err().map(ToString::to_string);
        match (want, &text) {
            (None, None) => {}
            (Some(want), Some(text)) if text.contains(want) => {
                assert_eq!(got.unwrap_err().kind(), ErrorKind::Invalid);
            }
            _ => panic!("{endpoint:?}: want {want:?}, got {text:?}"),
        }
    }

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_a_port() {
        for endpoint in [
            "http://localhost:8000",
            "http://127.0.0.1:1",
            "http://127.0.0.1:65535/",
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://[::1]:8000",
            "http://[::1]",
            "http://dynamodb_local:8000",
        ] {
            check(endpoint, None);
        }
        for endpoint in ["", "localhost:8000", "ftp://localhost", "HTTP//x", "http:"] {
            check(endpoint, Some("begins with http:// or https://"));
        }
        for port in ["0", "99999", "65536", "1 x", "", "+1", "-1", "80a"] {
            check(&format!("http://127.0.0.1:{port}"), Some("its port is"));
        }
        for host in [
            "", " ", "a b", ":8000", "[::1", "::1", "[x]:1", "h\u{e9}", "a%b",
        ] {
            check(&format!("http://{host}"), Some("its host is"));
        }
        for rest in ["/x", "//", "?a=b", "#a", "/?"] {
            check(
                &format!("http://localhost:8000{rest}"),
                Some("it ends after"),
            );
        }
        check("http://a\nb", Some("endpoint=`http://a\\nb`"));
    }

    #[test]
    fn a_password_in_an_endpoint_is_not_printed() {
        for endpoint in ["http://me:hidden@localhost", "me:hidden@localhost:8000"] {
            let text = check_endpoint(endpoint).unwrap_err().to_string();
            assert!(
                text.contains("no password") && !text.contains("hidden"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_region_is_of_small_letters_digits_and_dashes() {
        for region in ["us-east-1", "local", "1"] {
            assert!(check_region(region).is_ok(), "{region}");
        }
        for region in ["", " ", "eu west", "EU-WEST-1", "eu_west", "x/y", "\u{e9}"] {
            let error = check_region(region).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{region}");
        }
    }
}
