//! Tasks that do not outlive their owner: dropping the set drops the futures of its tasks before it
//! returns.
//!
//! Dropping a `JoinSet` only *requests* that its tasks end; on a multi-threaded runtime they may
//! still run when the drop returns. Anything that follows the drop of a reconciler's future, such
//! as the release of a Lease, must not happen before its work has stopped.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::{Id, JoinError, JoinSet};

/// A set of runtime tasks, which run in parallel, whose futures the owner can drop.
///
/// Dropping the set waits for a task that is being polled at that moment until its next `await`;
/// the other futures are dropped at once. The set must not be dropped by one of its own tasks.
pub(crate) struct OwnedTasks<T: Send + 'static> {
    tasks: JoinSet<Option<T>>,
    /// In spawn order, so that the futures are also dropped in that order.
    slots: BTreeMap<Id, Arc<Slot<T>>>,
}

/// The future of one task, locked while it is polled; `None` once it has completed.
struct Slot<T>(Mutex<Option<BoxedFuture<T>>>);

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Option<BoxedFuture<T>>> {
        self.0.lock()
    }
}

impl<T: Send + 'static> OwnedTasks<T> {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), slots: BTreeMap::new() }
    }

    /// Spawns the future as a task.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) -> Id {
        self.spawn_boxed(Box::pin(future))
    }

    /// Spawns the future as a task. Not generic over the future, since the runtime's part of a task is
    /// compiled for each type of future.
    fn spawn_boxed(&mut self, future: BoxedFuture<T>) -> Id {
        let slot = Arc::new(Slot(Mutex::new(Some(future))));
        let polled = Arc::clone(&slot);
        let task = self.tasks.spawn(poll_fn(move |cx| {
            let mut future = polled.lock();
            let poll = match &mut *future {
                Some(running) => running.as_mut().poll(cx).map(Some),
                None => Poll::Ready(None),
            };
            if poll.is_ready() {
                *future = None;
            }
            poll
        }));
        let id = task.id();
        self.slots.insert(id, slot);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Waits for the next task to end. Returns `None` if there is none left.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(crate) async fn join_next(&mut self) -> Option<(Id, Result<T, JoinError>)> {
        loop {
            let (id, ended) = match self.tasks.join_next_with_id().await? {
                Ok((id, output)) => (id, output.map(Ok)),
                Err(error) => (error.id(), Some(Err(error))),
            };
            self.slots.remove(&id);
            // A future that the owner dropped has no output, and by then the owner is gone.
            if let Some(ended) = ended {
                return Some((id, ended));
            }
        }
    }
}

impl<T: Send + 'static> Drop for OwnedTasks<T> {
    fn drop(&mut self) {
        // Abort first, so that no task that is about to be polled is polled again.
        self.tasks.abort_all();
        for slot in self.slots.values() {
            let future = slot.lock().take();
            drop(future);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for OwnedTasks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTasks").field("tasks", &self.slots.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn outputs_and_panics_come_with_the_id_of_their_task() {
        let mut tasks = OwnedTasks::new();
        let (good, bad) = (tasks.spawn(async { 7 }), tasks.spawn(async { panic!("on purpose") }));
        assert_eq!(tasks.len(), 2);
        for _ in 0..2 {
            match tasks.join_next().await.expect("two tasks") {
                (id, Ok(output)) => assert_eq!((id, output), (good, 7)),
                (id, Err(error)) => assert!(id == bad && error.is_panic()),
            }
        }
        assert!(tasks.join_next().await.is_none() && tasks.slots.is_empty());
    }

    /// With a `JoinSet` instead, the flag would still be set when the drop returns.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_task_runs_any_more_after_the_set_is_dropped() {
        struct AtWork(Arc<AtomicBool>);
        impl Drop for AtWork {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        for computes in [false, true] {
            let (at_work, mut tasks) = (Arc::new(AtomicBool::new(false)), OwnedTasks::new());
            let flag = Arc::clone(&at_work);
            let (begun, has_begun) = tokio::sync::oneshot::channel();
            tasks.spawn(async move {
                flag.store(true, Ordering::SeqCst);
                let _flag = AtWork(flag);
                begun.send(()).expect("the test waits");
                if computes {
                    std::thread::sleep(Duration::from_millis(50));
                }
                std::future::pending::<()>().await;
            });
            has_begun.await.expect("started");
            assert!(at_work.load(Ordering::SeqCst));
            drop(tasks);
            assert!(!at_work.load(Ordering::SeqCst), "computes: {computes}");
        }
    }
}
