//! The routes, and the way of every request to its handler and back.
//!
//! One table has every route with its method, path, handler and document. The matching of paths, the
//! labels of the metrics and `/openapi.json` are made from it.
//!
//! Guarantees: a request passes the guard, the limits and the metrics before it reaches a handler;
//! every response is counted under the template of its path, so that ids never become labels; a
//! handler that panics is answered with 500.
//! Why no framework: a request takes two allocations for its futures, one for the way to the handler
//! and one for the handler. A router of boxed services takes a fifth more allocations for an append.
//! A panic is caught by hand for the same reason. The handler has its own allocation because a future
//! that can hold any handler is as large as the largest, and is copied for every request.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};

use annals::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, HeaderMap, HeaderValue};
use hyper::service::{HttpService, service_fn};
use hyper::{Request, StatusCode};
use metrics::{Counter, Histogram};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::admission::Limits;
use super::app::App;
use super::http::Call;
use super::http::{Body, Response};
use super::metrics::{REFUSED, REQUESTS, SECONDS};
use super::openapi::{
    self, group_operations as group_doc, operations as doc, projections as projections_doc,
};
use super::problem::{Answer, Kind, Problem};
use super::{
    bulk, feed, groups, health, ingest, items, journal, log, projections, snapshots, state, tables,
    verify,
};

const LIVE: &str = "/healthz";
/// Monitoring has no token.
const UNGUARDED: [&str; 2] = [LIVE, "/readyz"];
/// Requests to unknown paths are counted under this one.
const NO_PATH: &str = "none";
/// The trace target with a line for each request.
const REQUEST_LINES: &str = "annals::requests";

/// The header with the caller's own span.
const TRACE_PARENT: &str = "traceparent";

/// One route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) document: fn() -> openapi::Operation,
    handler: Handler,
}

type Handler = fn(Call) -> BoxFuture<'static, Answer>;

/// The table: method, path, handler, document.
macro_rules! routes {
    ($($method:ident $path:literal $handler:path, $document:path;)*) => {
        /// Every route there is.
        pub(super) const ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            document: $document,
            handler: |call| Box::pin($handler(call)),
        },)*];
    };
}

routes! {
    GET "/" health::about, doc::about;
    GET "/healthz" health::live, doc::live;
    GET "/readyz" health::ready, doc::ready;
    GET "/metrics" health::metrics, doc::metrics;
    GET "/openapi.json" openapi::get, doc::openapi;
    POST "/v1/append" bulk::append, doc::append_bulk;
    GET "/v1/feed" feed::feed, doc::feed;
    GET "/v1/groups" groups::list, group_doc::list;
    PUT "/v1/groups/{group}" groups::put, group_doc::put;
    GET "/v1/groups/{group}" groups::status, group_doc::status;
    DELETE "/v1/groups/{group}" groups::delete, group_doc::delete;
    POST "/v1/groups/{group}/next" groups::next, group_doc::next;
    POST "/v1/groups/{group}/ack" groups::ack, group_doc::ack;
    POST "/v1/groups/{group}/nack" groups::nack, group_doc::nack;
    GET "/v1/groups/{group}/dead-letters" groups::dead_letters, group_doc::dead_letters;
    POST "/v1/groups/{group}/dead-letters/retry" groups::retry, group_doc::retry;
    POST "/v1/groups/{group}/dead-letters/discard" groups::discard, group_doc::discard;
    GET "/v1/journal" journal::ids, doc::ids;
    DELETE "/v1/journal/{persistence_id}" journal::purge, doc::purge;
    GET "/v1/journal/{persistence_id}/events" journal::events, doc::replay;
    POST "/v1/journal/{persistence_id}/events" journal::append, doc::append;
    DELETE "/v1/journal/{persistence_id}/events" journal::delete, doc::delete_events;
    GET "/v1/journal/{persistence_id}/highest" journal::highest, doc::highest;
    GET "/v1/journal/{persistence_id}/snapshot" journal::last_snapshot, doc::riding_snapshot;
    GET "/v1/journal/{persistence_id}/findings" verify::findings, doc::verify;
    POST "/v1/journal/{persistence_id}/repair" verify::repair, doc::repair;
    GET "/v1/findings" verify::all_findings, doc::verify_all;
    POST "/v1/repair" verify::repair_all, doc::repair_all;
    GET "/v1/snapshots/{persistence_id}" snapshots::list, doc::list_snapshots;
    DELETE "/v1/snapshots/{persistence_id}" snapshots::delete, doc::delete_snapshots;
    GET "/v1/snapshots/{persistence_id}/latest" snapshots::latest, doc::latest_snapshot;
    PUT "/v1/snapshots/{persistence_id}/{sequence_number}" snapshots::save, doc::save_snapshot;
    GET "/v1/snapshots/{persistence_id}/{sequence_number}" snapshots::at, doc::get_snapshot;
    DELETE "/v1/snapshots/{persistence_id}/{sequence_number}" snapshots::delete_at, doc::delete_snapshot;
    GET "/v1/state/{persistence_id}" state::get, doc::get_state;
    PUT "/v1/state/{persistence_id}" state::put, doc::put_state;
    DELETE "/v1/state/{persistence_id}" state::delete, doc::delete_state;
    GET "/v1/projections" projections::list, projections_doc::list;
    GET "/v1/projections/{projection}" projections::status, projections_doc::status;
    POST "/v1/projections/{projection}/pause" projections::pause, projections_doc::pause;
    POST "/v1/projections/{projection}/resume" projections::resume, projections_doc::resume;
    POST "/v1/projections/{projection}/rebuild" projections::rebuild, projections_doc::rebuild;
    POST "/v1/projections/{projection}/switch" projections::switch, projections_doc::switch;
    GET "/v1/projections/{projection}/dead-letters" projections::dead_letters, projections_doc::dead_letters;
    POST "/v1/projections/{projection}/dead-letters/retry" projections::retry, projections_doc::retry;
    POST "/v1/projections/{projection}/dead-letters/discard" projections::discard, projections_doc::discard;
    GET "/v1/settings" items::settings, doc::settings;
    POST "/v1/items" items::call, doc::items;
    GET "/v1/tables" tables::check, doc::check_tables;
    POST "/v1/tables" tables::create, doc::create_tables;
    GET "/track.gif" ingest::track, doc::track;
    POST "/events" ingest::ingest, doc::ingest;
    GET "/v1/log" log::stats, doc::log_stats;
    POST "/v1/log/sweep" log::sweep, doc::sweep;
    POST "/v1/log/pump" log::pump, doc::pump;
    POST "/v1/log/link" log::link, doc::link;
    POST "/v1/log/horizon" log::set_back, doc::set_back_horizon;
    GET "/v1/log/events" log::playback, doc::playback;
    GET "/v1/log/dead-letters" log::dead_letters, doc::dead_letters;
    DELETE "/v1/log/dead-letters/{name}" log::forget, doc::forget_dead_letter;
}

