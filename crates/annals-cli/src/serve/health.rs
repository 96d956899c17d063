//! Whether the server lives, whether it can work, and what it counts.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};

use super::app::App;
use super::problem::{Answer, Problem};
use super::sweeper::tell_lag;
use super::tables::{self, LookedAt, Which};

/// `GET /healthz`: the process answers.
pub(super) async fn live() -> JsonBody<Json> {
    JsonBody(json!({"status": "ok"}))
}

/// `GET /readyz`: the store answers, its tables are there, and the server is not about to stop. The
/// log may be left out altogether, where nobody wants its tables, but not in part.
pub(super) async fn ready(State(app): State<App>) -> Answer {
    if app.closing().is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    let mut wanted = tables::look_at(&app, Which::Layout).await?;
    let log = tables::look_at(&app, Which::Log).await?;
    let has_log = !log.iter().all(LookedAt::is_missing);
    wanted.extend(log.into_iter().filter(|_| has_log));
    if !wanted.iter().all(LookedAt::is_ok) {
        let detail = "tables are missing or differ; see `annals tables check --log`";
        let tables: Vec<Json> = wanted.iter().map(LookedAt::shown).collect();
        return Err(Problem::unavailable(detail).with("tables", tables));
    }
    app.annals().await?;
    Ok(JsonBody(json!({"status": "ready", "log": has_log})).into_response())
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<App>) -> Answer {
    tell_lag(&app).await;
    let text = app.metrics().render();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
