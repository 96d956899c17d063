//! SIGINT and SIGTERM, for commands that clean up before they exit.
//!
//! Guarantees: while listening, a signal ends the work and not the process.

use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;

use annals::{Error, Result};
use futures::future::{Either, select};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Shells report 128 plus the signal number for a process ended by a signal.
const BY_SIGNAL: u8 = 128;

/// Listens for SIGINT (Ctrl-C) and SIGTERM (`kill`).
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Starts listening.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| {
            let failed = |cause| Error::unavailable("cannot listen for signals").because(cause);
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Returns the result of the work, or the exit code if a signal came first. Either way the work
    /// has started.
    pub(crate) async fn or<T>(mut self, work: impl Future<Output = T>) -> Result<T, ExitCode> {
        let (interrupt, terminate) = (pin!(self.interrupt.recv()), pin!(self.terminate.recv()));
        let signal = select(interrupt, terminate);
        // The left one is polled first, so the work starts even after a signal.
        match select(pin!(work), signal).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((Either::Left(_), _)) => Err(exit_code(SignalKind::interrupt())),
            Either::Right((Either::Right(_), _)) => Err(exit_code(SignalKind::terminate())),
        }
    }
}

fn exit_code(signal: SignalKind) -> ExitCode {
    let number = u8::try_from(signal.as_raw_value()).unwrap_or_default();
    ExitCode::from(BY_SIGNAL.saturating_add(number))
}
