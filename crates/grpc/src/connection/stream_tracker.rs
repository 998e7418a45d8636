//! A socket that tracks which HTTP/2 frames were written to it and read from it.
//!
//! A call that was queued on a connection which then broke may be sent to another endpoint if, and
//! only if, nothing of it was sent. HTTP/2 libraries do not report this; the bytes on the socket,
//! above TLS, show which streams were opened. If they cannot be parsed, every call that was queued
//! before a write counts as sent.
//!
//! The other direction shows that the peer is alive, and when it changes its settings. Both
//! directions together show which calls are open at the peer. This is not the number of calls in
//! flight: a caller may hold a complete response, and a call may still be queued.
//!
//! It is here for the calls that it saves, not for speed: `h2` does not report what was sent.
//! `cargo xtask bench grpc ablation` measures its cost: none within the noise, or up to 8 % of the
//! CPU time for a call on eight threads (`bench/README.md`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hashbrown::HashSet;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{DATA, Frames, HEADERS, RST_STREAM, SETTINGS};

/// Set in a mark that holds a stream id, clear in one that holds a number of writes.
const STREAMS: u64 = 1 << 63;
/// Set when any byte was read.
const ANYTHING: u32 = 1 << 31;

/// The progress of writing: the last stream that was opened on the socket, or the number of writes
/// if the frames cannot be parsed.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteProgress(Arc<AtomicU64>);

