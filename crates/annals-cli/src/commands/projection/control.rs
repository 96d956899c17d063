//! `annals projection pause`, `resume`, `rebuild` and `switch`.

use std::process::ExitCode;

use annals::Result;

use super::super::{Context, Purpose};
use crate::wire::{ProjectionBuild, ProjectionPaused};

/// Which projection.
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// The name of the projection
    name: String,
}

/// Which projection.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The name of the projection
    name: String,
}

/// Which projection.
#[derive(Debug, clap::Args)]
pub(crate) struct Rebuild {
    /// The name of the projection
    name: String,
}

/// Which projection.
#[derive(Debug, clap::Args)]
pub(crate) struct Switch {
    /// The name of the projection
    name: String,
}

impl Pause {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        set_paused(context, &self.name, true).await
    }
}

impl Resume {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        set_paused(context, &self.name, false).await
    }
}

async fn set_paused(context: &Context, name: &str, paused: bool) -> Result<ExitCode> {
    let (projections, store) = context.projections(Purpose::Change).await?;
    let exists = match paused {
        true => projections.pause(name).await?,
        false => projections.resume(name).await?,
    };
    if !exists {
        return context.no_projection(name, &store);
    }
    let text = match paused {
        true => format!("{name} is paused; its programs release their shares within a few seconds"),
        false => format!("{name} is resumed"),
    };
    let object = ProjectionPaused {
        projection: name,
        paused,
    };
    context.output.line(&object, &text)?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

impl Rebuild {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Change).await?;
        let projection = self.name.as_str();
        let Some(build) = projections.rebuild(projection).await? else {
            return context.no_projection(projection, &store);
        };
        let text = format!(
            "build {build} of {projection} is made by the programs that run it; switch to it with `annals projection switch {projection}`"
        );
        let object = ProjectionBuild { projection, build };
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Switch {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let (projections, store) = context.projections(Purpose::Change).await?;
        let projection = self.name.as_str();
        let Some(build) = projections.switch(projection).await? else {
            return context.no_projection(projection, &store);
        };
        let text = format!("build {build} of {projection} is live");
        let object = ProjectionBuild { projection, build };
        context.output.line(&object, &text)?;
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
    }
}
