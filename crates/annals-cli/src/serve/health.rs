//! Liveness, readiness and metrics.

use super::http;
use super::http::Call;
use super::problem::{Answer, Problem};
use super::sweeper::report_lag;
use super::tables::{self, Checked, Which};
use crate::wire;

/// `GET /healthz`: the process answers.
pub(super) async fn live(_: Call) -> Answer {
    let status = wire::Status {
        status: "ok",
        log: None,
    };
    Ok(http::json(&status))
}

/// `GET /readyz`: the store answers, its tables exist, and the server is not stopping. The log's
/// tables may all be missing, but not some of them.
pub(super) async fn ready(Call { app, .. }: Call) -> Answer {
    if app.closing().is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    let mut wanted = tables::check_all(&app, Which::Layout).await?;
    let log = tables::check_all(&app, Which::Log).await?;
    let has_log = !log.iter().all(Checked::is_missing);
    wanted.extend(log.into_iter().filter(|_| has_log));
    if !wanted.iter().all(Checked::is_ok) {
        let detail = "tables are missing or differ; see `annals tables check --log`";
        let tables = wanted.iter().map(Checked::table).collect();
        return Err(Problem::unavailable(detail).with(|it| it.tables = tables));
    }
    app.annals().await?;
    let status = wire::Status {
        status: "ready",
        log: Some(has_log),
    };
    Ok(http::json(&status))
}

/// `GET /metrics`
pub(super) async fn metrics(Call { app, .. }: Call) -> Answer {
    report_lag(&app).await;
    let media = "text/plain; version=0.0.4; charset=utf-8";
    Ok(http::bytes(media, app.metrics().render()))
}
