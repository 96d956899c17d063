//! Liveness, readiness and metrics, and what this server is.

use super::app::App;
use super::group_lag;
use super::http;
use super::http::Call;
use super::problem::{Answer, Problem};
use super::projection_metrics;
use super::sweeper::report_lag;
use super::tables::{self, Checked, Which};
use crate::wire;

/// For people: `annals serve` prints the address `/` when it starts.
const ABOUT: &str = concat!(
    "annals serve ",
    env!("CARGO_PKG_VERSION"),
    "\n\n",
    "/openapi.json  paths, parameters, bodies and responses\n",
    "/healthz       liveness\n",
    "/metrics       metrics for Prometheus\n",
    "/v1/journal    persistence ids\n",
);

/// `GET /`
pub(super) async fn about(call: Call) -> Answer {
    call.no_params()?;
    Ok(http::bytes("text/plain; charset=utf-8", ABOUT))
}

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
    let has_log = check(&app).await?;
    let status = wire::Status {
        status: "ready",
        log: Some(has_log),
    };
    Ok(http::json(&status))
}

/// Logs why a server that has just started is not ready: nobody may ask it.
pub(super) async fn report(app: App) {
    if let Err(problem) = check(&app).await {
        let why = &problem.wire().detail;
        tracing::warn!(why, "not ready; requests fail until this is fixed");
    }
}

/// Checks the store and its tables; returns whether it has those of the log.
async fn check(app: &App) -> Answer<bool> {
    let mut wanted = tables::check_all(app, Which::Layout).await?;
    let log = tables::check_all(app, Which::Log).await?;
    let has_log = !log.iter().all(Checked::is_missing);
    wanted.extend(log.into_iter().filter(|_| has_log));
    let wrong = wanted.iter().filter(|table| !table.is_ok());
    let wrong: Vec<&str> = wrong.map(Checked::name).collect();
    if !wrong.is_empty() {
        let detail = format!(
            "tables are missing or differ; see `annals tables check --log`. tables=`{}`",
            wrong.join(", ")
        );
        let tables = wanted.iter().map(Checked::table).collect();
        return Err(Problem::unavailable(detail).with(|it| it.tables = tables));
    }
    app.annals().await?;
    Ok(has_log)
}

/// `GET /metrics`
pub(super) async fn metrics(Call { app, .. }: Call) -> Answer {
    report_lag(&app).await;
    let projections = projection_metrics::text(&app).await;
    group_lag::report(&app).await;
    let media = "text/plain; version=0.0.4; charset=utf-8";
    Ok(http::bytes(media, app.metrics().render() + &projections))
}
