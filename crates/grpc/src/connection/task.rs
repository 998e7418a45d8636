//! The task of one endpoint: performs what [`step`] decides, and drives the endpoint's connections.
//!
//! Ends when the endpoint is closed. When the balancer is gone, the task finishes the open calls,
//! without a deadline, because their callers are still reading.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, warn};

use super::backend::{Backend, State};
use super::connector::{Dialler, Opened};
use super::error::ConnectionError;
use super::health;
use super::session::{Ended, Session};
use super::state::{Action, Input, Phase, Timing, Wish, step};
use crate::random;

type Dialling = Pin<Box<dyn Future<Output = Result<Opened, ConnectionError>> + Send>>;

/// Runs one endpoint. `changed` is notified whenever its status changes.
///
/// User code runs in here, such as certificate verifiers. If it panics, the connections are closed
/// and the endpoint starts again after a backoff.
pub(crate) async fn run(
    backend: Arc<Backend>,
    wishes: watch::Receiver<Wish>,
    dialler: Arc<Dialler>,
    timing: Arc<Timing>,
    changed: Arc<Notify>,
) {
    let mut panics = 0;
    loop {
        let mut worker = Worker {
            backend: Arc::clone(&backend),
            dialler: Arc::clone(&dialler),
            timing: Arc::clone(&timing),
            changed: Arc::clone(&changed),
            phase: Phase::Idle,
            connections: Connections::default(),
        };
        let wishes = wishes.clone();
        let life = async move { worker.run(wishes).await };
        // Only the status outlives the worker, and it is overwritten: a panic leaves nothing half
        // done.
        if AssertUnwindSafe(life).catch_unwind().await.is_ok() {
            return;
        }
        panics += 1;
        error!(endpoint = %backend.id, panics, "the task of an endpoint panicked and is restarted");
        backend.stand(|it| {
            (it.state, it.link, it.ready_since) = (State::Backoff, None, None);
            it.error = Some("the endpoint's task panicked".into());
        });
        changed.notify_one();
        sleep(timing.backoff.wait(panics, random::unit())).await;
    }
}

/// The futures that the task polls.
#[derive(Default)]
struct Connections {
    dialling: Option<Dialling>,
    live: Option<Session>,
    /// Connections on which the peer accepts no more calls; kept until their calls have ended.
    retired: Vec<Session>,
    health: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

enum Happened {
    Dialled(Result<Opened, ConnectionError>),
    Ended(Ended),
}

struct Worker {
    backend: Arc<Backend>,
    dialler: Arc<Dialler>,
    timing: Arc<Timing>,
    changed: Arc<Notify>,
    phase: Phase,
    connections: Connections,
}

impl Connections {
    /// Drives all connections; `calls` is the number of calls on them. `changed` is notified when a
    /// peer accepts calls again, or no longer accepts any.
    fn poll(&mut self, cx: &mut Context<'_>, calls: u32, changed: &Notify) -> Poll<Happened> {
        let concurrent = calls > 1;
        self.retired.retain_mut(|it| it.poll(cx, concurrent).is_pending());
        if let Some(live) = &mut self.live {
            let ended = live.poll(cx, concurrent);
            if live.take_room_change() {
                changed.notify_one();
            }
            if let Poll::Ready(ended) = ended {
                self.health = None;
                self.retired.extend(self.live.take().filter(|_| ended.retired));
                return Poll::Ready(Happened::Ended(ended));
            }
        }
        if let Some(Poll::Ready(answer)) = self.dialling.as_mut().map(|it| it.as_mut().poll(cx)) {
            self.dialling = None;
            return Poll::Ready(Happened::Dialled(answer));
        }
        if let Some(Poll::Ready(())) = self.health.as_mut().map(|it| it.as_mut().poll(cx)) {
            self.health = None;
        }
        Poll::Pending
    }
}

impl Worker {
    async fn run(&mut self, mut wishes: watch::Receiver<Wish>) {
        let wish = *wishes.borrow_and_update();
        self.take(Input::Wish(wish));
        let mut orphaned = false;
        while self.phase != Phase::Closed {
            let until = match self.phase {
                Phase::Backoff { until, .. } => Some(until),
                Phase::Draining { until, .. } => until,
                _ => None,
            };
            let closes_when_quiet =
                matches!(self.phase, Phase::Draining { wish: Wish::Finish | Wish::Leave { .. }, .. });
            let (connections, load, moved) = (&mut self.connections, &self.backend.load, &self.changed);
            let input = tokio::select! {
                biased;
                happened = poll_fn(|cx| connections.poll(cx, load.in_flight(), moved)) => self.happened(happened),
                changed = wishes.changed(), if !orphaned => match changed {
                    Ok(()) => Input::Wish(*wishes.borrow_and_update()),
                    Err(_) => {
                        orphaned = true;
                        Input::Wish(Wish::Leave { hurry: false })
                    }
                },
                () = self.backend.load.quiet(), if closes_when_quiet => Input::Quiet,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => Input::Tick,
            };
            self.take(input);
        }
    }

