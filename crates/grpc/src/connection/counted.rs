//! A socket that says whether anything was written to it.
//!
//! A call that was queued on a connection which then broke may be sent again elsewhere if, and only if, no byte left since it was
//! queued. HTTP/2 libraries do not tell; the socket does.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How often a socket took bytes; it only matters whether two readings are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes(Arc<AtomicU64>);

impl Writes {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A socket whose writes are counted before they are tried: one that failed half-way counts too.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    inner: T,
    writes: Writes,
}

impl<T> Counted<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, writes: Writes::default() }
    }

    pub(crate) fn writes(&self) -> Writes {
        self.writes.clone()
    }

    fn count(&self) {
        self.writes.0.fetch_add(1, Ordering::Release);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.count();
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.count();
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_writes_count() {
        let (one, mut other) = tokio::io::duplex(64);
        let mut counted = Counted::new(one);
        let writes = counted.writes();
        other.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        counted.read_exact(&mut heard).await.unwrap();
        assert_eq!(writes.count(), 0);
        counted.write_all(b"and back").await.unwrap();
        assert_eq!(writes.count(), 1);
    }
}
