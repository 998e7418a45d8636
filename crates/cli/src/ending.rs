//! When somebody ends us: Ctrl-C, and where there is one, SIGTERM.

use std::io;

/// Resolves when the process is asked to end. Asking counts from this call on, not from when it is awaited.
#[cfg(unix)]
pub(crate) fn end() -> io::Result<impl Future<Output = ()>> {
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

/// Resolves when the process is asked to end.
#[cfg(windows)]
pub(crate) fn end() -> io::Result<impl Future<Output = ()>> {
    let mut interrupted = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupted.recv().await;
    })
}
