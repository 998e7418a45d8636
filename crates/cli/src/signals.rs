//! Shutdown signals: Ctrl-C and, on Unix, SIGTERM.

use std::io;

/// Returns a future that resolves when the process receives a shutdown signal. Signals count from
/// this call on, not from the first poll.
#[cfg(unix)]
pub(crate) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

/// Returns a future that resolves when the process receives a shutdown signal.
#[cfg(windows)]
pub(crate) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    let mut interrupted = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupted.recv().await;
    })
}
