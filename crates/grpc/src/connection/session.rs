//! One HTTP/2 connection, from its first answered PING to its end.
//!
//! Calls use `h2` directly: a call queues its frames on the connection under that library's own
//! short lock and is woken only by the connection's task. hyper's client would add a channel, a
//! spawned task and two wake-ups to each call.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong, Reason};
use tokio::time::{Instant, Sleep, sleep_until};

use super::driver::ConnectionDriver;
use super::error::ConnectionError;
use super::keep_alive::{KeepAliveAction, KeepAliveState};
use super::stream_tracker::{OpenStreams, ReadFrames, WriteProgress};

/// The handle of a connection that calls use.
pub(crate) struct Link {
    sender: SendRequest<Bytes>,
    writes: WriteProgress,
    peer: SocketAddr,
    /// The number of concurrent streams that the peer allows, by its last settings.
    max_streams: AtomicUsize,
    /// The number of these streams that are not available to calls.
    reserved: usize,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Link {
    /// Creates the handle of a connection to `peer`, with `reserved` streams that are not available
    /// to calls.
    pub(crate) fn new(
        sender: SendRequest<Bytes>,
        writes: WriteProgress,
        peer: SocketAddr,
        reserved: usize,
    ) -> Self {
        let max_streams = AtomicUsize::new(sender.current_max_send_streams());
        Self { sender, writes, peer, max_streams, reserved }
    }

    /// Returns a handle to open one stream with.
    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// Returns the current write mark; an equal mark later means that nothing was sent in between.
    pub(crate) fn write_mark(&self) -> u64 {
        self.writes.mark()
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the number of concurrent calls that the peer allows. Further calls are queued on the
    /// connection.
    pub(crate) fn max_calls(&self) -> usize {
        self.max_streams.load(Ordering::Relaxed).saturating_sub(self.reserved)
    }

    /// Reads the settings of the peer. Returns true if it accepts calls again, or no longer accepts
    /// any.
    fn update_max_calls(&self) -> bool {
        let before = self.max_calls();
        self.max_streams.store(self.sender.current_max_send_streams(), Ordering::Relaxed);
        (before == 0) != (self.max_calls() == 0)
    }
}

/// The driver of a connection, owned by the endpoint's task: the connection makes progress only
/// while it is polled. Dropping it closes the connection and fails its calls.
pub(crate) struct Session {
    driver: ConnectionDriver,
    link: Arc<Link>,
    /// Reports when the peer accepts no more streams.
    sender: SendRequest<Bytes>,
    reads: ReadFrames,
    /// The calls that the peer has to answer on this connection, not on an earlier one.
    open: OpenStreams,
    pings: PingPong,
    /// `None` if keep-alive is off.
    keep_alive: Option<KeepAliveState>,
    timer: Pin<Box<Sleep>>,
    /// Set when an event may move the next ping.
    check: bool,
    /// Set while no ping is due before a call is open, so that the timer is ignored.
    timer_idle: bool,
    /// The peer accepts calls again, or no longer accepts any.
    capacity_changed: bool,
    /// The peer accepts no more streams; only open calls continue.
    retired: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("peer", &self.link.peer)
            .field("retired", &self.retired)
            .finish_non_exhaustive()
    }
}

/// The end of a connection for new calls.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) error: ConnectionError,
    /// True if open calls continue while the session is polled; otherwise they have ended too.
    pub(crate) retired: bool,
    /// Set if the peer closed the connection because of our pings: how many times their interval
    /// had been doubled.
    pub(crate) too_many_pings: Option<u32>,
}

impl Session {
    /// Creates the driver of a connection that has just answered its first PING.
    pub(crate) fn new(
        driver: ConnectionDriver,
        link: Arc<Link>,
        (reads, open): (ReadFrames, OpenStreams),
        pings: PingPong,
        keep_alive: Option<KeepAliveState>,
    ) -> Self {
        let (sender, timer) = (link.sender(), Box::pin(sleep_until(Instant::now())));
        Self {
            driver,
            link,
            sender,
            reads,
            open,
            pings,
            keep_alive,
            timer,
            check: true,
            timer_idle: true,
            capacity_changed: false,
            retired: false,
        }
    }

