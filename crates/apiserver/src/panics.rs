//! Caught panics: their message, and futures that return them instead of unwinding.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// The message of a caught panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    /// Extracts the message from the payload that `catch_unwind` returns.
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
        Self(
            text.or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned()),
        )
    }
}

/// Runs a future and returns a panic in it as an error.
///
/// Callers must not use state that the future left half changed. In this crate that holds for all
/// shared state: the store commits whole changes, and poisoned mutexes are recovered.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| Panicked::new(&*payload))
}

/// Calls a function and returns a panic in it as an error, as [`caught`] does.
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
