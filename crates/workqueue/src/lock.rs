//! The one lock of a queue: a spinlock with patience, or loom's where loom tries every interleaving.
//!
//! It is never held across an `.await`, and no code of the user runs under it but `Eq`, `Hash` and `Clone` of the key.

#[cfg(loom)]
pub(crate) use self::tried::{Lock, Locked};

#[cfg(not(loom))]
pub(crate) use self::patient::{Lock, Locked};

/// A lock that is held for some dozens of nanoseconds. Nobody is told when it becomes free, which makes giving it back a plain
/// store: that is an eighth of what a key costs.
///
/// When two processors want it all the time, what it costs is not the waiting but the memory behind it, which moves to the
/// other processor each time the lock does. So somebody who finds it taken pauses before looking again, and the pause is
/// such that whoever has the lock gets through a whole series of adds and takes first: it grows while the series are
/// short and shrinks when they are long. Where the lock is wanted now and then, a series has no end and there is next to
/// no pause. Who has waited in vain for long sleeps for short times: whoever
/// has the lock has lost its processor then, or does the rare long thing, such as growing a table of millions.
#[cfg(not(loom))]
mod patient {
    use std::hint::spin_loop;
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use spinning_top::Spinlock;
    use spinning_top::guard::SpinlockGuard;

    /// How often somebody looks again before going to sleep. Each pause is twice the one before, up to the longest.
    const LOOKS: u32 = 4;
    /// The longest pause, in turns of the processor's own pause: about 25 µs, as long as going to sleep and being
    /// woken take.
    const LONGEST: u32 = 1024;
    /// How long somebody sleeps between two looks.
    const NAP: Duration = Duration::from_micros(50);
    /// A series is short with fewer uses of the lock than this, and long with four times as many.
    const SHORT: u32 = 512;

    // Apart from what is only read beside it. It is two lines, as processors fetch them in pairs.
    #[derive(Debug)]
    #[repr(align(128))]
    pub(crate) struct Lock<T> {
        content: Spinlock<Content<T>>,
        pause: Pause,
    }

    /// The first pause of who finds the lock taken.
    #[derive(Debug)]
    #[repr(align(128))]
    struct Pause(AtomicU32);

    #[derive(Debug)]
    struct Content<T> {
        /// How often the lock was taken since somebody last had to wait for it.
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
                None => self.lock_patiently(),
            };
            content.series = content.series.wrapping_add(1);
            Locked(content)
        }

        #[cold]
        fn lock_patiently(&self) -> SpinlockGuard<'_, Content<T>> {
            let pause = self.pause.0.load(Ordering::Relaxed);
            let mut content = self.look_again(pause).unwrap_or_else(|| self.sleep_and_look());
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

        fn sleep_and_look(&self) -> SpinlockGuard<'_, Content<T>> {
            loop {
                thread::sleep(NAP);
                if let Some(content) = self.content.try_lock() {
                    return content;
                }
            }
        }

        fn look_again(&self, pause: u32) -> Option<SpinlockGuard<'_, Content<T>>> {
            (0..LOOKS).find_map(|look| {
                (0..(pause << look).min(LONGEST)).for_each(|_| spin_loop());
                // Looking before trying, because trying takes the memory away from who has the lock.
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

/// Loom's mutex with the face of the other: it is not poisoned by a panic.
#[cfg(loom)]
mod tried {
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
