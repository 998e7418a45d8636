//! A write coalescer: bytes written while a connection's task runs leave together when the task has
//! nothing more to write.
//!
//! HTTP/2 writes and flushes frame by frame. With ten watches on a connection, one change would
//! cost ten TLS records and ten system calls; here it costs one of each. No timer is involved: the
//! task flushes at the end of every poll. `cargo xtask bench apiserver --ablation` measures the
//! server without it.

use parking_lot::{Mutex, MutexGuard};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

/// The maximum number of bytes held back. rustls has the same limit by default.
const MAX_BUFFERED: usize = 64 * 1024;

/// The buffer capacity that is kept while there is nothing to write: one TLS record.
const RETAINED_CAPACITY: usize = 16 * 1024;

/// A stream whose writes are buffered until [`Self::flush_buffered`]. Clones share the stream:
/// hyper has one, and the connection's task has another.
///
/// Flushing it does nothing; shutting it down writes out the buffer first. After a failed write,
/// every operation on the stream fails. It has no `Debug`: the buffer may contain secrets.
pub(super) struct WriteCoalescer<IO>(Arc<Mutex<CoalescerState<IO>>>);

struct CoalescerState<IO> {
    io: IO,
    /// False in benchmarks, and when no connection uses the stream any more: writes go straight to
    /// the inner stream.
    coalesces: bool,
    /// The written bytes. Invariant: at most [`MAX_BUFFERED`] of them are unsent.
    buffer: Vec<u8>,
    /// The number of bytes in `buffer` that are sent.
    sent: usize,
    /// Set when the inner stream may hold unflushed bytes.
    unflushed: bool,
    failed: Option<io::ErrorKind>,
}

impl<IO: Read + Write + Unpin> WriteCoalescer<IO> {
    /// Wraps a stream.
    pub(super) fn new(io: IO, coalesces: bool) -> Self {
        let state =
            CoalescerState { io, coalesces, buffer: Vec::new(), sent: 0, unflushed: false, failed: None };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Writes out the buffer as far as the inner stream accepts it now; the task is woken when
    /// there is room for more.
    ///
    /// Returns false if the write has just failed: the caller should poll the users of the stream
    /// again, so that they see the error.
    pub(super) fn flush_buffered(&self, context: &mut Context<'_>) -> bool {
        let mut state = self.state();
        if state.failed.is_some() {
            return true;
        }
        match state.poll_drain(context) {
            Poll::Ready(Err(error)) => {
                state.failed = Some(error.kind());
                false
            }
            _ => true,
        }
    }

    /// Sends what is buffered before the next write, and holds back nothing from then on: for a
    /// connection that has switched protocols, after which no task flushes the buffer.
    pub(super) fn write_through(&self) {
        self.state().coalesces = false;
    }

    fn state(&self) -> MutexGuard<'_, CoalescerState<IO>> {
        self.0.lock()
    }
}

