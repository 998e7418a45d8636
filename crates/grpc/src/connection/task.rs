//! The task of one endpoint: it performs what [`step`] decides, and moves the endpoint's connections on.
//!
//! It ends when the endpoint is closed. When its balancer is gone, it finishes the calls that are there, without a deadline,
//! because whoever holds them still reads.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::backend::{Backend, State};
use super::error::ConnectionError;
use super::health;
use super::session::{Dialler, Ended, Opened, Session, calmer};
use super::state::{Action, Input, Phase, Timing, Wish, step};
use crate::chance;

type Dialling = Pin<Box<dyn Future<Output = Result<Opened, ConnectionError>> + Send>>;

/// Performs the life of one endpoint. `changed` is notified whenever its standing is another.
pub(crate) async fn run(
    backend: Arc<Backend>,
    wishes: watch::Receiver<Wish>,
    dialler: Arc<Dialler>,
    timing: Arc<Timing>,
    changed: Arc<Notify>,
) {
    let keep_alive = dialler.keep_alive;
    let connections = Connections { dialling: None, live: None, retired: Vec::new(), health: None };
    let mut worker =
        Worker { backend, dialler, timing, changed, phase: Phase::Idle, keep_alive, connections };
    worker.run(wishes).await;
}

/// Everything that moves by being polled.
struct Connections {
    dialling: Option<Dialling>,
    live: Option<Session>,
    /// Connections on which the peer takes no more calls; they last as long as their calls.
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
    keep_alive: Option<(Duration, Duration)>,
    connections: Connections,
}

impl Connections {
    fn poll(&mut self, cx: &mut Context<'_>, company: bool) -> Poll<Happened> {
        self.retired.retain_mut(|it| it.poll(cx, company).is_pending());
        if let Some(Poll::Ready(ended)) = self.live.as_mut().map(|it| it.poll(cx, company)) {
            self.health = None;
            match (&ended, self.live.take()) {
                (Ended::Retired(..), Some(session)) => self.retired.push(session),
                _ => self.live = None,
            }
            return Poll::Ready(Happened::Ended(ended));
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
            let (connections, load) = (&mut self.connections, &self.backend.load);
            let input = tokio::select! {
                biased;
                happened = poll_fn(|cx| connections.poll(cx, load.in_flight() > 1)) => self.happened(happened),
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

    /// Notes what happened to a connection, and says what that means.
    fn happened(&mut self, happened: Happened) -> Input {
        let (error, input) = match happened {
            Happened::Dialled(Ok(opened)) => {
                self.connected(opened);
                return Input::Connected;
            }
            Happened::Dialled(Err(error)) => (error, Input::Failed),
            Happened::Ended(Ended::Gone(error) | Ended::Retired(error, false)) => (error, Input::Lost),
            Happened::Ended(Ended::Annoyed(error) | Ended::Retired(error, true)) => {
                self.keep_alive = self.keep_alive.map(calmer);
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

    /// Takes a step, performs it, and tells whoever balances.
    fn take(&mut self, input: Input) {
        let before = State::of(self.phase);
        let (phase, action) = step(self.phase, input, Instant::now(), &self.timing, chance::unit());
        self.phase = phase;
        match action {
            Action::Nothing => {}
            Action::Dial => {
                let (dialler, keep_alive) = (Arc::clone(&self.dialler), self.keep_alive);
                let addresses = self.backend.addresses();
                let dialling = async move { dialler.open(&addresses, keep_alive).await };
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
