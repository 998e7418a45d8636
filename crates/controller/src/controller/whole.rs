//! A controller from its first watch to its last reconcile.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dogwatch_informer::Registration;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::ControllerError;
use super::worker::{Machine, text_of};
use crate::reconciler::{Key, Reconciler};

/// A controller that is ready to run, by itself or in a [`Manager`](crate::Manager).
///
/// Dropping it, or the future that runs it, cuts off what its workers are at, and takes its handlers from the informers; informers
/// that nobody else holds then stop.
pub struct Controller {
    name: Arc<str>,
    as_leader: bool,
    life: Box<dyn Life>,
}

/// What one may choose about a controller's course.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) workers: usize,
    pub(super) sync_timeout: Duration,
    pub(super) grace: Duration,
    pub(super) abandon: bool,
}

impl Controller {
    pub(super) fn new<K: Key, R: Reconciler<K>>(
        machine: Machine<K, R>,
        streams: Vec<BoxStream<'static, K>>,
        course: Course,
        as_leader: bool,
    ) -> Self {
        let name = Arc::clone(&machine.name);
        let streams = Mutex::new(streams);
        let life = Running { machine: Arc::new(machine), streams, course, registrations: Vec::new() };
        Self { name, as_leader, life: Box::new(life) }
    }

    /// What it is called in logs, metrics and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it works only while its manager leads.
    pub fn works_as_leader(&self) -> bool {
        self.as_leader
    }

    /// Runs it until `stop` resolves: watches, and when every handler was told of what is there, works.
    ///
    /// After `stop` it takes on nothing new, and works off what is queued, for as long as its grace period lasts. What is delayed is
    /// left to the next who runs. It starts its informers, and leaves them running.
    ///
    /// # Errors
    /// When it does not sync in time, or does not end in time.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
        self.watch()?;
        self.work(Box::pin(stop)).await
    }

    /// Begins to fill the queue. Once is enough.
    pub(crate) fn watch(&mut self) -> Result<(), ControllerError> {
        self.life.watch()
    }

    /// Waits until every handler was told of what is there.
    pub(crate) async fn synced(&self) -> Result<(), ControllerError> {
        self.life.synced().await
    }

    /// Works until it is stopped.
    pub(crate) async fn work(&self, stop: BoxFuture<'_, ()>) -> Result<(), ControllerError> {
        self.life.work(stop).await
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("as_leader", &self.as_leader)
            .finish_non_exhaustive()
    }
}

/// The course of a controller, whatever its keys and its reconciler are.
trait Life: Send + Sync {
    fn watch(&mut self) -> Result<(), ControllerError>;
    fn synced(&self) -> BoxFuture<'_, Result<(), ControllerError>>;
    fn work<'a>(&'a self, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), ControllerError>>;
}

struct Running<K: Key, R> {
    machine: Arc<Machine<K, R>>,
    /// Until it works.
    streams: Mutex<Vec<BoxStream<'static, K>>>,
    course: Course,
    /// One for each source, once it watches.
    registrations: Vec<Registration>,
}

impl<K: Key, R: Reconciler<K>> Running<K, R> {
    fn name(&self) -> String {
        self.machine.name.to_string()
    }

    async fn all_synced(&self) -> Result<(), ControllerError> {
        let (after, machine) = (self.course.sync_timeout, &self.machine);
        let deadline = Instant::now() + after;
        let waits =
            machine.sources.iter().zip(&self.registrations).map(|(source, registration)| async move {
                let outcome = timeout_at(deadline, registration.synced()).await;
                match outcome {
                    Ok(Ok(())) => None,
                    Ok(Err(ended)) => {
                        Some(format!("{ended}: informer {} is {}", source.informer(), source.health()))
                    }
                    Err(_) => {
                        Some(format!("informer {} is not synced: {}", source.informer(), source.health()))
                    }
                }
            });
        let pending: Vec<_> = join_all(waits).await.into_iter().flatten().collect();
        match pending.is_empty() {
            true => Ok(()),
            false => Err(ControllerError::NotSynced { controller: self.name(), after, pending }),
        }
    }

    async fn work_until(&self, stop: BoxFuture<'_, ()>) -> Result<(), ControllerError> {
        let mut stop = pin!(stop);
        tokio::select! {
            biased;
            () = &mut stop => {
                self.machine.queue.shut_down();
                return Ok(());
            }
            synced = self.all_synced() => synced?,
        }
        tracing::info!(controller = &*self.machine.name, workers = self.course.workers, "working");
        let mut workers = JoinSet::new();
        for _ in 0..self.course.workers {
            workers.spawn(Arc::clone(&self.machine).work());
        }
        // Ends with this function.
        let mut beside = JoinSet::new();
        beside.spawn(self.machine.queue.keep_metrics_fresh());
        for mut stream in std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner)) {
            let queue = self.machine.queue.clone();
            beside.spawn(async move {
                while let Some(key) = stream.next().await {
                    queue.add(key);
                }
            });
        }
        tokio::select! {
            () = &mut stop => {}
            // Workers end only when the queue does, so this one did not end well.
            Some(Err(ended)) = workers.join_next() => return Err(self.broken(ended)),
        }
        self.machine.abandoned.store(self.course.abandon, Ordering::Relaxed);
        self.machine.queue.shut_down();
        let drained = timeout(self.course.grace, async {
            while let Some(ended) = workers.join_next().await {
                ended.map_err(|it| self.broken(it))?;
            }
            Ok(())
        });
        drained.await.unwrap_or_else(|_| {
            Err(ControllerError::Undrained {
                controller: self.name(),
                after: self.course.grace,
                busy: workers.len(),
                queued: self.machine.queue.len(),
            })
        })
    }

    fn broken(&self, ended: JoinError) -> ControllerError {
        let panic = match ended.try_into_panic() {
            Ok(panic) => text_of(&*panic),
            Err(cancelled) => cancelled.to_string(),
        };
        ControllerError::Broken { controller: self.name(), panic }
    }
}

impl<K: Key, R: Reconciler<K>> Life for Running<K, R> {
    fn watch(&mut self) -> Result<(), ControllerError> {
        let machine = &self.machine;
        for source in machine.sources.iter().skip(self.registrations.len()) {
            let registration = source.start(&machine.name, &machine.queue);
            let registration = registration.map_err(|source| ControllerError::Unwatchable {
                controller: machine.name.to_string(),
                source,
            })?;
            self.registrations.push(registration);
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(self.all_synced())
    }

    fn work<'a>(&'a self, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), ControllerError>> {
        Box::pin(self.work_until(stop))
    }
}

impl<K: Key, R> Drop for Running<K, R> {
    fn drop(&mut self) {
        self.registrations.iter().for_each(Registration::remove);
        self.machine.queue.shut_down();
    }
}
