//! Calls to the bare engine, with its errors as ours.

use annals::{Error, Result};

pub(super) fn broken(cause: fjall::Error) -> Error {
    Error::unavailable("the bare engine failed").because(cause)
}

/// Runs a call on a blocking thread: the engine may wait for the disk.
pub(super) async fn off_thread<T: Send + 'static>(
    call: impl FnOnce() -> fjall::Result<T> + Send + 'static,
) -> Result<T> {
    let called = tokio::task::spawn_blocking(call).await;
    let called = called.map_err(|e| Error::unavailable("a call was cut off").because(e))?;
    called.map_err(broken)
}
