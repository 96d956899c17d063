//! Calls of the bare engine, and its errors as ours.

use annals::{Error, Result};

pub(super) fn broken(cause: fjall::Error) -> Error {
    Error::unavailable("the bare engine failed").because(cause)
}

/// The engine may wait for the disk, so its calls leave the caller's thread.
pub(super) async fn off_thread<T: Send + 'static>(
    call: impl FnOnce() -> fjall::Result<T> + Send + 'static,
) -> Result<T> {
    let called = tokio::task::spawn_blocking(call).await;
    let called = called.map_err(|e| Error::unavailable("a call was cut off").because(e))?;
    called.map_err(broken)
}
