//! A socket under a cork: what several calls have to say gathers, and leaves all at once.
//!
//! `h2` writes each larger frame by itself and flushes after it: one system call for each call at least, and a system call costs more
//! than all else that a connection does for a call. With the cork in, writing and flushing only gather; whoever polls the
//! connection pulls it afterwards.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

use super::parts::Turns;

/// As much as gathers; then it leaves without being told.
const MOST: usize = 64 << 10;
/// What is as large as this is not worth copying.
const LARGE: usize = 8 << 10;
/// As much as is read in one turn on a runtime of one worker. Those it was for answer before the next turn, so that the peer has something
/// to do meanwhile; who reads all there is first works in turns with its peer instead of beside it. With more workers others
/// take them over anyway, and another turn would only move the connection from one worker to another.
const TURN: usize = 8 << 10;
/// What a connection that has little to say may keep for what it says next.
const KEPT: usize = 4 << 10;

/// The socket, for whoever speaks on it.
#[derive(Debug)]
pub(crate) struct Corked<T>(Arc<Mutex<Neck<T>>>);

/// The hand on the cork.
pub(crate) trait Cork: Send {
    /// Begins a turn. With `gather`, what is said from here on gathers; without, it leaves as it is said.
    fn push(&mut self, gather: bool);

    /// Sends what has gathered. An error is also told to whoever speaks, the next time it writes or flushes.
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

#[derive(Debug)]
struct Neck<T> {
    socket: T,
    gathers: bool,
    gathered: Vec<u8>,
    /// How many of `gathered` have left.
    left: usize,
    /// Whoever speaks had to wait until there is room.
    refused: bool,
    failed: Option<io::ErrorKind>,
    /// The peer has ended its side. Nothing leaves any more: calls that had not left by then are sent elsewhere, and a peer that still
    /// reads would carry them out too.
    sealed: bool,
    /// How many bytes are read in a turn, and how many of them are still to be had in this one.
    turn: usize,
    readable: usize,
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Corked<T> {
    /// Puts a socket under a cork. It must be called on a tokio runtime.
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
        if std::mem::take(&mut neck.refused) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Corked<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut neck = self.0.lock();
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

    /// Leaves everything where it is: the cork is pulled by somebody else.
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

    /// What the other end has to read now.
    fn heard(other: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 2 * MOST];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(noop_waker_ref());
        while Pin::new(&mut *other).poll_read(&mut cx, &mut buffer).is_ready() {}
        buffer.filled().len()
    }

    #[tokio::test]
    async fn what_is_said_under_the_cork_leaves_when_it_is_pulled() {
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
    async fn without_the_cork_everything_leaves_as_it_is_said_and_after_what_had_gathered() {
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

    /// What had not left when the peer ended its side never does, although the peer would take it.
    #[tokio::test]
    async fn after_the_end_of_the_peer_nothing_leaves() {
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
    async fn what_is_large_leaves_at_once_and_in_order() {
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
    async fn no_more_gathers_than_the_most() {
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
    async fn a_peer_that_does_not_read_makes_whoever_speaks_wait_and_then_go_on() {
        let (one, mut other) = duplex(MOST / 4);
        let (mut socket, mut cork) = Corked::new(one, Turns::OneWorker);
        cork.push(true);
        let mut speaking = by_hand(async move {
            for _ in 0..=MOST / 1_000 {
                socket.write_all(&[7; 1_000]).await.unwrap();
            }
        });
        assert!(speaking().is_pending(), "there is no room");
        let mut read = 0;
        for _ in 0..4 {
            read += heard(&mut other);
            let _ = pull(&mut *cork);
        }
        assert!(speaking().is_ready(), "there is room");
        assert!(pull(&mut *cork).is_ready());
        assert_eq!(read + heard(&mut other), (MOST / 1_000 + 1) * 1_000);
    }

    /// Polls a future by hand.
    fn by_hand(task: impl Future<Output = ()>) -> impl FnMut() -> Poll<()> {
        let mut task = Box::pin(task);
        move || task.as_mut().poll(&mut Context::from_waker(noop_waker_ref()))
    }

    #[tokio::test]
    async fn an_error_is_told_to_who_pulls_and_to_who_speaks() {
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
    async fn closing_sends_what_had_gathered() {
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
    async fn on_one_worker_a_turn_ends_after_so_many_bytes_and_the_next_one_goes_on() {
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
    async fn who_has_little_to_say_keeps_little_memory() {
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