impl WriteProgress {
    /// Returns the current mark, for [`may_have_been_sent`].
    pub(crate) fn mark(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Returns true if anything of a stream may have been sent that was queued after the mark `before`
/// was taken; `now` is the current mark.
pub(crate) fn may_have_been_sent(stream: u32, before: u64, now: u64) -> bool {
    match now & STREAMS {
        0 => now != before,
        _ => now & !STREAMS >= u64::from(stream),
    }
}

/// The types of the frames that were read from a socket and not yet taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadFrames(Arc<AtomicU32>);

/// A set of frame types that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameKinds(u32);

impl ReadFrames {
    /// Returns the types that arrived since the last call.
    pub(crate) fn take(&self) -> FrameKinds {
        // Most calls find nothing, and a plain load is cheaper than a swap.
        match self.0.load(Ordering::Relaxed) {
            0 => FrameKinds(0),
            _ => FrameKinds(self.0.swap(0, Ordering::Relaxed)),
        }
    }
}

impl FrameKinds {
    /// Returns true if anything arrived.
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Returns true if the peer responded to a call: with headers or data.
    pub(crate) fn has_response(self) -> bool {
        self.0 & (1 << DATA | 1 << HEADERS) != 0
    }

    /// Returns true if the peer changed its settings, or acknowledged ours.
    pub(crate) fn has_settings(self) -> bool {
        self.0 & 1 << SETTINGS != 0
    }
}

/// The number of streams of a connection that are open at the peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenStreams(Arc<AtomicU32>);

impl OpenStreams {
    /// Returns true if the peer has a call to answer.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// The number of bytes that were written to the socket below TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenBytes(Arc<AtomicU64>);

impl WrittenBytes {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A socket that counts the bytes written to it, for use below TLS.
///
/// TLS turns one write into several records. If one of them cannot be sent, the write fails as a
/// whole, although the peer may have received the records before it: a [`StreamTracker`] above TLS
/// needs this number to recognise that.
#[derive(Debug)]
pub(crate) struct CountingSocket<T> {
    inner: T,
    written: WrittenBytes,
}

impl<T> CountingSocket<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, written: WrittenBytes::default() }
    }

    pub(crate) fn written(&self) -> WrittenBytes {
        self.written.clone()
    }

    fn record(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = result {
            self.written.0.fetch_add(count as u64, Ordering::Relaxed);
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CountingSocket<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountingSocket<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.record(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.record(result)
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

/// A socket whose frames are tracked. If the outgoing bytes cannot be parsed, each attempt to write
/// counts, even one that fails half-way.
#[derive(Debug)]
pub(crate) struct StreamTracker<T> {
    inner: T,
    writes: WriteProgress,
    reads: ReadFrames,
    /// The streams that were opened, and that neither the server has ended nor either side has
    /// reset.
    open: HashSet<u32>,
    open_count: OpenStreams,
    last_begun: u32,
    outgoing: Frames,
    incoming: Frames,
    /// The bytes that were written below TLS; `None` for a socket that writes nothing when it
    /// fails, such as one without TLS.
    below: Option<WrittenBytes>,
    /// False only in benchmarks, to measure the cost of tracking.
    enabled: bool,
}

impl<T> StreamTracker<T> {
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
            below: None,
            enabled,
        }
    }

    /// Sets the number of bytes that TLS has written to its socket.
    pub(crate) fn above(mut self, written: WrittenBytes) -> Self {
        self.below = Some(written);
        self
    }

    pub(crate) fn writes(&self) -> WriteProgress {
        self.writes.clone()
    }

    pub(crate) fn reads(&self) -> ReadFrames {
        self.reads.clone()
    }

    pub(crate) fn open_streams(&self) -> OpenStreams {
        self.open_count.clone()
    }

    /// Records that bytes of unknown content are about to be written. The first bytes of a
    /// connection are always recorded: they may be anything.
    fn record_attempt(&self) {
        if matches!(self.outgoing, Frames::Unreadable | Frames::Preface(_)) {
            self.writes.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the number of bytes that were written below TLS.
    fn written_below(&self) -> u64 {
        self.below.as_ref().map_or(0, WrittenBytes::count)
    }

    /// Records what became of a write of `bufs`. `below` is the number of bytes that had been
    /// written below TLS before it.
    fn record_outcome(&mut self, bufs: &[IoSlice<'_>], result: &io::Result<usize>, below: u64) {
        let mut left = match result {
            Ok(count) => *count,
            // Some of it may have been sent, and it is not known how much: all of it counts. The
            // connection is broken, so nothing else is tracked from here on.
            Err(_) if self.written_below() > below => usize::MAX,
            Err(_) => 0,
        };
        for buf in bufs {
            let taken = left.min(buf.len());
            self.record_written(&buf[..taken]);
            left -= taken;
        }
    }

    /// Records the bytes that were written.
    fn record_written(&mut self, bytes: &[u8]) {
        if !self.enabled {
            return;
        }
        let (before, last_begun, open) = (self.last_begun, &mut self.last_begun, &mut self.open);
        let mut reset = false;
        self.outgoing.pass(bytes, |it| match it.kind {
            // Streams are opened in the order of their ids; a HEADERS frame with trailers belongs
            // to a stream that was opened before.
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

    /// Records the bytes that were read.
    fn record_read(&mut self, bytes: &[u8]) {
        if !self.enabled || bytes.is_empty() {
            return;
        }
        let (mut kinds, mut ended, open) = (ANYTHING, false, &mut self.open);
        self.incoming.pass(bytes, |it| {
            kinds |= 1 << it.kind.min(30);
            // A server that has ended its side has forgotten the call, whether the request was
            // complete or not.
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

impl<T: AsyncRead + Unpin> AsyncRead for StreamTracker<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        this.record_read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StreamTracker<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.record_attempt();
        let below = this.written_below();
        let result = ready!(Pin::new(&mut this.inner).poll_write(cx, buf));
        this.record_outcome(&[IoSlice::new(buf)], &result, below);
        Poll::Ready(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.record_attempt();
        let below = this.written_below();
        let result = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs));
        this.record_outcome(bufs, &result, below);
        Poll::Ready(result)
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
    use crate::connection::frames::tests::{client_bytes, server_bytes};

    #[tokio::test]
    async fn only_writes_count() {
        let (one, mut other) = tokio::io::duplex(64);
        let mut tracker = StreamTracker::new(one, true);
        let writes = tracker.writes();
        other.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        tracker.read_exact(&mut heard).await.unwrap();
        assert_eq!(writes.mark(), 0);
        tracker.write_all(b"and back").await.unwrap();
        assert_eq!(writes.mark(), 1);
        assert!(may_have_been_sent(1, 0, writes.mark()) && !may_have_been_sent(1, 1, writes.mark()));
    }

    #[tokio::test]
    async fn unencrypted_frames_show_which_streams_were_opened() {
        let (one, _other) = tokio::io::duplex(1 << 10);
        let mut tracker = StreamTracker::new(one, true);
        let writes = tracker.writes();
        tracker.write_all(&client_bytes(&[(4, 0, 6)])).await.unwrap();
        let before = writes.mark();
        tracker
            .write_all(&server_bytes(&[(8, 0, 4), (HEADERS, 3, 20), (0, 3, 100), (6, 0, 8)]))
            .await
            .unwrap();
        let left = |stream| may_have_been_sent(stream, before, writes.mark());
        assert!(left(1) && left(3) && !left(5), "{:x}", writes.mark());
        // An incomplete frame head opens no stream.
        let next = server_bytes(&[(HEADERS, 5, 20)]);
        let (most, rest) = next.split_at(8);
        tracker.write_all(most).await.unwrap();
        assert!(!may_have_been_sent(5, before, writes.mark()));
        tracker.write_all(rest).await.unwrap();
        assert!(may_have_been_sent(5, before, writes.mark()));
    }

    /// A writer that, like TLS, splits a write into records and fails at one of them.
    struct Splitting<T> {
        inner: T,
        records: usize,
    }

    impl<T: AsyncWrite + Unpin> AsyncWrite for Splitting<T> {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let this = self.get_mut();
            for record in buf.chunks(16) {
                let Some(left) = this.records.checked_sub(1) else {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                };
                this.records = left;
                assert!(Pin::new(&mut this.inner).poll_write(cx, record)?.is_ready());
            }
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A call counted as not sent after such a write, and was sent again to another endpoint.
    #[tokio::test]
    async fn a_write_that_fails_half_way_below_tls_may_have_sent_all_of_its_streams() {
        for (records, vectored, sent) in [(0, false, false), (1, false, true), (1, true, true)] {
            let (one, _other) = tokio::io::duplex(1 << 10);
            let socket = CountingSocket::new(one);
            let written = socket.written();
            let tls = Splitting { inner: socket, records: 100 };
            let mut tracker = StreamTracker::new(tls, true).above(written);
            let writes = tracker.writes();
            tracker.write_all(&client_bytes(&[(4, 0, 6)])).await.unwrap();
            let before = writes.mark();
            tracker.inner.records = records;
            let calls = server_bytes(&[(HEADERS, 1, 20), (HEADERS, 3, 20)]);
            let failed = match vectored {
                true => tracker.write_vectored(&[IoSlice::new(&calls)]).await,
                false => tracker.write(&calls).await,
            };
            assert!(failed.is_err());
            let left = |stream| may_have_been_sent(stream, before, writes.mark());
            assert_eq!((left(1), left(3), left(5)), (sent, sent, false), "after {records} records");
        }
    }

    /// Returns a frame without a payload.
    fn frame(kind: u8, flags: u8, stream: u8) -> [u8; 9] {
        [0, 0, 0, kind, flags, 0, 0, 0, stream]
    }

    #[tokio::test]
    async fn a_stream_is_open_until_one_side_ends_it() {
        use crate::connection::frames::END_STREAM;
        let (one, mut other) = tokio::io::duplex(1 << 10);
        let mut tracker = StreamTracker::new(one, true);
        let open = tracker.open_streams();
        tracker.write_all(&client_bytes(&[])).await.unwrap();
        let table = [
            ("a request", true, frame(HEADERS, 0, 1), 1),
            ("its end", true, frame(DATA, END_STREAM, 1), 1),
            ("another", true, frame(HEADERS, END_STREAM, 3), 2),
            ("the head of a response", false, frame(HEADERS, 0, 1), 2),
            ("its end", false, frame(HEADERS, END_STREAM, 1), 1),
            ("the rest of its request is rejected", false, frame(RST_STREAM, 0, 1), 1),
            ("a call is cancelled", true, frame(RST_STREAM, 0, 3), 0),
            ("its late response", false, frame(DATA, END_STREAM, 3), 0),
            ("a third", true, frame(HEADERS, 0, 5), 1),
            ("its trailers", true, frame(HEADERS, END_STREAM, 5), 1),
            ("it is refused", false, frame(RST_STREAM, 0, 5), 0),
        ];
        for (story, ours, bytes, expected) in table {
            if ours {
                tracker.write_all(&bytes).await.unwrap();
            } else {
                other.write_all(&bytes).await.unwrap();
                tracker.read_exact(&mut [0; 9]).await.unwrap();
            }
            assert_eq!((tracker.open.len(), open.any()), (expected, expected > 0), "{story}");
        }
    }

    #[tokio::test]
    async fn liveness_responses_and_settings_are_distinguished() {
        const PING: u8 = 6;
        let (one, mut other) = tokio::io::duplex(1 << 10);
        let mut tracker = StreamTracker::new(one, true);
        let reads = tracker.reads();
        type Frames = &'static [(u8, u32, usize)];
        let table: [(Frames, [bool; 3]); 5] = [
            (&[(PING, 0, 8)], [true, false, false]),
            (&[(SETTINGS, 0, 6), (PING, 0, 8)], [true, false, true]),
            (&[(HEADERS, 1, 30)], [true, true, false]),
            (&[(DATA, 1, 100)], [true, true, false]),
            (&[(0xff, 1, 3)], [true, false, false]),
        ];
        for (frames, expected) in table {
            assert_eq!(reads.take(), FrameKinds(0));
            let sent = server_bytes(frames);
            other.write_all(&sent).await.unwrap();
            tracker.read_exact(&mut vec![0; sent.len()]).await.unwrap();
            let arrived = reads.take();
            let found = [arrived.any(), arrived.has_response(), arrived.has_settings()];
            assert_eq!(found, expected, "{frames:?}");
        }
    }
}
