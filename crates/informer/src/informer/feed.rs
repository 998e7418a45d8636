//! One source of an informer: its reflector, the queue to the store, and restarts after the
//! collection was gone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dogwatch_core::Object;
use futures_core::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::delta::Delta;
use crate::health::{HealthState, Problem, ProblemKind};
use crate::health_watch::{ReflectorHealth, final_health};
use crate::history::SyncHistory;
use crate::list_watch::ListWatch;
use crate::queue::{DeltaQueue, DeltaReceiver, QueueGauge};
use crate::reflector::{Reflector, ReflectorEnded, ReflectorOptions};
use crate::rewind_count::RewindCount;

/// Feeds the store with one collection, or with one namespace of it.
pub(super) struct Feed<T> {
    source: Arc<dyn ListWatch<T>>,
    options: ReflectorOptions<T>,
    /// The capacity of the queue.
    capacity: usize,
    /// The count that its reflectors share with the store.
    rewinds: RewindCount,
    /// The history that its reflectors write.
    history: SyncHistory,
    /// The length of the queue.
    queue: QueueGauge<T>,
    state: State<T>,
    /// The health of its reflector, or of the last one.
    health: ReflectorHealth,
}

enum State<T> {
    Ready(Box<Reflector<T>>, DeltaReceiver<T>),
    Running(DeltaReceiver<T>, JoinHandle<ReflectorEnded>),
    /// The collection is gone; it is asked for again at this time.
    Gone(Instant),
    /// The reflector has ended for good.
    Over,
}

/// The way in which a reflector ended.
#[derive(Debug)]
pub(super) enum ReflectorEnd {
    /// It returned.
    Returned(ReflectorEnded),
    /// It panicked. From then on, its health reports the panic as the problem.
    Panicked,
    /// The runtime is shutting down and has dropped its task. Nothing is restarted.
    Cancelled,
}

impl<T: Object> Feed<T> {
    pub(super) fn new(
        source: Arc<dyn ListWatch<T>>,
        options: ReflectorOptions<T>,
        capacity: usize,
        rewinds: RewindCount,
        history: SyncHistory,
    ) -> Self {
        let (sender, receiver) = DeltaQueue::channel(capacity);
        let reflector = Reflector::new(Arc::clone(&source), options.clone(), sender);
        let reflector = reflector.counting_rewinds(rewinds.clone()).recording(history.clone());
        let (health, queue) = (reflector.published(), reflector.queue());
        let state = State::Ready(Box::new(reflector), receiver);
        Self { source, options, capacity, rewinds, history, queue, state, health }
    }

    /// Returns a reader of the length of the queue, until [`Self::restart`] opens another one.
    pub(super) fn queue(&self) -> QueueGauge<T> {
        self.queue.clone()
    }

    /// Returns the health of its reflector, until [`Self::restart`] starts another one.
    pub(super) fn health(&self) -> ReflectorHealth {
        self.health.clone()
    }

    /// Starts the reflector on the current runtime.
    pub(super) fn start(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Ready(reflector, receiver) => {
                State::Running(receiver, spawn(Box::pin(reflector.run().in_current_span())))
            }
            other => other,
        };
    }

    /// Takes waiting deltas. Returns `false` if the reflector has ended.
    pub(super) fn poll_recv(
        &mut self,
        batch: &mut Vec<Delta<T>>,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        match &mut self.state {
            // Dropping the future loses nothing, and its waker stays registered.
            State::Running(receiver, _) => pin!(receiver.recv_batch(batch, max)).poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Returns the number of waiting deltas.
    pub(super) fn depth(&self) -> usize {
        match &self.state {
            State::Running(receiver, _) => receiver.depth(),
            _ => 0,
        }
    }

    /// Waits for the end of the reflector, and returns how it ended.
    pub(super) async fn ended(&mut self) -> ReflectorEnd {
        let State::Running(_, task) = std::mem::replace(&mut self.state, State::Over) else {
            return ReflectorEnd::Cancelled;
        };
        match task.await {
            Ok(ended) => ReflectorEnd::Returned(ended),
            Err(error) if error.is_cancelled() => ReflectorEnd::Cancelled,
            Err(error) => {
                let message = format!("the reflector of {} failed: {error}", self.source.resource().plural);
                let mut health = self.health.borrow().clone();
                let kind = ProblemKind::Other;
                health.problem = Some(Problem { kind, message, since: Instant::now(), count: 1 });
                self.health = final_health(health);
                ReflectorEnd::Panicked
            }
        }
    }

    /// Resets the number of undecodable objects, because all objects were taken for deleted.
    pub(super) fn clear_unreadable(&mut self) {
        let mut health = self.health.borrow().clone();
        if health.undecodable > 0 {
            health.undecodable = 0;
            self.health = final_health(health);
        }
    }

    /// Schedules a restart at that time.
    pub(super) fn schedule_restart(&mut self, time: Instant) {
        let mut health = self.health.borrow().clone();
        if health.state != HealthState::NotServed {
            health.state = HealthState::Retrying { since: Instant::now(), attempts: 1, next: time };
            self.health = final_health(health);
        }
        self.state = State::Gone(time);
    }

    /// Returns the time of the scheduled restart.
    pub(super) fn restart_at(&self) -> Option<Instant> {
        match self.state {
            State::Gone(until) => Some(until),
            _ => None,
        }
    }

    /// Restarts with a new reflector, and returns its health.
    pub(super) fn restart(&mut self) -> ReflectorHealth {
        let (sender, receiver) = DeltaQueue::channel(self.capacity);
        let reflector = Reflector::new(Arc::clone(&self.source), self.options.clone(), sender);
        let reflector = reflector.counting_rewinds(self.rewinds.clone()).recording(self.history.clone());
        self.queue = reflector.queue();
        let reflector = reflector.after(self.health.borrow().clone());
        self.health = reflector.published();
        self.state = State::Ready(Box::new(reflector), receiver);
        self.start();
        self.health()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Stops the reflector and waits until it has ended.
    pub(super) async fn stop(self) {
        if let State::Running(receiver, task) = self.state {
            drop(receiver);
            if let Err(error) = task.await
                && !error.is_cancelled()
            {
                tracing::error!(%error, "a reflector ended with a panic");
            }
        }
    }
}

/// Spawns a reflector. Not generic over the future, since the runtime's part of a task is compiled
/// for each type of future.
fn spawn(reflector: BoxFuture<'static, ReflectorEnded>) -> JoinHandle<ReflectorEnded> {
    tokio::spawn(reflector)
}
