//! What stands in front of every path: the guard, the limits of what is under way, the counting.
//!
//! Promises: every answer is counted under the pattern of its path, so that ids never become
//! labels; a handler that panics is answered for.
//! Never: takes memory of a connection that waits: a request has one box for all that it needs, and
//! it is gone with its answer.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use hyper::body::Incoming;
use hyper::service::{HttpService, Service, service_fn};
use hyper_util::service::TowerToHyperService;
use tracing::Instrument;
use tracing::field::Empty;

use super::app::App;
use super::journal;
use super::limits::Limits;
use super::metrics::REFUSED;
use super::otlp;
use super::problem::{Answer, Kind, Problem};
use super::request::Id;
use super::router::{EVENTS, LIVE, READY, router};

/// What anybody may ask who can reach the server: machines that watch it have no token.
const UNGUARDED: [&str; 2] = [LIVE, READY];
/// Under which name the traces have a line for each request.
const REQUEST_LINES: &str = "annals::requests";

/// The whole server.
pub(super) struct Entrance {
    app: App,
    routes: TowerToHyperService<Router>,
}

impl Entrance {
    pub(super) fn new(app: App) -> Self {
        let routes = TowerToHyperService::new(router(app.clone()));
        Self { app, routes }
    }

    /// The server as a connection calls it.
    pub(super) fn service(
        self: &Arc<Self>,
    ) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send + use<>
    {
        let entrance = self.clone();
        service_fn(move |request: hyper::Request<Incoming>| {
            let entrance = entrance.clone();
            Box::pin(async move { Ok(entrance.admit(request.map(Body::new)).await) })
        })
    }

    /// Lets a request in, and counts its answer.
    async fn admit(&self, request: Request) -> Response {
        let app = &self.app;
        let began = app.clock().monotonic();
        let method = label(request.method());
        let meters = app.meters().of(request.uri().path());
        let path = meters.path();
        let span = tracing::debug_span!(
            "request",
            otel.name = %format_args!("{method} {path}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = path,
            http.response.status_code = Empty,
            error.type = Empty,
        );
        otlp::adopt(&span, request.headers());
        // Nobody sees again what a panic left half done: the request and what it held are dropped.
        let entered = AssertUnwindSafe(self.enter(path, request)).catch_unwind();
        let answer = entered.instrument(span.clone()).await;
        let answer = answer.unwrap_or_else(|_| Err(panicked()));
        let response = answer.unwrap_or_else(IntoResponse::into_response);
        let seconds = app.clock().monotonic().saturating_sub(began).as_secs_f64();
        let status = response.status().as_u16();
        if response.extensions().get() == Some(&Kind::Conflict) {
            app.meters().count_conflict();
        }
        span.record("http.response.status_code", status);
        if response.status().is_server_error() {
            fail(&span, &status);
        }
        tracing::debug!(target: REQUEST_LINES, method, path, status, seconds, "answered");
        meters.count(method, status, seconds);
        response
    }

    async fn enter(&self, path: &str, request: Request) -> Answer {
        let app = &self.app;
        if head_bytes(&request) > app.limits().head_bytes {
            return Err(Problem::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Kind::Invalid,
                "the path and the headers are too large",
            ));
        }
        if !UNGUARDED.contains(&path) {
            app.guard().admit(request.method(), request.headers())?;
        }
        // A server that is busy lives.
        if path == LIVE {
            return self.route(path, request).await;
        }
        let Some(place) = app.under_way().admit(body_bytes(&request, app.limits())) else {
            metrics::counter!(REFUSED).increment(1);
            return Err(Problem::unavailable(
                "too many requests are under way, or too many bytes of them",
            ));
        };
        place.hold(self.route(path, request)).await
    }

    /// Hands a request to what answers it. Appends come by the thousand, and are handed over without
    /// the boxes and copies that the router makes for each.
    async fn route(&self, path: &str, request: Request) -> Answer {
        if path == EVENTS && request.method() == Method::POST {
            let id = Id::of(request.uri())?;
            return journal::append(State(self.app.clone()), id, request).await;
        }
        match self.routes.call(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }
}

/// A bug of ours. The caller is told that, and the panic's own words go to the traces.
fn panicked() -> Problem {
    tracing::error!("a handler panicked; this is a bug");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        Kind::Corrupt,
        "the server has a bug; its traces tell more",
    )
}

/// Methods are labels as well, so there are few.
fn label(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// The bytes of a request's head, but for what is the same in all of them. What reads it has a limit
/// too, but measures what it has buffered rather than what came.
fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    request.uri().path().len() + request.uri().query().map_or(0, str::len) + headers.sum::<usize>()
}

/// How many bytes of a body a request may take at the most.
fn body_bytes(request: &Request, limits: &Limits) -> usize {
    let told = request.body().size_hint();
    let most = told.upper().and_then(|most| usize::try_from(most).ok());
    most.map_or(limits.body_bytes, |most| most.min(limits.body_bytes))
}

/// Marks what a span stands for as failed, with what kind of error it was.
fn fail(span: &tracing::Span, kind: &dyn std::fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", tracing::field::display(kind));
}