/// Paths that were renamed, and are still served: the old one, and the one in the table.
const RENAMED: [(&str, &str); 2] = [
    ("/v1/log/aside", "/v1/log/dead-letters"),
    ("/v1/log/aside/{name}", "/v1/log/dead-letters/{name}"),
];

/// The meters of a path. A meter is looked up by its labels once: that costs more than to count.
struct PathMeters {
    path: &'static str,
    /// By method and status, of which there are few.
    answers: RwLock<Vec<Answers>>,
}

struct Answers {
    method: &'static str,
    status: u16,
    count: Counter,
    seconds: Histogram,
}

impl PathMeters {
    /// Under the template of the path, so that ids never become labels.
    fn new(path: &'static str) -> Self {
        Self {
            path,
            answers: RwLock::default(),
        }
    }

    /// Counts a response that began after so many seconds.
    fn count(&self, method: &'static str, status: u16, seconds: f64) {
        let is_it = |it: &&Answers| it.status == status && it.method == method;
        let known = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(answers) = known.iter().find(is_it) {
            return answers.count(seconds);
        }
        drop(known);
        let mut known = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        let (path, code) = (self.path, status.to_string());
        // Two that come here at the same moment make handles of the same meters: no harm.
        let answers = Answers {
            method,
            status,
            count: metrics::counter!(REQUESTS, "method" => method, "path" => path, "status" => code),
            seconds: metrics::histogram!(SECONDS, "method" => method, "path" => path),
        };
        answers.count(seconds);
        known.push(answers);
    }
}

impl Answers {
    fn count(&self, seconds: f64) {
        self.seconds.record(seconds);
        self.count.increment(1);
    }
}

/// Everything about a path.
struct Path {
    template: &'static str,
    routes: Vec<&'static Route>,
    meters: PathMeters,
}

impl Path {
    fn new(template: &'static str) -> Self {
        Self {
            template,
            routes: ROUTES.iter().filter(|it| it.path == template).collect(),
            meters: PathMeters::new(template),
        }
    }

    /// The handler of a method. `HEAD` is `GET`, whose body hyper leaves out.
    fn handler(&self, method: &str) -> Answer<Handler> {
        let wanted = if method == "HEAD" { "GET" } else { method };
        if let Some(route) = self.routes.iter().find(|it| it.method == wanted) {
            return Ok(route.handler);
        }
        if self.routes.is_empty() {
            return Err(Problem::absent("no such path; see /openapi.json"));
        }
        let allowed = self.routes.iter().flat_map(|route| match route.method {
            "GET" => &["GET", "HEAD"][..],
            _ => std::slice::from_ref(&route.method),
        });
        let allowed: Vec<&str> = allowed.copied().collect();
        let refused = Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Kind::Invalid,
            "this path does not take this method; see the header Allow",
        );
        Err(match HeaderValue::from_str(&allowed.join(",")) {
            Ok(allowed) => refused.header(ALLOW, allowed),
            Err(_) => refused,
        })
    }
}

/// The whole server, as connections call it.
pub(super) struct Router {
    app: App,
    paths: matchit::Router<Path>,
    no_path: Path,
}