impl<IO> Clone for WriteCoalescer<IO> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<IO: Read + Write + Unpin> CoalescerState<IO> {
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// Ready when the buffer is empty and flushed.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.buffer.len() {
            let written = ready!(Pin::new(&mut self.io).poll_write(context, &self.buffer[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        self.sent = 0;
        self.buffer.clear();
        if self.buffer.capacity() > RETAINED_CAPACITY {
            self.buffer = Vec::new();
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes as many bytes as there is room for; takes none only if the slices are empty.
    fn poll_buffer(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.check()?;
        if !self.coalesces {
            ready!(self.poll_drain(context))?;
            return Pin::new(&mut self.io).poll_write_vectored(context, slices);
        }
        if self.room() == 0
            && let Poll::Ready(Err(error)) = self.poll_drain(context)
        {
            return Poll::Ready(Err(error));
        }
        if self.room() == 0 {
            return Poll::Pending;
        }
        self.buffer.drain(..self.sent);
        self.sent = 0;
        let before = self.buffer.len();
        for slice in slices {
            let length = slice.len().min(self.room());
            self.buffer.extend_from_slice(&slice[..length]);
        }
        self.unflushed = true;
        Poll::Ready(Ok(self.buffer.len() - before))
    }

    fn room(&self) -> usize {
        MAX_BUFFERED - (self.buffer.len() - self.sent)
    }
}

impl<IO: Read + Write + Unpin> Read for WriteCoalescer<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        state.check()?;
        Pin::new(&mut state.io).poll_read(context, buffer)
    }
}

impl<IO: Read + Write + Unpin> Write for WriteCoalescer<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.state().poll_buffer(context, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        match state.coalesces {
            true => Poll::Ready(state.check()),
            false => {
                ready!(state.poll_drain(context))?;
                Pin::new(&mut state.io).poll_flush(context)
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        state.check()?;
        ready!(state.poll_drain(context))?;
        Pin::new(&mut state.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state().poll_buffer(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    const PIPE: usize = 8 * 1024;

    fn stream() -> (WriteCoalescer<TokioIo<DuplexStream>>, DuplexStream) {
        let (near, far) = tokio::io::duplex(PIPE);
        (WriteCoalescer::new(TokioIo::new(near), true), far)
    }

    /// Writes as much as is accepted.
    fn write(stream: &mut WriteCoalescer<TokioIo<DuplexStream>>, bytes: &[u8]) -> Option<usize> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(stream).poll_write(&mut context, bytes) {
            Poll::Ready(taken) => Some(taken.expect("the stream is open")),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn writes_and_flushes_leave_in_one_piece_at_the_end_of_the_poll() {
        let (mut stream, mut far) = stream();
        let mut context = Context::from_waker(Waker::noop());
        let mut seen = [0; 64];
        let mut seen = tokio::io::ReadBuf::new(&mut seen);
        for piece in ["one", " and ", "two"] {
            assert_eq!(write(&mut stream, piece.as_bytes()), Some(piece.len()));
            assert!(Pin::new(&mut stream).poll_flush(&mut context).is_ready());
        }
        let poll = tokio::io::AsyncRead::poll_read(Pin::new(&mut far), &mut context, &mut seen);
        assert!(poll.is_pending(), "nothing was sent yet");
        assert!(stream.flush_buffered(&mut context));
        let mut received = vec![0; "one and two".len()];
        far.read_exact(&mut received).await.expect("open");
        assert_eq!(received, b"one and two");
    }

    #[tokio::test]
    async fn after_a_switch_of_protocols_nothing_is_held_back() {
        let (mut stream, mut far) = stream();
        assert_eq!(write(&mut stream, b"head, "), Some(6));
        stream.write_through();
        assert_eq!(write(&mut stream, b"bytes"), Some(5));
        let mut received = vec![0; "head, bytes".len()];
        far.read_exact(&mut received).await.expect("open");
        assert_eq!(received, b"head, bytes");
    }

    #[tokio::test]
    async fn a_slow_reader_costs_no_more_than_the_bound_and_loses_nothing() {
        let (mut stream, mut far) = stream();
        let text: Vec<u8> = (0..400_000u32).map(|it| (it % 251) as u8).collect();
        let mut written = 0;
        while let Some(taken) = write(&mut stream, &text[written..]) {
            written += taken;
        }
        assert_eq!(written, MAX_BUFFERED + PIPE);
        let mut seen = Vec::new();
        let reading = async {
            let mut part = [0; 1_000];
            while seen.len() < text.len() {
                let length = far.read(&mut part).await.expect("open");
                seen.extend_from_slice(&part[..length]);
            }
        };
        let writing = std::future::poll_fn(|context| {
            while written < text.len() {
                written += ready!(Pin::new(&mut stream).poll_write(context, &text[written..])).expect("open");
            }
            Pin::new(&mut stream).poll_shutdown(context)
        });
        let (ended, ()) = tokio::join!(writing, reading);
        assert!(ended.is_ok() && seen == text);
    }

    #[tokio::test]
    async fn a_broken_stream_reports_it_once_and_fails_from_then_on() {
        let (mut stream, far) = stream();
        drop(far);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(write(&mut stream, b"unsent!"), Some(7));
        assert!(!stream.flush_buffered(&mut context), "the write has just failed");
        assert!(stream.flush_buffered(&mut context), "the failure is known");
        let again = Pin::new(&mut stream).poll_write(&mut context, b"more");
        assert!(matches!(again, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
        assert!(matches!(Pin::new(&mut stream).poll_flush(&mut context), Poll::Ready(Err(_))));
    }
}
