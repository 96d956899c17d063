//! `annals config`: show the effective settings, or import the configuration of a JVM plugin.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::{Error, Result};
use clap::Subcommand;
use serde_json::json;

use super::Context;
use crate::output::{Output, counted, print_line, print_note};
use crate::settings::Settings;
use annals_jvm::{Concern, Imported, NotTaken, import_hocon};

/// Show or import settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with its effective value
    Show {
        /// Print TOML even if standard output is not a terminal
        #[arg(long)]
        toml: bool,
    },
    /// Convert the configuration of a JVM plugin to annals.toml; keys that were not converted are
    /// listed on standard error, contradictions and unknown keys first
    Import(Import),
}

/// `annals config import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The configuration, such as application.conf
    file: PathBuf,
    /// The section of the journal [default: the value of journal.plugin, or dynamodb-journal]
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
}

impl Import {
    /// Prints TOML even if standard output is not a terminal, because the output is a settings file;
    /// one JSON object with `--json`.
    fn run(self, output: Output) -> Result<ExitCode> {
        let imported = import_hocon(&self.file, self.section.as_deref(), check)?;
        let text = toml::to_string(&imported.settings).map_err(|cause| {
            Error::invalid("imported settings cannot be printed").because(cause)
        })?;
        let Imported {
            settings,
            not_taken,
            ..
        } = imported;
        if output.is_json_asked() {
            let object = json!({"settings": settings, "not_taken": not_taken});
            print_line(&object.to_string())?;
        } else {
            print_line(text.trim_end())?;
            print_not_taken(not_taken);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the keys that were not imported: first those that matter most, and those of other libraries,
/// which may be many, on one line.
fn print_not_taken(mut all: Vec<NotTaken>) {
    /// The most keys of other libraries that are named.
    const NAMED_MAX: usize = 3;
    all.sort_by_key(NotTaken::concern);
    let is_ours = |left: &NotTaken| left.concern() != Concern::Unrelated;
    let (ours, unrelated) = all.split_at(all.partition_point(is_ours));
    for left in ours {
        print_note(&format!("not taken: {}: {}", left.key, left.reason));
    }
    let named = unrelated.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|left| left.key.as_str()).collect();
    let count = counted(unrelated.len(), "unrelated key");
    match unrelated.len() {
        0 => {}
        1..=NAMED_MAX => print_note(&format!("not taken: {count}: {}", named.join(", "))),
        _ => print_note(&format!(
            "not taken: {count}, such as {}; --json lists all",
            named.join(", ")
        )),
    }
}

/// Checks that imported settings can be read, and that they name usable tables.
fn check(settings: &toml::Table) -> Result<(), String> {
    let settings = Settings::from_table(settings)?;
    settings.tables().map(drop).map_err(|e| e.to_string())
}

impl Config {
    /// Whether the command reads the settings; creating a settings file must not need one.
    pub(crate) fn needs_settings(&self) -> bool {
        !matches!(self, Self::Import(_))
    }

    pub(crate) fn run(self, context: &Context) -> Result<ExitCode> {
        let toml = match self {
            Self::Show { toml } => toml,
            Self::Import(import) => return import.run(context.output),
        };
        // Contradictory settings are shown as they are, to find the cause of an error about them.
        let named = context.settings.with_table_names();
        let settings = named.as_ref().unwrap_or(&context.settings);
        let text = if context.output.is_json() && !toml {
            settings.to_json()?.to_string()
        } else {
            settings.to_toml()?.trim_end().to_owned()
        };
        print_line(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
