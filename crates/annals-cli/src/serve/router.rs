//! Which path leads where, and what stands in front of all of them: the guard, the limit of
//! requests, the counting.
//!
//! Promises: every answer is counted under the pattern of its path, so that ids never become
//! labels; a path or method that is not there is told as every other error is.

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use futures::FutureExt;
use tracing::Instrument;
use tracing::field::Empty;

use super::app::App;
use super::limits::Limits;
use super::metrics::REFUSED;
use super::otlp;
use super::problem::{Answer, Kind, Problem};
use super::traced::fail;
use super::{health, ingest, journal, log, openapi, snapshots, state, tables, verify};

/// What anybody may ask who can reach the server: machines that watch it have no token.
const UNGUARDED: [&str; 2] = [LIVE, "/readyz"];
/// Under which name the traces have a line for each request.
const REQUEST_LINES: &str = "annals::requests";
const LIVE: &str = "/healthz";

/// Every path there is, with its methods. The document at `/openapi.json` has the same.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        (LIVE, get(health::live)),
        ("/readyz", get(health::ready)),
        ("/metrics", get(health::metrics)),
        ("/openapi.json", get(openapi::answer)),
        ("/v1/journal", get(journal::ids)),
        ("/v1/journal/{persistence_id}", delete(journal::purge)),
        (
            "/v1/journal/{persistence_id}/events",
            get(journal::events)
                .post(journal::append)
                .delete(journal::delete),
        ),
        (
            "/v1/journal/{persistence_id}/highest",
            get(journal::highest),
        ),
        (
            "/v1/journal/{persistence_id}/snapshot",
            get(journal::riding),
        ),
        (
            "/v1/journal/{persistence_id}/findings",
            get(verify::findings),
        ),
        ("/v1/journal/{persistence_id}/repair", post(verify::repair)),
        ("/v1/findings", get(verify::all_findings)),
        ("/v1/repair", post(verify::repair_all)),
        (
            "/v1/snapshots/{persistence_id}",
            get(snapshots::list).delete(snapshots::delete),
        ),
        (
            "/v1/snapshots/{persistence_id}/latest",
            get(snapshots::latest),
        ),
        (
            "/v1/snapshots/{persistence_id}/{sequence_number}",
            put(snapshots::save)
                .get(snapshots::at)
                .delete(snapshots::delete_at),
        ),
        (
            "/v1/state/{persistence_id}",
            get(state::get).put(state::put).delete(state::delete),
        ),
        ("/v1/tables", get(tables::check).post(tables::create)),
        ("/track.gif", get(ingest::track)),
        ("/events", post(ingest::ingest)),
        ("/v1/log", get(log::stats)),
        ("/v1/log/sweep", post(log::sweep)),
        ("/v1/log/pump", post(log::pump)),
        ("/v1/log/link", post(log::link)),
        ("/v1/log/horizon", post(log::set_back)),
        ("/v1/log/events", get(log::playback)),
        ("/v1/log/aside", get(log::aside)),
        ("/v1/log/aside/{name}", delete(log::forget)),
    ]
}

/// The whole server, as a service.
pub(crate) fn router(app: App) -> Router {
    let routes = routes().into_iter();
    let router = routes.fold(Router::new(), |router, (path, methods)| {
        router.route(path, methods)
    });
    router
        .fallback(|| async { Problem::absent("there is no such path; see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                Kind::Invalid,
                "this path does not take this method; see the header Allow",
            )
        })
        .layer(from_fn_with_state(app.clone(), admit))
        .with_state(app)
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

/// Lets a request in, and counts its answer.
async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = app.clock().monotonic();
    let method = label(request.method());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let meters = app.meters().of(matched.as_ref().map(MatchedPath::as_str));
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
    let entered = AssertUnwindSafe(enter(&app, path, request, next)).catch_unwind();
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

async fn enter(app: &App, path: &str, request: Request, next: Next) -> Answer {
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
        return Ok(next.run(request).await);
    }
    let Some(place) = app.under_way().admit(body_bytes(&request, app.limits())) else {
        metrics::counter!(REFUSED).increment(1);
        return Err(Problem::unavailable(
            "too many requests are under way, or too many bytes of them",
        ));
    };
    Ok(place.hold(next.run(request)).await)
}

/// How many bytes of a body a request may take at the most.
fn body_bytes(request: &Request, limits: &Limits) -> usize {
    let told = request.body().size_hint();
    let most = told.upper().and_then(|most| usize::try_from(most).ok());
    most.map_or(limits.body_bytes, |most| most.min(limits.body_bytes))
}
