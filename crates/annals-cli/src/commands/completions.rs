//! `annals completions`: completions for a shell.

use std::process::ExitCode;

use annals::Result;
use clap_complete::Shell;

use crate::args::Args;
use crate::output::print_line;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        // Into memory: a closed pipe would be a panic.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::full_command(), "annals", &mut script);
        print_line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