    /// Records an event of a connection, and returns the corresponding input.
    fn happened(&mut self, happened: Happened) -> Input {
        let (error, input) = match happened {
            Happened::Dialled(Ok(opened)) => {
                self.connected(opened);
                return Input::Connected;
            }
            Happened::Dialled(Err(error)) => (error, Input::Failed),
            Happened::Ended(Ended { error, too_many_pings, .. }) => {
                if let Some(slowed) = too_many_pings {
                    self.dialler.complaints.add(slowed);
                    warn!(
                        endpoint = %self.backend.id,
                        "the server closed the connection with too_many_pings; new connections of the channel \
                         are pinged half as often"
                    );
                }
                (error, Input::Lost)
            }
        };
        let line: Arc<str> = error.line().into();
        debug!(endpoint = %self.backend.id, error = &*line, "no connection");
        self.backend.stand(|it| {
            it.link = None;
            it.ready_since = None;
            it.error = Some(line);
        });
        input
    }

    fn connected(&mut self, opened: Opened) {
        let Opened { link, session, round_trip } = opened;
        debug!(endpoint = %self.backend.id, peer = %link.peer(), ?round_trip, "connected");
        let watched = self.dialler.health.clone();
        self.backend.stand(|it| {
            it.link = Some(Arc::clone(&link));
            it.ready_since = Some(Instant::now());
            it.healthy = watched.is_none();
            it.asked = watched.is_some();
            it.error = None;
        });
        self.connections.live = Some(session);
        self.connections.health = watched.map(|service| {
            let authority = self.dialler.authority.clone().unwrap_or_else(|| link.peer().to_string());
            let (backend, changed) = (Arc::clone(&self.backend), Arc::clone(&self.changed));
            let report = move |healthy| {
                backend.stand(|it| (it.healthy, it.asked) = (healthy, false));
                changed.notify_one();
            };
            let secure = self.dialler.tls.is_some();
            Box::pin(health::watch(link, (authority, secure), service, report)) as Pin<Box<_>>
        });
    }

    /// Applies an input, performs the action, and notifies the balancer.
    fn take(&mut self, input: Input) {
        let before = State::of(self.phase);
        let (phase, action) = step(self.phase, input, Instant::now(), &self.timing, random::unit());
        self.phase = phase;
        match action {
            Action::Nothing => {}
            Action::Dial => {
                let (dialler, addresses) = (Arc::clone(&self.dialler), self.backend.addresses());
                let dialling = async move { dialler.open(&addresses).await };
                self.connections.dialling = Some(Box::pin(dialling));
            }
            Action::Close => {
                self.connections.dialling = None;
                self.connections.live = None;
                self.connections.health = None;
                if phase == Phase::Closed {
                    self.connections.retired.clear();
                }
                self.backend.stand(|it| it.link = None);
            }
        }
        let state = State::of(phase);
        self.backend.stand(|it| it.state = state);
        if before != state || input == Input::Lost {
            self.changed.notify_one();
        }
    }
}
