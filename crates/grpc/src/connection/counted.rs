//! A socket that notes which HTTP/2 frames were written to it and read from it.
//!
//! A call that was queued on a connection which then broke may be sent again elsewhere if, and only if, nothing of it has left. HTTP/2
//! libraries do not say; the socket does, or TLS above it: there it is read which streams were begun. Where that cannot be read, whatever
//! was queued before something was written counts as sent.
//!
//! The other direction shows signs of life, and changes of the peer's settings. Both together show which calls the peer has open: that
//! is not how many calls are in flight, since a caller may hold an answer that is complete, and a call may wait in line.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hashbrown::HashSet;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{DATA, Frames, HEADERS, RST_STREAM, SETTINGS};

/// Set in a reading of streams, clear in one of writes.
const STREAMS: u64 = 1 << 63;
/// Set when any byte was read.
const ANYTHING: u32 = 1 << 31;

/// What a socket took: the last stream that was begun on it, or how often it took bytes where streams cannot be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes(Arc<AtomicU64>);

impl Writes {
    /// A reading, for [`may_have_left`].
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether anything of a stream may have left that was queued after the reading `before` was taken, now that the reading is `now`.
pub(crate) fn may_have_left(stream: u32, before: u64, now: u64) -> bool {
    match now & STREAMS {
        0 => now != before,
        _ => now & !STREAMS >= u64::from(stream),
    }
}

/// The frames that were read from a socket since the last look, by type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads(Arc<AtomicU32>);

/// The types of the frames that arrived between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived(u32);

impl Reads {
    /// Returns what arrived since the last time this was called.
    pub(crate) fn take(&self) -> Arrived {
        // Most looks find nothing, and a plain load is cheaper than a swap.
        match self.0.load(Ordering::Relaxed) {
            0 => Arrived(0),
            _ => Arrived(self.0.swap(0, Ordering::Relaxed)),
        }
    }
}

impl Arrived {
    /// Whether anything arrived at all.
    pub(crate) fn anything(self) -> bool {
        self.0 != 0
    }

    /// Whether the peer said something about a call: headers or data.
    pub(crate) fn answers(self) -> bool {
        self.0 & (1 << DATA | 1 << HEADERS) != 0
    }

    /// Whether the peer changed its settings, or acknowledged ours.
    pub(crate) fn settings(self) -> bool {
        self.0 & 1 << SETTINGS != 0
    }
}

/// How many streams of a connection are open at the peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenStreams(Arc<AtomicU32>);

impl OpenStreams {
    /// Whether the peer has a call to answer.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A socket whose frames are noted. Of writes that cannot be read, the attempt is: one that failed half-way counts too.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    inner: T,
    writes: Writes,
    reads: Reads,
    /// The streams that were begun, and that neither side has ended for good.
    open: HashSet<u32>,
    open_count: OpenStreams,
    last_begun: u32,
    outgoing: Frames,
    incoming: Frames,
    /// False only in benchmarks, to see what noting frames costs.
    enabled: bool,
}

impl<T> Counted<T> {
    pub(crate) fn new(inner: T, enabled: bool) -> Self {
        let (writes, reads, open_count) = Default::default();
        Self {
            inner,
            writes,
            reads,
            open: HashSet::new(),
            open_count,
            last_begun: 0,
            outgoing: Frames::of_client(),
            incoming: Frames::of_server(),
            enabled,
        }
    }

    pub(crate) fn writes(&self) -> Writes {
        self.writes.clone()
    }

    pub(crate) fn reads(&self) -> Reads {
        self.reads.clone()
    }

    pub(crate) fn open_streams(&self) -> OpenStreams {
        self.open_count.clone()
    }

