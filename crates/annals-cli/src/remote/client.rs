//! The HTTP client of `--server`.
//!
//! Guarantees: a problem of the server becomes an error of the same kind, message and facts, as if the
//! store were here. A call on items that gets 503 or no response is sent again for some seconds, like
//! a request to DynamoDB: a writer recognises its own item. A server that was never reached is
//! reported at once, except that one that refuses the connection may just be starting and gets a
//! second. The token is sent to the server only and never printed.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::{Clock, Error, ErrorKind, Random, Result, SystemClock};
use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HyperClient, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::wire::{self, ItemsCall, ItemsResult};

/// How long one attempt may take. A page or a batch takes milliseconds.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);
/// How long a call that creates or drops a table may take: DynamoDB takes minutes.
const TABLE_MAX: Duration = Duration::from_secs(600);
/// How long a call is sent again.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// How long a server that refuses the connection may take to start.
const START_MAX: Duration = Duration::from_secs(1);
/// The longest pause before it is asked again.
const START_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take to open.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// When a warning is printed.
const WARN_AFTER: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection to one server.
pub(crate) struct Client {
    http: Http,
    /// Without a slash at the end.
    address: String,
    authorization: Option<HeaderValue>,
    clock: Arc<dyn Clock>,
    random: Random,
    has_connected: AtomicBool,
    has_warned: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.address).finish()
    }
}

/// Why an attempt failed.
#[derive(Debug)]
enum Failure {
    /// Nothing listens at the address.
    Refused(Error),
    /// Another attempt may succeed.
    Transient(Error),
    Final(Error),
}

