//! A gate for wakes: holds back the wakes of one part of a task while the task is running.
//!
//! The task of a connection polls its streams and then the connection. A stream with data to send
//! wakes the connection. If each of these wakes reached the task, it would run once more and find
//! nothing to do.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Wakes are held back.
const HOLDS: u8 = 1;
/// A wake was held back.
const WOKEN: u8 = 2;

/// A waker for a part of a task. It forwards wakes to the task, except while they are held back.
#[derive(Debug)]
pub(super) struct Turn {
    waker: Waker,
    passing: Arc<Passing>,
}

#[derive(Debug)]
struct Passing {
    state: AtomicU8,
    /// The task's waker at its last run.
    task: Mutex<Waker>,
}

impl Default for Turn {
    fn default() -> Self {
        let passing = Arc::new(Passing { state: AtomicU8::new(0), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&passing)), passing }
    }
}

impl Turn {
    /// Returns the context to poll the part with.
    pub(super) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// Holds back wakes from now on. The task must poll the part before it rests.
    pub(super) fn hold(&self, task: &Context<'_>) {
        let mut known = self.passing.task.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(task.waker());
        drop(known);
        self.passing.state.store(HOLDS, Ordering::Release);
    }

    /// Forwards wakes from now on. Returns true if one was held back; polling the part now observes
    /// its cause.
    pub(super) fn pass(&self) -> bool {
        self.passing.state.swap(0, Ordering::AcqRel) & WOKEN != 0
    }
}

impl Wake for Passing {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & HOLDS == 0 {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wake_is_forwarded_or_held_back_and_reported() {
        let counted = Arc::new(Counted::default());
        let task = Waker::from(Arc::clone(&counted));
        let woken = || counted.0.load(Ordering::Relaxed);
        let turn = Turn::default();
        turn.hold(&Context::from_waker(&task));
        assert!(!turn.pass(), "no wake was held back");
        turn.hold(&Context::from_waker(&task));
        turn.context().waker().wake_by_ref();
        turn.context().waker().wake_by_ref();
        assert_eq!((turn.pass(), woken()), (true, 0));
        turn.context().waker().wake_by_ref();
        turn.context().waker().wake_by_ref();
        assert_eq!(woken(), 2, "wakes are forwarded, since the task may be resting");
        turn.hold(&Context::from_waker(&task));
        assert!(!turn.pass(), "a forwarded wake is not reported again");
    }
}