    /// Notes that bytes are about to be written, where nobody can tell what they are. The first ones that a connection has to say are
    /// always noted: they may be anything.
    fn attempt(&self) {
        if matches!(self.outgoing, Frames::Unreadable | Frames::Preface(_)) {
            self.writes.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes which bytes were taken.
    fn took(&mut self, bytes: &[u8]) {
        if !self.enabled {
            return;
        }
        let (before, last_begun, open) = (self.last_begun, &mut self.last_begun, &mut self.open);
        let mut reset = false;
        self.outgoing.pass(bytes, |it| match it.kind {
            // Streams are begun in the order of their numbers; a frame with trailers is of one that was begun before.
            HEADERS if it.stream > *last_begun => {
                *last_begun = it.stream;
                open.insert(it.stream);
            }
            RST_STREAM => reset |= open.remove(&it.stream),
            _ => {}
        });
        if self.last_begun > before {
            self.writes.0.fetch_max(STREAMS | u64::from(self.last_begun), Ordering::Release);
        }
        if reset || self.last_begun > before {
            self.count_open();
        }
    }

    /// Notes which bytes were read.
    fn read(&mut self, bytes: &[u8]) {
        if !self.enabled || bytes.is_empty() {
            return;
        }
        let (mut kinds, mut ended, open) = (ANYTHING, false, &mut self.open);
        self.incoming.pass(bytes, |it| {
            kinds |= 1 << it.kind.min(30);
            // A server that has said how a call ended has forgotten it, whether the request was complete or not.
            ended |= it.ends_stream() && open.remove(&it.stream);
        });
        self.reads.0.fetch_or(kinds, Ordering::Relaxed);
        if ended {
            self.count_open();
        }
    }

    fn count_open(&self) {
        self.open_count.0.store(u32::try_from(self.open.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        this.read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.attempt();
        let count = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        this.took(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.attempt();
        let count = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs))?;
        let mut left = count;
        for buf in bufs {
            let taken = left.min(buf.len());
            this.took(&buf[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(count))
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
    use crate::connection::frames::tests::{answered, spoken};

    #[tokio::test]
    async fn only_writes_count() {
        let (one, mut other) = tokio::io::duplex(64);
        let mut counted = Counted::new(one, true);
        let writes = counted.writes();
        other.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        counted.read_exact(&mut heard).await.unwrap();
        assert_eq!(writes.count(), 0);
        counted.write_all(b"and back").await.unwrap();
        assert_eq!(writes.count(), 1);
        assert!(may_have_left(1, 0, writes.count()) && !may_have_left(1, 1, writes.count()));
    }

    #[tokio::test]
    async fn in_the_clear_it_is_known_which_streams_were_begun() {
        let (one, _other) = tokio::io::duplex(1 << 10);
        let mut counted = Counted::new(one, true);
        let writes = counted.writes();
        counted.write_all(&spoken(&[(4, 0, 6)])).await.unwrap();
        let before = writes.count();
        counted.write_all(&answered(&[(8, 0, 4), (HEADERS, 3, 20), (0, 3, 100), (6, 0, 8)])).await.unwrap();
        let left = |stream| may_have_left(stream, before, writes.count());
        assert!(left(1) && left(3) && !left(5), "{:x}", writes.count());
        // The head of a frame that is not whole begins nothing.
        let next = answered(&[(HEADERS, 5, 20)]);
        let (most, rest) = next.split_at(8);
        counted.write_all(most).await.unwrap();
        assert!(!may_have_left(5, before, writes.count()));
        counted.write_all(rest).await.unwrap();
        assert!(may_have_left(5, before, writes.count()));
    }

    /// A frame without a payload.
    fn frame(kind: u8, flags: u8, stream: u8) -> [u8; 9] {
        [0, 0, 0, kind, flags, 0, 0, 0, stream]
    }

    #[tokio::test]
    async fn streams_are_open_until_one_side_ends_them() {
        use crate::connection::frames::END_STREAM;
        let (one, mut other) = tokio::io::duplex(1 << 10);
        let mut counted = Counted::new(one, true);
        let open = counted.open_streams();
        counted.write_all(&spoken(&[])).await.unwrap();
        let table = [
            ("a request", true, frame(HEADERS, 0, 1), 1),
            ("its end", true, frame(DATA, END_STREAM, 1), 1),
            ("another", true, frame(HEADERS, END_STREAM, 3), 2),
            ("the head of an answer", false, frame(HEADERS, 0, 1), 2),
            ("its end", false, frame(HEADERS, END_STREAM, 1), 1),
            ("its request is not wanted", false, frame(RST_STREAM, 0, 1), 1),
            ("a call that is given up", true, frame(RST_STREAM, 0, 3), 0),
            ("its late answer", false, frame(DATA, END_STREAM, 3), 0),
            ("a third", true, frame(HEADERS, 0, 5), 1),
            ("its trailers", true, frame(HEADERS, END_STREAM, 5), 1),
            ("it is refused", false, frame(RST_STREAM, 0, 5), 0),
        ];
        for (story, ours, bytes, expected) in table {
            if ours {
                counted.write_all(&bytes).await.unwrap();
            } else {
                other.write_all(&bytes).await.unwrap();
                counted.read_exact(&mut [0; 9]).await.unwrap();
            }
            assert_eq!((counted.open.len(), open.any()), (expected, expected > 0), "{story}");
        }
    }

    #[tokio::test]
    async fn signs_of_life_answers_and_settings_are_told_apart() {
        const PING: u8 = 6;
        let (one, mut other) = tokio::io::duplex(1 << 10);
        let mut counted = Counted::new(one, true);
        let reads = counted.reads();
        type Frames = &'static [(u8, u32, usize)];
        let table: [(Frames, [bool; 3]); 5] = [
            (&[(PING, 0, 8)], [true, false, false]),
            (&[(SETTINGS, 0, 6), (PING, 0, 8)], [true, false, true]),
            (&[(HEADERS, 1, 30)], [true, true, false]),
            (&[(DATA, 1, 100)], [true, true, false]),
            (&[(0xff, 1, 3)], [true, false, false]),
        ];
        for (frames, expected) in table {
            assert_eq!(reads.take(), Arrived(0));
            let sent = answered(frames);
            other.write_all(&sent).await.unwrap();
            counted.read_exact(&mut vec![0; sent.len()]).await.unwrap();
            let arrived = reads.take();
            let found = [arrived.anything(), arrived.answers(), arrived.settings()];
            assert_eq!(found, expected, "{frames:?}");
        }
    }
}
