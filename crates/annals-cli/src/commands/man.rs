//! `annals man`: manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use annals::{Error, Result};
use clap_mangen::Man as Page;

use crate::args::Args;
use crate::output::print_line;

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let command = Args::full_command();
        let failed = |cause| Error::invalid("cannot write the manual").because(cause);
        if let Some(folder) = &self.dir {
            std::fs::create_dir_all(folder).map_err(failed)?;
            clap_mangen::generate_to(command, folder).map_err(failed)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = Vec::new();
        Page::new(command).render(&mut page).map_err(failed)?;
        print_line(String::from_utf8_lossy(&page).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}
