//! One source of an informer: its reflector, the queue between the two, and what happens when the collection is gone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dogwatch_core::Object;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::delta::Delta;
use crate::health::{HealthState, Problem};
use crate::health_watch::{ReflectorHealth, last_word};
use crate::list_watch::ListWatch;
use crate::queue::{DeltaQueue, DeltaReceiver};
use crate::reflector::{Ended, Reflector, ReflectorOptions};

/// What feeds the store with one collection, or with one namespace of it.
pub(super) struct Feed<T> {
    source: Arc<dyn ListWatch<T>>,
    options: ReflectorOptions<T>,
    /// How many deltas may wait.
    capacity: usize,
    state: State<T>,
    /// How its reflector is doing, or how the last one was.
    health: ReflectorHealth,
}

enum State<T> {
    Ready(Box<Reflector<T>>, DeltaReceiver<T>),
    Running(DeltaReceiver<T>, JoinHandle<Ended>),
    /// The collection is gone; it is asked for again then.
    Gone(Instant),
    /// There is nothing more to come.
    Over,
}

/// How a reflector came to its end.
#[derive(Debug)]
pub(super) enum End {
    /// By itself.
    Said(Ended),
    /// By a panic, which is its health's problem from then on.
    Failed,
    /// The runtime is ending and has dropped its task: nobody's fault, and nothing will begin again.
    Cancelled,
}

impl<T: Object> Feed<T> {
    pub(super) fn new(source: Arc<dyn ListWatch<T>>, options: ReflectorOptions<T>, capacity: usize) -> Self {
        let (sender, receiver) = DeltaQueue::channel(capacity);
        let reflector = Reflector::new(Arc::clone(&source), options.clone(), sender);
        let health = reflector.published();
        Self { source, options, capacity, state: State::Ready(Box::new(reflector), receiver), health }
    }

    /// How its reflector is doing, until it is another one: see [`Self::revive`].
    pub(super) fn health(&self) -> ReflectorHealth {
        self.health.clone()
    }

    /// Starts the reflector on the runtime this runs on.
    pub(super) fn start(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Ready(reflector, receiver) => {
                State::Running(receiver, tokio::spawn(reflector.run().in_current_span()))
            }
            other => other,
        };
    }

    /// Takes what waits. `false`: the reflector has ended.
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

    /// How many deltas wait.
    pub(super) fn depth(&self) -> usize {
        match &self.state {
            State::Running(receiver, _) => receiver.depth(),
            _ => 0,
        }
    }

    /// Why the reflector has ended.
    pub(super) async fn ended(&mut self) -> End {
        let State::Running(_, task) = std::mem::replace(&mut self.state, State::Over) else {
            return End::Cancelled;
        };
        match task.await {
            Ok(ended) => End::Said(ended),
            Err(error) if error.is_cancelled() => End::Cancelled,
            Err(error) => {
                let message = format!("what reads {} failed: {error}", self.source.resource().plural);
                let mut health = self.health.borrow().clone();
                health.problem = Some(Problem { message, since: Instant::now(), count: 1 });
                self.health = last_word(health);
                End::Failed
            }
        }
    }

    /// Everything that it had read was taken for deleted, so there is nothing left that could not be decoded.
    pub(super) fn cleared(&mut self) {
        let mut health = self.health.borrow().clone();
        if health.unreadable > 0 {
            health.unreadable = 0;
            self.health = last_word(health);
        }
    }

    /// Has it begin again at that time.
    pub(super) fn rest_until(&mut self, time: Instant) {
        let mut health = self.health.borrow().clone();
        if health.state != HealthState::Gone {
            health.state = HealthState::Retrying { since: Instant::now(), attempts: 1, next: time };
            self.health = last_word(health);
        }
        self.state = State::Gone(time);
    }

    /// When it is to begin again.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Gone(until) => Some(until),
            _ => None,
        }
    }

    /// Begins again with a new reflector; this is how it is doing.
    pub(super) fn revive(&mut self) -> ReflectorHealth {
        let (sender, receiver) = DeltaQueue::channel(self.capacity);
        let reflector = Reflector::new(Arc::clone(&self.source), self.options.clone(), sender);
        let reflector = reflector.after(self.health.borrow().clone());
        self.health = reflector.published();
        self.state = State::Ready(Box::new(reflector), receiver);
        self.start();
        self.health()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Ends the reflector and waits until it has.
    pub(super) async fn stop(self) {
        if let State::Running(receiver, task) = self.state {
            drop(receiver);
            if let Err(error) = task.await
                && !error.is_cancelled()
            {
                tracing::error!(%error, "a reflector ended badly");
            }
        }
    }
}
