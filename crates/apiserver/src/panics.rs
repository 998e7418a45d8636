//! Panics that were caught: their message, and futures that return them instead of unwinding.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// The message of a panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    /// Reads what `catch_unwind` returns.
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
        Self(
            text.or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned()),
        )
    }
}

/// Runs a future; a panic in it ends it and is returned.
///
/// Callers must not use what the future has left half done. In this crate that holds for everything that is shared: the
/// store commits whole changes, and mutexes are taken over when they are poisoned.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| Panicked::new(&*payload))
}

/// Calls a function; a panic in it is returned. As [`caught`].
pub(crate) fn caught_in<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).map_err(|payload| Panicked::new(&*payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_returned_with_its_message() {
        assert_eq!(caught(async { 5 }).await, Ok(5));
        assert_eq!(caught(async { panic!("plain") }).await, Err::<(), _>(Panicked("plain".to_owned())));
        let late = async {
            tokio::task::yield_now().await;
            panic!("number {}", 7);
        };
        assert_eq!(caught(late).await, Err::<(), _>(Panicked("number 7".to_owned())));
        assert_eq!(caught_in(|| std::panic::panic_any(5)), Err::<(), _>(Panicked("no message".to_owned())));
    }
}
