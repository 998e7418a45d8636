//! A gate for wakes: holds back the wakes of one part of a task while the task is running.
//!
//! The task of a connection polls its streams and then the connection. A stream with data to send
//! wakes the connection. If each of these wakes reached the task, it would run once more and find
//! nothing to do. `cargo xtask bench apiserver --ablation` measures the server without it.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Wake, Waker};

/// Wakes are held back.
const HOLDING: u8 = 1;
/// A wake was held back.
const WOKEN: u8 = 2;

/// A waker for a part of a task. It forwards wakes to the task, except while they are held back.
#[derive(Debug)]
pub(super) struct WakeGate {
    waker: Waker,
    gated: Arc<GatedWaker>,
}

#[derive(Debug)]
struct GatedWaker {
    state: AtomicU8,
    /// The task's waker at its last run.
    task: Mutex<Waker>,
}

impl Default for WakeGate {
    fn default() -> Self {
        let gated = Arc::new(GatedWaker { state: AtomicU8::new(0), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&gated)), gated }
    }
}

impl WakeGate {
    /// Returns the context to poll the part with.
    pub(super) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// Holds back wakes from now on. The task must poll the part before it rests.
    pub(super) fn hold(&self, task: &Context<'_>) {
        let mut known = self.gated.task.lock();
        known.clone_from(task.waker());
        drop(known);
        self.gated.state.store(HOLDING, Ordering::Release);
    }

    /// Forwards wakes from now on. Returns true if one was held back; polling the part now observes
    /// its cause.
    pub(super) fn release(&self) -> bool {
        self.gated.state.swap(0, Ordering::AcqRel) & WOKEN != 0
    }
}

impl Wake for GatedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & HOLDING == 0 {
            let task = self.task.lock().clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wake_is_forwarded_or_held_back_and_reported() {
        let wakes = Arc::new(CountingWaker::default());
        let task = Waker::from(Arc::clone(&wakes));
        let woken = || wakes.0.load(Ordering::Relaxed);
        let gate = WakeGate::default();
        gate.hold(&Context::from_waker(&task));
        assert!(!gate.release(), "no wake was held back");
        gate.hold(&Context::from_waker(&task));
        gate.context().waker().wake_by_ref();
        gate.context().waker().wake_by_ref();
        assert_eq!((gate.release(), woken()), (true, 0));
        gate.context().waker().wake_by_ref();
        gate.context().waker().wake_by_ref();
        assert_eq!(woken(), 2, "wakes are forwarded, since the task may be resting");
        gate.hold(&Context::from_waker(&task));
        assert!(!gate.release(), "a forwarded wake is not reported again");
    }
}
