//! The line under a connection: what is written while its task runs leaves together when the task has nothing more to write.
//!
//! HTTP/2 hands over frame by frame and has each flushed. With ten watches on a connection, one change would be ten records
//! of TLS and ten system calls; here it is one of each. Nothing waits for a clock: the task itself says when it is done, each
//! time it runs.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

/// What is held back at most. It is what TLS takes at a time, too.
const MOST: usize = 64 * 1024;

/// The room that is kept while there is nothing to write: one record of TLS.
const KEPT: usize = 16 * 1024;

/// A line whose writes are gathered until [`Self::leave`]. Clones are the same line: HTTP has one, and the task another.
///
/// Flushing it does nothing; shutting it down lets everything leave first. When what was gathered could not leave, everything
/// that is done with the line from then on fails. It has no `Debug`: what it holds may be secret.
pub(super) struct Gathered<IO>(Arc<Mutex<Outlet<IO>>>);

struct Outlet<IO> {
    io: IO,
    /// What was written. Invariant: what has not left of it is at most [`MOST`].
    held: Vec<u8>,
    /// How much of it has left.
    left: usize,
    /// Whether something may be held further down.
    unflushed: bool,
    failed: Option<io::ErrorKind>,
}

impl<IO: Read + Write + Unpin> Gathered<IO> {
    /// Gathers what is written to this.
    pub(super) fn new(io: IO) -> Self {
        let outlet = Outlet { io, held: Vec::new(), left: 0, unflushed: false, failed: None };
        Self(Arc::new(Mutex::new(outlet)))
    }

    /// Lets leave what was gathered, as far as it can now; the task is woken when there is room for more.
    ///
    /// False when it turns out that nothing can leave any more: whoever uses the line should look at it again.
    pub(super) fn leave(&self, context: &mut Context<'_>) -> bool {
        let mut outlet = self.outlet();
        if outlet.failed.is_some() {
            return true;
        }
        match outlet.poll_leave(context) {
            Poll::Ready(Err(error)) => {
                outlet.failed = Some(error.kind());
                false
            }
            _ => true,
        }
    }

    fn outlet(&self) -> MutexGuard<'_, Outlet<IO>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<IO> Clone for Gathered<IO> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<IO: Read + Write + Unpin> Outlet<IO> {
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// Ready when everything has left.
    fn poll_leave(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left < self.held.len() {
            let gone = ready!(Pin::new(&mut self.io).poll_write(context, &self.held[self.left..]))?;
            if gone == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left += gone;
        }
        self.left = 0;
        self.held.clear();
        if self.held.capacity() > KEPT {
            self.held = Vec::new();
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes as much as there is room for; nothing only when there is nothing.
    fn poll_take(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.check()?;
        if self.room() == 0
            && let Poll::Ready(Err(error)) = self.poll_leave(context)
        {
            return Poll::Ready(Err(error));
        }
        if self.room() == 0 {
            return Poll::Pending;
        }
        self.held.drain(..self.left);
        self.left = 0;
        let before = self.held.len();
        for slice in slices {
            let length = slice.len().min(self.room());
            self.held.extend_from_slice(&slice[..length]);
        }
        self.unflushed = true;
        Poll::Ready(Ok(self.held.len() - before))
    }

    fn room(&self) -> usize {
        MOST - (self.held.len() - self.left)
    }
}

impl<IO: Read + Write + Unpin> Read for Gathered<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut outlet = self.outlet();
        outlet.check()?;
        Pin::new(&mut outlet.io).poll_read(context, buffer)
    }
}

impl<IO: Read + Write + Unpin> Write for Gathered<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.outlet().poll_take(context, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.outlet().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outlet = self.outlet();
        outlet.check()?;
        ready!(outlet.poll_leave(context))?;
        Pin::new(&mut outlet.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outlet().poll_take(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    const PIPE: usize = 8 * 1024;

    fn line() -> (Gathered<TokioIo<DuplexStream>>, DuplexStream) {
        let (near, far) = tokio::io::duplex(PIPE);
        (Gathered::new(TokioIo::new(near)), far)
    }

    /// Writes as much as is taken.
    fn write(line: &mut Gathered<TokioIo<DuplexStream>>, bytes: &[u8]) -> Option<usize> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(line).poll_write(&mut context, bytes) {
            Poll::Ready(taken) => Some(taken.expect("the line is open")),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn what_is_written_and_flushed_leaves_in_one_piece_when_the_task_is_done() {
        let (mut line, mut far) = line();
        let mut context = Context::from_waker(Waker::noop());
        let mut seen = [0; 64];
        let mut seen = tokio::io::ReadBuf::new(&mut seen);
        for piece in ["one", " and ", "two"] {
            assert_eq!(write(&mut line, piece.as_bytes()), Some(piece.len()));
            assert!(Pin::new(&mut line).poll_flush(&mut context).is_ready());
        }
        let poll = tokio::io::AsyncRead::poll_read(Pin::new(&mut far), &mut context, &mut seen);
        assert!(poll.is_pending(), "nothing has left yet");
        assert!(line.leave(&mut context));
        let mut told = vec![0; "one and two".len()];
        far.read_exact(&mut told).await.expect("open");
        assert_eq!(told, b"one and two");
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_costs_no_more_than_the_bound_and_loses_nothing() {
        let (mut line, mut far) = line();
        let text: Vec<u8> = (0..400_000u32).map(|it| (it % 251) as u8).collect();
        let mut written = 0;
        while let Some(taken) = write(&mut line, &text[written..]) {
            written += taken;
        }
        assert_eq!(written, MOST + PIPE);
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
                written += ready!(Pin::new(&mut line).poll_write(context, &text[written..])).expect("open");
            }
            Pin::new(&mut line).poll_shutdown(context)
        });
        let (ended, ()) = tokio::join!(writing, reading);
        assert!(ended.is_ok() && seen == text);
    }

    #[tokio::test]
    async fn a_line_that_broke_says_so_once_and_fails_from_then_on() {
        let (mut line, far) = line();
        drop(far);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(write(&mut line, b"unheard"), Some(7));
        assert!(!line.leave(&mut context), "it turned out just now");
        assert!(line.leave(&mut context), "and is known");
        let again = Pin::new(&mut line).poll_write(&mut context, b"more");
        assert!(matches!(again, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
        assert!(matches!(Pin::new(&mut line).poll_flush(&mut context), Poll::Ready(Err(_))));
    }
}
