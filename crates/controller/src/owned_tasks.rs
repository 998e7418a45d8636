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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{Id, JoinError, JoinSet, block_in_place};

/// A set of runtime tasks, which run in parallel, whose futures the owner can drop.
///
/// Dropping the set waits for a task that is being polled at that moment until its next `await`,
/// unless the runtime shuts down; the other futures are dropped at once. The set must not be
/// dropped by one of its own tasks.
pub(crate) struct OwnedTasks<T: Send + 'static> {
    tasks: JoinSet<Option<T>>,
    /// In spawn order, so that the futures are also dropped in that order.
    slots: BTreeMap<Id, Arc<Slot<T>>>,
}

/// The future of one task, locked while it is polled; `None` once it has completed.
struct Slot<T>(Mutex<Option<BoxedFuture<T>>>);

/// The time between two checks whether the runtime shuts down.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Option<BoxedFuture<T>>> {
        self.0.lock()
    }

    /// Takes the future out, after a poll that is in progress.
    ///
    /// Such a poll may itself wait for the runtime, by `block_in_place` and `Handle::block_on`. If
    /// this thread kept its place among the runtime's workers meanwhile, and there is no other
    /// worker, nothing would drive the timers and sockets that the poll waits for.
    fn take(&self) -> Option<BoxedFuture<T>> {
        if let Some(mut future) = self.0.try_lock() {
            return future.take();
        }
        let is_worker =
            Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        let handed_over = is_worker.then(|| {
            // It panics within a `LocalSet`, whose thread is not one of the workers.
            catch_unwind(AssertUnwindSafe(|| block_in_place(|| self.wait_and_take())))
        });
        match handed_over {
            Some(Ok(future)) => future,
            _ => self.wait_and_take(),
        }
    }

    /// Waits for the poll in progress. When the runtime shuts down, its workers drop all tasks
    /// before the poll's timers and sockets end; then the future is left to its task, which is not
    /// polled again.
    fn wait_and_take(&self) -> Option<BoxedFuture<T>> {
        loop {
            if let Some(mut future) = self.0.try_lock_for(BETWEEN_CHECKS) {
                return future.take();
            }
            if runtime_has_ended() {
                return None;
            }
        }
    }
}

/// Returns true if the current runtime shuts down: it drops new tasks at once.
fn runtime_has_ended() -> bool {
    let Ok(runtime) = Handle::try_current() else { return false };
    let task = runtime.spawn(std::future::pending::<()>());
    let ended = task.is_finished();
    task.abort();
    ended
}

impl<T: Send + 'static> OwnedTasks<T> {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), slots: BTreeMap::new() }
    }

    /// Spawns the future as a task.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) -> Id {
        self.spawn_boxed(Box::pin(future))
    }

    /// Spawns the future as a task. Not generic over the future, since the runtime's part of a task
    /// is compiled for each type of future.
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
            drop(slot.take());
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

    /// A reconciler may block its thread on a future of the same runtime. The wait for its end must
    /// leave the only worker to the runtime.
    #[test]
    fn a_set_is_dropped_while_a_task_blocks_on_the_runtime() {
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            let owner = runtime.spawn(async {
                let mut tasks = OwnedTasks::new();
                let (begun, has_begun) = tokio::sync::oneshot::channel();
                tasks.spawn(async move {
                    block_in_place(|| {
                        begun.send(()).expect("the test waits");
                        Handle::current().block_on(tokio::time::sleep(Duration::from_millis(50)));
                    });
                });
                has_begun.await.expect("started");
                drop(tasks);
            });
            runtime.block_on(owner).expect("no panic");
            ended.send(()).expect("the test waits");
        });
        has_ended.recv_timeout(Duration::from_secs(30)).expect("the set was dropped");
    }

    /// The workers of a runtime that shuts down drop the set before they end the timer for which
    /// the task waits.
    #[test]
    fn a_runtime_shuts_down_while_a_task_blocks_on_it() {
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            let (begun, has_begun) = std::sync::mpsc::channel();
            runtime.spawn(async move {
                let mut tasks = OwnedTasks::new();
                tasks.spawn(async move {
                    block_in_place(|| {
                        begun.send(()).expect("the test waits");
                        Handle::current().block_on(tokio::time::sleep(Duration::from_secs(3_600)));
                    });
                });
                tasks.join_next().await;
            });
            has_begun.recv_timeout(Duration::from_secs(30)).expect("the task runs");
            drop(runtime);
            ended.send(()).expect("the test waits");
        });
        has_ended.recv_timeout(Duration::from_secs(30)).expect("the runtime was dropped");
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
