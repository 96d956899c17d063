//! Which path leads where. What stands in front of all of them is `entrance.rs`.
//!
//! Promises: a path or method that is not there is told as every other error is.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, post, put};

use super::app::App;
use super::problem::{Kind, Problem};
use super::{health, ingest, journal, log, openapi, snapshots, state, tables, verify};

/// Whether the server lives.
pub(super) const LIVE: &str = "/healthz";
/// The events of an id.
pub(super) const EVENTS: &str = "/v1/journal/{persistence_id}/events";
/// Whether it has what it needs.
pub(super) const READY: &str = "/readyz";

/// Every path there is, with its methods. The document at `/openapi.json` has the same.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        (LIVE, get(health::live)),
        (READY, get(health::ready)),
        ("/metrics", get(health::metrics)),
        ("/openapi.json", get(openapi::answer)),
        ("/v1/journal", get(journal::ids)),
        ("/v1/journal/{persistence_id}", delete(journal::purge)),
        (
            EVENTS,
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

/// All of them, as a service.
pub(super) fn router(app: App) -> Router {
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
        .with_state(app)
}
