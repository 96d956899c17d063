//! The metrics of projections. They run elsewhere: their records and the feed are read when metrics are
//! requested.
//!
//! | metric | labels | is |
//! |---|---|---|
//! | `annals_projection_lag_events`, `…_lag_seconds` | `projection`, `build` | events that wait, and how long the oldest has |
//! | `annals_projection_dead_letters` | `projection`, `build` | events that are dead letters |
//! | `annals_projection_stopped_shares` | `projection`, `build` | shares that cannot go on |
//! | `annals_projection_handled_total` | `projection`, `build` | events handled |
//!
//! Of live builds and those that are made; nobody waits for others. A build that is gone has no lines, so
//! these are not in the process's recorder, which forgets nothing.
//! Promises: the feed is read every few seconds at most, however often metrics are requested; a store that fails or is
//! slow delays the other metrics by a second at most, and then these are missing or those from before.

use std::fmt::Write as _;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use annals::SystemClock;
use annals::projection::{BuildStatus, ProjectionStatus};
use tokio::sync::Mutex;

use super::app::App;
use crate::wire::stopped_shares;

/// How long a request for metrics waits for new ones.
const ASK_TIME: Duration = Duration::from_secs(1);
/// How old they are before they are read again.
const AGE_MIN: Duration = Duration::from_secs(5);

/// The metrics as they were read last.
#[derive(Debug, Default)]
pub(super) struct ProjectionMetrics {
    text: RwLock<String>,
    /// When that was; locked while they are read.
    read_at: Mutex<Option<Duration>>,
}

impl ProjectionMetrics {
    fn text(&self) -> String {
        let text = self.text.read().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }

    fn set(&self, text: String) {
        *self.text.write().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// The metrics in Prometheus' format; empty without projections.
pub(super) async fn text(app: &App) -> String {
    // A task, so that a slow read is not begun again and again: it ends after this request.
    let reading = tokio::spawn(refresh(app.clone()));
    SystemClock::within(ASK_TIME, reading).await;
    app.projection_metrics().text()
}

/// Reads them, unless they are new or being read.
async fn refresh(app: App) {
    let metrics = app.projection_metrics();
    let Ok(mut read_at) = metrics.read_at.try_lock() else {
        return;
    };
    let age = read_at.map(|at| app.clock().monotonic().saturating_sub(at));
    if age.is_some_and(|age| age < AGE_MIN) {
        return;
    }
    // The store was not reached yet, or a table was dropped: that is not tried here.
    let Some(annals) = app.opened_annals() else {
        return metrics.set(String::new());
    };
    let projections = annals.projections();
    let read = tokio::select! {
        read = projections.list() => read,
        () = app.closing().cancelled() => return,
    };
    // Missing numbers raise an alarm; old ones would not.
    metrics.set(read.map_or_else(
        |error| {
            tracing::debug!(%error, "the metrics of projections cannot be read");
            String::new()
        },
        |all| render(&all),
    ));
    *read_at = Some(app.clock().monotonic());
}

/// A metric: its name, type, help, and value.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&BuildStatus) -> String,
);

const METRICS: [Metric; 5] = [
    (
        "annals_projection_lag_events",
        "gauge",
        "events that a build of a projection has not handled yet",
        |build| build.lag_events.to_string(),
    ),
    (
        "annals_projection_lag_seconds",
        "gauge",
        "seconds since the oldest of them was appended",
        |build| (build.lag_ms as f64 / 1_000.0).to_string(),
    ),
    (
        "annals_projection_dead_letters",
        "gauge",
        "events that could not be handled, and later ones of their ids",
        |build| build.dead_letters.to_string(),
    ),
    (
        "annals_projection_stopped_shares",
        "gauge",
        "shares that cannot go on",
        |build| stopped_shares(build).to_string(),
    ),
    (
        "annals_projection_handled_total",
        "counter",
        "events handled",
        |build| build.handled.to_string(),
    ),
];

fn render(all: &[ProjectionStatus]) -> String {
    let builds = all.iter().flat_map(|projection| {
        let builds = projection.builds.iter();
        let builds = builds.filter(|build| matches!(build.stage, "live" | "building"));
        builds.map(|build| (projection.name.as_str(), build))
    });
    let builds: Vec<_> = builds.collect();
    let mut text = String::new();
    if builds.is_empty() {
        return text;
    }
    for (metric, kind, help, value) in METRICS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
        for (projection, build) in &builds {
            let (number, value) = (build.build, value(build));
            // A name has no character that would have to be escaped.
            let labels = format!("projection=\"{projection}\",build=\"{number}\"");
            let _ = writeln!(text, "{metric}{{{labels}}} {value}");
        }
        text.push('\n');
    }
    text
}
