//! `annals config`: the settings in force, and settings out of a configuration of the JVM's.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::{Error, Result};
use clap::Subcommand;
use serde_json::json;

use super::Context;
use crate::output::{Output, print_line, print_note};
use crate::settings::Settings;
use annals_jvm::hocon::{Imported, import};

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with the value in force, whether it is set or a default
    Show {
        /// Print it as annals.toml has it, also where the output is not a terminal
        #[arg(long)]
        toml: bool,
    },
    /// Print the annals.toml that a configuration of akka- or pekko-persistence-dynamodb amounts
    /// to, and on standard error every key that was not taken
    Import(Import),
}

/// `annals config import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The configuration, such as application.conf
    file: PathBuf,
    /// The journal's section [default: what journal.plugin names, or dynamodb-journal]
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
}

impl Import {
    /// TOML, also where the output is not a terminal, because that is what the file is for; one
    /// object of JSON where that was asked for.
    fn run(self, output: Output) -> Result<ExitCode> {
        let imported = import(&self.file, self.section.as_deref(), check)?;
        let text = toml::to_string(&imported.settings).map_err(|e| unprintable(&e))?;
        let Imported {
            settings,
            not_taken,
        } = imported;
        if output.is_json_asked() {
            let object = json!({"settings": settings, "not_taken": not_taken});
            print_line(&object.to_string())?;
        } else {
            print_line(text.trim_end())?;
            for left in &not_taken {
                print_note(&format!("not taken: {}: {}", left.key, left.reason));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What is wrong with settings out of a configuration, if anything.
fn check(settings: &toml::Table) -> Result<(), String> {
    let read = settings.clone().try_into::<Settings>();
    read.map(|_| ()).map_err(|e| e.to_string())
}

fn unprintable(cause: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("settings cannot be printed: {cause}"))
}

impl Config {
    /// Whether the settings in force matter; what makes a settings file must not need one.
    pub(crate) fn needs_settings(&self) -> bool {
        !matches!(self, Self::Import(_))
    }

    pub(crate) fn run(self, context: &Context) -> Result<ExitCode> {
        let toml = match self {
            Self::Show { toml } => toml,
            Self::Import(import) => return import.run(context.output),
        };
        // What does not go together is shown as it is set: whoever uses it is told, and looks here.
        let named = context.settings.with_table_names();
        let settings = named.as_ref().unwrap_or(&context.settings);
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
