//! The binary `annals`: parse, run, report, exit.
//!
//! Exit codes: 0 done, 1 not there, 2 invalid, 3 conflict, 4 unavailable, 5 corrupt.

mod args;
mod commands;
mod open;
mod output;
mod progress;

use std::process::ExitCode;

use annals::Error;
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    match commands::run(args).await {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

/// The error and its causes, one a line, and the exit code of its kind.
fn report(error: &Error) -> ExitCode {
    output::print_error(error);
    output::exit_code(error.kind())
}
