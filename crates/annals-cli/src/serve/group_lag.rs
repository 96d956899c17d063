//! The metrics of consumer groups, read when they are asked for.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals::SystemClock;

use super::app::App;
use super::metrics::{GROUP_DEAD, GROUP_IN_FLIGHT, GROUP_LAG, GROUP_LAG_EVENTS};
use crate::settings::StoreKind;

/// How long a request for metrics waits for the groups.
const ASK_TIME: Duration = Duration::from_secs(1);

/// The groups that were reported.
#[derive(Default)]
pub(super) struct ReportedGroups(Mutex<BTreeSet<String>>);

/// Reports what is left for each group. Only the embedded store has the feed that groups need.
pub(super) async fn report(app: &App) {
    if app.settings().store != StoreKind::Embedded {
        return;
    }
    let listed = async { app.annals().await?.groups().list().await };
    let Some(Ok(groups)) = SystemClock::within(ASK_TIME, listed).await else {
        return;
    };
    let known = &app.reported_groups().0;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|name| {
        let is_there = groups.iter().any(|group| group.name == *name);
        if !is_there {
            set(name, [0; 4]);
        }
        is_there
    });
    for group in &groups {
        let numbers = [
            group.lag.events,
            group.lag.ms,
            group.in_flight,
            group.dead_letters,
        ];
        set(&group.name, numbers);
        known.insert(group.name.clone());
    }
}

fn set(name: &str, [events, ms, in_flight, dead]: [u64; 4]) {
    let set = |metric, value: f64| metrics::gauge!(metric, "group" => name.to_owned()).set(value);
    set(GROUP_LAG_EVENTS, events as f64);
    set(GROUP_LAG, ms as f64 / 1_000.0);
    set(GROUP_IN_FLIGHT, in_flight as f64);
    set(GROUP_DEAD, dead as f64);
}