impl Client {
    /// A client of the server at an address such as `http://127.0.0.1:7070`. Sends nothing yet.
    ///
    /// # Errors
    /// `Invalid` if the address is not a URL, or the token not printable ASCII.
    pub(crate) fn new(address: &str, token: Option<&str>) -> Result<Self> {
        let wrong = || {
            Error::invalid("--server takes the URL of a running server, like http://127.0.0.1:7070")
                .fact("server", address)
        };
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", |it| it.as_str());
        if authority.contains('@') {
            // It would be printed in errors.
            return Err(Error::invalid(
                "--server takes no user name and password; give a token with --token-file or ANNALS_TOKEN",
            ));
        }
        if !is_http || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(wrong());
        }
        let authorization = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut value =
                value.map_err(|_| Error::invalid("a token has only visible ASCII characters"))?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        });
        Ok(Self {
            http: Http::new(&uri)?,
            address: address.trim_end_matches('/').to_owned(),
            authorization: authorization.transpose()?,
            clock: Arc::new(SystemClock::new()),
            random: Random::from_machine(),
            has_connected: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn pause(&self, pause: Duration) {
        self.clock.sleep(pause).await;
    }

    /// The settings of the server.
    pub(crate) async fn settings(&self) -> Result<Json> {
        let send = || self.attempt(Method::GET, "/v1/settings", Bytes::new());
        self.repeat(send).await
    }

    /// A call on items.
    pub(crate) async fn items(&self, call: &ItemsCall) -> Result<ItemsResult> {
        let body = Bytes::from(wire::line(call));
        let send = || self.attempt(Method::POST, "/v1/items", body.clone());
        self.repeat(send).await
    }

    /// A call that creates or drops a table, which is sent once: the second attempt could not tell
    /// whether the first one succeeded.
    pub(crate) async fn tables(&self, call: &ItemsCall) -> Result<ItemsResult> {
        let sending = self.send(Method::POST, "/v1/items", wire::line(call).into());
        match SystemClock::within(TABLE_MAX, self.noticing(sending)).await {
            Some(Ok(result)) => Ok(result),
            Some(Err(
                Failure::Refused(error) | Failure::Transient(error) | Failure::Final(error),
            )) => Err(error),
            None => Err(self.no_response()),
        }
    }

    async fn repeat<T, F>(&self, send: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (began, mut pause) = (self.clock.monotonic(), Duration::from_millis(50));
        loop {
            let (error, is_refused) = match send().await {
                Ok(result) => return Ok(result),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Refused(error)) => (error, true),
                Err(Failure::Transient(error)) => (error, false),
            };
            let wait = pause / 2 + self.random.jitter(pause / 2);
            let elapsed = self.clock.monotonic().saturating_sub(began);
            let (limit, wait) = match self.has_connected.load(Ordering::Relaxed) {
                true => (RETRY_MAX, wait),
                false if is_refused => (START_MAX, wait.min(START_PAUSE)),
                false => (Duration::ZERO, wait),
            };
            if elapsed + wait > limit {
                return Err(error);
            }
            if elapsed >= WARN_AFTER {
                let remaining = (RETRY_MAX - elapsed).as_secs();
                self.warn(&format!(
                    "the server does not answer; trying for another {remaining} s"
                ));
            }
            self.clock.sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Failure> {
        let sending = self.noticing(self.send(method, path, body));
        let sent = SystemClock::within(ATTEMPT_MAX, sending).await;
        sent.unwrap_or_else(|| Err(Failure::Transient(self.no_response())))
    }

    /// The same, with a warning if it takes long.
    async fn noticing<T>(&self, sending: impl Future<Output = T>) -> T {
        let sending = std::pin::pin!(sending);
        match select(sending, self.clock.sleep(WARN_AFTER)).await {
            Either::Left((sent, _)) => sent,
            Either::Right(((), sending)) => {
                self.warn("the server does not answer yet; waiting");
                sending.await
            }
        }
    }

    /// Once.
    fn warn(&self, text: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{text}");
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address))
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body)).map_err(|cause| {
            Failure::Final(self.about(Error::invalid("cannot send a request").because(cause)))
        })?;
        let response = self.http.request(request).await.map_err(|cause| {
            let error = Error::unavailable(match (cause.is_connect(), &self.http) {
                (true, Http::Plain(_)) => {
                    "no server answers; start one with `annals serve`, or check --server"
                }
                (true, Http::Tls(_)) => {
                    "no server answers with TLS; `annals serve` has none, so use http, or the address of its proxy"
                }
                (false, _) => "the connection to the server broke; try again",
            });
            let is_refused = is_refused(&cause);
            let error = self.about(error.because(cause));
            match is_refused {
                true => Failure::Refused(error),
                false => Failure::Transient(error),
            }
        })?;
        self.has_connected.store(true, Ordering::Relaxed);
        let (status, body) = (response.status(), response.into_body().collect().await);
        let body = body.map_err(|cause| {
            let broken = Error::unavailable("the server's response broke off; try again");
            Failure::Transient(self.about(broken.because(cause)))
        })?;
        self.parse(status, &body.to_bytes())
    }

    fn parse<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, Failure> {
        if status == StatusCode::OK {
            return serde_json::from_slice(body).map_err(|cause| {
                let unknown = "the response does not parse; use the server's version of annals";
                Failure::Final(self.about(Error::invalid(unknown).because(cause)))
            });
        }
        let Ok(problem) = serde_json::from_slice::<SentProblem>(body) else {
            // Of a proxy. It may have passed the call on.
            if [429, 502, 503, 504].contains(&status.as_u16()) {
                let error = Error::unavailable(
                    "a proxy answers instead of the server; the call may have succeeded, try again",
                );
                let error = error.fact("status", status.as_u16());
                return Err(Failure::Transient(self.about(error)));
            }
            let error = Error::invalid("this is not a server of annals; check --server")
                .fact("status", status.as_u16());
            return Err(Failure::Final(self.about(error)));
        };
        Err(match (status, problem.kind.as_str()) {
            (StatusCode::NOT_FOUND, _) => Failure::Final(self.about(Error::invalid(
                "the server has no such path; give its address only, and use its version of annals",
            ))),
            (_, "unauthorized") => Failure::Final(self.about(
                Error::invalid("the server refuses this client; give its token with --token-file or ANNALS_TOKEN")
                    .because(problem.detail),
            )),
            (StatusCode::SERVICE_UNAVAILABLE, _) => Failure::Transient(problem.error()),
            _ => Failure::Final(problem.error()),
        })
    }

    fn no_response(&self) -> Error {
        self.about(Error::unavailable(
            "the server takes too long; the call may have succeeded, try again",
        ))
    }

    fn about(&self, error: Error) -> Error {
        error.fact("server", &self.address)
    }
}

