//! The one lock of a queue: parking_lot's, or loom's where loom tries every interleaving.
//!
//! It is never held across an `.await`, and no code of the user runs under it but `Eq`, `Hash` and `Clone` of the key.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex as Lock, MutexGuard as Locked};

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard as Locked;

/// Loom's mutex with the face of the other: it is not poisoned by a panic.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
