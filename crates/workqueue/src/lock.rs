//! The lock of a queue: an adaptive spinlock, or loom's mutex in model checks.
//!
//! It is never held across an `.await`, and the only user code that runs under it is `Eq`, `Hash`
//! and `Clone` of the key, and `Default` and `merge` of the note.
//!
//! `cargo xtask bench workqueue --mutex` compares it with parking_lot's mutex, which the feature
//! `mutex` puts in its place. On two processors a key then takes 176 ns instead of 157 ns in one
//! task, and 216 ns of CPU time instead of 193 ns with eight tasks that add and eight that take.

#[cfg(loom)]
pub(crate) use self::modelled::{Lock, Locked};

#[cfg(all(not(loom), feature = "mutex"))]
pub(crate) use self::plain::{Lock, Locked};

#[cfg(all(not(loom), not(feature = "mutex")))]
pub(crate) use self::spinning::{Lock, Locked};

/// A lock that is held for some dozens of nanoseconds. Waiters are not notified when it is
/// released, which makes the release a plain store: that is an eighth of the cost of a key.
///
/// When two processors contend for the lock all the time, the cost is not the waiting but the
/// protected memory, which moves to the other processor together with the lock. So a thread that
/// finds it taken pauses before it tries again, long enough for the owner to get through a whole
/// series of adds and takes: the pause grows while the series are short and shrinks when they are
/// long. Without contention a series never ends and there is next to no pause. A thread that has
/// waited for long sleeps for short times: the owner has then been descheduled, or does a rare long
/// operation such as growing a table of millions of keys.
#[cfg(all(not(loom), not(feature = "mutex")))]
mod spinning {
    use std::hint::spin_loop;
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use spinning_top::Spinlock;
    use spinning_top::guard::SpinlockGuard;

    /// The number of attempts before a thread sleeps. Each pause is twice the one before, up to the
    /// longest.
    const ATTEMPTS: u32 = 4;
    /// The longest pause, in iterations of the processor's pause instruction: about 25 µs, as long
    /// as going to sleep and waking up take.
    const LONGEST: u32 = 1024;
    /// The sleep between two attempts.
    const SLEEP: Duration = Duration::from_micros(50);
    /// A series is short with fewer uses of the lock than this, and long with four times as many.
    const SHORT: u32 = 512;

    // Aligned apart from the read-only fields next to it, to two cache lines, since processors
    // prefetch them in pairs.
    #[derive(Debug)]
    #[repr(align(128))]
    pub(crate) struct Lock<T> {
        content: Spinlock<Content<T>>,
        pause: Pause,
    }

    /// The first pause of a thread that finds the lock taken.
    #[derive(Debug)]
    #[repr(align(128))]
    struct Pause(AtomicU32);

    #[derive(Debug)]
    struct Content<T> {
        /// The number of uses of the lock since a thread last had to wait for it.
        series: u32,
        value: T,
    }

    pub(crate) struct Locked<'a, T>(SpinlockGuard<'a, Content<T>>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { content: Spinlock::new(Content { series: 0, value }), pause: Pause(AtomicU32::new(1)) }
        }

        #[inline]
        pub(crate) fn lock(&self) -> Locked<'_, T> {
            let mut content = match self.content.try_lock() {
                Some(content) => content,
                None => self.lock_contended(),
            };
            content.series = content.series.wrapping_add(1);
            Locked(content)
        }

        #[cold]
        fn lock_contended(&self) -> SpinlockGuard<'_, Content<T>> {
            let pause = self.pause.0.load(Ordering::Relaxed);
            let mut content = self.spin_and_retry(pause).unwrap_or_else(|| self.sleep_and_retry());
            let series = std::mem::take(&mut content.series);
            let next = match series {
                0..SHORT => (2 * pause).min(LONGEST),
                _ if series < 4 * SHORT => pause,
                _ => (pause / 2).max(1),
            };
            if next != pause {
                self.pause.0.store(next, Ordering::Relaxed);
            }
            content
        }

        fn sleep_and_retry(&self) -> SpinlockGuard<'_, Content<T>> {
            loop {
                thread::sleep(SLEEP);
                if let Some(content) = self.content.try_lock() {
                    return content;
                }
            }
        }

        fn spin_and_retry(&self, pause: u32) -> Option<SpinlockGuard<'_, Content<T>>> {
            (0..ATTEMPTS).find_map(|look| {
                (0..(pause << look).min(LONGEST)).for_each(|_| spin_loop());
                // Check before trying, because a failed attempt takes the cache line away from the
                // owner.
                if self.content.is_locked() { None } else { self.content.try_lock() }
            })
        }
    }

    impl<T> Deref for Locked<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            &self.0.value
        }
    }

    impl<T> DerefMut for Locked<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0.value
        }
    }
}

/// parking_lot's mutex with the same interface, for the comparison.
#[cfg(all(not(loom), feature = "mutex"))]
mod plain {
    pub(crate) use parking_lot::MutexGuard as Locked;

    #[derive(Debug)]
    pub(crate) struct Lock<T>(parking_lot::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> Locked<'_, T> {
            self.0.lock()
        }
    }
}

/// Loom's mutex with the same interface: it is not poisoned by a panic.
#[cfg(loom)]
mod modelled {
    pub(crate) use loom::sync::MutexGuard as Locked;

    #[derive(Debug)]
    pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Locked<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}