/// Whether nothing listens at the address.
fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    let refused = |cause: &io::Error| cause.kind() == io::ErrorKind::ConnectionRefused;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref().is_some_and(refused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Connections, with TLS if the address is https. The machine's certificates are only read then.
enum Http {
    Plain(HyperClient<HttpConnector, Full<Bytes>>),
    Tls(HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Http {
    fn new(address: &Uri) -> Result<Self> {
        let builder = HyperClient::builder(TokioExecutor::new());
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        if address.scheme_str() != Some("https") {
            return Ok(Self::Plain(builder.build(tcp)));
        }
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new();
        let tls = tls.with_native_roots().map_err(|cause| {
            Error::invalid("cannot read this machine's TLS certificates").because(cause)
        })?;
        Ok(Self::Tls(builder.build(
            tls.https_only().enable_http1().wrap_connector(tcp),
        )))
    }

    fn request(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        match self {
            Self::Plain(http) => http.request(request),
            Self::Tls(http) => http.request(request),
        }
    }
}

/// A problem as it arrives.
#[derive(Deserialize)]
struct SentProblem {
    kind: String,
    detail: String,
    #[serde(default)]
    facts: Map<String, Json>,
    #[serde(default)]
    causes: Vec<String>,
}

impl SentProblem {
    /// The error that the server had.
    fn error(self) -> Error {
        let kind = match self.kind.as_str() {
            "conflict" => ErrorKind::Conflict,
            "unavailable" => ErrorKind::Unavailable,
            "corrupt" => ErrorKind::Corrupt,
            _ => ErrorKind::Invalid,
        };
        let with_facts = |error: Error| {
            self.facts.iter().fold(error, |error, (name, value)| {
                let value = value.as_str().unwrap_or_default();
                error.fact(name.clone(), value)
            })
        };
        // The detail has the facts after the message.
        let facts = with_facts(Error::new(kind, "")).to_string();
        let message = self.detail.strip_suffix(&facts).unwrap_or(&self.detail);
        let causes = self.causes.join(": ");
        let error = with_facts(Error::new(kind, message));
        match causes.is_empty() {
            true => error,
            false => error.because(causes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use annals::ManualClock;

    use super::*;

    /// A client of an address at which nothing listens.
    fn of_nobody() -> Client {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", free.local_addr().unwrap());
        let mut client = Client::new(&address, None).unwrap();
        client.clock = Arc::new(ManualClock::at_ms(0));
        client
    }

    fn send(client: &Client) -> impl Future<Output = Result<Json, Failure>> {
        client.send(Method::GET, "/v1/settings", Bytes::new())
    }

    #[tokio::test]
    async fn a_server_that_is_just_starting_gets_a_second() {
        let client = of_nobody();
        let refused = send(&client).await.unwrap_err();
        assert!(matches!(refused, Failure::Refused(_)), "{refused:?}");
        // Up after four attempts.
        let attempts = AtomicUsize::new(0);
        let started = client.repeat(|| async {
            match attempts.fetch_add(1, Ordering::Relaxed) {
                0..4 => send(&client).await.map(drop),
                _ => Ok(()),
            }
        });
        started.await.unwrap();
        assert_eq!(attempts.load(Ordering::Relaxed), 5);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_reported_after_a_second() {
        let client = of_nobody();
        let error = client.repeat(|| send(&client)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("no server answers"), "{error}");
        let waited = client.clock.monotonic();
        assert!(
            waited <= START_MAX && waited + START_PAUSE >= START_MAX,
            "{waited:?}"
        );
    }

    #[tokio::test]
    async fn another_failure_of_a_server_that_was_never_reached_is_reported_at_once() {
        let client = of_nobody();
        let broken = || async { Err::<(), _>(Failure::Transient(Error::unavailable("broken"))) };
        client.repeat(broken).await.unwrap_err();
        assert_eq!(client.clock.monotonic(), Duration::ZERO);
    }

    #[test]
    fn a_problem_becomes_the_error_that_it_was() {
        let original = Error::invalid("no such index")
            .fact("table", "notes")
            .fact("index", "by-name");
        let sent = serde_json::json!({
            "kind": "invalid",
            "detail": original.to_string(),
            "facts": {"table": "notes", "index": "by-name"},
        });
        let problem: SentProblem = serde_json::from_value(sent).unwrap();
        let error = problem.error();
        assert_eq!(error.message(), original.message());
        assert_eq!(error.to_string(), original.to_string());
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn only_urls_are_servers() {
        for wrong in [
            "",
            "http://me:secret@x",
            "7070",
            "127.0.0.1:7070",
            "ftp://x",
            "http://x?y=1",
        ] {
            assert!(Client::new(wrong, None).is_err(), "{wrong}");
        }
        for right in [
            "http://127.0.0.1:7070",
            "http://[::1]:80/",
            "http://host/annals",
        ] {
            assert!(Client::new(right, Some("secret")).is_ok(), "{right}");
        }
    }
}
