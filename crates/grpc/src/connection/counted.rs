//! A socket that says what was written to it.
//!
//! A call that was queued on a connection which then broke may be sent again elsewhere if, and only if, nothing of it has left. HTTP/2
//! libraries do not tell; the socket does, or TLS above it: there it is read which streams were begun. Where that cannot be read, whatever
//! was queued before something was written counts as sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a client of HTTP/2 says first (RFC 9113, section 3.4); what begins otherwise cannot be read here.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame's length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// The type of the frame that begins a stream.
const HEADERS: u8 = 1;
/// Set in a reading of streams, clear in one of writes.
const STREAMS: u64 = 1 << 63;

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

/// A socket whose writes are noted. Of those that are not read, the attempt is: one that failed half-way counts too.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    inner: T,
    writes: Writes,
    frames: Frames,
}

/// Where in the frames of a connection its socket stands.
#[derive(Debug)]
enum Frames {
    /// So many bytes of the preface were taken.
    Preface(usize),
    /// The head of a frame, as far as it was taken.
    Head([u8; FRAME_HEAD], usize),
    /// So many bytes of a frame are still to come.
    Payload(usize),
    /// It is not HTTP/2 in the clear.
    Unreadable,
}

impl Frames {
    /// Goes over bytes that were taken. The highest stream that was begun in them, if one was.
    fn pass(&mut self, mut bytes: &[u8]) -> Option<u32> {
        let mut begun = None;
        while !bytes.is_empty() {
            let taken = match self {
                Self::Unreadable => return begun,
                Self::Preface(at) => {
                    let count = bytes.len().min(PREFACE.len() - *at);
                    let is_preface = bytes[..count] == PREFACE[*at..*at + count];
                    *self = match *at + count {
                        _ if !is_preface => Self::Unreadable,
                        at if at < PREFACE.len() => Self::Preface(at),
                        _ => Self::Head([0; FRAME_HEAD], 0),
                    };
                    count
                }
                Self::Head(head, at) => {
                    let count = bytes.len().min(FRAME_HEAD - *at);
                    head[*at..*at + count].copy_from_slice(&bytes[..count]);
                    *at += count;
                    if *at == FRAME_HEAD {
                        let [one, two, three, kind, _, stream @ ..] = *head;
                        let size = u32::from_be_bytes([0, one, two, three]) as usize;
                        if kind == HEADERS {
                            // One with trailers is of a stream that was begun before.
                            begun = begun.max(Some(u32::from_be_bytes(stream) & !(1 << 31)));
                        }
                        *self = Self::after(size);
                    }
                    count
                }
                Self::Payload(left) => {
                    let count = bytes.len().min(*left);
                    *self = Self::after(*left - count);
                    count
                }
            };
            bytes = &bytes[taken..];
        }
        begun
    }

    /// With so many bytes of a frame to come.
    fn after(left: usize) -> Self {
        if left == 0 { Self::Head([0; FRAME_HEAD], 0) } else { Self::Payload(left) }
    }
}

impl<T> Counted<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, writes: Writes::default(), frames: Frames::Preface(0) }
    }

    pub(crate) fn writes(&self) -> Writes {
        self.writes.clone()
    }

    /// Notes that bytes are about to be written, where nobody can tell what they are. The first ones that a connection has to say are
    /// always noted: they may be anything.
    fn attempt(&self) {
        if matches!(self.frames, Frames::Unreadable | Frames::Preface(_)) {
            self.writes.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes which bytes were taken.
    fn took(&mut self, bytes: &[u8]) {
        if let Some(stream) = self.frames.pass(bytes) {
            // Streams are begun in the order of their numbers.
            self.writes.0.fetch_max(STREAMS | u64::from(stream), Ordering::Release);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
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
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What a client says first, and then frames of these types, streams and sizes.
    fn spoken(frames: &[(u8, u32, usize)]) -> Vec<u8> {
        let mut wire = PREFACE.to_vec();
        for (kind, stream, size) in frames {
            wire.extend(&(*size as u32).to_be_bytes()[1..]);
            wire.extend([*kind, 0xff]);
            wire.extend(stream.to_be_bytes());
            wire.extend(std::iter::repeat_n(1, *size));
        }
        wire
    }

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
        assert!(may_have_left(1, 0, writes.count()) && !may_have_left(1, 1, writes.count()));
    }

    #[tokio::test]
    async fn in_the_clear_it_is_known_which_streams_were_begun() {
        let (one, _other) = tokio::io::duplex(1 << 10);
        let mut counted = Counted::new(one);
        let writes = counted.writes();
        counted.write_all(&spoken(&[(4, 0, 6)])).await.unwrap();
        let before = writes.count();
        counted
            .write_all(&spoken(&[(8, 0, 4), (HEADERS, 3, 20), (0, 3, 100), (6, 0, 8)])[PREFACE.len()..])
            .await
            .unwrap();
        let left = |stream| may_have_left(stream, before, writes.count());
        assert!(left(1) && left(3) && !left(5), "{:x}", writes.count());
        // A head of a frame that is not whole begins nothing.
        let next = &spoken(&[(HEADERS, 5, 20)])[PREFACE.len()..];
        counted.write_all(&next[..FRAME_HEAD - 1]).await.unwrap();
        assert!(!may_have_left(5, before, writes.count()));
        counted.write_all(&next[FRAME_HEAD - 1..]).await.unwrap();
        assert!(may_have_left(5, before, writes.count()));
    }

    proptest! {
        #[test]
        fn frames_are_found_wherever_they_are_cut(
            frames in prop::collection::vec((0u8..10, 1u32..100, 0usize..50), 0..10),
            cuts in prop::collection::vec(1usize..40, 1..20),
        ) {
            let wire = spoken(&frames);
            let (mut state, mut rest, mut last) = (Frames::Preface(0), &wire[..], None);
            let mut cuts = cuts.into_iter().cycle();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                last = state.pass(piece).max(last);
                rest = more;
            }
            prop_assert!(matches!(state, Frames::Head(_, 0)));
            let begun = frames.iter().filter(|it| it.0 == HEADERS).map(|it| it.1).max();
            prop_assert_eq!(last, begun);
        }
    }
}
