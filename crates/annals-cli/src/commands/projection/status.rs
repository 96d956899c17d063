//! `annals projection status`: builds and shares of a projection.

use std::process::ExitCode;

use annals::Result;
use annals::projection::{BuildStatus, ProjectionStatus, ShareStatus};

use super::super::{Context, Purpose};
use super::span_text;
use crate::columns::{Columns, escaped};
use crate::wire::{self, ProjectionState};

/// Which projection.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The name of the projection
    name: String,
}

impl Status {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Read).await?;
        let Some(status) = projections.status(&self.name).await? else {
            return context.no_projection(&self.name, &store);
        };
        let object = wire::WholeProjection::new(&status);
        let text = text(&status, context.output.is_coloured());
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The tables for people.
fn text(status: &ProjectionStatus, is_coloured: bool) -> String {
    let state = ProjectionState::of(status);
    let mut lines = vec![format!(
        "{} ({}) is {}{}",
        status.name,
        status.kind,
        state.name(),
        match state {
            ProjectionState::Idle => ": no program runs it",
            _ => "",
        }
    )];
    let names = [
        "BUILD",
        "REVISION",
        "STAGE",
        "HANDLED",
        "LAG",
        "TIME LAG",
        "DEAD LETTERS",
        "MISSED",
    ];
    let rows: Vec<_> = status.builds.iter().map(build_row).collect();
    lines.push(String::new());
    lines.extend(columns(names, is_coloured).lines(&rows));
    let names = [
        "BUILD", "SHARE", "OWNER", "HANDLED", "LAG", "TIME LAG", "POSITION",
    ];
    let shares: Vec<_> = status.builds.iter().flat_map(shares_of).collect();
    let rows: Vec<_> = shares.iter().map(share_row).collect();
    lines.push(String::new());
    lines.extend(columns(names, is_coloured).lines(&rows));
    let stopped = shares.iter().filter_map(stopped_line);
    let stopped: Vec<String> = stopped.collect();
    if !stopped.is_empty() {
        lines.push(String::new());
        lines.extend(stopped);
    }
    lines.join("\n")
}

fn columns<const N: usize>(names: [&'static str; N], is_coloured: bool) -> Columns<N> {
    Columns::new(names, is_coloured).name_first()
}

fn build_row(build: &BuildStatus) -> [String; 8] {
    [
        build.build.to_string(),
        build.revision.to_string(),
        build.stage.to_owned(),
        build.handled.to_string(),
        build.lag_events.to_string(),
        span_text(build.lag_ms),
        build.dead_letters.to_string(),
        build.missed.to_string(),
    ]
}

/// The shares of a build, each with the number of the build.
fn shares_of(build: &BuildStatus) -> impl Iterator<Item = (u32, &ShareStatus)> {
    build.shares.iter().map(|share| (build.build, share))
}

fn share_row((build, share): &(u32, &ShareStatus)) -> [String; 7] {
    [
        build.to_string(),
        share.share.to_string(),
        share.owner.clone().unwrap_or_else(|| "-".to_owned()),
        share.handled.to_string(),
        share.lag_events.to_string(),
        span_text(share.lag_ms),
        share.position.to_string(),
    ]
}

fn stopped_line((build, share): &(u32, &ShareStatus)) -> Option<String> {
    let reason = escaped(share.stopped.as_deref()?);
    let share = share.share;
    Some(format!(
        "share {share} of build {build} is stopped, and tries again from time to time: {reason}"
    ))
}
