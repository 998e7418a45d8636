//! Holds back the wakes of a part of a task while the task runs anyway.
//!
//! The task of a connection runs its streams, and then the connection. A stream that has something to send wakes the
//! connection: passed on, each of these wakes would make the task run once more, to find nothing.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Wakes are held back.
const HOLDS: u8 = 1;
/// One was held back.
const WOKEN: u8 = 2;

/// The turns of a part of a task. Its waker passes wakes on to the task, but for the time in which they are held back.
#[derive(Debug)]
pub(super) struct Turn {
    waker: Waker,
    passing: Arc<Passing>,
}

#[derive(Debug)]
struct Passing {
    state: AtomicU8,
    /// The task, as it was last run.
    task: Mutex<Waker>,
}

impl Default for Turn {
    fn default() -> Self {
        let passing = Arc::new(Passing { state: AtomicU8::new(0), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&passing)), passing }
    }
}

impl Turn {
    /// What the part is to be polled with.
    pub(super) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// Holds wakes back from here on; the task will poll the part before it rests.
    pub(super) fn hold(&self, task: &Context<'_>) {
        let mut known = self.passing.task.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(task.waker());
        drop(known);
        self.passing.state.store(HOLDS, Ordering::Release);
    }

    /// Passes wakes on from here on. Says whether one was held back: whatever it was for is seen by who looks now.
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
    fn a_wake_is_passed_on_or_held_back_and_told() {
        let counted = Arc::new(Counted::default());
        let task = Waker::from(Arc::clone(&counted));
        let woken = || counted.0.load(Ordering::Relaxed);
        let turn = Turn::default();
        turn.hold(&Context::from_waker(&task));
        assert!(!turn.pass(), "nothing came");
        turn.hold(&Context::from_waker(&task));
        turn.context().waker().wake_by_ref();
        turn.context().waker().wake_by_ref();
        assert_eq!((turn.pass(), woken()), (true, 0));
        turn.context().waker().wake_by_ref();
        turn.context().waker().wake_by_ref();
        assert_eq!(woken(), 2, "the task may rest by now");
        turn.hold(&Context::from_waker(&task));
        assert!(!turn.pass(), "what was passed on is not told again");
    }
}
