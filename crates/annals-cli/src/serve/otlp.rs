//! Spans for a collector, by OTLP over HTTP in protocol buffers. Off unless an address is given.
//!
//! Promises: a collector that is down or slow costs spans and never a request: spans are queued within
//! a limit, sent by a thread of their own, and dropped when the queue is full. A shutdown sends the
//! rest, within [`FINISH_TIME`].
//! Never: sends anything but our own spans, which have methods, path templates, statuses, verbs and
//! tables: no ids, no payloads, no tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::{Error, Result, SystemClock};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// How long a collector may take to answer.
const SEND_TIME: Duration = Duration::from_secs(5);
/// How long a shutdown waits for the last spans.
pub(crate) const FINISH_TIME: Duration = Duration::from_secs(5);
/// The most bytes of a collector's answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The path of a collector for spans.
const TRACES_PATH: &str = "v1/traces";
/// The prefix of our modules.
const OURS: &str = "annals";
/// The service name, if the environment sets one.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// Spans on their way to a collector.
pub(crate) struct Otlp {
    provider: SdkTracerProvider,
}

impl Otlp {
    /// Sends to the collector at an address such as `http://127.0.0.1:4318`. Sends nothing yet.
    ///
    /// # Errors
    /// `Invalid` where the address is not an http URL.
    pub(crate) fn start(address: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("cannot use this collector: {why}")).fact("otlp", address)
        };
        let uri: Uri = address.parse().map_err(|_| wrong("it is not a URL"))?;
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(wrong(
                "use http://HOST:PORT; for TLS, run a collector beside this server",
            ));
        }
        let endpoint = format!("{}/{TRACES_PATH}", address.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(Sender::new(Handle::current()))
            .with_endpoint(endpoint)
            .with_timeout(SEND_TIME)
            .build()
            .map_err(|cause| Error::invalid("cannot send spans").because(cause))?;
        let resource = match std::env::var(SERVICE_NAME) {
            Ok(_) => Resource::builder().build(),
            Err(_) => Resource::builder().with_service_name(OURS).build(),
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    /// The layer that passes our spans on, and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.provider.tracer(OURS);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        layer.with_filter(filter_fn(|metadata| {
            let root = metadata.target().split("::").next();
            metadata.is_span() && root == Some(OURS)
        }))
    }

    /// Sends the last spans.
    pub(crate) async fn finish(self) {
        // It blocks its thread, and sending needs the others.
        let ended = tokio::task::spawn_blocking(move || {
            let ended = self.provider.shutdown_with_timeout(FINISH_TIME);
            ended.map_err(|cause| cause.to_string())
        });
        match SystemClock::within(FINISH_TIME * 2, ended).await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => tracing::warn!(%error, "the last spans may be lost"),
            _ => tracing::warn!("the last spans may be lost"),
        }
    }
}

/// Sends over this runtime's connections, from any thread.
#[derive(Debug)]
struct Sender {
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
    /// Whether the last try failed: reported once, not for each try.
    is_failing: Arc<AtomicBool>,
}

impl Sender {
    fn new(runtime: Handle) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            runtime,
            is_failing: Arc::default(),
        }
    }

    fn report<T, E: std::fmt::Display>(&self, outcome: &std::result::Result<T, E>) {
        let has_failed = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok(_) if has_failed => tracing::info!("the collector accepts spans again"),
            Err(error) if !has_failed => {
                tracing::warn!(%error, "the collector accepts no spans; they are dropped");
            }
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(
        &self,
        request: Request<Bytes>,
    ) -> std::result::Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = async move {
            let answer = client.request(request.map(Full::new)).await?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
            Ok::<_, HttpError>(Response::from_parts(parts, body.to_bytes()))
        };
        let sent = self.runtime.spawn(SystemClock::within(SEND_TIME, sending));
        let outcome = match sent.await {
            Ok(Some(Ok(answer))) if !answer.status().is_success() => {
                let refused: HttpError = format!("it answers {}", answer.status()).into();
                self.report::<(), _>(&Err(refused));
                return Ok(answer);
            }
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err("it takes too long".into()),
            Err(cause) => Err(cause.into()),
        };
        self.report(&outcome);
        outcome
    }
}
