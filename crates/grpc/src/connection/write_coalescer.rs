//! A socket whose writes are coalesced: the frames of several calls leave in one system call.
//!
//! `h2` writes each larger frame separately and flushes after it: at least one system call per
//! call, and a system call costs more than everything else that a connection does for a call. While
//! coalescing is on, writes and flushes only fill a buffer; the connection's driver sends the
//! buffer after each poll.
//!
//! Flushes are never delayed to batch more: that would serialise the two ends of the connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

use super::features::Turns;

/// The capacity of the buffer. A write that does not fit sends the buffer first.
const MOST: usize = 64 << 10;
/// Writes of this size or larger bypass the buffer: copying them does not pay.
const LARGE: usize = 8 << 10;
/// The number of bytes read per turn on a runtime with one worker. The calls that the data belongs
/// to run before the next turn, so that the peer gets new work meanwhile; reading everything first
/// would make the two ends take turns instead of working concurrently. With several workers, other
/// workers run these calls anyway, and another turn would only move the connection between workers.
const TURN: usize = 8 << 10;
/// The buffer capacity that an idle connection may keep.
const KEPT: usize = 4 << 10;

/// The socket, for the HTTP/2 connection that writes to it.
#[derive(Debug)]
pub(crate) struct Corked<T>(Arc<Mutex<Neck<T>>>);

/// The control of the buffer, for the driver of the connection.
pub(crate) trait Cork: Send {
    /// Starts a turn. With `gather`, writes are buffered from here on; without, they go straight to
    /// the socket.
    fn push(&mut self, gather: bool);

