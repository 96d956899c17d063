//! `annals projection list`: every projection of the store.

use std::process::ExitCode;

use annals::Result;
use annals::projection::ProjectionStatus;

use super::super::{Context, Purpose};
use super::span_text;
use crate::columns::Rows;
use crate::output::print_advice;
use crate::wire::{self, ProjectionState, shown_build};

/// Takes no options of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Read).await?;
        let all = projections.list().await?;
        let names = [
            "PROJECTION",
            "KIND",
            "STATE",
            "BUILD",
            "REVISION",
            "LAG",
            "TIME LAG",
            "DEAD LETTERS",
        ];
        let json = |it: &ProjectionStatus| wire::line(&wire::Projection::new(it));
        let mut rows = Rows::new(context.output, names).name_first();
        rows.print(&all, json, row)?;
        if all.is_empty() {
            print_advice("there are no projections; the first start of one registers it");
        }
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(status: &ProjectionStatus) -> [String; 8] {
    let build = shown_build(status);
    let number = |of: Option<u64>| of.map_or("-".to_owned(), |number| number.to_string());
    [
        status.name.clone(),
        status.kind.to_string(),
        ProjectionState::of(status).name().to_owned(),
        number(build.map(|it| it.build.into())),
        number(build.map(|it| it.revision.into())),
        number(build.map(|it| it.lag_events)),
        span_text(build.map_or(0, |it| it.lag_ms)),
        number(build.map(|it| it.dead_letters)),
    ]
}
