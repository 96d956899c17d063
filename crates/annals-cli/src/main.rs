//! The binary `annals`: parse, run, report, exit.
//!
//! Exit codes: 0 done, 1 not there, 2 invalid, 3 conflict, 4 unavailable, 5 corrupt; 130 and 143
//! where a signal ended it (see `interrupt`).

mod args;
mod bench;
mod bulk;
mod columns;
mod commands;
mod copy_endpoint;
mod examples;
mod findings;
mod following;
mod interrupt;
mod lines;
mod open;
mod output;
mod payload;
mod progress;
mod projections;
mod records;
mod remote;
mod serve;
mod settings;
mod wire;

use std::process::ExitCode;

use annals::Error;

/// A server allocates many small things on one thread and frees them on another, which costs the
/// system's allocator a fifth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match args::Args::read() {
        Ok(args) => args,
        Err(error) => match args::problem(&error) {
            Some(problem) => return report(&Error::invalid(problem)),
            None => error.exit(),
        },
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(cause) => return report(&Error::unavailable("cannot start threads").because(cause)),
    };
    let outcome = runtime.block_on(commands::run(args));
    // A command that failed may leave a read of standard input behind; nobody waits for that.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

/// The error and its causes, one a line, and the exit code of its kind.
fn report(error: &Error) -> ExitCode {
    output::print_error(error);
    output::exit_code(error.kind())
}
