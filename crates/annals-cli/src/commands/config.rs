//! `annals config`: the settings in force.

use std::process::ExitCode;

use annals::{Error, Result};
use clap::Subcommand;

use super::Context;
use crate::output::print_line;

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with the value in force
    Show {
        /// Print it as annals.toml has it, also where the output is not a terminal
        #[arg(long)]
        toml: bool,
    },
}

impl Config {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode> {
        let Self::Show { toml } = self;
        let unprintable =
            |e: &dyn std::fmt::Display| Error::invalid(format!("settings cannot be printed: {e}"));
        let settings = &context.settings;
        let text = if context.output.is_json() && !toml {
            serde_json::to_string(settings).map_err(|e| unprintable(&e))?
        } else {
            let text = toml::to_string(settings).map_err(|e| unprintable(&e))?;
            text.trim_end().to_owned()
        };
        print_line(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