    /// Sends the buffer. An error is also returned from the next write or flush of the socket.
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

#[derive(Debug)]
struct Neck<T> {
    socket: T,
    gathers: bool,
    gathered: Vec<u8>,
    /// The number of bytes of `gathered` that were sent.
    left: usize,
    /// A writer is waiting for room in the buffer.
    refused: bool,
    failed: Option<io::ErrorKind>,
    /// The peer has closed its side. Nothing is sent any more: calls that were not sent by then are
    /// retried elsewhere, and a peer that still reads would execute them too.
    sealed: bool,
    /// The number of bytes that may be read per turn, and the rest of it in this turn.
    turn: usize,
    readable: usize,
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Corked<T> {
    /// Wraps a socket. Must be called on a tokio runtime.
    pub(crate) fn new(socket: T, turns: Turns) -> (Self, Box<dyn Cork>) {
        let turn = match turns {
            Turns::Always => TURN,
            Turns::OneWorker if Handle::current().metrics().num_workers() == 1 => TURN,
            Turns::OneWorker | Turns::Never => usize::MAX,
        };
        let neck = Neck {
            socket,
            gathers: false,
            gathered: Vec::new(),
            left: 0,
            refused: false,
            failed: None,
            sealed: false,
            turn,
            readable: turn,
        };
        let neck = Arc::new(Mutex::new(neck));
        (Self(Arc::clone(&neck)), Box::new(neck))
    }
}

impl<T: AsyncWrite + Unpin> Neck<T> {
    fn waiting(&self) -> usize {
        self.gathered.len() - self.left
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        if self.sealed {
            (self.gathered, self.left) = (Vec::new(), 0);
            return Poll::Ready(Ok(()));
        }
        let sent = self.poll_all(cx);
        if let Poll::Ready(Err(error)) = &sent {
            self.failed = Some(error.kind());
        }
        sent
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.waiting() > 0 {
            match ready!(Pin::new(&mut self.socket).poll_write(cx, &self.gathered[self.left..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.left += count,
            }
        }
        self.gathered.clear();
        self.left = 0;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_say(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let size: usize = parts.iter().map(|it| it.len()).sum();
        let gathers = self.gathers && size < LARGE;
        if !gathers || self.waiting() + size > MOST {
            let sent = self.poll_send(cx);
            self.refused |= sent.is_pending();
            ready!(sent)?;
        }
        self.check()?;
        if self.sealed {
            return Poll::Ready(Ok(size));
        }
        if !gathers {
            return Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        }
        parts.iter().for_each(|it| self.gathered.extend_from_slice(it));
        Poll::Ready(Ok(size))
    }
}

impl<T: AsyncWrite + Send + Unpin> Cork for Arc<Mutex<Neck<T>>> {
    fn push(&mut self, gather: bool) {
        let mut neck = self.lock();
        neck.gathers = gather;
        neck.readable = neck.turn;
    }

    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut neck = self.lock();
        ready!(neck.poll_send(cx))?;
        if !neck.gathers && neck.gathered.capacity() > KEPT {
            neck.gathered = Vec::new();
        }
        // The connection has no waker of its own registered for room in the buffer: poll it again.
        if std::mem::take(&mut neck.refused) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Corked<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut neck = self.0.lock();
        // The budget of this turn is used up: yield, and be polled again.
        if neck.readable == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut neck.socket).poll_read(cx, buf))?;
        let count = buf.filled().len() - before;
        neck.sealed |= count == 0 && buf.remaining() > 0;
        neck.readable = neck.readable.saturating_sub(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_say(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_say(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Sends nothing: the driver sends the buffer after it has polled the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.lock().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut neck = self.0.lock();
        ready!(neck.poll_send(cx))?;
        Pin::new(&mut neck.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn pull(cork: &mut dyn Cork) -> Poll<io::Result<()>> {
        cork.poll_pull(&mut Context::from_waker(noop_waker_ref()))
    }

    /// Returns the number of bytes that the other end can read now.
    fn heard(other: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 2 * MOST];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(noop_waker_ref());
        while Pin::new(&mut *other).poll_read(&mut cx, &mut buffer).is_ready() {}
        buffer.filled().len()
    }

    #[tokio::test]
    async fn buffered_writes_leave_on_the_next_flush_of_the_buffer() {
        let (one, mut other) = duplex(2 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        for _ in 0..3 {
            socket.write_all(b"hello").await.unwrap();
            socket.flush().await.unwrap();
        }
        assert_eq!(heard(&mut other), 0);
        assert!(pull(&mut *cork).is_ready());
        assert_eq!(heard(&mut other), 15);
    }

    #[tokio::test]
    async fn without_coalescing_writes_leave_at_once_and_after_the_buffer() {
        let (one, mut other) = duplex(2 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        socket.write_all(b"one ").await.unwrap();
        cork.push(false);
        socket.write_all(b"two").await.unwrap();
        let mut both = [0; 7];
        other.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"one two");
    }

    /// Data that was not sent when the peer closed its side is never sent, although the peer would
    /// accept it.
    #[tokio::test]
    async fn nothing_is_sent_after_the_peer_closed_its_side() {
        let (one, mut other) = duplex(2 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        socket.write_all(b"one").await.unwrap();
        other.shutdown().await.unwrap();
        assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 0);
        for gather in [true, false] {
            assert!(matches!(pull(&mut *cork), Poll::Ready(Ok(()))));
            cork.push(gather);
            socket.write_all(b"two").await.unwrap();
            socket.write_all(&[2; LARGE]).await.unwrap();
            socket.flush().await.unwrap();
        }
        socket.shutdown().await.unwrap();
        assert_eq!(other.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_large_write_leaves_at_once_and_in_order() {
        let (one, mut other) = duplex(2 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        socket.write_all(&[1; 10]).await.unwrap();
        socket.write_all(&[2; LARGE]).await.unwrap();
        let mut all = vec![0; LARGE + 10];
        other.read_exact(&mut all).await.unwrap();
        assert_eq!((&all[..10], &all[10..]), (&[1; 10][..], &[2; LARGE][..]));
    }

    #[tokio::test]
    async fn the_buffer_is_bounded() {
        let (one, mut other) = duplex(4 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        for _ in 0..100 {
            socket.write_all(&[7; 1_000]).await.unwrap();
        }
        let first = heard(&mut other);
        assert!((MOST - 1_000..=MOST).contains(&first), "{first}");
        assert!(pull(&mut *cork).is_ready());
        assert_eq!(first + heard(&mut other), 100_000);
    }

    #[tokio::test]
    async fn a_writer_waits_while_the_peer_does_not_read_and_then_goes_on() {
        let (one, mut other) = duplex(MOST / 4);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        let mut speaking = by_hand(async move {
            for _ in 0..=MOST / 1_000 {
                socket.write_all(&[7; 1_000]).await.unwrap();
            }
        });
        assert!(speaking().is_pending(), "the buffer should be full");
        let mut read = 0;
        for _ in 0..4 {
            read += heard(&mut other);
            let _ = pull(&mut *cork);
        }
        assert!(speaking().is_ready(), "the buffer should have room");
        assert!(pull(&mut *cork).is_ready());
        assert_eq!(read + heard(&mut other), (MOST / 1_000 + 1) * 1_000);
    }

    /// Returns a function that polls the future once.
    fn by_hand(task: impl Future<Output = ()>) -> impl FnMut() -> Poll<()> {
        let mut task = Box::pin(task);
        move || task.as_mut().poll(&mut Context::from_waker(noop_waker_ref()))
    }

    #[tokio::test]
    async fn an_error_is_returned_from_the_buffer_flush_and_from_writes() {
        let (one, other) = duplex(64);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        socket.write_all(b"hello").await.unwrap();
        drop(other);
        assert!(matches!(pull(&mut *cork), Poll::Ready(Err(_))));
        assert_eq!(socket.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(socket.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn shutdown_sends_the_buffer() {
        let (one, mut other) = duplex(64);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        socket.write_all(b"goodbye").await.unwrap();
        socket.shutdown().await.unwrap();
        let mut all = Vec::new();
        other.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"goodbye");
    }

    /// Test runtimes have one worker.
    #[tokio::test]
    async fn on_one_worker_a_turn_reads_a_limited_number_of_bytes() {
        let (one, mut other) = duplex(4 * TURN);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        other.write_all(&vec![7; 2 * TURN + 1]).await.unwrap();
        let mut bytes = vec![0; TURN];
        let mut turn = || {
            cork.push(true);
            let mut read = 0;
            let mut cx = Context::from_waker(noop_waker_ref());
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut socket).poll_read(&mut cx, &mut buffer) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => return read,
                }
                read += buffer.filled().len();
            }
        };
        assert_eq!([turn(), turn(), turn(), turn()], [TURN, TURN, 1, 0]);
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_little_memory() {
        let (one, mut other) = duplex(4 * MOST);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        let neck = Arc::clone(&socket.0);
        cork.push(true);
        for _ in 0..20 {
            socket.write_all(&[7; 1_000]).await.unwrap();
        }
        assert!(pull(&mut *cork).is_ready() && neck.lock().gathered.capacity() > KEPT);
        cork.push(false);
        assert!(pull(&mut *cork).is_ready() && neck.lock().gathered.capacity() == 0);
        assert_eq!(heard(&mut other), 20_000);
    }
}