impl Router {
    /// # Errors
    /// `Invalid` where two templates match the same paths.
    pub(super) fn new(app: App) -> Result<Self> {
        let mut paths = matchit::Router::new();
        let mut templates: Vec<_> = ROUTES
            .iter()
            .map(|route| (route.path, route.path))
            .collect();
        templates.dedup();
        for (path, template) in templates.into_iter().chain(RENAMED) {
            paths.insert(path, Path::new(template)).map_err(|cause| {
                Error::invalid("two routes match the same path")
                    .fact("path", path)
                    .because(cause)
            })?;
        }
        Ok(Self {
            app,
            paths,
            no_path: Path::new(NO_PATH),
        })
    }

    /// The server as a connection calls it.
    pub(super) fn service(
        self: &Arc<Self>,
    ) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send + use<>
    {
        let router = self.clone();
        service_fn(move |request: Request<Incoming>| {
            let router = router.clone();
            Box::pin(async move { Ok(router.answer(request).await) })
        })
    }

    /// Answers a request, and counts the response.
    async fn answer(&self, request: Request<Incoming>) -> Response {
        let app = &self.app;
        let began = app.clock().monotonic();
        let method = label(request.method().as_str());
        let path = self.paths.at(request.uri().path());
        let path = path.map_or(&self.no_path, |matched| matched.value);
        let template = path.template;
        let span = tracing::debug_span!(
            "request",
            otel.name = %format_args!("{method} {template}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = template,
            http.response.status_code = Empty,
            error.type = Empty,
        );
        adopt(&span, request.headers());
        // A panic drops the request and all that it held, so nothing half done is seen again.
        let handled = AssertUnwindSafe(self.handle(path, request)).catch_unwind();
        let answer = handled.instrument(span.clone()).await;
        let answer = answer.unwrap_or_else(|_| Err(panicked()));
        let response = answer.unwrap_or_else(Problem::into_response);
        let seconds = app.clock().monotonic().saturating_sub(began).as_secs_f64();
        let status = response.status().as_u16();
        if response.extensions().get() == Some(&Kind::Conflict) {
            app.conflicts().increment(1);
        }
        span.record("http.response.status_code", status);
        if response.status().is_server_error() {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", status);
        }
        tracing::debug!(target: REQUEST_LINES, method, path = template, status, seconds, "answered");
        path.meters.count(method, status, seconds);
        response
    }

    async fn handle(&self, path: &Path, request: Request<Incoming>) -> Answer {
        let app = &self.app;
        if head_bytes(&request) > app.limits().head_bytes {
            return Err(Problem::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Kind::Invalid,
                "the path and the headers are too large",
            ));
        }
        if !UNGUARDED.contains(&path.template) {
            app.guard().admit(request.method(), request.headers())?;
        }
        let permit = match path.template {
            // A busy server is alive.
            LIVE => None,
            _ => Some(self.permit(&request)?),
        };
        let answering = async {
            let handler = path.handler(request.method().as_str())?;
            let (parts, body) = request.into_parts();
            let app = app.clone();
            handler(Call { app, parts, body }).await
        };
        match permit {
            Some(permit) => permit.hold(answering).await,
            None => answering.await,
        }
    }

    fn permit(&self, request: &Request<Incoming>) -> Answer<super::admission::Permit> {
        let bytes = body_bytes(request, self.app.limits());
        self.app.in_flight().admit(bytes).ok_or_else(|| {
            metrics::counter!(REFUSED).increment(1);
            Problem::unavailable("too many requests are in flight, or too many bytes of them")
        })
    }
}

/// Makes a span a child of the caller's, if the request names one.
fn adopt(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key(TRACE_PARENT) {
        return;
    }
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Fails where spans are only printed; those have no remote parent.
    let _ = span.set_parent(parent);
}

/// A bug. The panic's own message goes to the traces.
fn panicked() -> Problem {
    tracing::error!("a handler panicked; this is a bug");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        Kind::Corrupt,
        "the server has a bug; see its traces",
    )
}

/// Methods are labels as well, so there are few.
fn label(method: &str) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE"];
    let known = known.into_iter().find(|known| *known == method);
    known.unwrap_or("other")
}

/// The bytes of a request's head, except what is the same in all of them. hyper has a limit as well,
/// but measures what it has buffered instead of what came.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    request.uri().path().len() + request.uri().query().map_or(0, str::len) + headers.sum::<usize>()
}

/// The most body bytes that a request may have.
fn body_bytes(request: &Request<Incoming>, limits: &Limits) -> usize {
    let declared = request.body().size_hint().upper();
    let declared = declared.and_then(|bytes| usize::try_from(bytes).ok());
    declared.map_or(limits.body_bytes, |bytes| bytes.min(limits.body_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a function returns.
    fn future_size<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// It is copied a few times for every request.
    #[test]
    fn the_future_of_a_request_does_not_hold_the_handlers() {
        let answer = |router: &'static Router, request| router.answer(request);
        let bytes = future_size(answer);
        assert!(bytes <= 4096, "{bytes} bytes");
    }
}
