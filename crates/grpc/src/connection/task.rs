//! The task of one endpoint: performs what [`step`] decides, and drives the endpoint's connections.
//!
//! Ends when the endpoint is closed. When the balancer is gone, the task finishes the open calls,
//! without a deadline, because their callers are still reading.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dogwatch_core::ErrorChain;
use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, warn};

use super::backend::{Backend, ConnectionState};
use super::connector::{Connector, NewConnection};
use super::error::ConnectionError;
use super::health;
use super::session::{Ended, Session};
use super::state::{Action, DesiredState, Input, Phase, Timing, step};
use crate::random;

type ConnectFuture = Pin<Box<dyn Future<Output = Result<NewConnection, ConnectionError>> + Send>>;

/// Runs one endpoint. `changed` is notified whenever its status changes.
///
/// User code runs in here, such as certificate verifiers. If it panics, the connections are closed
/// and the endpoint starts again after a backoff.
pub(crate) async fn run(
    backend: Arc<Backend>,
    desired_updates: watch::Receiver<DesiredState>,
    connector: Arc<Connector>,
    timing: Arc<Timing>,
    changed: Arc<Notify>,
) {
    let mut panics = 0;
    loop {
        let mut worker = Worker {
            backend: Arc::clone(&backend),
            connector: Arc::clone(&connector),
            timing: Arc::clone(&timing),
            changed: Arc::clone(&changed),
            phase: Phase::Idle,
            connections: Connections::default(),
        };
        let desired_updates = desired_updates.clone();
        let running = async move { worker.run(desired_updates).await };
        // Only the status outlives the worker, and it is overwritten: a panic leaves nothing half
        // done.
        if AssertUnwindSafe(running).catch_unwind().await.is_ok() {
            return;
        }
        panics += 1;
        error!(endpoint = %backend.id, panics, "the task of an endpoint panicked and is restarted");
        backend.update(|it| {
            (it.state, it.link, it.ready_since) = (ConnectionState::Backoff, None, None);
            it.error = Some("the endpoint's task panicked".into());
        });
        changed.notify_one();
        sleep(timing.backoff.wait(panics, random::unit())).await;
    }
}

/// The futures that the task polls.
#[derive(Default)]
struct Connections {
    connecting: Option<ConnectFuture>,
    live: Option<Session>,
    /// Connections on which the peer accepts no more calls; kept until their calls have ended.
    retired: Vec<Session>,
    health: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

enum ConnectionEvent {
    Connected(Result<NewConnection, ConnectionError>),
    Ended(Ended),
}

struct Worker {
    backend: Arc<Backend>,
    connector: Arc<Connector>,
    timing: Arc<Timing>,
    changed: Arc<Notify>,
    phase: Phase,
    connections: Connections,
}

impl Connections {
    /// Drives all connections; `calls` is the number of calls on them. `changed` is notified when a
    /// peer accepts calls again, or no longer accepts any.
    fn poll(&mut self, cx: &mut Context<'_>, calls: u32, changed: &Notify) -> Poll<ConnectionEvent> {
        let concurrent = calls > 1;
        self.retired.retain_mut(|it| it.poll(cx, concurrent).is_pending());
        if let Some(live) = &mut self.live {
            let ended = live.poll(cx, concurrent);
            if live.take_capacity_change() {
                changed.notify_one();
            }
            if let Poll::Ready(ended) = ended {
                self.health = None;
                self.retired.extend(self.live.take().filter(|_| ended.retired));
                return Poll::Ready(ConnectionEvent::Ended(ended));
            }
        }
        if let Some(Poll::Ready(answer)) = self.connecting.as_mut().map(|it| it.as_mut().poll(cx)) {
            self.connecting = None;
            return Poll::Ready(ConnectionEvent::Connected(answer));
        }
        if let Some(Poll::Ready(())) = self.health.as_mut().map(|it| it.as_mut().poll(cx)) {
            self.health = None;
        }
        Poll::Pending
    }
}

impl Worker {
    async fn run(&mut self, mut desired_updates: watch::Receiver<DesiredState>) {
        let desired = *desired_updates.borrow_and_update();
        self.apply(Input::Desired(desired));
        let mut orphaned = false;
        while self.phase != Phase::Closed {
            let until = match self.phase {
                Phase::Backoff { until, .. } => Some(until),
                Phase::Draining { until, .. } => until,
                _ => None,
            };
            let closes_when_idle = matches!(
                self.phase,
                Phase::Draining { desired: DesiredState::Drain | DesiredState::Remove { .. }, .. }
            );
            let (connections, load, moved) = (&mut self.connections, &self.backend.load, &self.changed);
            let input = tokio::select! {
                biased;
                event = poll_fn(|cx| connections.poll(cx, load.in_flight(), moved)) => self.on_event(event),
                changed = desired_updates.changed(), if !orphaned => match changed {
                    Ok(()) => Input::Desired(*desired_updates.borrow_and_update()),
                    Err(_) => {
                        orphaned = true;
                        Input::Desired(DesiredState::Remove { deadline: false })
                    }
                },
                () = self.backend.load.wait_until_idle(), if closes_when_idle => Input::NoCalls,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => Input::Tick,
            };
            self.apply(input);
        }
    }