    /// Drives the connection; `concurrent`: there are several calls, so that coalescing their
    /// frames pays. Ready when the connection has ended, and once when it is retired; after that it
    /// may be polled further.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, concurrent: bool) -> Poll<Ended> {
        let address = self.link.peer;
        let end = self.driver.poll(cx, concurrent);
        self.record_reads();
        if let Poll::Ready(end) = end {
            // A reset of the socket may follow the peer's GOAWAY so closely that the connection
            // ends with the reset.
            let go_away = self.sender.poll_ready(cx);
            let mut too_many_pings = matches!(&go_away, Poll::Ready(Err(it)) if is_too_many_pings(it));
            let error = match end {
                Ok(()) => ConnectionError::Closed { address },
                Err(source) => {
                    too_many_pings |= is_too_many_pings(&source);
                    ConnectionError::Http2 { address, source }
                }
            };
            return Poll::Ready(self.ended(error, false, too_many_pings));
        }
        if let Poll::Ready(silent) = self.poll_keep_alive(cx) {
            return Poll::Ready(self.ended(silent, false, false));
        }
        if !self.retired
            && let Poll::Ready(Err(error)) = self.sender.poll_ready(cx)
        {
            self.retired = true;
            let going = ConnectionError::GoingAway { address };
            return Poll::Ready(self.ended(going, true, is_too_many_pings(&error)));
        }
        Poll::Pending
    }

    /// Returns true if the peer accepts calls again, or no longer accepts any, since the last call
    /// of this function.
    pub(crate) fn take_capacity_change(&mut self) -> bool {
        std::mem::take(&mut self.capacity_changed)
    }

    fn ended(&self, error: ConnectionError, retired: bool, too_many_pings: bool) -> Ended {
        let slowed = self.keep_alive.as_ref().map_or(0, KeepAliveState::slowed);
        Ended { error, retired, too_many_pings: too_many_pings.then_some(slowed) }
    }

    fn record_reads(&mut self) {
        let arrived = self.reads.take();
        if !arrived.any() {
            return;
        }
        if let Some(keep_alive) = &mut self.keep_alive {
            // A response may allow a ping that is due before the timer.
            self.check |= keep_alive.read(arrived.has_response(), Instant::now());
        }
        if arrived.has_settings() {
            self.capacity_changed |= self.link.update_max_calls();
        }
    }

    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        let busy = self.open.any();
        let Some(keep_alive) = &mut self.keep_alive else {
            return Poll::Pending;
        };
        if keep_alive.awaits_pong() && matches!(self.pings.poll_pong(cx), Poll::Ready(Ok(_))) {
            keep_alive.ponged();
            self.check = true;
        }
        self.check |= self.timer_idle && busy;
        loop {
            if !self.check {
                if self.timer_idle {
                    return Poll::Pending;
                }
                ready!(self.timer.as_mut().poll(cx));
            }
            let now = Instant::now();
            (self.check, self.timer_idle) = (false, false);
            match keep_alive.next(busy, now) {
                KeepAliveAction::Wait(until) => self.timer.as_mut().reset(until),
                KeepAliveAction::Idle => self.timer_idle = true,
                KeepAliveAction::Ping => {
                    keep_alive.pinged(now);
                    // Fails only when the connection ends, which the next poll reports.
                    let _ = self.pings.send_ping(Ping::opaque());
                    // Registers the waker for the pong.
                    let _ = self.pings.poll_pong(cx);
                    self.check = true;
                }
                KeepAliveAction::GiveUp => {
                    let (address, timeout) = (self.link.peer, keep_alive.timeout());
                    return Poll::Ready(ConnectionError::Silent { address, timeout });
                }
            }
        }
    }
}

/// Returns true if the peer complained about too many pings. Other complaints have the same reason
/// code with other debug data, and `h2` itself uses the code too.
fn is_too_many_pings(error: &h2::Error) -> bool {
    error.is_remote()
        && error.is_go_away()
        && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
        // `h2` exposes the peer's debug data only in its message.
        && error.to_string().contains("too_many_pings")
}
