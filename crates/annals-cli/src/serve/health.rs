//! Whether the server lives, whether it can work, and what it counts.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};

use super::app::App;
use super::problem::{Answer, Problem};
use super::tables::statuses;

/// `GET /healthz`: the process answers.
pub(super) async fn live() -> JsonBody<Json> {
    JsonBody(json!({"status": "ok"}))
}

/// `GET /readyz`: the store answers, its tables are there, and the server is not about to stop.
pub(super) async fn ready(State(app): State<App>) -> Answer {
    if app.closing().is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    let tables = statuses(&app).await?;
    if tables
        .iter()
        .any(|table| table.get("status") != Some(&json!("ok")))
    {
        let detail = "tables are missing or differ; see `annals tables check`";
        return Err(Problem::unavailable(detail).with("tables", tables));
    }
    app.annals().await?;
    Ok(JsonBody(json!({"status": "ready"})).into_response())
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<App>) -> Answer {
    let text = app.metrics().render();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