    /// Records an event of a connection, and returns the corresponding input.
    fn on_event(&mut self, event: ConnectionEvent) -> Input {
        let (error, input) = match event {
            ConnectionEvent::Connected(Ok(opened)) => {
                self.connected(opened);
                return Input::Connected;
            }
            ConnectionEvent::Connected(Err(error)) => (error, Input::Failed),
            ConnectionEvent::Ended(Ended { error, too_many_pings, .. }) => {
                if let Some(slowed) = too_many_pings {
                    self.connector.complaints.add(slowed);
                    warn!(
                        endpoint = %self.backend.id,
                        "the server closed the connection with too_many_pings; new connections of the channel \
                         are pinged half as often"
                    );
                }
                (error, Input::Lost)
            }
        };
        let line: Arc<str> = ErrorChain(&error).to_string().into();
        debug!(endpoint = %self.backend.id, error = &*line, "no connection");
        self.backend.update(|it| {
            it.link = None;
            it.ready_since = None;
            it.error = Some(line);
        });
        input
    }

    fn connected(&mut self, opened: NewConnection) {
        let NewConnection { link, session, round_trip } = opened;
        debug!(endpoint = %self.backend.id, peer = %link.peer(), ?round_trip, "connected");
        let watched = self.connector.health.clone();
        self.backend.update(|it| {
            it.link = Some(Arc::clone(&link));
            it.ready_since = Some(Instant::now());
            it.healthy = watched.is_none();
            it.health_pending = watched.is_some();
            it.error = None;
        });
        self.connections.live = Some(session);
        self.connections.health = watched.map(|service| {
            let authority = self.connector.authority.clone().unwrap_or_else(|| link.peer().to_string());
            let (backend, changed) = (Arc::clone(&self.backend), Arc::clone(&self.changed));
            let report = move |healthy| {
                backend.update(|it| (it.healthy, it.health_pending) = (healthy, false));
                changed.notify_one();
            };
            let secure = self.connector.tls.is_some();
            Box::pin(health::watch(link, (authority, secure), service, report)) as Pin<Box<_>>
        });
    }

    /// Applies an input, performs the action, and notifies the balancer.
    fn apply(&mut self, input: Input) {
        let before = ConnectionState::of(self.phase);
        let (phase, action) = step(self.phase, input, Instant::now(), &self.timing, random::unit());
        self.phase = phase;
        match action {
            Action::Nothing => {}
            Action::Dial => {
                let (connector, addresses) = (Arc::clone(&self.connector), self.backend.addresses());
                let connecting = async move { connector.open(&addresses).await };
                self.connections.connecting = Some(Box::pin(connecting));
            }
            Action::Close => {
                self.connections.connecting = None;
                self.connections.live = None;
                self.connections.health = None;
                if phase == Phase::Closed {
                    self.connections.retired.clear();
                }
                self.backend.update(|it| it.link = None);
            }
        }
        let state = ConnectionState::of(phase);
        self.backend.update(|it| it.state = state);
        if before != state || input == Input::Lost {
            self.changed.notify_one();
        }
    }
}
