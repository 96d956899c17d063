//! Signals that ask a command to stop, for those that leave something behind if they just die.
//!
//! Promises: once listening, such a signal ends the work and not the process, so that whoever
//! listens can clean up and exit.

use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;

use annals::{Error, Result};
use futures::future::{Either, select};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What shells answer for a process that a signal ended: 128 and the signal's number.
const BY_SIGNAL: u8 = 128;

/// Ctrl-C and the signal of `kill`.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| {
            let deaf = |cause| Error::unavailable("cannot listen for signals").because(cause);
            signal(kind).map_err(deaf)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// What the work came to, or the exit code for the signal that came first. The work has
    /// begun in either case.
    pub(crate) async fn or<T>(mut self, work: impl Future<Output = T>) -> Result<T, ExitCode> {
        let (interrupt, terminate) = (pin!(self.interrupt.recv()), pin!(self.terminate.recv()));
        let signal = select(interrupt, terminate);
        // The left one is polled first, so that the work begins even after a signal.
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
