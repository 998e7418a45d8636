//! loom models of the state that calls and the balancer share: explores the interleavings of a few
//! threads.
//!
//! The shared state is an `ArcSwap` and tokio's `Notify`, which loom cannot instrument; so these
//! are models: the steps of `load.rs` and `connection/task.rs` in the same order, with the same
//! memory orderings, over replacements of those two that provide exactly their guarantees. loom
//! treats sequential consistency as acquire and release, so where `load.rs` relies on more, there
//! is an explicit fence here. The real types are stress-tested in `src/stress.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// As for the work queue: nearly all bugs of this kind need no more than three preemptions.
fn try_all(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The part of tokio's `Notify` that is used: one waiter, and a stored permit.
#[derive(Default)]
struct Notify(Mutex<(bool, Option<Waker>)>);

impl Notify {
    fn notify_one(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn notified(&self) -> Notified<'_> {
        Notified(self)
    }
}

struct Notified<'a>(&'a Notify);

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.0.lock().unwrap();
        if std::mem::take(&mut state.0) {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The part of `Load` for the start and end of a call, and for waiting until there are none.
struct Load {
    in_flight: AtomicU32,
    awaited: AtomicBool,
    quiet: Notify,
}

impl Load {
    fn new() -> Arc<Self> {
        let (in_flight, awaited) = (AtomicU32::new(0), AtomicBool::new(false));
        Arc::new(Self { in_flight, awaited, quiet: Notify::default() })
    }

    fn begin(this: &Arc<Self>) -> InFlight {
        this.in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight(Arc::clone(this))
    }

    async fn quiet(&self) {
        self.awaited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) > 0 {
            self.quiet.notified().await;
        }
        self.awaited.store(false, Ordering::SeqCst);
    }
}

struct InFlight(Arc<Load>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let last = self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1;
        fence(Ordering::SeqCst);
        if last && self.0.awaited.load(Ordering::SeqCst) {
            self.0.quiet.notify_one();
        }
    }
}

/// The end of the last call is never missed; loom would report a deadlock.
#[test]
fn a_task_that_waits_for_no_calls_is_woken_by_the_last_call() {
    try_all(|| {
        let load = Load::new();
        let calls: Vec<_> = (0..2).map(|_| Load::begin(&load)).collect();
        let enders: Vec<_> = calls.into_iter().map(|call| thread::spawn(move || drop(call))).collect();
        block_on(load.quiet());
        assert_eq!(load.in_flight.load(Ordering::SeqCst), 0);
        enders.into_iter().for_each(|it| it.join().unwrap());
    });
}

/// A wait that is cancelled, as by `select!`, does not affect the next one.
#[test]
fn a_cancelled_wait_for_no_calls_does_not_affect_later_ones() {
    try_all(|| {
        let load = Load::new();
        let call = Load::begin(&load);
        let ender = thread::spawn(move || drop(call));
        {
            let mut wait = std::pin::pin!(load.quiet());
            let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        block_on(load.quiet());
        ender.join().unwrap();
        assert_eq!(load.in_flight.load(Ordering::SeqCst), 0);
    });
}

/// An endpoint with its connection.
struct Backend {
    load: Arc<Load>,
    /// The number of queued calls that are not sent yet; `None` once the connection is closed.
    queue: Mutex<Option<usize>>,
    /// The number of calls that the server has processed.
    processed: AtomicUsize,
}

impl Backend {
    fn new() -> Arc<Self> {
        Arc::new(Self { load: Load::new(), queue: Mutex::new(Some(0)), processed: AtomicUsize::new(0) })
    }

    /// Makes a call on this connection: it is queued, and then sent by the connection's task.
    /// Returns false if the connection closed before; then nothing was sent.
    fn carries(&self) -> bool {
        let _counted = Load::begin(&self.load);
        match &mut *self.queue.lock().unwrap() {
            Some(queue) => *queue += 1,
            None => return false,
        }
        match &mut *self.queue.lock().unwrap() {
            Some(queue) => *queue -= 1,
            None => return false,
        }
        self.processed.fetch_add(1, Ordering::SeqCst);
        true
    }
}

/// A call with the old snapshot races with the removal of its endpoint: the connection waits for
/// the call, or returns it unsent, and it goes elsewhere. It is never lost, and never processed
/// twice.
#[test]
fn a_call_picked_from_an_old_snapshot_is_processed_or_goes_elsewhere() {
    try_all(|| {
        let (leaving, staying) = (Backend::new(), Backend::new());
        // The guarantee of the snapshot's pointer: a reader gets the old one or the new one.
        let snapshot = Arc::new(Mutex::new(Arc::clone(&leaving)));
        let caller = thread::spawn({
            let snapshot = Arc::clone(&snapshot);
            move || {
                loop {
                    let picked = Arc::clone(&snapshot.lock().unwrap());
                    if picked.carries() {
                        return;
                    }
                    // It is retried only once there is another snapshot.
                    while Arc::ptr_eq(&picked, &snapshot.lock().unwrap()) {
                        thread::yield_now();
                    }
                }
            }
        });
        // As in the balancer: the endpoint is asked to leave before the snapshot without it is
        // published.
        block_on(leaving.load.quiet());
        let unsent = leaving.queue.lock().unwrap().take().expect("the queue is closed only once");
        *snapshot.lock().unwrap() = Arc::clone(&staying);
        caller.join().unwrap();
        let processed = |it: &Backend| it.processed.load(Ordering::SeqCst);
        assert_eq!(processed(&leaving) + processed(&staying), 1);
        assert!(unsent == 0 || processed(&staying) == 1, "an unsent call should go elsewhere");
        for backend in [&leaving, &staying] {
            assert_eq!(backend.load.in_flight.load(Ordering::SeqCst), 0);
        }
    });
}
