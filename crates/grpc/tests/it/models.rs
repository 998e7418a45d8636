//! The interleavings of a few threads on what calls and the balancer share, tried by loom.
//!
//! What is shared is an `ArcSwap` and tokio's `Notify`, which loom cannot look into; so these are models: the steps of `load.rs` and
//! `connection/task.rs` in their order, with the orderings they have there, over stand-ins for those two that do no more than they
//! promise. Loom takes what is sequentially consistent for acquire and release, so where `load.rs` relies on more, a fence says so here.
//! The real types are set upon by threads in `src/races.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// As for the work queue: nearly all mistakes of this kind need no more than three moments at which a thread is stopped.
fn try_all(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// What is used of tokio's `Notify`: one waiter, and a permit for a call that came before it.
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

/// `Load`, as far as a call's beginning and end and the wait for quiet go.
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

/// Nobody sleeps through the end of the last call; loom would say that nothing can go on.
#[test]
fn whoever_waits_for_quiet_is_woken_by_the_last_call() {
    try_all(|| {
        let load = Load::new();
        let calls: Vec<_> = (0..2).map(|_| Load::begin(&load)).collect();
        let enders: Vec<_> = calls.into_iter().map(|call| thread::spawn(move || drop(call))).collect();
        block_on(load.quiet());
        assert_eq!(load.in_flight.load(Ordering::SeqCst), 0);
        enders.into_iter().for_each(|it| it.join().unwrap());
    });
}

/// A wait that is given up, as a `select!` does it, takes nothing away from the next one.
#[test]
fn a_wait_for_quiet_that_is_given_up_spoils_none_that_follows() {
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
    /// Calls that are queued and not on the wire yet; `None` once the connection is closed.
    queue: Mutex<Option<usize>>,
    /// Calls that the server has processed.
    processed: AtomicUsize,
}

impl Backend {
    fn new() -> Arc<Self> {
        Arc::new(Self { load: Load::new(), queue: Mutex::new(Some(0)), processed: AtomicUsize::new(0) })
    }

    /// A call on this connection: queued, and then carried by the connection's task. False when it closed before that; then nothing
    /// was sent.
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

/// A call that has the old snapshot races with the endpoint that leaves: the connection waits for it, or hands it back unsent, and it
/// goes elsewhere. It is never lost, and never processed in both places.
#[test]
fn a_call_that_picked_from_an_old_snapshot_is_carried_or_goes_elsewhere() {
    try_all(|| {
        let (leaving, staying) = (Backend::new(), Backend::new());
        // What the pointer of the snapshot promises: a reader has the one before or the one after.
        let snapshot = Arc::new(Mutex::new(Arc::clone(&leaving)));
        let caller = thread::spawn({
            let snapshot = Arc::clone(&snapshot);
            move || {
                loop {
                    let picked = Arc::clone(&snapshot.lock().unwrap());
                    if picked.carries() {
                        return;
                    }
                    // It is only tried again once there is another snapshot.
                    while Arc::ptr_eq(&picked, &snapshot.lock().unwrap()) {
                        thread::yield_now();
                    }
                }
            }
        });
        // As the balancer has it: whoever leaves is told before the snapshot without it is there.
        block_on(leaving.load.quiet());
        let unsent = leaving.queue.lock().unwrap().take().expect("it is closed once");
        *snapshot.lock().unwrap() = Arc::clone(&staying);
        caller.join().unwrap();
        let processed = |it: &Backend| it.processed.load(Ordering::SeqCst);
        assert_eq!(processed(&leaving) + processed(&staying), 1);
        assert!(unsent == 0 || processed(&staying) == 1, "what was handed back went elsewhere");
        for backend in [&leaving, &staying] {
            assert_eq!(backend.load.in_flight.load(Ordering::SeqCst), 0);
        }
    });
}
