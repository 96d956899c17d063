//! Authentication: a token, or loopback only.
//!
//! Promises: remote clients need a token, unless `--insecure` is given; tokens are compared in
//! constant time and never printed. Without a token a request must name a loopback host, so that a
//! page in a browser cannot reach the server under a name of its own (DNS rebinding), and one that
//! changes something must not come from a page of another site, as browsers declare it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use annals::{Error, Result};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::{Kind, Problem};

/// The fewest bytes of a token: too many to guess.
const TOKEN_BYTES_MIN: usize = 16;
/// Browsers name the site that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a request needs to be let in.
#[derive(Clone)]
pub(crate) enum Guard {
    /// A loopback name in `Host`.
    Loopback,
    /// The token with this hash.
    Token([u8; 32]),
    /// Nothing.
    Open,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "Loopback",
            Self::Token(_) => "Token",
            Self::Open => "Open",
        })
    }
}

impl Guard {
    /// The guard of a server at this address.
    ///
    /// # Errors
    /// `Invalid` where remote clients would need no token, or the token is too short.
    pub(crate) fn new(address: SocketAddr, token: Option<&str>, is_insecure: bool) -> Result<Self> {
        match token.map(str::trim) {
            Some(token) if token.len() < TOKEN_BYTES_MIN => Err(Error::invalid(format!(
                "a token has at least {TOKEN_BYTES_MIN} bytes; make one with `openssl rand -hex 32`"
            ))),
            Some(token) => Ok(Self::Token(hash(token.as_bytes()))),
            None if is_insecure => Ok(Self::Open),
            None if address.ip().is_loopback() => Ok(Self::Loopback),
            None => Err(Error::invalid(format!(
                "remote clients need a token: set --token-file or ANNALS_TOKEN, or pass --insecure. listen=`{address}`"
            ))),
        }
    }

    /// Lets a request in, or not.
    pub(super) fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            // A page of another site does not know the token.
            Self::Open | Self::Loopback if !method.is_safe() && is_cross_site(headers) => {
                Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    Kind::Unauthorized,
                    "without a token, pages of other sites may not change anything; check the headers Origin and Sec-Fetch-Site",
                ))
            }
            Self::Open => Ok(()),
            Self::Token(wanted) => match bearer(headers) {
                Some(given) if bool::from(hash(given).ct_eq(wanted)) => Ok(()),
                Some(_) => Err(Problem::unauthorized("wrong token")),
                None => Err(Problem::unauthorized(
                    "send the token: `Authorization: Bearer TOKEN`",
                )),
            },
            Self::Loopback if names_loopback(headers) => Ok(()),
            Self::Loopback => Err(Problem::new(
                StatusCode::FORBIDDEN,
                Kind::Unauthorized,
                "without a token, only loopback names such as localhost are answered; check the header Host",
            )),
        }
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then_some(token.trim_ascii())
}

/// Whether the request comes from a page of another site. Older browsers send the page's origin
/// alone, and programs neither.
fn is_cross_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let authority = origin.to_str().ok().and_then(|it| it.split_once("://"));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    authority
        .zip(host)
        .is_none_or(|((_, authority), host)| !authority.eq_ignore_ascii_case(host))
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    // `name`, `name:port`, `[v6]` or `[v6]:port`.
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address: Option<IpAddr> = name.parse().ok();
    address.map_or_else(
        || name.eq_ignore_ascii_case("localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef";

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn only_loopback_needs_no_token() {
        let (here, there) = (
            "127.0.0.1:7070".parse().unwrap(),
            "0.0.0.0:7070".parse().unwrap(),
        );
        assert!(matches!(Guard::new(here, None, false), Ok(Guard::Loopback)));
        assert!(Guard::new("[::1]:1".parse().unwrap(), None, false).is_ok());
        let refused = Guard::new(there, None, false).unwrap_err().to_string();
        assert!(refused.contains("--token-file"), "{refused}");
        assert!(matches!(Guard::new(there, None, true), Ok(Guard::Open)));
        assert!(Guard::new(there, Some(LONG), false).is_ok());
        assert!(Guard::new(here, Some("short"), false).is_err());
        assert!(Guard::new(here, Some("   \n"), false).is_err());
    }

    #[test]
    fn a_token_is_the_whole_token() {
        let guard = Guard::new("127.0.0.1:1".parse().unwrap(), Some(LONG), false).unwrap();
        assert!(!format!("{guard:?}").contains(LONG));
        for (value, passes) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef ", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdefg", false),
            ("Bearer ", false),
            ("Basic 0123456789abcdef", false),
            ("0123456789abcdef", false),
        ] {
            let headers = with(AUTHORIZATION, value);
            assert_eq!(
                guard.admit(&Method::GET, &headers).is_ok(),
                passes,
                "{value}"
            );
        }
        assert!(guard.admit(&Method::GET, &HeaderMap::new()).is_err());
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        for (host, passes) in [
            ("127.0.0.1:7070", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("[::1]:7070", true),
            ("127.9.9.9", true),
            ("evil.example:7070", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            let headers = with(HOST, host);
            assert_eq!(
                Guard::Loopback.admit(&Method::GET, &headers).is_ok(),
                passes,
                "{host}"
            );
        }
        assert!(
            Guard::Loopback
                .admit(&Method::GET, &HeaderMap::new())
                .is_err()
        );
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let own = "localhost:7070";
        for (headers, passes) in [
            (&[][..], true),
            (&[("origin", "http://localhost:7070")], true),
            (&[("origin", "http://LOCALHOST:7070")], true),
            (&[("origin", "http://localhost:8080")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "null")], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
        ] {
            let mut all = with(HOST, own);
            for (name, value) in headers {
                all.insert(*name, value.parse().unwrap());
            }
            for guard in [Guard::Loopback, Guard::Open] {
                for method in [Method::POST, Method::PUT, Method::DELETE] {
                    let admitted = guard.admit(&method, &all);
                    assert_eq!(admitted.is_ok(), passes, "{method} {headers:?}");
                }
                assert!(guard.admit(&Method::GET, &all).is_ok(), "{headers:?}");
            }
            let guard = Guard::new("127.0.0.1:1".parse().unwrap(), Some(LONG), false).unwrap();
            let bearer = format!("Bearer {LONG}").parse().unwrap();
            all.insert(AUTHORIZATION, bearer);
            assert!(guard.admit(&Method::POST, &all).is_ok());
        }
    }
}
